"""isthmus.DType, Device and DeviceType as values, and what a tensor says of itself in other protocols' words."""

from __future__ import annotations

import ctypes
import itertools
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import compiling
import processes
import pytest

import isthmus

np = pytest.importorskip("numpy")

VALUES = {
    "DType": [
        *map(isthmus.DType, ("float32", "bool", "bfloat16", "float32x4", "int4")),
        *("float32", "float32x1", "bool", "bool8", "boolx1", "bfloat16", "bfloat16x1", "float32x4", "int4"),
        *((2, 32, 1), (2, 32), (6, 8, 1), (4, 16), (2, 32, 4), (0, 4)),
    ],
    "Device": [
        *map(isthmus.Device, ("cpu", "cuda", "cuda:1", "cuda_host")),
        *("cpu", "cpu:0", "cuda", "cuda:0", "cuda:1", "cuda_host:0"),
        *((1, 0), (2, 0), (2, 1), (3, 0)),
    ],
    "DeviceType": [
        *(isthmus.Device(name).type for name in ("cpu", "cuda", "cuda_host")),
        *("cpu", "cuda", "cuda_host"),
        *(1, 2, 3, 1.0, True),
    ],
}


def hash_of(value: object) -> int | None:
    try:
        return hash(value)
    except TypeError:
        return None


# As NumPy's own dtypes a DType equals its name, and has another hash: NumPy's.
NAMES_ASIDE = {"DType": lambda value: not isinstance(value, str)}


def comparable(kind: str) -> list:
    return list(filter(NAMES_ASIDE.get(kind), VALUES[kind]))


@pytest.mark.parametrize("kind", VALUES)
def test_equal_values_have_equal_hashes(kind: str) -> None:
    """Python's rule for `==` and hash(): else a dict or a set finds a value, or does not, by chance."""
    wrong = [
        (a, b)
        for a, b in itertools.combinations(comparable(kind), 2)
        if a == b and None not in (hash_of(a), hash_of(b)) and hash(a) != hash(b)
    ]
    assert wrong == []


@pytest.mark.parametrize("kind", VALUES)
def test_a_dict_finds_what_is_equal(kind: str) -> None:
    for a, b in itertools.product(comparable(kind), repeat=2):
        if None not in (hash_of(a), hash_of(b)):
            assert (a == b) is (b == a)
            assert (b in {a}) is (a == b), (a, b)


JUNK = ["float32\0", "float32\0junk", "\0float32", "float\x0032"]


@pytest.mark.parametrize("text", JUNK)
def test_a_dtype_name_with_a_nul_is_refused(text: str) -> None:
    for take in (
        isthmus.DType,
        lambda text: isthmus.empty((2,), text),
        lambda text: isthmus.from_blob({"ptr": 0, "shape": (0,), "dtype": text}),
    ):
        with pytest.raises(ValueError, match="float"):
            take(text)
    assert isthmus.DType("float32") != text


@pytest.mark.parametrize("text", ["cpu\0", "cpu\0junk", "\0cpu", "cpu:0\0", "cuda:0\0001"])
def test_a_device_name_with_a_nul_is_refused(text: str) -> None:
    for take in (
        isthmus.Device,
        lambda text: isthmus.from_dlpack(np.zeros(2), device=text),
        lambda text: isthmus.from_blob({"ptr": 0, "shape": (0,), "dtype": "float32", "device": text}),
    ):
        with pytest.raises(ValueError, match="c"):
            take(text)
    assert isthmus.Device(text.partition("\0")[0] or "cpu") != text
    assert isthmus.Device("cpu").type != text


# Strides that nobody takes, of dimensions of one element.
HUGE = [2**62, 2**63 - 1, -(2**62), 2**61 + 1, -(2**63)]


