"""A plate that is heated from Python and computed in C++, and a recording that grows while it is shown."""

import gc

import numpy as np
import torch
from grid import Grid, Recording


def heat_a_plate() -> None:
    plate = Grid(h=32, w=48)
    cells = np.asarray(plate.cells)  # no copy: the plate's own memory
    tensor = plate.cells.to("torch")  # the same memory once more
    cells[10:20, 10:20] = 100.0
    expected = cells.copy()
    for _ in range(20):
        plate.step()
        p = np.pad(expected, 1, mode="edge")
        expected = (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) / 4
    print(
        "NumPy and torch see the steps:",
        np.allclose(cells, expected),
        torch.equal(tensor, torch.from_numpy(cells)),
    )

    del plate  # the arrays keep it
    gc.collect()
    cells[0, 0] = 1.0
    print(
        "the plate lives on in its arrays:",
        tensor[0, 0].item(),
        np.isfinite(cells).all(),
    )


def show_a_recording() -> None:
    recording = Recording()
    recording.append(np.sin(np.arange(1000, dtype=np.float32)))
    first = np.asarray(recording.samples)
    sum_before = first.sum()
    for _ in range(100):
        recording.append(torch.rand(1000))
    print(
        "grown to",
        len(recording.samples),
        "samples; the first array is the same:",
        first.sum() == sum_before,
    )


heat_a_plate()
show_a_recording()
