"""Frames of a camera in NumPy and torch, whose buffers return to the ring with the last array;
and a mapped recording."""

import tempfile
from pathlib import Path

import numpy as np
import torch
from camera import Camera, mapped

import isthmus

camera = Camera(h=120, w=160, buffers=3)
frame = np.asarray(camera.next())
i, j, c = np.indices(frame.shape)
print(
    "frame:",
    frame.shape,
    frame.dtype,
    np.array_equal(frame, (i + j + 80 * c).astype(np.uint8)),
)
print("aligned to 64 bytes:", frame.ctypes.data % 64 == 0)

address = frame.ctypes.data
# A view of torch's over the second buffer.
pixels = camera.next().to("torch").permute(2, 0, 1)
print("buffers that are left:", camera.available)
del frame
print("after one was dropped:", camera.available)
print("it is used again:", np.asarray(camera.next()).ctypes.data == address)
brightness = pixels.float().mean().item()
del camera  # the frames keep the ring
print("the second frame is what it was:", pixels.float().mean().item() == brightness)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "recording.raw"
    pixels.permute(1, 2, 0).numpy().tofile(path)
    recording = mapped(str(path))
print("mapped:", recording.shape, "read-only:", recording.read_only)
print(
    "the same bytes:",
    np.array_equal(np.asarray(recording).reshape(120, 160, 3), pixels.permute(1, 2, 0)),
)
try:
    recording.to("torch")
except isthmus.Error as error:
    print("torch:", error)
print("a copy, to write to:", torch.from_numpy(np.array(recording)).shape)
