"""The bytes of a mapped file, counted in place, and their entropy."""

import mmap
from pathlib import Path

import numpy as np
from bytecount import histogram

path = Path(__file__).with_name("bytecount.cpp")
with (
    open(path, "rb") as file,
    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
):
    # A mapping has no framework: the result is an isthmus.Tensor.
    counts = np.from_dlpack(histogram(data))
share = counts[counts > 0] / counts.sum()
print(f"{path.name}: {counts.sum()} bytes, {np.count_nonzero(counts)} different ones, "
      f"{-(share * np.log2(share)).sum():.2f} bits each")  # fmt: skip
print("most frequent:", [chr(byte) for byte in np.argsort(-counts, kind="stable")[:5]])

array = np.fromfile(path, np.uint8)
print(
    "NumPy in, NumPy out:",
    type(histogram(array)).__name__,
    np.array_equal(histogram(array), np.bincount(array, minlength=256)),
)
print(
    "bytes, and every third of them:",
    len(histogram(b"isthmus")),
    histogram(array[::3]).sum() == len(array[::3]),
)
