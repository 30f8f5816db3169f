"""The left channel of a noisy recording is smoothed in place, in NumPy and in torch."""

import numpy as np
import torch
from low_pass import low_pass


def by_numpy(signal: np.ndarray, rate: float) -> np.ndarray:
    """The same filter, one element after the other."""
    for _ in range(2):
        last, out = signal[0], np.empty_like(signal)
        for i, x in enumerate(signal):
            out[i] = last = last + rate * (x - last)
        signal = out[::-1]
    return signal


random = np.random.default_rng(0)
seconds = np.arange(8000) / 8000
tone = np.sin(2 * np.pi * 5 * seconds)
noise = random.normal(scale=0.5, size=(8000, 2))
recording = np.stack([tone, tone], axis=1) + noise  # two channels, interleaved
before = recording.copy()

low_pass(recording[:, 0], rate=0.05)  # every other element of the recording's memory
print("left, off the tone by", round(float(np.std(recording[:, 0] - tone)), 3))
untouched = np.array_equal(recording[:, 1], before[:, 1])
print("right, untouched:", round(float(np.std(recording[:, 1] - tone)), 3), untouched)
print(
    "the same as NumPy's:", np.allclose(recording[:, 0], by_numpy(before[:, 0], 0.05))
)

tensor = torch.from_numpy(before.astype(np.float32))
low_pass(tensor[:, 0], 0.05)
print(
    "torch, float32:",
    torch.allclose(tensor[:, 0].double(), torch.from_numpy(recording[:, 0]), atol=1e-4),
)
