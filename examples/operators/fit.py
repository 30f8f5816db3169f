"""Moves points onto a circle by the distance to its nearest points: with torch, with JAX, and checked with NumPy."""

import sys

import jax
import nearest
import numpy as np
import torch

angles = np.linspace(0, 2 * np.pi, 400, endpoint=False)
circle = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
start = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
STEPS, RATE = 40, 5.0


def fit_with_torch(backend: str) -> np.ndarray:
    target, points = (
        torch.from_numpy(circle),
        torch.from_numpy(start.copy()).requires_grad_(),
    )

    @torch.compile(fullgraph=True, backend=backend)
    def loss(points: torch.Tensor) -> torch.Tensor:
        return nearest.nearest(target, points)[0].mean()

    optimizer = torch.optim.SGD([points], lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(points).backward()
        optimizer.step()
    return points.detach().numpy()


def fit_with_jax() -> np.ndarray:
    @jax.jit
    def step(points: jax.Array) -> jax.Array:
        return points - RATE * jax.grad(lambda x: nearest.nearest(circle, x)[0].mean())(
            points
        )

    points = jax.numpy.asarray(start)
    for _ in range(STEPS):
        points = step(points)
    return np.asarray(points)


fits = {
    "torch.compile": fit_with_torch(sys.argv[1] if len(sys.argv) > 1 else "inductor"),
    "jax.jit": fit_with_jax(),
}
# One call for the start and both results: the leading dimension broadcasts over it.
distances, indices = nearest.nearest.ufunc(circle, np.stack([start, *fits.values()]))
for name, row in zip(["start", *fits], distances, strict=True):
    print(f"{name:14} mean squared distance to the circle {row.mean():.6f}")
print(
    f"{'both fits':14} {'agree' if np.allclose(*fits.values(), atol=1e-4) else 'differ'}"
)
