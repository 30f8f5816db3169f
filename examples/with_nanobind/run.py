"""The edges of a photograph, by C++ and by NumPy, and the same of a torch.Tensor."""

from pathlib import Path

import numpy as np
import torch
from edges import edges


def read_pgm(path: Path) -> np.ndarray:
    """A grey image in the binary form of the format PGM: uint8, (rows, columns)."""
    with path.open("rb") as file:
        kind, size, largest = (file.readline().split() for _ in range(3))
        assert (kind, largest) == ([b"P5"], [b"255"])
        width, height = map(int, size)
        return np.frombuffer(file.read(), np.uint8).reshape(height, width)


def sobel(image: np.ndarray) -> np.ndarray:
    p = np.pad(image.astype(np.float32), 1, mode="edge")
    x = (
        p[:-2, 2:]
        + 2 * p[1:-1, 2:]
        + p[2:, 2:]
        - p[:-2, :-2]
        - 2 * p[1:-1, :-2]
        - p[2:, :-2]
    )
    y = (
        p[2:, :-2]
        + 2 * p[2:, 1:-1]
        + p[2:, 2:]
        - p[:-2, :-2]
        - 2 * p[:-2, 1:-1]
        - p[:-2, 2:]
    )
    return np.hypot(x, y)


photo = read_pgm(Path(__file__).with_name("photo.pgm"))
found = edges(photo)
print("photo:", photo.shape, photo.dtype, "->", type(found).__name__, found.dtype)
print("the same as NumPy's:", np.allclose(found, sobel(photo)))

# A part of the photograph, upside down: nothing is copied, whatever the strides.
part = photo[::-2, 20:100]
print("of a slice, too:", np.allclose(edges(part), sobel(part)))

tensor = torch.from_numpy(photo.copy())
print(
    "of a torch.Tensor a",
    type(edges(tensor)).__name__,
    bool(torch.equal(edges(tensor), torch.from_numpy(found))),
)
