"""Python and Rust exchange tensors in one process: no element is copied, every owner is released once.

Usage: exchange.py LIBRARY, the cdylib that `cargo build --example exchange` made.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from ctypes import (
    c_char_p,
    c_double,
    c_size_t,
    c_uint32,
    c_void_p,
    py_object,
    pythonapi,
)

import numpy as np

NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"

pythonapi.PyCapsule_New.restype = py_object
pythonapi.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
pythonapi.PyCapsule_GetPointer.restype = c_void_p
pythonapi.PyCapsule_GetPointer.argtypes = [py_object, c_char_p]
pythonapi.PyCapsule_SetName.argtypes = [py_object, c_char_p]


def load(path: str) -> ctypes.CDLL:
    rust = ctypes.CDLL(path)
    rust.exchange_error.restype = c_char_p
    rust.exchange_take.restype, rust.exchange_take.argtypes = c_void_p, [c_void_p]
    rust.exchange_data.restype, rust.exchange_data.argtypes = c_size_t, [c_void_p]
    rust.exchange_double.restype, rust.exchange_double.argtypes = c_double, [c_void_p]
    rust.exchange_drop.restype, rust.exchange_drop.argtypes = None, [c_void_p]
    rust.exchange_released.restype = c_size_t
    rust.exchange_make.restype = c_void_p
    rust.exchange_make.argtypes = [c_uint32, c_uint32, ctypes.POINTER(c_size_t)]
    return rust


def take_pointer(producer: object) -> int:
    """The managed tensor of a DLPack producer, taken as the specification says."""
    capsule = producer.__dlpack__(max_version=(1, 0))
    pointer = pythonapi.PyCapsule_GetPointer(capsule, NAME)
    pythonapi.PyCapsule_SetName(capsule, USED)
    return pointer


class FromRust:
    """A managed tensor as Python's producers show one."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer

    def __dlpack__(self, **_: object) -> object:
        return pythonapi.PyCapsule_New(self.pointer, NAME, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def python_to_rust(rust: ctypes.CDLL) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    references = sys.getrefcount(array)
    tensor = rust.exchange_take(take_pointer(array))
    assert tensor, rust.exchange_error()
    assert rust.exchange_data(tensor) == array.ctypes.data
    assert rust.exchange_double(tensor) == 30.0
    assert array.tolist() == [[0, 2, 4], [6, 8, 10]]
    assert sys.getrefcount(array) == references + 1
    rust.exchange_drop(tensor)
    assert sys.getrefcount(array) == references
    print("python -> rust: same memory, written in place, array released once")


def rust_keeps_python_alive(rust: ctypes.CDLL) -> None:
    array = np.ones(4, np.float32)
    gone = weakref.ref(array)
    tensor = rust.exchange_take(take_pointer(array))
    del array
    gc.collect()
    assert gone() is not None
    assert rust.exchange_double(tensor) == 8.0
    rust.exchange_drop(tensor)
    assert gone() is None
    print("python -> rust: the array lived as long as Rust held it")


def rust_to_python(rust: ctypes.CDLL) -> None:
    before = rust.exchange_released()
    where = c_size_t()
    array = np.from_dlpack(FromRust(rust.exchange_make(2, 3, ctypes.byref(where))))
    assert array.ctypes.data == where.value
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    column = array[:, 1]
    del array
    gc.collect()
    assert rust.exchange_released() == before
    assert column.tolist() == [1, 4]
    del column
    gc.collect()
    assert rust.exchange_released() == before + 1
    print("rust -> python: same memory, Vec dropped once, with its last view")


def refused(rust: ctypes.CDLL) -> None:
    locked = np.ones(2, np.float32)
    locked.flags.writeable = False
    tensor = rust.exchange_take(take_pointer(locked))
    assert np.isnan(rust.exchange_double(tensor))
    assert locked.tolist() == [1, 1]
    rust.exchange_drop(tensor)

    assert not rust.exchange_take(None)
    assert rust.exchange_error().startswith(b"bad_capsule: ")
    print("refused: a write to read-only memory, a managed tensor that is NULL")


if __name__ == "__main__":
    library = load(sys.argv[1])
    python_to_rust(library)
    rust_keeps_python_alive(library)
    rust_to_python(library)
    refused(library)
    print("ok")