@pytest.mark.parametrize("stride", HUGE)
@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (2, 1), (1, 1), (1,), (2, 1, 2), (0, 1)])
def test_the_stride_of_a_single_element_is_no_step(shape: tuple[int, ...], stride: int) -> None:
    """In bytes it would not fit 64 bits; every protocol says a step that does, and the elements are right."""
    x = np.arange(12, dtype="float32")
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, stride if size == 1 else step)
        step *= max(size, 1)
    blob = {"ptr": x.ctypes.data, "shape": shape, "strides": tuple(strides), "dtype": "float32"}
    try:
        t = isthmus.from_blob(blob, owner=x)
    except isthmus.Error as refused:
        assert "strides" in str(refused)
        return
    assert t.byte_strides == tuple(4 * step for step in t.strides)
    for steps in (memoryview(t).strides, t.__array_interface__["strides"], np.asarray(t).strides):
        for size, ours, theirs in zip(shape, t.strides, steps or t.byte_strides, strict=True):
            assert size == 1 or theirs == 4 * ours, (steps, t.strides)
    numel = int(np.prod(shape))
    assert np.asarray(t).ravel().tolist() == x[:numel].tolist()
    assert np.asarray(memoryview(t)).ravel().tolist() == x[:numel].tolist()


UNDEFINED = """
import numpy as np, overflow
x = np.arange(6, dtype="float32")
for stride in (2**62, -2**62, 2**63 - 1):
    t = overflow.with_stride(x.ctypes.data, stride)
    memoryview(t), t.byte_strides, t.__array_interface__, np.asarray(t)
    t.__dlpack__(max_version=(1, 0)), t.__reduce_ex__(4)
    overflow.to_numpy(t)
print("well")
"""


def test_no_protocol_overflows(tmp_path: Path) -> None:
    """Built so that a signed overflow ends the process."""
    cxx = os.environ.get("CXX", "g++")
    includes = subprocess.run(
        [sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True
    ).stdout.split()
    source = Path(__file__).resolve().parent / "ext" / "overflow.cpp"
    flags = [
        "-std=c++20",
        "-O0",
        "-shared",
        "-fPIC",
        "-fsanitize=signed-integer-overflow",
        "-fsanitize-undefined-trap-on-error",
    ]
    include = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())
    command = [cxx, *flags, f"-I{include}", *includes]
    objects = compiling.library_objects(command, include)
    subprocess.run([*command, source, *objects, "-o", tmp_path / "overflow.so"], check=True)
    assert processes.run_python(UNDEFINED, tmp_path).stdout == "well\n"


EVERY_DTYPE = [
    *(
        (code, bits, lanes)
        for code in range(18)
        for bits in (1, 2, 4, 6, 8, 16, 32, 64, 80, 96, 128, 192)
        for lanes in (1, 2)
    ),
]


@pytest.mark.parametrize("triple", EVERY_DTYPE, ids=str)
def test_a_typestr_is_one_that_numpy_reads(triple: tuple[int, int, int]) -> None:
    """`__array_interface__` is there only where its typestr means the elements; so is `__cuda_array_interface__`."""
    try:
        dtype = isthmus.DType(*triple)
    except isthmus.Error:
        pytest.skip("no dtype")
    memory = ctypes.create_string_buffer(256)
    blob = {"ptr": ctypes.addressof(memory), "shape": (2,), "dtype": triple}
    interfaces = []
    for device, name in (("cpu", "__array_interface__"), ("cuda:0", "__cuda_array_interface__")):
        t = isthmus.from_blob({**blob, "device": device}, owner=memory)
        interfaces.append(getattr(t, name, None))
    host, cuda = interfaces
    assert (host is None) == (cuda is None)
    if host is None:
        return
    assert host["typestr"] == cuda["typestr"]
    assert np.dtype(host["typestr"]).itemsize == dtype.itemsize
    exporter = type("Exporter", (), {"__array_interface__": host})()
    assert np.asarray(exporter).shape == (2,)
    assert isthmus.from_dlpack(exporter).dtype == dtype


