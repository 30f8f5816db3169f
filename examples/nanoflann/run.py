"""Nearest neighbours in points of NumPy and of torch, compared with all distances computed one by one."""

import neighbours
import numpy as np
import torch

rng = np.random.default_rng(0)
points = rng.random((2000, 3), dtype=np.float32)
queries = rng.random((100, 3), dtype=np.float32)


def by_numpy(points, queries, k):
    distances = ((queries[:, None] - points) ** 2).sum(axis=2)
    return np.argsort(distances, axis=1)[:, :k]


tree = neighbours.tree(points)
distances, indices = tree.query(queries, 4)
print("found:", indices.shape, distances.dtype, indices.dtype)
print("the same as NumPy's:", np.array_equal(indices, by_numpy(points, queries, 4)))
print(
    "the tree reads the caller's points:",
    np.shares_memory(np.from_dlpack(tree.points), points),
)

# Every other point, read in place.
half = neighbours.tree(points[::2])
print(
    "of a slice, too:",
    np.array_equal(half.query(queries)[1], by_numpy(points[::2], queries, 1)),
)

found = tree.query(torch.from_numpy(queries), 4)[1]
print(
    "of a torch.Tensor a",
    type(found).__name__,
    bool(torch.equal(found, torch.from_numpy(indices))),
)

tree = neighbours.tree(points.astype(np.float64))  # nobody else holds these points
found = tree.query(queries.astype(np.float64), 4)[1]
print(
    "in float64, kept by the tree:",
    np.array_equal(found, by_numpy(points.astype(np.float64), queries, 4)),
)
