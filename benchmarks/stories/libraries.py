# SPDX-License-Identifier: Apache-2.0
"""The libraries under one set of names: take, write, pick, keep, peek, give, drop, drop_without_gil, drop_on_thread,
imaginary, dtype.

`take(x)` → address and shape of a float32 array in the CPU's memory, read; `write(x)` sets its first element to 5;
`pick(x)` has an overload for float64 and one for float32; `keep(x)` holds it until `drop()`, `peek()` → ((address,
shape), first element), and `give()` hands it out. `imaginary(x)` reads the imaginary part of the first element of a
complex64 array, `dtype(x)` names the dtype of any array. What a library does not offer is None.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import build

NAMES = ("isthmus", "nanobind", "pybind11", "tvm-ffi", "numpy", "torch")
#: What each one reads: by DLPack, the buffer protocol, `__array_interface__`.
READS = {
    "isthmus": ("dlpack", "buffer", "interface"),
    "nanobind": ("dlpack", "buffer"),
    "pybind11": ("buffer", "interface"),  # by way of NumPy
    "tvm-ffi": ("dlpack",),
    "numpy": ("dlpack", "buffer", "interface"),
    "torch": ("dlpack",),
}

NEEDED = ("take", "write", "keep", "peek", "give", "drop")
OPTIONAL = ("pick", "drop_without_gil", "drop_on_thread", "imaginary", "dtype")
#: The dtypes that are asked for, by DLPack's code and bits.
DTYPES = {(4, 16): "bfloat16", (10, 8): "float8_e4m3fn"}

Function = Callable[..., Any]


@dataclass
class Library:
    name: str
    take: Function
    write: Function
    keep: Function
    peek: Function
    give: Function
    drop: Function
    pick: Function | None = None
    drop_without_gil: Function | None = None
    drop_on_thread: Function | None = None
    imaginary: Function | None = None
    dtype: Function | None = None

    def reads(self, protocol: str) -> bool:
        return protocol in READS[self.name]


def bound(name: str, module: Any) -> Library:
    needed = {word: getattr(module, word) for word in NEEDED}
    optional = {word: getattr(module, word, None) for word in OPTIONAL}
    if dlpack_dtype := getattr(module, "dlpack_dtype", None):
        optional["dtype"] = lambda x: dtype_name(*dlpack_dtype(x))
    return Library(name, **needed, **optional)


def dtype_name(code: int, bits: int) -> str:
    """Of DLPack's DLDataType."""
    return DTYPES.get((int(code), int(bits)), f"code {code} of {bits} bits")


def tvm_ffi_library() -> Library:
    import tvm_ffi

    module = tvm_ffi.load_module(str(build.MODULES / "reliability_tvm_ffi.so"))
    library = bound("tvm-ffi", Functions(module))
    library.take = lambda x: plain(module.take(x))
    library.peek = lambda: (plain((found := module.peek())[0]), float(found[1]))
    return library


FUNCTIONS_OF_TVM_FFI = (*NEEDED, "drop_on_thread", "imaginary", "dlpack_dtype")


class Functions:
    """Functions of a module of tvm-ffi, as attributes."""

    def __init__(self, module: Any) -> None:
        for word in FUNCTIONS_OF_TVM_FFI:
            setattr(self, word, module.get_function(word))


def plain(described: Any) -> tuple[int, tuple[int, ...]]:
    return int(described[0]) % 2**64, tuple(int(size) for size in described[1])


def consumer(name: str, array: Function, address: Function, float32: Any) -> Library:
    """A Python library that imports by `array(x)`, and holds what it got in Python."""
    kept: list[Any] = []

    def checked(x: object) -> Any:
        found = array(x)
        if found.dtype != float32:
            raise TypeError("expected float32")
        return found

    def write(x: object) -> None:
        checked(x)[0] = 5

    def describe(found: Any) -> tuple[int, tuple[int, ...]]:
        return address(found), tuple(found.shape)

    return Library(
        name,
        take=lambda x: describe(checked(x)),
        write=write,
        keep=lambda x: kept.append(checked(x)),
        peek=lambda: (describe(kept[0]), float(kept[0].reshape(-1)[0])),
        give=lambda: kept[0],
        drop=kept.clear,
        imaginary=lambda x: float(array(x)[0].imag),
        dtype=lambda x: str(array(x).dtype).removeprefix("torch."),
    )


def numpy_library() -> Library:
    import numpy as np

    def array(x: object) -> Any:
        return np.from_dlpack(x) if hasattr(x, "__dlpack__") else np.asarray(x)

    return consumer("numpy", array, lambda found: found.ctypes.data, np.float32)


def torch_library() -> Library:
    import torch

    return consumer("torch", torch.from_dlpack, lambda found: found.data_ptr(), torch.float32)


def load(name: str) -> Library:
    sys.path.insert(0, str(build.MODULES))
    if name == "numpy":
        return numpy_library()
    if name == "torch":
        return torch_library()
    if name == "tvm-ffi":
        return tvm_ffi_library()
    return bound(name, importlib.import_module(f"reliability_{name}"))
