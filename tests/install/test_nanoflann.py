"""examples/nanoflann, followed as its README says: a well-known C++ library over the caller's own memory."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from types import ModuleType

import pytest
import readmes

np = pytest.importorskip("numpy")
pytest.importorskip("nanobind")
pytest.importorskip("torch")
pytest.importorskip("isthmus")

pytestmark = pytest.mark.slow


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "nanoflann"


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The module that the README's commands build, after what it shows is compared; SciPy's part is left out."""
    if shutil.which("cmake", path=readmes.PATH) is None:
        pytest.skip("cmake is not installed")
    folder = tmp_path_factory.mktemp("tutorial")
    try:
        readmes.follow(EXAMPLE, folder, leave_out="compare.py")
    except AssertionError as failed:
        if "Could not find nanoflann_dir" in str(failed):
            pytest.skip("nanoflann is not installed: apt install libnanoflann-dev")
        raise
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / EXAMPLE.name / "build"))
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


def test_points_that_do_not_fit_are_named(neighbours: ModuleType) -> None:
    with pytest.raises(
        ValueError, match=r"tree\(\): argument 'points': expected float32\[n, d\] on cpu, got int32\[500, 3\]"
    ):
        neighbours.tree(POINTS.astype("int32"))
