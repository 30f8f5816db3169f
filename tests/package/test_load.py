"""isthmus.load: files that the safetensors package writes and judges, to every framework, without copies."""

from __future__ import annotations

import gc
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isthmus

safetensors = pytest.importorskip("safetensors")
st_numpy = pytest.importorskip("safetensors.numpy")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def write(path: Path, header: bytes, elements: bytes = b"") -> Path:
    path.write_bytes(struct.pack("<Q", len(header)) + header + elements)
    return path


def one(path: Path, dtype: str, shape: list[int], elements: bytes) -> Path:
    """A file of one tensor "x" whose elements begin at a multiple of 64 bytes."""
    header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, len(elements)]}}).encode()
    return write(path, header.ljust(-(-(len(header) + 8) // 64) * 64 - 8), elements)


NUMPY_DTYPES = [
    *("float64", "float32", "float16", "complex64", "bool"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"),
]


def test_a_file_of_the_package(path: Path) -> None:
    arrays = {f"{dtype}.{i}": np.arange(6 * i).astype(dtype).reshape(i, 6) for dtype in NUMPY_DTYPES for i in range(3)}
    st_numpy.save_file(arrays, path, metadata={"format": "np", "é": "ü"})
    loaded = isthmus.load(path)
    assert len(loaded) == len(arrays)
    assert set(loaded) == set(arrays)
    assert loaded.metadata == {"format": "np", "é": "ü"}
    assert loaded.path == str(path)
    for name, tensor in loaded.items():
        assert isinstance(tensor, isthmus.Tensor)
        array = tensor.to("numpy")
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name])
        assert not array.flags.writeable


TORCH_DTYPES = [
    *NUMPY_DTYPES,
    *("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_every_dtype_of_torch(path: Path, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    st_torch = pytest.importorskip("safetensors.torch")
    x = (
        torch.arange(64, dtype=torch.uint8).view(getattr(torch, dtype))
        if dtype != "bool"
        else torch.arange(64) % 2 == 0
    )
    st_torch.save_file({"x": x}, path)
    tensor = isthmus.load(path)["x"]
    assert tensor.dtype == dtype
    y = tensor.to("torch")
    assert y.dtype == x.dtype
    assert torch.equal(y.view(torch.uint8), x.view(torch.uint8))


@pytest.mark.parametrize(
    ("dtype", "name", "shape", "size"),
    [("F4", "float4_e2m1fn", [3, 2], 3), ("F6_E2M3", "float6_e2m3fn", [4], 3), ("F6_E3M2", "float6_e3m2fn", [2, 4], 6)],
)
def test_packed_dtypes(path: Path, dtype: str, name: str, shape: list[int], size: int) -> None:
    tensor = isthmus.load(one(path, dtype, shape, bytes(range(size))))["x"]
    assert (tensor.dtype, tensor.shape, tensor.nbytes) == (name, tuple(shape), size)


def test_float4_of_torch(path: Path) -> None:
    """Two elements of the file are one of torch."""
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "float4_e2m1fn_x2"):
        pytest.skip("this PyTorch has no float4")
    loaded = isthmus.load(one(path, "F4", [2, 6], bytes(range(6))), access="copy_on_write")["x"]
    x = loaded.to("torch")
    assert (x.dtype, x.shape, x.data_ptr()) == (torch.float4_e2m1fn_x2, (2, 3), loaded.data_ptr)
    assert x.view(torch.uint8).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isthmus.load(path)["x"].to("torch").view(torch.uint8)[1].tolist() == [3, 4, 5]
    with pytest.raises(isthmus.Error, match="which takes an even last dimension"):
        isthmus.load(one(path, "F4", [2, 3], bytes(3)))["x"].to("torch")


def test_nothing_is_copied(path: Path) -> None:
    st_numpy.save_file({"a": np.ones((1000, 1000), np.float32), "b": np.zeros(3, np.uint8)}, path)
    loaded = isthmus.load(path)
    pointers = [loaded["a"].data_ptr, np.asarray(loaded["a"]).ctypes.data, memoryview(loaded["a"]).nbytes]
    assert pointers[0] == pointers[1]
    assert pointers[2] == 4_000_000
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]
    assert any(int(line.split("-")[0], 16) <= pointers[0] < int(line.split("-")[1].split()[0], 16) for line in mapped)


def test_the_mapping_ends_with_the_last_view(path: Path) -> None:
    st_numpy.save_file({"a": np.ones(1000, np.float32)}, path)
    array = np.asarray(isthmus.load(path)["a"])
    gc.collect()
    assert str(path) in Path("/proc/self/maps").read_text()
    path.unlink()
    assert array.sum() == 1000
    del array
    gc.collect()
    assert str(path) not in Path("/proc/self/maps").read_text()


class TestTorchAndReadOnlyMemory:
    @pytest.fixture(autouse=True)
    def torch(self) -> Any:
        return pytest.importorskip("torch")

    def test_what_torch_writes_is_its_own(self, path: Path) -> None:
        st_numpy.save_file({"a": np.zeros(6, np.float32), "b": np.ones(6, np.float32)}, path)
        before = path.read_bytes()
        loaded = isthmus.load(path)
        array = np.asarray(loaded["a"])
        x = loaded["a"].to("torch")
        x += 5
        assert x.tolist() == [5] * 6
        assert array.tolist() == [0] * 6
        assert np.asarray(loaded["a"]).tolist() == [0] * 6
        assert isthmus.load(path)["a"].to("torch").tolist() == [0] * 6
        assert path.read_bytes() == before
        assert loaded["b"].to("torch").tolist() == [1] * 6

    def test_two_of_torch_share(self, path: Path) -> None:
        st_numpy.save_file({"a": np.zeros(6, np.float32)}, path)
        loaded = isthmus.load(path)
        x, y = loaded["a"].to("torch"), loaded["a"].to("torch")
        x[2] = 7
        assert y[2] == 7

    def test_a_part_of_a_tensor(self, path: Path) -> None:
        st_numpy.save_file({"a": np.arange(12, dtype=np.float32).reshape(3, 4)}, path)
        tensor = isthmus.load(path)["a"]
        x = tensor[1:, ::2].to("torch")
        assert x.tolist() == [[4, 6], [8, 10]]
        x.zero_()
        assert np.asarray(tensor)[1, 0] == 4

    def test_it_outlives_the_file(self, path: Path) -> None:
        st_numpy.save_file({"a": np.ones(6, np.float32)}, path)
        x = isthmus.load(path)["a"].to("torch")
        gc.collect()
        x *= 3
        assert x.sum() == 18

    def test_empty_tensors(self, path: Path) -> None:
        st_numpy.save_file({"a": np.ones((0, 3), np.float32)}, path)
        assert isthmus.load(path)["a"].to("torch").shape == (0, 3)

    def test_read_only_memory_without_other_pages_is_refused_as_ever(self) -> None:
        with pytest.raises(isthmus.Error, match="read-only, and torch would let it be written"):
            isthmus.empty((3,)).as_read_only().to("torch")

    def test_copy_on_write(self, path: Path) -> None:
        st_numpy.save_file({"a": np.zeros(6, np.float32)}, path)
        before = path.read_bytes()
        loaded = isthmus.load(path, access="copy_on_write")
        array = np.asarray(loaded["a"])
        array[:] = 3
        assert loaded["a"].to("torch").tolist() == [3] * 6
        with pytest.raises(isthmus.Error, match="read-only, and torch would let it be written"):
            loaded["a"].as_read_only().to("torch")
        assert path.read_bytes() == before


@pytest.mark.parametrize("framework", ["torch", "numpy", "jax", "tensorflow", "paddle"])
def test_every_framework(path: Path, framework: str) -> None:
    if framework == "paddle" and "tensorflow" in sys.modules:
        pytest.skip("importing PaddlePaddle ends a process that has TensorFlow; run this test alone")
    pytest.importorskip(framework)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = isthmus.load(one(path, "F32", [2, 3], x.tobytes()))["x"].to(framework)
    np.testing.assert_array_equal(np.asarray(y), x)


def test_elements_that_are_not_aligned(path: Path) -> None:
    header = (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}}'
    )
    loaded = isthmus.load(write(path, header, b"\x01" + struct.pack("<d", 2.5)))
    with pytest.raises(
        isthmus.TensorBufferError, match=r"tensor 'b' begins at byte \d+ of its file.*copy\('b'\) has it"
    ) as failed:
        loaded["b"]
    assert failed.value.code == "needs_copy"
    copy = loaded.copy("b")
    assert not copy.read_only
    assert copy.data_ptr % 64 == 0
    assert copy.to("numpy").tolist() == [2.5]


