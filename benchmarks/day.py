# SPDX-License-Identifier: Apache-2.0
"""The rows of a user's day: whole calls through the binders at their default flags,
with Isthmus's types beside their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from calls import FLOOR, OURS, Call, Row

GROUP = "a user's day"
BINDERS = {"nanobind": "nb::ndarray", "pybind11": "py::array_t"}
FOUR = ("x", "y", "z", "out", "scale", "count")
#: What is called, of how many arrays, and the arguments' names.
CALLS = {
    "one typed array": ("one", ("x",)),
    "four arrays and two numbers": ("four", FOUR),
    "a list of 64 arrays": ("batch", ("batch",)),
    "a dict of 100 arrays": ("state", ("state",)),
    "a result of 1000 floats": ("result", ("x",)),
}
#: What costs where the exchange no longer does.
COSTS = {
    "a list of 64 arrays": "64 borrows, and the vector that holds them",
    "a dict of 100 arrays": "most of it the strings and nodes of a std::map: an array costs what it does in the list",
    "a result of 1000 floats": "most of it the memory, and the object that keeps it",
}
#: How often a thread of C++ calls before it ends, so that starting it is a thousandth of a call.
TIMES = 1000
LISTED = "isthmus.live() is on"
THREAD = "from a thread of C++"


@contextlib.contextmanager
def listed() -> Iterator[None]:
    """While the list of what is shared is kept, by every extension of the process."""
    import isthmus

    isthmus.live.enable()
    try:
        yield
    finally:
        isthmus.live.disable()


def days(binder: str, framework: str, what: str, scope: dict[str, Any]) -> Iterator[Row]:
    """One call, as it is, while the list is kept, and by a thread that has to take the GIL."""
    function, arguments = CALLS[what]
    own, name = BINDERS[binder], f"{binder}, {framework}: {what}"

    def contenders(times: int = 0) -> dict[str, Call]:
        return {
            OURS: Call(f"{binder} day", f"{function}_ours", arguments, times=times),
            own: Call(f"{binder} day", f"{function}_theirs", arguments, times=times),
        }

    costs = COSTS.get(what, "")
    yield Row(name, GROUP, contenders(), scope, {OURS: costs}, floor=OURS, empty="")
    note = "entering the list and leaving it" if function == "result" else "what is borrowed is not listed"
    yield Row(f"{name}, {LISTED}", GROUP, contenders(), scope, {OURS: note}, floor=OURS, empty="", within=listed)
    alone = {FLOOR: Call(FLOOR, "empty3", arguments, times=TIMES)}
    notes = {OURS: costs, FLOOR: "a call that does nothing: a thread state is made, the GIL taken, and both given back"}
    yield Row(f"{name}, {THREAD}", GROUP, {**alone, **contenders(TIMES)}, scope, notes, floor=OURS, empty="")


def rows(np: Any, torch: Any) -> list[Row]:
    makers = {"numpy": lambda: np.zeros(1000, np.float32), "torch": lambda: torch.zeros(1000)}
    found: list[Row] = []
    for framework, make in makers.items():
        scope = {name: make() for name in ("x", "y", "z", "out")}
        scope |= {"scale": 2.0, "count": 3, "batch": [make() for _ in range(64)]}
        scope["state"] = {f"layer{i}.weight": make() for i in range(100)}
        for binder in BINDERS:
            if framework == "torch" and binder == "pybind11":
                continue  # py::array_t copies a torch tensor, by the array protocol
            for what in CALLS:
                if framework == "torch" and CALLS[what][0] == "result":
                    continue
                found += days(binder, framework, what, scope)
    return found
