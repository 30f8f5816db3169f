# SPDX-License-Identifier: Apache-2.0
"""What one row times: which function of which library's module, called with what."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness import Contender
from peers import Peers

FLOOR = "floor"
OURS = "isthmus"
OURS_RUST = "isthmus in Rust"

# The other libraries' modules, as build.py and peers.py call them.
NANOBIND, PYBIND11, TVM_FFI, TVM_PACKAGE, TORCH = "nanobind", "pybind11", "tvm-ffi", "tvm_ffi", "torch/extension.h"
PYO3_DLPACK, DLPARK, RUST_NUMPY, PYO3_TCH = "pyo3-dlpack", "dlpark", "rust-numpy", "pyo3-tch"

ONE, THREE = ("x",), ("x", "y", "out")


@dataclass(frozen=True)
class Call:
    """What is timed: a function of a peer's module, or of the row's scope where `module` is None,
    and its arguments' names.

    `then`: a function of the scope that takes the result. `times`: how often a thread of C++ calls it, which takes the
    GIL each time; 0 where Python itself calls.
    """

    module: str | None
    function: str
    arguments: tuple[str, ...] = ONE
    then: str = ""
    times: int = 0

    def statement(self) -> str:
        if self.times:
            return f"from_thread({self.times}, {self.name()}, {', '.join(self.arguments)})"
        called = f"{self.name()}({', '.join(self.arguments)})"
        return f"{self.then}({called})" if self.then else called

    def name(self) -> str:
        if self.module is None:
            return self.function
        return f"{identifier(self.module)}{'_' if self.module == TVM_FFI else '.'}{self.function}"

    def names(self, peers: Peers) -> dict[str, Any] | None:
        """What the statement needs beside the row's scope; None where the module is not here."""
        if self.module is None:
            return {}
        module = peers.get(self.module)
        if module is None:
            return None
        return {self.name(): module[self.function]} if self.module == TVM_FFI else {identifier(self.module): module}


def identifier(library: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in library)


@dataclass
class Row:
    name: str
    group: str
    contenders: dict[str, Call]  # by library
    scope: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    floor: str = FLOOR
    empty: str = "empty(x)"
    within: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext  # in what the row is measured

    def bind(self, peers: Peers) -> tuple[list[Contender], dict[str, str]]:
        """The contenders that can run, and why the others cannot."""
        floor = peers.get(FLOOR)
        scope = {"empty": floor.empty, "empty3": floor.empty3, "from_thread": floor.from_thread, **self.scope}
        ready, missing = [], {}
        for library, call in self.contenders.items():
            names = call.names(peers)
            if names is None:
                missing[library] = peers.why_not.get(call.module or "", "not here")
            elif any(argument not in scope for argument in call.arguments):
                missing[library] = "not here"
            else:
                scope |= names
                note = self.notes.get(library, "")
                ready.append(Contender(library, call.statement(), scope, note, self.empty, max(call.times, 1)))
        return ready, missing