HEADERS = {
    "sound": b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "spaces": b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}   ',
    "any order": (
        b'{"b":{"shape":[1],"data_offsets":[3,4],"dtype":"U8"},"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}'
    ),
    "metadata": b'{"__metadata__":{"a":"b"},"a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}',
    "escapes": rb'{"\u00e9\ud83d\ude00\n":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}',
    "no elements": (
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}'
    ),
    "a hole": (
        b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}'
    ),
    "an overlap": (
        b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}'
    ),
    "cut short": b'{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}}',
    "too long": b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}',
    "wrong size": b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,4]}}',
    "overflow": b'{"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,4]}}',
    "negative": b'{"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}}',
    "unknown dtype": b'{"a":{"dtype":"Q8","shape":[4],"data_offsets":[0,4]}}',
    "backwards": b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}}',
    "no dtype": b'{"a":{"shape":[4],"data_offsets":[0,4]}}',
    "dtype twice": b'{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "not an object": b"[1,2]",
    "no text": b'{"a":{"dtype":U8,"shape":[4],"data_offsets":[0,4]}}',
    "not UTF-8": b'{"\xff":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "metadata of numbers": b'{"__metadata__":{"a":1},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "half a surrogate": rb'{"\ud83d":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "a space first": b' {"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "a NUL at the end": b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}\0',
    "names twice": (
        b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}}'
    ),
    "names twice, for two parts": (
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}'
    ),
    "fields that are not known": (
        b'{"a":{"scale":[-2.5e+3,0,{"b":[true,false,null,"x"]}],"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
    ),
    **{
        f"a field of {value[:9]} {len(value)}": b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"b":%b}}'
        % value.encode()
        for value in [
            *("01", "-", "1.", ".5", "1e", "+1", "nul", "", "[1,]", "'x'"),
            *("[" * 124 + "]" * 124, "[[" * 64 + "]]" * 64, "[" * 100_000),
        ]
    },
    "no metadata": b'{"__metadata__":null,"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}',
    "no metadata, twice": (
        b'{"__metadata__":null,"__metadata__":null,"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'
    ),
    "bytes that end within an element": b'{"a":{"dtype":"F4","shape":[7],"data_offsets":[0,4]}}',
}


