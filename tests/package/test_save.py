"""isthmus.save: files that the safetensors package reads, of every framework's tensors, without copies."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isthmus

st_numpy = pytest.importorskip("safetensors.numpy")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def header_of(path: Path) -> tuple[dict[str, Any], int]:
    """The header, and where the elements begin."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]), 8 + size


def test_the_package_reads_it(path: Path) -> None:
    dtypes = ["bool", "complex64", "float16", "float32", "float64"]
    dtypes += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    arrays = {f"{d}.{i}": np.arange(3 * i).astype(d).reshape(i, 3) for d in dtypes for i in range(3)}
    arrays["é\n"] = np.float32(3) * np.ones(())
    isthmus.save(path, arrays, metadata={"format": "pt", "ü": '"'})
    again = st_numpy.load_file(path)
    assert sorted(again) == sorted(arrays)
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        np.testing.assert_array_equal(again[name], array)
    loaded = isthmus.load(path)
    assert loaded.metadata == {"format": "pt", "ü": '"'}
    assert all(loaded[name].shape == array.shape for name, array in arrays.items()), "none is unaligned"
    assert header_of(path)[1] % 64 == 0
    assert [entry for entry in os.listdir(path.parent) if entry != path.name] == []


def test_layouts(path: Path) -> None:
    grid = np.arange(24.0).reshape(4, 6)
    arrays = {"T": grid.T, "part": grid[1:, ::2], "back": grid[::-1], "none": grid[:0], "one": grid[2, 3, ...]}
    isthmus.save(path, arrays)
    for name, tensor in isthmus.load(path).items():
        np.testing.assert_array_equal(tensor.to("numpy"), arrays[name])