class TestNumPyUnderstandsADType:
    """numpy.dtype(t.dtype), ==, and as a key: whoever takes arrays asks one of these (zarr, dask, tifffile, JAX)."""

    NAMES = ("float32", "float16", "int8", "uint64", "complex128", "bool", "bfloat16", "float8_e4m3fn")

    @staticmethod
    def both(name):
        pytest.importorskip("ml_dtypes")
        return isthmus.DType(name), np.dtype(name)

    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_numpys(self, name):
        ours, theirs = self.both(name)
        assert np.dtype(ours) is theirs or np.dtype(ours) == theirs
        assert ours.dtype == ours.__numpy_dtype__ == theirs
        assert ours == theirs
        assert theirs == ours
        assert ours == theirs.type
        assert hash(ours) == hash(theirs)
        assert {theirs: 1}[ours] == {ours: 1}[theirs] == 1
        assert ours == name
        assert np.zeros(2, ours).dtype == theirs
        assert np.asarray(isthmus.empty((2,), ours)).astype(ours).dtype == theirs

    @pytest.mark.parametrize("name", NAMES)
    def test_it_says_what_numpys_says(self, name):
        ours, theirs = self.both(name)
        for attribute in ("kind", "char", "str", "type", "num", "byteorder", "isnative", "alignment", "hasobject",
                          "names", "fields", "subdtype", "metadata", "descr", "itemsize", "name"):  # fmt: skip
            assert getattr(ours, attribute) == getattr(theirs, attribute)
        assert ours.newbyteorder("S") == theirs.newbyteorder("S")

    def test_who_writes_arrays_takes_the_tensor(self):
        t = isthmus.from_dlpack(np.arange(6, dtype=np.float32).reshape(2, 3))
        assert t.ravel().tolist() == [0, 1, 2, 3, 4, 5]
        assert t[:, ::2].ravel().tolist() == [0, 2, 3, 5]
        assert t.ravel().ctypes.data == t.ctypes.data == t.data_ptr
        assert not hasattr(isthmus.empty((2,), "float32x4"), "ctypes")
        numpy = pytest.importorskip("safetensors.numpy")
        assert numpy.load(numpy.save({"w": t}))["w"].tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_zarr_takes_the_tensor(self):
        zarr = pytest.importorskip("zarr")
        t = isthmus.from_dlpack(np.arange(6, dtype=np.float32).reshape(2, 3))
        made = zarr.create_array(store={}, data=t)
        assert (made.dtype, made[:].tolist()) == (np.float32, [[0, 1, 2], [3, 4, 5]])
        written = zarr.zeros((2, 3), dtype=t.dtype)
        written[:] = t
        assert written[:].tolist() == [[0, 1, 2], [3, 4, 5]]

    @pytest.mark.parametrize("name", ["float32", "bool", "bfloat16"])
    def test_others_are_not_equal(self, name):
        ours, _ = self.both(name)
        for other in (np.dtype("int64"), np.int64, np.dtype(">f4"), np.dtype([("x", "f4")]), np.dtype("M8[s]"), int, 3,
                      np.generic, object()):  # fmt: skip
            assert ours != other
            assert other != ours

    @pytest.mark.parametrize("name", ["float32x4", "int4", "float4_e2m1fn"])
    def test_what_numpy_has_not(self, name):
        ours = isthmus.DType(name)
        for attribute in ("dtype", "__numpy_dtype__", "kind", "str", "newbyteorder"):
            assert not hasattr(ours, attribute)
        with pytest.raises(TypeError):
            np.dtype(ours)
        assert ours != np.dtype("float32")
        assert np.dtype("float32") != ours
        assert hash(ours) == hash(name)

    def test_through_a_tensor(self):
        t = isthmus.from_dlpack(np.arange(4.0))
        assert np.dtype(t.dtype) == np.float64
        assert t.dtype == np.float64
        assert t.dtype in {np.dtype("float64")}
        assert pickle.loads(pickle.dumps(t.dtype)) == np.dtype("float64")

    def test_jax_takes_the_tensor(self):
        jax = pytest.importorskip("jax")
        t = isthmus.from_dlpack(np.arange(4, dtype=np.float32))
        assert jax.numpy.asarray(t).tolist() == jax.numpy.array(t).tolist() == [0, 1, 2, 3]
        assert np.dtype(t) == np.result_type(t) == np.float32

    def test_without_numpy_it_has_the_hash_of_its_name(self):
        code = """
            import sys
            sys.modules["numpy"] = sys.modules["numpy._core"] = sys.modules["numpy.core"] = None
            sys.modules["numpy._core._multiarray_umath"] = sys.modules["numpy.core._multiarray_umath"] = None
            import isthmus
            d = isthmus.DType("float32")
            assert hash(d) == hash("float32") and not hasattr(d, "dtype") and d == "float32"
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


class TestDTypesOfFrameworks:
    """DType() takes what a framework calls a dtype."""

    @pytest.mark.parametrize("name", ["float32", "float16", "int8", "uint64", "complex128", "bool"])
    def test_numpy(self, name):
        assert isthmus.DType(np.dtype(name)) == name
        assert isthmus.DType(np.dtype(name).type) == name
        assert isthmus.empty((2,), np.dtype(name).type).dtype == name

    @pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn"])
    def test_ml_dtypes(self, name):
        ml_dtypes = pytest.importorskip("ml_dtypes")
        assert isthmus.DType(getattr(ml_dtypes, name)) == name
        assert isthmus.DType(np.dtype(getattr(ml_dtypes, name))) == name

    @pytest.mark.parametrize("name", ["float32", "bfloat16", "bool", "complex64", "float8_e4m3fn", "int64"])
    def test_torch(self, name):
        torch = pytest.importorskip("torch")
        assert isthmus.DType(getattr(torch, name)) == name
        assert isthmus.empty((2,), getattr(torch, name)).dtype == name
        assert isthmus.shared.empty((2,), getattr(torch, name)).dtype == name

    def test_torch_packs_two(self):
        torch = pytest.importorskip("torch")
        assert isthmus.DType(torch.float4_e2m1fn_x2) == "float4_e2m1fnx2"

    @pytest.mark.parametrize("name", ["float32", "bfloat16", "int8"])
    def test_jax(self, name):
        jnp = pytest.importorskip("jax.numpy")
        assert isthmus.DType(getattr(jnp, name)) == name
        assert isthmus.DType(jnp.zeros(1, name).dtype) == name

    @pytest.mark.parametrize("wrong", [*map(np.dtype, (">f4", "U3", "M8[s]", [("a", "f4")])), int, float, object(), 5])
    def test_what_is_none(self, wrong):
        with pytest.raises(isthmus.Error, match="a dtype of isthmus or a framework"):
            isthmus.DType(wrong)
        with pytest.raises(isthmus.Error, match="argument 'dtype'"):
            isthmus.empty((2,), wrong)


def test_a_list_of_sizes_that_shrinks_while_it_is_read() -> None:
    class Shrinks:
        def __index__(self) -> int:
            sizes.clear()
            return 2

    sizes: list = []
    for tail in ([3], [3] * 60):
        sizes += [Shrinks(), *tail]
        with pytest.raises(isthmus.Error, match=r"argument 'shape': .* expected"):
            isthmus.empty(sizes)


@pytest.mark.parametrize("number", [2**31, 2**32 + 1, 2**63, 2**64 + 1, -(2**64), 99])
def test_a_device_type_beyond_those_of_dlpack_is_no_other(number: int) -> None:
    """Only its lower 32 bits were read: 2**32 + 1 was the CPU, and 2**64 an OverflowError of repr()."""
    beyond = isthmus.DeviceType(number)
    assert beyond != "cpu"
    assert "cpu" not in repr(beyond)
    assert str(number) in repr(beyond)


class Column:
    """It has what a dtype of NumPy has, and is called otherwise."""

    isnative = True
    name = "float32"
    itemsize = 4


def test_a_name_of_a_dtype_makes_no_dtype() -> None:
    with pytest.raises(isthmus.Error, match="dtype"):
        isthmus.DType(Column())


def test_what_is_called_a_dtype_is_none_of_numpys() -> None:
    mine = type("mydtype", (), dict(vars(Column)))()
    assert isthmus.DType("float32") != mine
