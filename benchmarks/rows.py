# SPDX-License-Identifier: Apache-2.0
"""The rows: which exchange, which libraries, and which of them is the floor.

A row names its contenders as `library: statement`; the statement sees `x` (and y, out) and the peers' modules by short names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness import Contender
from peers import Peers

FLOOR = "floor"
OURS = "isthmus"

# The short names of the statements.
SHORT = {
    "F": "floor",
    "I": "isthmus",
    "N": "nanobind",
    "P": "pybind11",
    "V": "tvm-ffi",
    "T": "torch/extension.h",
    "D": "pyo3-dlpack",
    "K": "dlpark",
    "R": "rust-numpy",
    "C": "pyo3-tch",
    "tvm_ffi": "tvm_ffi",
}


@dataclass
class Row:
    name: str
    group: str
    contenders: dict[str, str]  # library → statement
    scope: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    floor: str = FLOOR
    empty: str = "empty(x)"

    def bind(self, peers: Peers) -> tuple[list[Contender], dict[str, str]]:
        """The contenders that can run, and why the others cannot."""
        scope = {short: peers.get(name) for short, name in SHORT.items() if peers.get(name) is not None}
        scope["empty"] = peers.get(FLOOR).empty
        scope["empty3"] = peers.get(FLOOR).empty3
        if "V" in scope:
            scope |= {f"V_{name}": scope["V"][name] for name in ("borrow", "own", "kernel", "round_trip")}
        scope.update(self.scope)
        ready, missing = [], {}
        for library, statement in self.contenders.items():
            absent = [SHORT[short] for short in re.findall(r"\b([A-Z])[._]", statement) if short not in scope]
            if absent:
                missing[library] = peers.why_not.get(absent[0], "not here")
            else:
                ready.append(Contender(library, statement, scope, self.notes.get(library, ""), self.empty))
        return ready, missing


UNCHECKED = "asks nothing: takes tensors whose bytes are not their values"
SHIMS = "stable shims in C"
FLOOR_TORCH = "C that finds the handle in the object and asks our questions"
GENERAL_IN = {
    "tvm_ffi.from_dlpack": "tvm_ffi.from_dlpack(x)",
    "nanobind": "N.own(x)",
    "dlpark": "K.own(x)",
    "pyo3-dlpack": "D.own(x)",
}


def torch_rows(torch: Any) -> list[Row]:
    x = torch.zeros(1000)
    scope = {"x": x, "y": torch.zeros(1000), "out": torch.zeros(1000)}
    notes = {
        FLOOR: FLOOR_TORCH,
        "exchange API in C": UNCHECKED,
        "libtorch in C++": "compiled against torch; " + UNCHECKED,
        "torch/extension.h": "compiled against torch; " + UNCHECKED,
        "pyo3-tch": "linked against torch; " + UNCHECKED,
        "tvm-ffi": UNCHECKED,
        "tvm_ffi.from_dlpack": UNCHECKED,
        "dlpark": UNCHECKED,
    }

    def row(name: str, contenders: dict[str, str], empty: str = "empty(x)", group: str = "in") -> Row:
        return Row(name, group, contenders, scope, notes, empty=empty)

    return [
        row(
            "torch → C++, borrowed",
            {
                FLOOR: "F.borrow_inside(x)",
                SHIMS: "F.borrow_shims(x)",
                OURS: "I.borrow(x)",
                "exchange API in C": "F.borrow_exchange(x)",
                "libtorch in C++": "T.unpack_borrow(x)",
                "torch/extension.h": "T.own(x)",
                "pyo3-tch": "C.own(x)",
                "tvm-ffi": "V_borrow(x)",
                **GENERAL_IN,
            },
        ),
        row(
            "torch → C++, owned",
            {
                FLOOR: "F.own_inside(x)",
                SHIMS: "F.own_shims(x)",
                OURS: "I.own(x)",
                "exchange API in C": "F.own_exchange(x)",
                "libtorch in C++": "T.unpack_own(x)",
                "torch/extension.h": "T.own(x)",
                "pyo3-tch": "C.own(x)",
                "tvm-ffi": "V_own(x)",
                **GENERAL_IN,
            },
        ),
        row(
            "torch: f(x, y, out)",
            {
                FLOOR: "F.kernel_inside(x, y, out)",
                SHIMS: "F.kernel_shims(x, y, out)",
                OURS: "I.kernel(x, y, out)",
                "torch/extension.h": "T.kernel(x, y, out)",
                "pyo3-tch": "C.kernel(x, y, out)",
                "tvm-ffi": "V_kernel(x, y, out)",
                "nanobind": "N.kernel(x, y, out)",
                "dlpark": "K.kernel(x, y, out)",
                "pyo3-dlpack": "D.kernel(x, y, out)",
            },
            empty="empty3(x, y, out)",
            group="kernel call",
        ),
        row(
            "torch: there and back",
            {
                FLOOR: "F.round_trip_inside(x)",
                SHIMS: "F.round_trip_shims(x)",
                OURS: "I.round_trip(x)",
                "torch/extension.h": "T.round_trip(x)",
                "pyo3-tch": "C.round_trip(x)",
                "tvm-ffi": "V_round_trip(x)",
                "nanobind": "N.round_trip_torch(x)",
            },
            group="there and back",
        ),
    ]


def numpy_rows(np: Any) -> list[Row]:
    scope = {"x": np.zeros(1000, np.float32), "y": np.zeros(1000, np.float32), "out": np.zeros(1000, np.float32)}
    notes = {
        FLOOR: "C that reads NumPy's struct",
        "pybind11 array_t": "converts where the dtype differs",
        "rust-numpy": "one dtype, fixed at compile time",
    }
    ins = {
        "pybind11 array": "P.own(x)",
        "pybind11 array_t": "P.own_typed(x)",
        "rust-numpy": "R.own(x)",
        "rust-numpy read-only": "R.own_readonly(x)",
        "nanobind typed": "N.own_typed(x)",
        "tvm-ffi": "V_borrow(x)",
        **GENERAL_IN,
    }
    return [
        Row("numpy → C++, borrowed", "in", {FLOOR: "F.borrow_numpy(x)", OURS: "I.borrow(x)", **ins}, scope, notes),
        Row("numpy → C++, owned", "in", {FLOOR: "F.own_numpy(x)", OURS: "I.own(x)", **ins}, scope, notes),
        Row(
            "numpy: f(x, y, out)",
            "kernel call",
            {
                FLOOR: "F.kernel_numpy(x, y, out)",
                OURS: "I.kernel(x, y, out)",
                "pybind11 array": "P.kernel(x, y, out)",
                "rust-numpy": "R.kernel(x, y, out)",
                "tvm-ffi": "V_kernel(x, y, out)",
                "nanobind": "N.kernel(x, y, out)",
                "dlpark": "K.kernel(x, y, out)",
                "pyo3-dlpack": "D.kernel(x, y, out)",
            },
            scope,
            notes,
            empty="empty3(x, y, out)",
        ),
        Row(
            "numpy: there and back",
            "there and back",
            {
                FLOOR: "F.round_trip_numpy(x)",
                OURS: "I.round_trip(x)",
                "pybind11 array": "P.round_trip(x)",
                "rust-numpy": "R.round_trip(x)",
                "nanobind": "N.round_trip_numpy(x)",
            },
            scope,
            notes,
        ),
    ]


def buffer_rows(framework: str, x: Any) -> list[Row]:
    """JAX and TensorFlow: their cheapest door is the buffer protocol."""
    notes = {FLOOR: "a bare PyObject_GetBuffer"}
    rows = [
        Row(
            f"{framework} → C++, borrowed",
            "in",
            {FLOOR: "F.borrow_buffer(x)", OURS: "I.borrow(x)", **GENERAL_IN},
            {"x": x},
            notes,
        ),
        Row(f"{framework} → C++, owned", "in", {FLOOR: "F.own_buffer(x)", OURS: "I.own(x)", **GENERAL_IN}, {"x": x}, notes),
        Row(
            f"{framework}: there and back",
            "there and back",
            {FLOOR: "F.round_trip_buffer(x)", OURS: "I.round_trip(x)"},
            {"x": x},
            notes,
        ),
    ]
    if framework == "jax":
        rows[2].contenders["nanobind"] = "N.round_trip_jax(x)"
    return rows


def exchange_rows(framework: str, x: Any) -> list[Row]:
    """Paddle: a C exchange API and nothing cheaper."""
    notes = {FLOOR: "C over the exchange API"}
    return [
        Row(
            f"{framework} → C++, borrowed",
            "in",
            {FLOOR: "F.borrow_exchange(x)", OURS: "I.borrow(x)", **GENERAL_IN},
            {"x": x},
            notes,
        ),
        Row(f"{framework} → C++, owned", "in", {FLOOR: "F.own_exchange(x)", OURS: "I.own(x)", **GENERAL_IN}, {"x": x}, notes),
        Row(f"{framework}: there and back", "there and back", {OURS: "I.round_trip(x)"}, {"x": x}, notes, floor=OURS),
    ]


def out_rows(torch: Any, np: Any, jax: Any, peers: Peers) -> list[Row]:
    x = np.zeros(1000, np.float32)
    scope = {"x": x, "torch_from_dlpack": torch.from_dlpack, "np_from_dlpack": np.from_dlpack}
    if peers.get("tvm_ffi") is not None:
        scope["tvm_tensor"] = peers.get("tvm_ffi").from_dlpack(x)
    rows = [
        Row(
            "C++ → torch",
            "out",
            {
                FLOOR: "F.to_torch_shims(x)",
                OURS: "I.to_torch(x)",
                "exchange API in C": "F.to_exchange(x)",
                "libtorch in C++": "T.wrap(x)",
                "torch/extension.h": "T.to_torch(x)",
                "pyo3-tch": "C.to_torch(x)",
                "nanobind": "N.to_torch(x)",
                "dlpark + torch.from_dlpack": "torch_from_dlpack(K.to_capsule(x))",
                "pyo3-dlpack + torch.from_dlpack": "torch_from_dlpack(D.to_capsule(x))",
                "tvm-ffi + torch.from_dlpack": "torch_from_dlpack(tvm_tensor)",
            },
            scope,
            {
                FLOOR: "C over torch_from_blob",
                "libtorch in C++": "compiled against torch",
                "torch/extension.h": "compiled against torch",
                "pyo3-tch": "linked against torch; its memory has no owner",
            },
        ),
        Row(
            "C++ → numpy",
            "out",
            {
                FLOOR: "F.to_numpy(x)",
                OURS: "I.to_numpy(x)",
                "rust-numpy": "R.to_numpy(x)",
                "pybind11 array_t": "P.to_numpy(x)",
                "nanobind": "N.to_numpy(x)",
                "tvm-ffi + np.from_dlpack": "np_from_dlpack(tvm_tensor)",
            },
            scope,
            {FLOOR: "PyArray_New with a capsule as its base"},
        ),
        Row(
            "C++ → capsule",
            "out",
            {
                FLOOR: "F.to_capsule(x)",
                OURS: "I.to_capsule(x)",
                "dlpark": "K.to_capsule(x)",
                "pyo3-dlpack": "D.to_capsule(x)",
                "nanobind": "N.to_capsule(x)",
                "tvm-ffi": "tvm_tensor.__dlpack__()",
            },
            scope,
            {FLOOR: "malloc and PyCapsule_New", "pyo3-dlpack": "a legacy capsule", "nanobind": "an nb::ndarray object"},
        ),
        Row(
            "the same object back",
            "there and back",
            {OURS: "I.back(x)"},
            scope,
            {OURS: "the way back alone, of a tensor imported before"},
            floor=OURS,
        ),
    ]
    if jax is not None:
        jax_scope = {**scope, "jax_from_dlpack": jax.dlpack.from_dlpack}
        rows.append(
            Row(
                "C++ → jax",
                "out",
                {FLOOR: "jax_from_dlpack(x)", OURS: "I.to_jax(x)", "nanobind": "N.to_jax(x)"},
                jax_scope,
                {FLOOR: "jax.dlpack.from_dlpack of a NumPy array: JAX's own Python"},
            )
        )
    return rows


def python_rows(torch: Any, np: Any, jax: Any) -> list[Row]:
    """What a Python programmer calls."""
    try:
        import isthmus

        ours = {OURS: "isthmus_from_dlpack(x)"}
        scope = {"isthmus_from_dlpack": isthmus.from_dlpack}
    except ImportError:
        ours, scope = {}, {}
    scope |= {"np_from_dlpack": np.from_dlpack, "torch_from_dlpack": torch.from_dlpack}
    theirs = {
        "tvm_ffi.from_dlpack": "tvm_ffi.from_dlpack(x)",
        "numpy.from_dlpack": "np_from_dlpack(x)",
        "torch.from_dlpack": "torch_from_dlpack(x)",
    }
    if jax is not None:
        scope["jax_from_dlpack"] = jax.dlpack.from_dlpack
        theirs["jax.dlpack.from_dlpack"] = "jax_from_dlpack(x)"
    rows = [
        Row("Python: from_dlpack(torch)", "Python", {**ours, **theirs}, {**scope, "x": torch.zeros(1000)}, floor=OURS),
        Row("Python: from_dlpack(numpy)", "Python", {**ours, **theirs}, {**scope, "x": np.zeros(1000, np.float32)}, floor=OURS),
    ]
    if jax is not None:
        rows.append(
            Row("Python: from_dlpack(jax)", "Python", {**ours, **theirs}, {**scope, "x": jax.numpy.zeros(1000)}, floor=OURS)
        )
    return rows


def dims_rows(torch: Any, np: Any) -> list[Row]:
    rows = []
    for ndim in (1, 4, 8, 16):
        shape = (2,) * ndim
        rows.append(
            Row(
                f"numpy → C++, {ndim} dims",
                "dims",
                {FLOOR: "F.borrow_numpy(x)", OURS: "I.borrow(x)", "nanobind": "N.own(x)", "tvm-ffi": "V_borrow(x)"},
                {"x": np.zeros(shape, np.float32)},
            )
        )
        rows.append(
            Row(
                f"torch → C++, {ndim} dims",
                "dims",
                {
                    FLOOR: "F.borrow_inside(x)",
                    SHIMS: "F.borrow_shims(x)",
                    OURS: "I.borrow(x)",
                    "nanobind": "N.own(x)",
                    "tvm-ffi": "V_borrow(x)",
                },
                {"x": torch.zeros(shape)},
            )
        )
    return rows


SIZES = {"4 kB": 1 << 10, "1 MB": 1 << 18, "64 MB": 1 << 24, "1 GB": 1 << 28}


def size_rows(torch: Any, np: Any, set_size: Callable[[int], None]) -> list[tuple[Callable[[], None], list[Row]]]:
    """Each with what prepares it: the memory that is shown grows to the size first. Pages that nobody touches cost nothing."""
    steps: list[tuple[Callable[[], None], list[Row]]] = []
    for name, elements in SIZES.items():
        x = np.empty(elements, np.float32)
        t = torch.from_numpy(x)

        def prepare(elements: int = elements) -> None:
            set_size(elements)

        steps.append(
            (
                prepare,
                [
                    Row(f"numpy → C++, {name}", "sizes", {FLOOR: "F.own_numpy(x)", OURS: "I.own(x)"}, {"x": x}),
                    Row(
                        f"torch → C++, {name}",
                        "sizes",
                        {FLOOR: "F.own_inside(x)", SHIMS: "F.own_shims(x)", OURS: "I.own(x)"},
                        {"x": t},
                    ),
                    Row(f"C++ → numpy, {name}", "sizes", {FLOOR: "F.to_numpy(x)", OURS: "I.to_numpy(x)"}, {"x": x}),
                    Row(f"C++ → torch, {name}", "sizes", {FLOOR: "F.to_torch_shims(x)", OURS: "I.to_torch(x)"}, {"x": x}),
                ],
            )
        )
    return steps
