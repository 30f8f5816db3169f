"""The demo's extension, compiled as a user would and compared with NumPy's arithmetic."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import isthmus

DEMO = Path(__file__).resolve().parents[2] / "examples" / "photo"
CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")

pytestmark = [
    pytest.mark.skipif(CXX is None, reason="no C++ compiler"),
    pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer"),
]


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    module = tmp_path_factory.mktemp("photo") / "photo.so"
    flags = ["-O0", "-shared", *isthmus.get_cflags()]
    subprocess.run([str(CXX), *flags, str(DEMO / "photo.cpp"), *isthmus.get_ldflags(), "-o", str(module)], check=True)
    spec = importlib.util.spec_from_file_location("photo", module)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, (19, 23, 3), dtype=np.uint8)


def toned(image: np.ndarray) -> np.ndarray:
    weights = np.array([[0.393, 0.769, 0.189], [0.349, 0.686, 0.168], [0.272, 0.534, 0.131]])
    return np.clip(image @ weights.T, 0, 255)


def test_sepia_in_place(photo, image):
    wanted = toned(image)
    assert photo.sepia(image) is None
    np.testing.assert_allclose(image, wanted, atol=0.51)


def test_sepia_of_a_view_leaves_the_rest(photo, image):
    before = image.copy()
    photo.sepia(image[2:-3, ::-2])
    np.testing.assert_allclose(image[2:-3, ::-2], toned(before[2:-3, ::-2]), atol=0.51)
    np.testing.assert_array_equal(image[:2], before[:2])
    np.testing.assert_array_equal(image[:, 1::2], before[:, 1::2])


def test_blur(photo, image):
    flat = np.full((9, 9, 3), 77, np.uint8)
    photo.blur(flat, 3)
    assert (flat == 77).all()
    before = image.copy()
    photo.blur(image, 2)
    assert image.std() < before.std() / 2
    np.testing.assert_allclose(image.mean(), before.mean(), rtol=0.05)
    photo.blur(before, 0)
    photo.blur(np.zeros((0, 5, 3), np.uint8), 4)
    with pytest.raises(ValueError, match="'radius': found -1"):
        photo.blur(before, -1)


def test_sharpened(photo, image):
    wanted = image.astype(float)
    padded = np.pad(wanted, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]) / 4
    before = image.copy()
    sharper = photo.sharpened(image, 1.5)
    assert type(sharper) is np.ndarray
    np.testing.assert_allclose(sharper, np.clip(wanted + 1.5 * (wanted - around), 0, 255), atol=0.51)
    np.testing.assert_array_equal(image, before)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax.numpy"])
def test_results_are_of_the_callers_framework(photo, image, framework):
    module = pytest.importorskip(framework)
    theirs = module.asarray(image)
    means = photo.mean(theirs)
    assert isinstance(means, type(theirs))
    np.testing.assert_allclose(np.asarray(means), image.mean(axis=(0, 1)), rtol=1e-5)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        (np.zeros((4, 4), np.uint8), "number of dimensions|dimensions"),
        (np.zeros((4, 4, 3), np.float32), "dtype|float32"),
        (np.zeros((4, 4, 4), np.uint8), "dimension 2 has size 4, expected 3"),
        (np.broadcast_to(np.uint8(1), (4, 4, 3)), "read-only"),
        ("picture.png", "expected a tensor"),
    ],
    ids=["ndim", "dtype", "channels", "read-only", "text"],
)
def test_bad_images(photo, image, text):
    with pytest.raises(isthmus.Error, match=f"argument 'image': .*({text})"):
        photo.sepia(image)


def test_immutable_arrays_are_refused(photo, image):
    jax_numpy = pytest.importorskip("jax.numpy")
    with pytest.raises(isthmus.TensorValueError, match=r"argument 'image': .*read-only; expected writable"):
        photo.sepia(jax_numpy.asarray(image))
