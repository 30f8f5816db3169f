"""nanoflann through Isthmus, side by side with SciPy's KDTree, the nearest-neighbour search that Python users know."""

import time

import jax
import neighbours
import numpy as np
import torch
from scipy.spatial import KDTree


def best(function, repeat=7, number=1):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(number):
            function()
        times.append((time.perf_counter() - start) / number)
    return min(times)


def said(function):
    try:
        result = function()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return f"{type(result).__name__}, taken"


points = np.random.default_rng(0).random((100_000, 3), dtype=np.float32)
queries = points[:1000] + np.float32(0.001)
ours, theirs = neighbours.tree(points), KDTree(points)

_, found = ours.query(queries, 5)
assert (found == theirs.query(queries, 5)[1]).mean() > 0.999  # ties aside

print("the caller's framework, in place")
for x in (queries, torch.from_numpy(queries), jax.numpy.asarray(queries)):
    name = f"{type(x).__module__.split('.')[0]}.{type(x).__name__}"
    mine, others = ours.query(x)[1], theirs.query(x)[1]
    kinds = [
        f"{type(y).__module__.split('.')[0]}.{type(y).__name__}" for y in (mine, others)
    ]
    print(f"  {name:20} -> neighbours {kinds[0]:20} scipy {kinds[1]}")
print(
    "  the tree's points are the caller's:",
    np.shares_memory(np.from_dlpack(ours.points), points),
)
print(
    "  SciPy's are a copy, twice as large:",
    not np.shares_memory(theirs.data, points),
    theirs.data.dtype,
)

one, tensor = queries[:1], torch.from_numpy(queries)
print("\nthe cost")
rows = {
    "tree of 100,000 points": (
        lambda: neighbours.tree(points),
        lambda: KDTree(points),
        1,
    ),
    "nearest of one point": (lambda: ours.query(one), lambda: theirs.query(one), 1000),
    "nearest of 1,000 points": (
        lambda: ours.query(queries),
        lambda: theirs.query(queries),
        1,
    ),
    "the same, a torch.Tensor": (
        lambda: ours.query(tensor),
        lambda: torch.from_numpy(theirs.query(tensor)[1]),
        1,
    ),
}
for name, (mine, others, number) in rows.items():
    a, b = best(mine, number=number), best(others, number=number)
    print(f"  {name:26} neighbours {a * 1e6:10,.1f} us   scipy {b * 1e6:10,.1f} us")

print("\nthe errors")
wrong = {
    "four coordinates": np.zeros((2, 4), np.float32),
    "float64 queries": queries.astype(np.float64),
    "integers": np.zeros((2, 3), np.int64),
    "a gradient": torch.zeros(2, 3, requires_grad=True),
    "a string": "points",
}
for name, x in wrong.items():
    print(f"  {name}\n    neighbours {said(lambda x=x: ours.query(x))}")
    print(f"    scipy      {said(lambda x=x: theirs.query(x))}")
