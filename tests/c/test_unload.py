"""libisthmus is closed (dlclose): what it kept of dropped tensors goes with it."""

from __future__ import annotations

import sys
from pathlib import Path

import processes
import pytest

SOURCE = """
import ctypes, _ctypes
SIZE = 64 << 20

def resident():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * 4096

class DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]

def use(path):
    library = ctypes.CDLL(path)
    shape, tensor = (ctypes.c_int64 * 1)(SIZE), ctypes.c_void_p()
    assert library.isthmus_empty(shape, 1, DType(1, 8, 1), ctypes.byref(tensor)) == 0
    info = (ctypes.c_void_p * 32)()  # isthmus_tensor_info, whose first member is the address
    assert library.isthmus_describe(tensor, info) == 0
    ctypes.memset(info[0], 1, SIZE)
    library.isthmus_release(tensor)
    _ctypes.dlclose(library._handle)

use(PATH)
assert PATH not in open("/proc/self/maps").read(), "it is still loaded"
before = resident()
for _ in range(4):
    use(PATH)
print(resident() - before < SIZE)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_kept_memory_goes_with_the_library(libisthmus: Path, unsanitized) -> None:
    done = processes.run_python(SOURCE.replace("PATH", repr(str(libisthmus))))
    assert done.stdout == "True\n"
