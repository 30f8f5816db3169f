"""examples/nanoflann, built as a user builds it: a well-known C++ library over the caller's own memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

np = pytest.importorskip("numpy")
nanobind = pytest.importorskip("nanobind")
pytest.importorskip("isthmus")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def neighbours(build_example: Callable[..., Path]) -> ModuleType:
    missing = {"nanoflann_dir": "nanoflann is not installed"}
    build = build_example("nanoflann", f"-Dnanobind_DIR={nanobind.cmake_dir()}", missing=missing)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(build))
        return importlib.import_module("neighbours")


POINTS = np.random.default_rng(0).random((500, 3), dtype=np.float32)
QUERIES = np.random.default_rng(1).random((20, 3), dtype=np.float32)


def nearest(k: int) -> np.ndarray:
    distances = ((QUERIES[:, None, :].astype(np.float64) - POINTS[None]) ** 2).sum(axis=2)
    return np.argsort(distances, axis=1)[:, :k]


def framework_array(name: str, x: np.ndarray) -> object:
    if name == "numpy":
        return x
    module = pytest.importorskip(name, exc_type=ImportError)
    return module.from_numpy(x) if name == "torch" else module.numpy.asarray(x)


@pytest.mark.parametrize("name", ["numpy", "torch", "jax"])
def test_the_answer_is_right_and_of_the_caller_s_kind(neighbours: ModuleType, name: str) -> None:
    points, queries = framework_array(name, POINTS), framework_array(name, QUERIES)
    distances, indices = neighbours.tree(points).query(queries, 4)
    assert type(distances) is type(indices) is type(queries)
    assert np.array_equal(np.asarray(indices), nearest(4))
    expected = ((QUERIES[:, None, :] - POINTS[nearest(4)]) ** 2).sum(axis=2)
    np.testing.assert_allclose(np.asarray(distances), expected, rtol=1e-5)


def test_the_points_stay_where_they_are(neighbours: ModuleType) -> None:
    points = np.asfortranarray(POINTS)
    tree = neighbours.tree(points)
    assert np.shares_memory(np.from_dlpack(tree.points), points)
    del points
    assert np.array_equal(tree.query(QUERIES)[1], nearest(1))


def test_the_errors_say_what_was_wanted(neighbours: ModuleType) -> None:
    tree = neighbours.tree(POINTS)
    with pytest.raises(ValueError, match=r"query\(\): argument 'x': .* d is 4 here and 3 in argument 'points'"):
        tree.query(np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match=r"argument 'x': expected float32\[m, d\] on cpu, got float64\[20, 3\]"):
        tree.query(QUERIES.astype(np.float64))
    with pytest.raises(ValueError, match=r"argument 'k': 501; wanted 1 to 500"):
        tree.query(QUERIES, 501)
