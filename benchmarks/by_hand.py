# SPDX-License-Identifier: Apache-2.0
"""The row of those who need no binding library: one typed array handed to C by what Python has around it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from calls import FLOOR, OURS, RUST_NUMPY, Call, Row, identifier
from peers import Peers

CYTHON = "Cython memoryview"
NOTES = {
    OURS: "a view of one dtype and rank, checked",
    "numba": "unboxing for a compiled function",
    "cffi": "ffi.from_buffer, and nothing checked but the length of an element",
    "ctypes": "x.ctypes.data, and nothing checked",
    "cuda.core": "a StridedMemoryView of host memory, and nothing called",
}


def ways(np: Any, peers: Peers) -> dict[str, Callable[[Any], Any]]:
    """By library, what takes an array; a library that is not installed has no entry."""
    found: dict[str, Callable[[Any], Any]] = {}
    library = ctypes.CDLL(peers.get(FLOOR).__file__)
    touch = library.bench_touch
    touch.argtypes, touch.restype = (ctypes.c_void_p, ctypes.c_ssize_t), None
    found["ctypes"] = lambda x: touch(x.ctypes.data, x.size)
    try:
        import cffi

        ffi = cffi.FFI()
        ffi.cdef("void bench_touch(const float*, ssize_t);")
        by_cffi = ffi.dlopen(peers.get(FLOOR).__file__).bench_touch
        found["cffi"] = lambda x: by_cffi(ffi.from_buffer("float[]", x), x.size)
    except ImportError:
        pass
    try:
        import numba

        first = numba.njit(lambda x: x[0])
        first(np.zeros(1000, np.float32))  # compiles it
        found["numba"] = first
    except ImportError:
        pass
    try:
        from cuda.core.utils import StridedMemoryView

        found["cuda.core"] = lambda x: StridedMemoryView.from_dlpack(x, -1)
    except ImportError:
        pass
    return found


def rows(np: Any, peers: Peers) -> list[Row]:
    found = ways(np, peers)
    names = {library: f"by_{identifier(library)}" for library in found}
    contenders = {
        FLOOR: Call(FLOOR, "borrow_numpy"),
        OURS: Call(OURS, "typed"),
        RUST_NUMPY: Call(RUST_NUMPY, "own"),
        f"{RUST_NUMPY} read-only": Call(RUST_NUMPY, "own_readonly"),
        CYTHON: Call(CYTHON, "typed"),
        **{library: Call(None, name) for library, name in names.items()},
    }
    scope = {"x": np.zeros(1000, np.float32), **{names[library]: take for library, take in found.items()}}
    return [Row("numpy → C++, one typed array", "in", contenders, scope, NOTES)]
