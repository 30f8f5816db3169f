# SPDX-License-Identifier: Apache-2.0
"""The rows: which exchange, which libraries, and which of them is the floor.

A row names its contenders as `library: Call`; a call's arguments are names of the row's scope: `x` (and y, out).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calls import (
    DLPARK,
    FLOOR,
    NANOBIND,
    OURS,
    OURS_RUST,
    PYBIND11,
    PYO3_DLPACK,
    PYO3_TCH,
    RUST_NUMPY,
    THREE,
    TORCH,
    TVM_FFI,
    TVM_PACKAGE,
    Call,
    Row,
)
from peers import Peers

UNCHECKED = "asks nothing: takes tensors whose bytes are not their values"
SHIMS = "stable shims in C"
FLOOR_TORCH = "C that finds the handle in the object and asks our questions"
GENERAL_IN = {
    "tvm_ffi.from_dlpack": Call(TVM_PACKAGE, "from_dlpack"),
    "nanobind": Call(NANOBIND, "own"),
    "dlpark": Call(DLPARK, "own"),
    "pyo3-dlpack": Call(PYO3_DLPACK, "own"),
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

    def row(name: str, contenders: dict[str, Call], empty: str = "empty(x)", group: str = "in") -> Row:
        return Row(name, group, contenders, scope, notes, empty=empty)

    return [
        row(
            "torch → C++, borrowed",
            {
                FLOOR: Call(FLOOR, "borrow_inside"),
                SHIMS: Call(FLOOR, "borrow_shims"),
                OURS: Call(OURS, "borrow"),
                OURS_RUST: Call(OURS_RUST, "borrow"),
                "exchange API in C": Call(FLOOR, "borrow_exchange"),
                "libtorch in C++": Call(TORCH, "unpack_borrow"),
                "torch/extension.h": Call(TORCH, "own"),
                "pyo3-tch": Call(PYO3_TCH, "own"),
                "tvm-ffi": Call(TVM_FFI, "borrow"),
                **GENERAL_IN,
            },
        ),
        row(
            "torch → C++, owned",
            {
                FLOOR: Call(FLOOR, "own_inside"),
                SHIMS: Call(FLOOR, "own_shims"),
                OURS: Call(OURS, "own"),
                OURS_RUST: Call(OURS_RUST, "own"),
                "exchange API in C": Call(FLOOR, "own_exchange"),
                "libtorch in C++": Call(TORCH, "unpack_own"),
                "torch/extension.h": Call(TORCH, "own"),
                "pyo3-tch": Call(PYO3_TCH, "own"),
                "tvm-ffi": Call(TVM_FFI, "own"),
                **GENERAL_IN,
            },
        ),
        row(
            "torch: f(x, y, out)",
            {
                FLOOR: Call(FLOOR, "kernel_inside", THREE),
                SHIMS: Call(FLOOR, "kernel_shims", THREE),
                OURS: Call(OURS, "kernel", THREE),
                OURS_RUST: Call(OURS_RUST, "kernel", THREE),
                "torch/extension.h": Call(TORCH, "kernel", THREE),
                "pyo3-tch": Call(PYO3_TCH, "kernel", THREE),
                "tvm-ffi": Call(TVM_FFI, "kernel", THREE),
                "nanobind": Call(NANOBIND, "kernel", THREE),
                "dlpark": Call(DLPARK, "kernel", THREE),
                "pyo3-dlpack": Call(PYO3_DLPACK, "kernel", THREE),
            },
            empty="empty3(x, y, out)",
            group="kernel call",
        ),
        row(
            "torch: there and back",
            {
                FLOOR: Call(FLOOR, "round_trip_inside"),
                SHIMS: Call(FLOOR, "round_trip_shims"),
                OURS: Call(OURS, "round_trip"),
                "torch/extension.h": Call(TORCH, "round_trip"),
                "pyo3-tch": Call(PYO3_TCH, "round_trip"),
                "tvm-ffi": Call(TVM_FFI, "round_trip"),
                "nanobind": Call(NANOBIND, "round_trip_torch"),
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
        "pybind11 array": Call(PYBIND11, "own"),
        "pybind11 array_t": Call(PYBIND11, "own_typed"),
        "rust-numpy": Call(RUST_NUMPY, "own"),
        "rust-numpy read-only": Call(RUST_NUMPY, "own_readonly"),
        "nanobind typed": Call(NANOBIND, "own_typed"),
        "tvm-ffi": Call(TVM_FFI, "borrow"),
        **GENERAL_IN,
    }
    return [
        Row(
            "numpy → C++, borrowed",
            "in",
            {
                FLOOR: Call(FLOOR, "borrow_numpy"),
                OURS: Call(OURS, "borrow"),
                OURS_RUST: Call(OURS_RUST, "borrow"),
                **ins,
            },
            scope,
            notes,
        ),
        Row(
            "numpy → C++, owned",
            "in",
            {
                FLOOR: Call(FLOOR, "own_numpy"),
                OURS: Call(OURS, "own"),
                OURS_RUST: Call(OURS_RUST, "own"),
                **ins,
            },
            scope,
            notes,
        ),
        Row(
            "numpy: f(x, y, out)",
            "kernel call",
            {
                FLOOR: Call(FLOOR, "kernel_numpy", THREE),
                OURS: Call(OURS, "kernel", THREE),
                OURS_RUST: Call(OURS_RUST, "kernel", THREE),
                "pybind11 array": Call(PYBIND11, "kernel", THREE),
                "rust-numpy": Call(RUST_NUMPY, "kernel", THREE),
                "tvm-ffi": Call(TVM_FFI, "kernel", THREE),
                "nanobind": Call(NANOBIND, "kernel", THREE),
                "dlpark": Call(DLPARK, "kernel", THREE),
                "pyo3-dlpack": Call(PYO3_DLPACK, "kernel", THREE),
            },
            scope,
            notes,
            empty="empty3(x, y, out)",
        ),
        Row(
            "numpy: there and back",
            "there and back",
            {
                FLOOR: Call(FLOOR, "round_trip_numpy"),
                OURS: Call(OURS, "round_trip"),
                "pybind11 array": Call(PYBIND11, "round_trip"),
                "rust-numpy": Call(RUST_NUMPY, "round_trip"),
                "nanobind": Call(NANOBIND, "round_trip_numpy"),
            },
            scope,
            notes,
        ),
        Row(
            "numpy: there and back, one typed array",
            "there and back",
            {
                FLOOR: Call(FLOOR, "round_trip_numpy"),
                OURS: Call(OURS, "typed_round_trip"),
                "rust-numpy": Call(RUST_NUMPY, "round_trip"),
            },
            scope,
            notes | {OURS: "a view of one dtype and rank, checked; the argument itself goes back"},
        ),
    ]


def buffer_rows(framework: str, x: Any) -> list[Row]:
    """JAX and TensorFlow: their cheapest public door is the buffer protocol."""
    notes = {FLOOR: "a bare PyObject_GetBuffer"}
    rows = [
        Row(
            f"{framework} → C++, borrowed",
            "in",
            {FLOOR: Call(FLOOR, "borrow_buffer"), OURS: Call(OURS, "borrow"), **GENERAL_IN},
            {"x": x},
            notes,
        ),
        Row(
            f"{framework} → C++, owned",
            "in",
            {FLOOR: Call(FLOOR, "own_buffer"), OURS: Call(OURS, "own"), **GENERAL_IN},
            {"x": x},
            notes,
        ),
        Row(
            f"{framework}: there and back",
            "there and back",
            {FLOOR: Call(FLOOR, "round_trip_buffer"), OURS: Call(OURS, "round_trip")},
            {"x": x},
            notes,
        ),
    ]
    if framework == "jax":
        rows[2].contenders["nanobind"] = Call(NANOBIND, "round_trip_jax")
    return rows


def exchange_rows(framework: str, x: Any) -> list[Row]:
    """Paddle: a C exchange API and nothing cheaper."""
    notes = {FLOOR: "C over the exchange API"}
    return [
        Row(
            f"{framework} → C++, borrowed",
            "in",
            {FLOOR: Call(FLOOR, "borrow_exchange"), OURS: Call(OURS, "borrow"), **GENERAL_IN},
            {"x": x},
            notes,
        ),
        Row(
            f"{framework} → C++, owned",
            "in",
            {FLOOR: Call(FLOOR, "own_exchange"), OURS: Call(OURS, "own"), **GENERAL_IN},
            {"x": x},
            notes,
        ),
        Row(
            f"{framework}: there and back",
            "there and back",
            {OURS: Call(OURS, "round_trip")},
            {"x": x},
            notes,
            floor=OURS,
        ),
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
                FLOOR: Call(FLOOR, "to_torch_shims"),
                OURS: Call(OURS, "to_torch"),
                OURS_RUST: Call(OURS_RUST, "to_torch"),
                "exchange API in C": Call(FLOOR, "to_exchange"),
                "libtorch in C++": Call(TORCH, "wrap"),
                "torch/extension.h": Call(TORCH, "to_torch"),
                "pyo3-tch": Call(PYO3_TCH, "to_torch"),
                "nanobind": Call(NANOBIND, "to_torch"),
                "dlpark + torch.from_dlpack": Call(DLPARK, "to_capsule", then="torch_from_dlpack"),
                "pyo3-dlpack + torch.from_dlpack": Call(PYO3_DLPACK, "to_capsule", then="torch_from_dlpack"),
                "tvm-ffi + torch.from_dlpack": Call(None, "torch_from_dlpack", ("tvm_tensor",)),
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
                FLOOR: Call(FLOOR, "to_numpy"),
                OURS: Call(OURS, "to_numpy"),
                OURS_RUST: Call(OURS_RUST, "to_numpy"),
                "rust-numpy": Call(RUST_NUMPY, "to_numpy"),
                "pybind11 array_t": Call(PYBIND11, "to_numpy"),
                "nanobind": Call(NANOBIND, "to_numpy"),
                "tvm-ffi + np.from_dlpack": Call(None, "np_from_dlpack", ("tvm_tensor",)),
            },
            scope,
            {FLOOR: "PyArray_New with a capsule as its base"},
        ),
        Row(
            "C++ → capsule",
            "out",
            {
                FLOOR: Call(FLOOR, "to_capsule"),
                OURS: Call(OURS, "to_capsule"),
                OURS_RUST: Call(OURS_RUST, "to_capsule"),
                "dlpark": Call(DLPARK, "to_capsule"),
                "pyo3-dlpack": Call(PYO3_DLPACK, "to_capsule"),
                "nanobind": Call(NANOBIND, "to_capsule"),
                "tvm-ffi": Call(None, "tvm_tensor.__dlpack__", ()),
            },
            scope,
            {FLOOR: "malloc and PyCapsule_New", "pyo3-dlpack": "a legacy capsule", "nanobind": "an nb::ndarray object"},
        ),
        Row(
            "std::vector → capsule",
            "out",
            {
                FLOOR: Call(FLOOR, "vector_to_capsule"),
                OURS: Call(OURS, "vector_to_capsule"),
                OURS_RUST: Call(OURS_RUST, "vector_to_capsule"),
                "dlpark": Call(DLPARK, "vector_to_capsule"),
                "pyo3-dlpack": Call(PYO3_DLPACK, "vector_to_capsule"),
                "nanobind": Call(NANOBIND, "vector_to_capsule"),
            },
            scope,
            {
                FLOOR: "two mallocs and PyCapsule_New",
                OURS: "Tensor::own() and to_py() of a vector of 16 floats that is made in the call",
                "pyo3-dlpack": "a legacy capsule",
                "nanobind": "an nb::ndarray object",
            },
        ),
        Row(
            "the same object back",
            "there and back",
            {OURS: Call(OURS, "back")},
            scope,
            {OURS: "the way back alone, of a tensor imported before"},
            floor=OURS,
        ),
    ]
    if jax is not None:
        rows.append(jax_row(jax, scope))
    return rows


def jax_row(jax: Any, scope: dict[str, Any]) -> Row:
    contenders = {
        OURS: Call(OURS, "to_jax"),
        "jax.dlpack.from_dlpack": Call(None, "jax_from_dlpack"),
        "nanobind": Call(NANOBIND, "to_jax"),
    }
    scope = {**scope, "jax_from_dlpack": jax.dlpack.from_dlpack}
    try:
        from jaxlib._jax import dlpack_managed_tensor_to_buffer as entry
    except ImportError:
        return Row("C++ → jax", "out", contenders, scope, floor="jax.dlpack.from_dlpack")
    cpu = jax.local_devices(backend="cpu")[0]
    scope["jaxlib_entry"] = lambda capsule: entry(capsule, cpu, None, None, 1)
    return Row(
        "C++ → jax",
        "out",
        {FLOOR: Call(FLOOR, "to_legacy_capsule", then="jaxlib_entry"), **contenders},
        scope,
        {FLOOR: "jaxlib's own entry, private, with a capsule made in C"},
    )


def python_rows(torch: Any, np: Any, jax: Any) -> list[Row]:
    """What a Python programmer calls."""
    try:
        import isthmus

        ours = {OURS: Call(None, "isthmus_from_dlpack")}
        scope = {"isthmus_from_dlpack": isthmus.from_dlpack}
    except ImportError:
        ours, scope = {}, {}
    scope |= {"np_from_dlpack": np.from_dlpack, "torch_from_dlpack": torch.from_dlpack}
    theirs = {
        "tvm_ffi.from_dlpack": Call(TVM_PACKAGE, "from_dlpack"),
        "numpy.from_dlpack": Call(None, "np_from_dlpack"),
        "torch.from_dlpack": Call(None, "torch_from_dlpack"),
    }
    if jax is not None:
        scope["jax_from_dlpack"] = jax.dlpack.from_dlpack
        theirs["jax.dlpack.from_dlpack"] = Call(None, "jax_from_dlpack")
    rows = [
        Row("Python: from_dlpack(torch)", "Python", {**ours, **theirs}, {**scope, "x": torch.zeros(1000)}, floor=OURS),
        Row(
            "Python: from_dlpack(numpy)",
            "Python",
            {**ours, **theirs},
            {**scope, "x": np.zeros(1000, np.float32)},
            floor=OURS,
        ),
    ]
    if jax is not None:
        rows.append(
            Row(
                "Python: from_dlpack(jax)",
                "Python",
                {**ours, **theirs},
                {**scope, "x": jax.numpy.zeros(1000)},
                floor=OURS,
            )
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
                {
                    FLOOR: Call(FLOOR, "borrow_numpy"),
                    OURS: Call(OURS, "borrow"),
                    "nanobind": Call(NANOBIND, "own"),
                    "tvm-ffi": Call(TVM_FFI, "borrow"),
                },
                {"x": np.zeros(shape, np.float32)},
            )
        )
        rows.append(
            Row(
                f"torch → C++, {ndim} dims",
                "dims",
                {
                    FLOOR: Call(FLOOR, "borrow_inside"),
                    SHIMS: Call(FLOOR, "borrow_shims"),
                    OURS: Call(OURS, "borrow"),
                    "nanobind": Call(NANOBIND, "own"),
                    "tvm-ffi": Call(TVM_FFI, "borrow"),
                },
                {"x": torch.zeros(shape)},
            )
        )
    return rows


SIZES = {"4 kB": 1 << 10, "1 MB": 1 << 18, "64 MB": 1 << 24, "1 GB": 1 << 28}


def size_rows(torch: Any, np: Any, set_size: Callable[[int], None]) -> list[tuple[Callable[[], None], list[Row]]]:
    """Each with what prepares it: the memory that is shown grows to the size first.
    Pages that nobody touches cost nothing."""
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
                    Row(
                        f"numpy → C++, {name}",
                        "sizes",
                        {FLOOR: Call(FLOOR, "own_numpy"), OURS: Call(OURS, "own")},
                        {"x": x},
                    ),
                    Row(
                        f"torch → C++, {name}",
                        "sizes",
                        {FLOOR: Call(FLOOR, "own_inside"), SHIMS: Call(FLOOR, "own_shims"), OURS: Call(OURS, "own")},
                        {"x": t},
                    ),
                    Row(
                        f"C++ → numpy, {name}",
                        "sizes",
                        {FLOOR: Call(FLOOR, "to_numpy"), OURS: Call(OURS, "to_numpy")},
                        {"x": x},
                    ),
                    Row(
                        f"C++ → torch, {name}",
                        "sizes",
                        {FLOOR: Call(FLOOR, "to_torch_shims"), OURS: Call(OURS, "to_torch")},
                        {"x": x},
                    ),
                ],
            )
        )
    return steps