@pytest.mark.parametrize("case", HEADERS)
def test_the_package_judges_as_we_do(path: Path, case: str) -> None:
    write(path, HEADERS[case], b"abcd")
    try:
        with safetensors.safe_open(path, framework="np") as judge:
            names = set(judge.keys())
    except safetensors.SafetensorError:
        with pytest.raises(isthmus.TensorValueError) as failed:
            isthmus.load(path)
        assert failed.value.code == "bad_file"
        assert str(failed.value).startswith(f"{str(path)!r}: ") or str(path) in str(failed.value)
    else:
        assert set(isthmus.load(path)) == names


def test_what_the_package_lets_pass(path: Path) -> None:
    """A space before the header, fields of later versions, a null for no metadata, a name twice."""
    sound = b'{"dtype":"I8","shape":[4],"data_offsets":[0,4]}'
    scaled = HEADERS["fields that are not known"]
    for header in (b" " + HEADERS["sound"], scaled, b'{"__metadata__":null,"a":' + sound + b"}"):
        loaded = isthmus.load(write(path, header, b"abcd"))
        assert (dict(loaded.metadata), loaded["a"].shape) == ({}, (4,))
    assert isthmus.load(write(path, HEADERS["names twice"], b"abcd"))["a"].dtype == "int8"


def test_a_name_that_no_terminal_should_see(path: Path) -> None:
    """A NUL would end the text in C, and the rest drives a terminal."""
    write(path, rb'{"a\u0000\u001b[2J":{"dtype":"Q8","shape":[4],"data_offsets":[0,4]}}', b"abcd")
    with pytest.raises(isthmus.TensorValueError, match=r"tensor 'a\\x00\\x1b\[2J' has the dtype 'Q8', which"):
        isthmus.load(path)


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as failed:
        isthmus.load(tmp_path / "none.safetensors")
    assert failed.value.filename == tmp_path / "none.safetensors"
    with pytest.raises(isthmus.TensorValueError, match=r"found 'a\\x00b'; expected a path without a NUL"):
        isthmus.load("a\0b")
    with pytest.raises(TypeError):
        isthmus.load(5)  # type: ignore[arg-type]
    with pytest.raises(isthmus.Error, match="'read_only' or 'copy_on_write'"):
        isthmus.load(one(tmp_path / "a", "U8", [1], b"a"), access="shared")  # type: ignore[arg-type]
    with pytest.raises(isthmus.Error, match="argument 'access'"):
        isthmus.load(tmp_path / "a", access="mine")  # type: ignore[arg-type]
    with pytest.raises(isthmus.Error, match=r"found 'copy_on_write\\x00'"):
        isthmus.load(tmp_path / "a", access="copy_on_write\0")  # type: ignore[arg-type]


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(isthmus.TensorValueError, match=r"expected a folder with a .safetensors file or its index"):
        isthmus.load(tmp_path)
    st_numpy.save_file({"a": np.zeros(3)}, tmp_path / "1.safetensors")
    assert list(isthmus.load(tmp_path)) == ["a"]
    st_numpy.save_file({"b": np.zeros(3)}, tmp_path / "2.safetensors")
    with pytest.raises(isthmus.TensorValueError, match=r"expected one of 1.safetensors, 2.safetensors in it"):
        isthmus.load(tmp_path)
    shards = {"a": "1.safetensors", "b": "2.safetensors"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    assert list(isthmus.load(tmp_path)) == ["a", "b"]


def test_with(path: Path) -> None:
    st_numpy.save_file({"a": np.ones(3)}, path)
    with isthmus.load(path) as loaded:
        array = loaded["a"].to("numpy")
    assert array.sum() == 3
    for use in (lambda: loaded["a"], lambda: loaded.get("a"), lambda: loaded.copy("a"), lambda: pickle.dumps(loaded)):
        with pytest.raises(isthmus.TensorValueError, match="it was closed; expected an open TensorFile"):
            use()
    del array
    gc.collect()
    assert str(path) not in Path("/proc/self/maps").read_text()


INTERRUPTED = r"""
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
/* open() of a slow file system, which signals interrupt three times. */
int open64(const char* path, int flags, ...) {
    static int times;
    if (strstr(path, ".safetensors") && times++ < 3) return raise(SIGUSR1), errno = EINTR, -1;
    return (int)syscall(SYS_openat, -100, path, flags, 0600);
}
int open(const char* path, int flags, ...) __attribute__((alias("open64")));
"""


def test_an_interrupted_open_goes_on(tmp_path: Path) -> None:
    """Until a signal's handler raises, as that of Ctrl-C does."""
    compiler = shutil.which("cc")
    if compiler is None or "ISTHMUS_SANITIZER" in os.environ:
        pytest.skip("no C compiler, or a sanitizer that is to be loaded first")
    path, library = tmp_path / "model.safetensors", tmp_path / "slow.so"
    st_numpy.save_file({"a": np.ones(3)}, path)
    path.with_name("slow.c").write_text(INTERRUPTED)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, path.with_name("slow.c")], check=True, timeout=60)
    code = f"""if True:
        import os, signal
        calls = []
        def handler(*_):
            calls.append(1)
            if len(calls) == 3 and os.environ["RAISES"]: raise KeyboardInterrupt("now")
        signal.signal(signal.SIGUSR1, handler)
        import isthmus
        try:
            print(isthmus.load({str(path)!r})["a"].shape, len(calls))
        except KeyboardInterrupt as e:
            print(e, len(calls))
    """
    for raises, printed in (("", "(3,) 3\n"), ("1", "now 3\n")):
        environment = {**os.environ, "LD_PRELOAD": str(library), "RAISES": raises}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_names_that_are_not_there(path: Path) -> None:
    st_numpy.save_file({"encoder.weight": np.ones(1)}, path)
    loaded = isthmus.load(path)
    with pytest.raises(KeyError, match=r"no tensor 'encoder.weights' among the 1 of .*; there is 'encoder.weight'"):
        loaded["encoder.weights"]
    with pytest.raises(KeyError):
        loaded.copy("x")
    with pytest.raises(KeyError):
        loaded[3]  # type: ignore[index]
    assert loaded.get("x") is None
    assert "encoder.weight" in loaded
    assert 3 not in loaded
    assert repr(loaded) == f"<isthmus.TensorFile {str(path)!r}, 1 tensors, read_only>"


