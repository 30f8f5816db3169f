"""isthmus.load of .npz files, as NumPy writes and judges them: views where that can be, and one error for each flaw."""

from __future__ import annotations

import pickle
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isthmus

DTYPES = ["f8", "f4", "f2", "c8", "c16", "?", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1"]
ARRAYS: dict[str, Any] = {
    **{f"{dtype}.{i}": np.arange(6 * i).astype(dtype).reshape(i, 6) for dtype in DTYPES for i in range(3)},
    "no dimension": np.array(3.5),
    "column-major": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    "é": np.ones(3),
    "layer/weight": np.ones((2, 2), np.float32),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "arrays.npz"


def stored(path: Path, array: np.ndarray[Any, Any], aligned: bool = True) -> Path:
    """A file of one array "x" whose elements begin at a multiple of 64 bytes, or one byte behind it."""
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("x.npy")
        size = 30 + len(info.filename)  # a field of the header that nobody reads fills it up
        info.extra = b"\0\0" + (field := 64 * 2 - size - 4 + (not aligned)).to_bytes(2, "little") + bytes(field)
        with archive.open(info, "w") as file:
            np.lib.format.write_array(file, array)
    return path


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_of_numpy(path: Path, save: Callable[..., None]) -> None:
    save(path, **ARRAYS)
    loaded = isthmus.load(path)
    with np.load(path) as judge:
        assert list(loaded) == list(judge)
    assert dict(loaded.metadata) == {}
    for name, array in ARRAYS.items():
        for tensor in (loaded[name], loaded.copy(name)):
            assert (tensor.dtype, tensor.shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(tensor.to("numpy"), array)
        assert (loaded.copy(name).data_ptr % 64, loaded.copy(name).read_only) == (0, False)
    assert loaded["column-major"].byte_strides == ARRAYS["column-major"].strides


def test_what_is_aligned_is_not_copied(path: Path) -> None:
    loaded = isthmus.load(stored(path, np.arange(1000.0)))
    assert loaded["x"].read_only
    assert loaded["x"].data_ptr == loaded["x"].data_ptr
    assert loaded["x"].data_ptr != loaded.copy("x").data_ptr
    assert str(path) in Path("/proc/self/maps").read_text()
    writable = isthmus.load(path, access="copy_on_write")
    writable["x"].to("numpy")[0] = 7
    assert (writable["x"].to("numpy")[0], loaded["x"].to("numpy")[0]) == (7, 0)


@pytest.mark.parametrize("order", ["C", "F"])
def test_torch_has_pages_of_its_own(path: Path, order: Any) -> None:
    torch = pytest.importorskip("torch")
    loaded = isthmus.load(stored(path, np.arange(12.0).reshape(3, 4).copy(order)))
    x = loaded["x"].to("torch")
    assert torch.equal(x, torch.arange(12.0, dtype=torch.float64).reshape(3, 4))
    x.zero_()
    assert loaded["x"].to("numpy").sum() == 66


def test_what_is_not_aligned_is_copied(path: Path) -> None:
    loaded = isthmus.load(stored(path, np.arange(3.0), aligned=False))
    tensor = loaded["x"]
    assert (tensor.read_only, tensor.to("numpy").tolist()) == (False, [0, 1, 2])
    tensor.to("numpy")[0] = 5
    assert loaded["x"].to("numpy")[0] == 0
    assert isthmus.load(stored(path, np.arange(3, dtype=np.uint8), aligned=False))["x"].read_only


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.array([None], object), r"'\|O', Python objects, which are a pickle"),
        (np.array(["a"]), "'<U1', strings"),
        (np.array([b"a"]), r"'\|S1', byte strings"),
        (np.zeros(2, "M8[s]"), "dates"),
        (np.zeros(2, "m8[s]"), "time differences"),
        (np.zeros(2, "f4,i4"), r"\[\('f0', '<f4'\), .*, records"),
        (np.zeros(2, "V2"), r"'[|]V2', raw bytes"),
        (np.zeros(2, ">f4"), "'>f4'"),
        (np.zeros(2, np.longdouble), "'<f16'"),
    ],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_is_no_tensor(path: Path, array: Any, what: str, save: Callable[..., None]) -> None:
    save(path, x=array, y=np.ones(2))
    loaded = isthmus.load(path)
    for get in (loaded.__getitem__, loaded.copy, loaded.get):
        with pytest.raises(
            isthmus.TensorValueError, match=rf"arrays.npz': tensor 'x' has .*{what}.*; expected"
        ) as failed:
            get("x")
        assert failed.value.code == "bad_dtype"
    assert loaded["y"].shape == (2,)


def member(path: Path, content: bytes, method: int = zipfile.ZIP_STORED) -> isthmus.TensorFile:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", content)
    return isthmus.load(path)


def npy(header: str, elements: bytes = b"", version: int = 1) -> bytes:
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + len(header).to_bytes(2 if version == 1 else 4, "little")
        + (header.encode() + elements)
    )


