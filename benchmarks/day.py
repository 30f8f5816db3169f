# SPDX-License-Identifier: Apache-2.0
"""The rows of a user's day: whole calls through the binders at their default flags, with Isthmus's types beside their own."""

from __future__ import annotations

from typing import Any

from calls import OURS, Call, Row

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


def rows(np: Any, torch: Any) -> list[Row]:
    makers = {"numpy": lambda: np.zeros(1000, np.float32), "torch": lambda: torch.zeros(1000)}
    listed = []
    for framework, make in makers.items():
        scope = {name: make() for name in ("x", "y", "z", "out")}
        scope |= {"scale": 2.0, "count": 3, "batch": [make() for _ in range(64)]}
        scope["state"] = {f"layer{i}.weight": make() for i in range(100)}
        for binder, own in BINDERS.items():
            if framework == "torch" and binder == "pybind11":
                continue  # py::array_t copies a torch tensor, by the array protocol
            for what, (function, arguments) in CALLS.items():
                if function == "result" and framework == "torch":
                    continue
                listed.append(
                    Row(
                        f"{binder}, {framework}: {what}",
                        GROUP,
                        {
                            OURS: Call(f"{binder} day", f"{function}_ours", arguments),
                            own: Call(f"{binder} day", f"{function}_theirs", arguments),
                        },
                        scope,
                        floor=OURS,
                        empty="",
                    )
                )
    return listed