def test_a_state_dict_of_torch(path: Path) -> None:
    torch = pytest.importorskip("torch")
    st_torch = pytest.importorskip("safetensors.torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).to(torch.bfloat16)
    for tensors in (model.state_dict(), dict(model.named_parameters())):
        isthmus.save(path, tensors)
        again = st_torch.load_file(path)
        assert set(isthmus.load(path)) == set(again) == set(tensors)
        assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize(
    "dtype",
    ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"],
)
def test_small_floats_of_torch(path: Path, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    st_torch = pytest.importorskip("safetensors.torch")
    x = torch.arange(12, dtype=torch.uint8).view(getattr(torch, dtype)).reshape(3, 4)
    isthmus.save(path, {"x": x})
    theirs = path.with_suffix(".theirs")
    st_torch.save_file({"x": x}, theirs)
    assert header_of(path)[0] == header_of(theirs)[0]
    again = isthmus.load(path)["x"].to("torch")
    assert (again.dtype, again.shape) == (x.dtype, x.shape)
    assert torch.equal(again.view(torch.uint8), x.view(torch.uint8))


@pytest.mark.parametrize(("dtype", "size"), [("F6_E2M3", 3), ("F6_E3M2", 3), ("F4", 2)])
def test_what_was_loaded(path: Path, dtype: str, size: int) -> None:
    header = json.dumps({"x": {"dtype": dtype, "shape": [4], "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(range(size)))
    isthmus.save(path, isthmus.load(path))
    assert header_of(path)[0] == json.loads(header)
    assert path.read_bytes().endswith(bytes(range(size)))


def test_every_framework(path: Path) -> None:
    tensors: dict[str, Any] = {"numpy": np.ones(3), "ours": isthmus.empty((0, 2)), "bytes": bytearray(b"abc")}
    for name in ("torch", "jax", "tensorflow", "mlx"):
        try:
            tensors[name] = isthmus.from_dlpack(np.ones(3, np.float32)).to(name, allow_copy=True)
        except isthmus.Error:
            continue
    isthmus.save(path, tensors)
    assert {name: tensor.shape for name, tensor in isthmus.load(path).items()} == {
        name: (0, 2) if name == "ours" else (3,) for name in tensors
    }


def test_nothing_is_copied(path: Path) -> None:
    arrays = {str(i): np.ones(1_000_000, np.float32) for i in range(4)}
    tracemalloc.start()
    try:
        isthmus.save(path, arrays)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_who_has_loaded_it_keeps_it(path: Path) -> None:
    isthmus.save(path, {"x": np.zeros(100_000)})
    loaded = isthmus.load(path)["x"].to("numpy")
    path.chmod(0o640)
    isthmus.save(path, {"x": np.ones(1)})
    assert loaded.sum() == 0
    assert isthmus.load(path)["x"].to("numpy").tolist() == [1]
    assert path.stat().st_mode & 0o777 == 0o640
    link = path.with_name("link")
    link.symlink_to(path)
    isthmus.save(link, {"x": np.ones(2)})
    assert link.is_symlink()
    assert isthmus.load(path)["x"].shape == (2,)


def test_a_failure_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isthmus.save(path, {"x": np.ones(1)})
    before = path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        isthmus.save(path, {"x": np.zeros(1)})
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        isthmus.save(path / ".." / "none" / "x", {})


class Failing:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: object) -> object:
        raise RuntimeError("the disk of it is gone")


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ([np.ones(1)], "argument 'tensors': found 'list'; expected a mapping of names to tensors"),
        ({1: np.ones(1)}, "argument 'tensors': found 1; expected names that are texts"),
        ({"__metadata__": np.ones(1)}, "expected another name"),
        ({"\ud800": np.ones(1)}, "expected texts that UTF-8 can hold"),
        ({"x": 3}, "argument 'tensors': tensor 'x': expected a tensor .*int"),
        ({"x": {"y": np.ones(1)}}, "argument 'tensors': tensor 'x': "),
        ({"x": np.ones(1, complex)}, "argument 'tensors': found \"'x' of complex128\"; expected one of int8, "),
        ({"x": Failing()}, "tensor 'x': .*the disk of it is gone"),
    ],
)
def test_what_cannot_be_saved(path: Path, tensors: Any, text: str) -> None:
    with pytest.raises(isthmus.Error, match=text):
        isthmus.save(path, tensors)
    assert os.listdir(path.parent) == []


def test_other_arguments(tmp_path: Path) -> None:
    for wrong in ({"a": 1}, {1: "a"}, 3):
        with pytest.raises(isthmus.TensorTypeError, match=r"argument 'metadata': found .*expected a mapping of texts"):
            isthmus.save(tmp_path / "x", {}, metadata=wrong)  # type: ignore[arg-type]
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(isthmus.TensorValueError, match="expected the path of a regular file"):
            isthmus.save(tmp_path / name, {})
    with pytest.raises(FileNotFoundError) as info:
        isthmus.save(tmp_path / "nowhere" / "x", {})
    assert info.value.filename == str(tmp_path / "nowhere" / "x")
    for text in ("a\0b", b"a\0b", "\0"):
        with pytest.raises(isthmus.TensorValueError, match=r"argument 'path': found .*; expected a path without a NUL"):
            isthmus.save(text, {})
    isthmus.save(tmp_path / "empty", {})
    assert len(isthmus.load(tmp_path / "empty")) == 0


def test_a_header_that_nobody_would_load(path: Path) -> None:
    """100 million bytes are the most for the format's own library, and for load()."""
    longest = 100_000_000 - len('{"__metadata__":{"a":""}}')
    with pytest.raises(isthmus.TensorValueError, match=r"found a header of 1\d{8} bytes; expected at most 100000000"):
        isthmus.save(path, {}, metadata={"a": "x" * (longest + 1)})
    assert os.listdir(path.parent) == []
    isthmus.save(path, {}, metadata={"a": "x" * (longest - 64)})
    with pytest.importorskip("safetensors").safe_open(path, framework="np") as judge:
        assert len(judge.metadata()["a"]) == len(isthmus.load(path).metadata["a"]) == longest - 64