def literal(descr: str = "'|u1'", order: str = "False", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


FLAWS = {
    "empty": b"",
    "magic": b"\x93NUMPX\1\0",
    "version": npy(literal(), b"ab", version=4),
    "no literal": npy("print()"),
    "code": npy("__import__('os').abort()"),
    "deep": npy("[" * 5000),
    "list": npy("[1]"),
    "long": npy(" " * 10_001),
    "cut": npy(literal())[:20],
    "no shape": npy("{'descr': '|u1', 'fortran_order': False}", b"ab"),
    "a shape that is none": npy(literal(shape="2"), b"ab"),
    "sizes that are none": npy(literal(shape="(2.0,)"), b"ab"),
    "a size of True": npy(literal(shape="(True,)"), b"a"),
    "negative": npy(literal(shape="(-2,)"), b"ab"),
    "overflow": npy(literal(shape=f"({2**62}, {2**62})"), b"ab"),
    "overflow of none": npy(literal(shape=f"(0, {2**62}, {2**62})")),
    "dimensions": npy(literal(shape=f"({'1,' * 65})"), b"a"),
    "an order that is none": npy(literal(order="2"), b"ab"),
    "too few": npy(literal(), b"a"),
    "too many": npy(literal(), b"abc"),
    "a dtype of a number": npy(literal(descr="7"), b"ab"),
}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("flaw", FLAWS)
def test_arrays_that_are_not_sound(path: Path, flaw: str, method: int) -> None:
    loaded = member(path, FLAWS[flaw], method)
    for get in (loaded.__getitem__, loaded.copy):
        with pytest.raises(isthmus.TensorValueError, match=r"arrays.npz': .*tensor 'x'"):
            get("x")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_versions_of_the_format(path: Path, version: int) -> None:
    loaded = member(path, npy(literal(), b"ab", version=version))
    assert bytes(memoryview(loaded["x"])) == b"ab"


def test_long_integers_of_python_2(path: Path) -> None:
    assert member(path, npy(literal(shape="(2L, 1L)"), b"ab"))["x"].shape == (2, 1)


def test_a_method_that_numpy_does_not_write(path: Path) -> None:
    with pytest.raises(isthmus.TensorValueError, match="'x' is compressed by method 12; expected 0 or 8"):
        member(path, npy(literal(), b"ab"), zipfile.ZIP_BZIP2)["x"]


def test_elements_that_do_not_have_their_checksum(path: Path) -> None:
    member(path, npy(literal(shape="(1000,)"), b"\1" * 1000), zipfile.ZIP_DEFLATED)
    content = path.read_bytes()
    central = content.index(b"PK\1\2")
    path.write_bytes(content[: central + 16] + b"abcd" + content[central + 20 :])
    with pytest.raises(isthmus.TensorValueError, match=r"tensor 'x': .*Bad CRC-32"):
        isthmus.load(path)["x"]


def test_a_promise_that_deflate_cannot_keep(path: Path) -> None:
    """An error before the memory is taken, and not once it turns out that there is nothing to fill it with."""
    promise = npy(literal(shape=f"({2**31},)"))
    member(path, promise, zipfile.ZIP_DEFLATED)
    content, size = path.read_bytes(), len(promise) + 2**31
    central = content.index(b"PK\1\2")
    path.write_bytes(content[: central + 24] + size.to_bytes(4, "little") + content[central + 28 :])
    with pytest.raises(isthmus.TensorValueError, match=r"tensor 'x' would have \d+ bytes in \d+ compressed ones"):
        isthmus.load(path)["x"]


def test_archives_that_are_not_sound(path: Path) -> None:
    np.savez(path, x=np.ones(3))
    content = path.read_bytes()
    for size in (len(content) - 1, len(content) // 2, 40, 9):
        path.write_bytes(content[:size])
        with pytest.raises(isthmus.TensorValueError, match=r"arrays.npz': not a sound .npz file") as failed:
            isthmus.load(path)
        assert failed.value.code == "bad_file"
    path.write_bytes(content.replace(b"PK\3\4", b"PK\3\5"))
    with pytest.raises(isthmus.Error):
        isthmus.load(path)
    first, header = content[:30], content.index(b"PK\1\2")
    path.write_bytes(first + content[30:header] + content[header:].replace(b"PK\1\2", b"PK\1\3", 1))
    with pytest.raises(isthmus.TensorValueError, match=r"not a sound .npz file"):
        isthmus.load(path)


def test_a_file_without_arrays(path: Path) -> None:
    np.savez(path)
    assert dict(isthmus.load(path)) == {}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\2}.")
    with pytest.raises(isthmus.TensorValueError, match=r"a zip archive, as torch.save\(\) writes; expected .npy files"):
        isthmus.load(path)


def test_the_interface_is_that_of_every_file(path: Path) -> None:
    np.savez_compressed(path, **{"encoder.weight": np.arange(3.0)})
    loaded = isthmus.load(path)
    with pytest.raises(KeyError, match=r"there is 'encoder.weight'"):
        loaded["encoder.weights"]
    assert loaded.get("x") is None
    assert repr(loaded) == f"<isthmus.TensorFile {str(path)!r}, 1 tensors, read_only>"
    assert pickle.loads(pickle.dumps(loaded))["encoder.weight"].to("numpy").tolist() == [0, 1, 2]
    with pytest.raises(isthmus.Error, match="'read_only' or 'copy_on_write'"):
        isthmus.load(path, access="shared")  # type: ignore[arg-type]
    with loaded:
        tensor = loaded["encoder.weight"]
    loaded.close()
    for use in (lambda: loaded["encoder.weight"], lambda: loaded.copy("encoder.weight"), lambda: pickle.dumps(loaded)):
        with pytest.raises(isthmus.TensorValueError, match="it was closed"):
            use()
    assert tensor.shape == (3,)
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_zlib_without_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> bytes:
        raise zlib.error("Error -4 while decompressing data")

    np.savez_compressed(path, x=np.ones(3))
    file = isthmus.load(path)
    monkeypatch.setattr(zipfile.ZipExtFile, "read", read)
    with pytest.raises(MemoryError, match="Error -4"):
        file["x"]