class TestShards:
    def index(self, folder: Path, weights: dict[str, Any]) -> Path:
        path = folder / "model.safetensors.index.json"
        path.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": weights}))
        return path

    def test_the_tensors_of_all(self, tmp_path: Path) -> None:
        st_numpy.save_file({"a": np.zeros(3, np.float32)}, tmp_path / "1.safetensors")
        st_numpy.save_file({"b": np.ones(3, np.float32)}, tmp_path / "2.safetensors")
        loaded = isthmus.load(self.index(tmp_path, {"a": "1.safetensors", "b": "2.safetensors"}))
        assert list(loaded) == ["a", "b"]
        assert loaded.metadata == {"total_size": "24"}
        assert loaded["b"].to("numpy").tolist() == [1, 1, 1]
        assert loaded.copy("a").to("numpy").tolist() == [0, 0, 0]
        with pytest.raises(KeyError):
            loaded["c"]

    def test_a_shard_is_opened_when_it_is_needed(self, tmp_path: Path) -> None:
        st_numpy.save_file({"a": np.zeros(3, np.float32)}, tmp_path / "1.safetensors")
        loaded = isthmus.load(self.index(tmp_path, {"a": "1.safetensors", "b": "missing"}), access="copy_on_write")
        assert not loaded["a"].read_only
        with pytest.raises(FileNotFoundError):
            loaded["b"]

    @pytest.mark.parametrize("shard", ["../1.safetensors", "/etc/passwd", "a/b", "", "a\0b", "\ud800.safetensors"])
    def test_shards_stand_beside_their_index(self, tmp_path: Path, shard: str) -> None:
        with pytest.raises(isthmus.TensorValueError, match="is not beside the index"):
            isthmus.load(self.index(tmp_path, {"a": shard}))

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": 3}}', '{"weight_map": {}, "metadata": 3}']
    )
    def test_what_is_no_index(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(isthmus.TensorValueError):
            isthmus.load(tmp_path / "index.json")

    def test_a_shard_that_lacks_what_the_index_names(self, tmp_path: Path) -> None:
        st_numpy.save_file({"a": np.arange(3.0)}, tmp_path / "one.safetensors")
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "one.safetensors"}}))
        weights = isthmus.load(index)
        assert "b" in weights
        for get in (weights.get, weights.copy, weights.__getitem__):
            with pytest.raises(
                isthmus.TensorValueError, match=r"names 'b' in 'one.safetensors', which has no such tensor"
            ):
                get("b")
        assert weights["a"].shape == (3,)

    @pytest.mark.parametrize("access", ["shared", "bogus", "read_only\0", None, 3])
    def test_an_access_that_is_none(self, tmp_path: Path, access: Any) -> None:
        (tmp_path / "index.json").write_text('{"weight_map": {}}')
        with pytest.raises(isthmus.TensorValueError, match=r"argument 'access': found .*expected 'read_only' or"):
            isthmus.load(tmp_path / "index.json", access=access)

    @pytest.mark.parametrize("text", ["[" * 100_000, '{"weight_map":' * 100_000], ids=["lists", "objects"])
    def test_deep_nesting(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(isthmus.TensorValueError, match="not an index of safetensors files"):
            isthmus.load(tmp_path / "index.json")

    def test_from_another_working_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        st_numpy.save_file({"a": np.zeros(3, np.float32)}, tmp_path / "1.safetensors")
        self.index(tmp_path, {"a": "1.safetensors"})
        monkeypatch.chdir(tmp_path)
        loaded = isthmus.load("model.safetensors.index.json")
        monkeypatch.chdir("/")
        assert pickle.loads(pickle.dumps(loaded))["a"].shape == loaded["a"].shape == (3,)
        with loaded as same:
            assert same is loaded
        with pytest.raises(isthmus.Error, match="closed"):
            loaded["a"]

    def test_no_metadata(self, tmp_path: Path) -> None:
        (tmp_path / "index.json").write_text('{"weight_map": {}, "metadata": null}')
        assert dict(isthmus.load(tmp_path / "index.json").metadata) == {}


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(isthmus.Error, match="it is no regular file"):
        isthmus.load(tmp_path / name)


def test_pickle_takes_the_elements_along(path: Path) -> None:
    st_numpy.save_file({"a": np.arange(3.0)}, path)
    loaded = isthmus.load(path, access="copy_on_write")
    assert not pickle.loads(pickle.dumps(loaded))["a"].read_only
    again = pickle.loads(pickle.dumps(loaded["a"]))
    path.unlink()
    assert again.to("numpy").tolist() == [0, 1, 2]


def test_references_are_right(path: Path) -> None:
    st_numpy.save_file({"a": np.arange(3.0)}, path)
    before = sys.getallocatedblocks()
    for _ in range(200):
        loaded = isthmus.load(path)
        loaded["a"].to("numpy")
        with pytest.raises(KeyError):
            loaded["b"]
    del loaded
    gc.collect()
    assert sys.getallocatedblocks() - before < 300
