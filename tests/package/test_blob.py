"""Blobs: memory as plain numbers, and back."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest

import isthmus


class Owner:
    """Something that can be watched."""


@pytest.fixture
def x() -> np.ndarray:
    return np.arange(6, dtype="float32").reshape(2, 3)


def fields(x: np.ndarray, **changes: object) -> dict:
    """The description of `x`, with changes; a field set to ... is left out."""
    described = {**isthmus.to_blob(x).as_dict(), **changes}
    return {key: value for key, value in described.items() if value is not ...}


def test_describes(x):
    b = isthmus.to_blob(x)
    assert (b.ptr, b.shape, b.strides, b.dtype, b.device) == (x.ctypes.data, (2, 3), (3, 1), "float32", "cpu")
    assert (b.element_size, b.read_only, b.owner) == (4, False, x)


def test_strides_count_elements(x):
    assert isthmus.to_blob(x[:, ::-2]).strides == (3, -2)
    assert isthmus.to_blob(x.T).strides == (1, 3)


def test_read_only_is_told(x):
    x.flags.writeable = False
    b = isthmus.to_blob(x)
    assert b.read_only
    assert isthmus.from_blob(b.as_dict(), owner=x).read_only


def test_as_dict_is_plain(x):
    described = isthmus.to_blob(x).as_dict()
    assert described == {
        "ptr": x.ctypes.data,
        "shape": (2, 3),
        "strides": (3, 1),
        "dtype": "float32",
        "device": "cpu",
        "element_size": 4,
        "read_only": False,
    }
    assert {type(value) for value in described.values()} == {int, tuple, str, bool}
    assert all(type(size) is int for size in described["shape"] + described["strides"])


def test_there_and_back(x):
    v = isthmus.from_blob(isthmus.to_blob(x).as_dict(), owner=x)
    assert type(v) is isthmus.Tensor
    assert v.owner is x
    assert v.data_ptr == x.ctypes.data
    np.testing.assert_array_equal(np.asarray(v), x)


def test_through_json(x):
    """A message turns tuples into lists."""
    v = isthmus.from_blob(json.loads(json.dumps(isthmus.to_blob(x[:, ::2]).as_dict())), owner=x)
    np.testing.assert_array_equal(np.asarray(v), x[:, ::2])


def test_a_blob_brings_its_owner():
    x = np.zeros((2, 3))
    gone = weakref.ref(x)
    address = x.ctypes.data
    b = isthmus.to_blob(x)
    del x
    gc.collect()
    v = isthmus.from_blob(b)
    del b
    gc.collect()
    assert v.data_ptr == address
    assert v.owner is gone()
    del v
    gc.collect()
    assert gone() is None


def test_the_blob_itself_keeps_the_memory():
    x = np.zeros((2, 3))
    gone = weakref.ref(x)
    b = isthmus.to_blob(x)
    del x
    gc.collect()
    assert gone() is b.owner
    del b
    gc.collect()
    assert gone() is None


def test_a_buffer_stays_locked_while_its_blob_lives():
    memory = bytearray(8)
    b = isthmus.to_blob(memory)
    v = isthmus.from_blob(b, owner=b.owner)
    del b
    with pytest.raises(BufferError):
        memory.extend(b"x" * 100)
    del v
    gc.collect()
    memory.extend(b"x")


def test_owner_of_a_capsule_is_the_tensor(x):
    b = isthmus.to_blob(x.__dlpack__())
    assert b.owner is not None
    assert isthmus.from_blob(b).data_ptr == x.ctypes.data


def test_the_owner_lives_as_long_as_the_last_view(x):
    owner = Owner()
    gone = weakref.ref(owner)
    v = isthmus.from_blob(fields(x), owner=owner)
    assert v.owner is owner
    a = v.to("numpy")
    m = memoryview(v)
    del owner, v
    gc.collect()
    assert gone() is not None
    del a
    gc.collect()
    assert gone() is not None
    del m
    gc.collect()
    assert gone() is None


def test_the_owner_is_let_go_when_the_blob_is_refused(x):
    owner = Owner()
    gone = weakref.ref(owner)
    with pytest.raises(ValueError):
        isthmus.from_blob(fields(x, ptr=0), owner=owner)
    del owner
    gc.collect()
    assert gone() is None


def test_an_owner_in_a_cycle_is_collected(x):
    class Holder:
        pass

    holder = Holder()
    holder.tensor = isthmus.from_blob(fields(x), owner=holder)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


def test_the_owner_may_come_with_the_fields(x):
    assert isthmus.from_blob(fields(x, owner=x)).owner is x


def test_without_owner(x):
    v = isthmus.from_blob(fields(x))
    assert v.owner is None
    assert v.data_ptr == x.ctypes.data


def test_strides_and_device_are_optional(x):
    v = isthmus.from_blob({"ptr": x.ctypes.data, "shape": (2, 3), "dtype": "float32"}, owner=x)
    assert (v.strides, v.device, v.read_only) == ((3, 1), "cpu", False)
    v = isthmus.from_blob(fields(x, strides=None, device=None, element_size=None, read_only=None), owner=x)
    assert (v.strides, v.device) == ((3, 1), "cpu")


@pytest.mark.parametrize(
    "dtype",
    ["float32", np.float32, np.dtype("float32"), isthmus.DType("float32"), (2, 32, 1), (2, 32), [2, 32, 1]],
    ids=repr,
)
def test_dtypes(x, dtype):
    assert isthmus.from_blob(fields(x, dtype=dtype), owner=x).dtype == "float32"


@pytest.mark.parametrize("name", ["float32", "int32", "uint32"])
def test_dtypes_of_torch(x, name):
    torch = pytest.importorskip("torch")
    assert isthmus.from_blob(fields(x, dtype=getattr(torch, name)), owner=x).dtype == name


def test_dtypes_of_torch_that_numpy_has_not(x):
    torch = pytest.importorskip("torch")
    for name in ("bfloat16", "float8_e4m3fn", "bool", "complex64"):
        v = isthmus.from_blob(fields(x, shape=(2,), strides=..., element_size=..., dtype=getattr(torch, name)), owner=x)
        assert v.dtype == name


def test_dtypes_of_ml_dtypes(x):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    of = {"ptr": x.ctypes.data, "shape": (6,)}
    assert isthmus.from_blob({**of, "dtype": ml_dtypes.bfloat16}, owner=x).dtype == "bfloat16"
    assert isthmus.from_blob({**of, "dtype": np.dtype(ml_dtypes.float8_e5m2)}, owner=x).dtype == "float8_e5m2"
    # One element to a byte, and known to be so.
    v = isthmus.from_blob({**of, "dtype": ml_dtypes.int4}, owner=x)
    assert (v.dtype, v.is_padded, v.nbytes) == ("int4", True, 6)
    assert isthmus.to_blob(v).as_dict()["padded"] is True
    assert isthmus.from_blob(isthmus.to_blob(v).as_dict(), owner=x).is_padded


def test_dtypes_of_jax(x):
    jax_numpy = pytest.importorskip("jax.numpy")
    assert isthmus.from_blob(fields(x, dtype=jax_numpy.float32), owner=x).dtype == "float32"


@pytest.mark.parametrize("device", ["cpu", (1, 0), isthmus.Device("cpu"), "cpu:0"])
def test_devices(x, device):
    assert isthmus.from_blob(fields(x, device=device), owner=x).device == "cpu"


def test_devices_of_torch(x):
    torch = pytest.importorskip("torch")
    assert isthmus.from_blob(fields(x, device=torch.device("cpu")), owner=x).device == "cpu"
    assert isthmus.from_blob(fields(x, device=torch.device("cuda:1")), owner=x).device == "cuda:1"


REFUSED = [
    (
        {"shape": (2, -3)},
        ValueError,
        "bad_layout",
        r"'shape': found \(2, -3\).*dimension 1; expected sizes of 0 or more",
    ),
    ({"shape": 6}, TypeError, "bad_argument", r"'shape': found 6; expected a tuple of integers"),
    ({"shape": (1.5,)}, TypeError, "bad_argument", r"'shape': found \(1.5,\); expected a tuple of integers"),
    ({"shape": (2**64,)}, ValueError, "overflow", r"'shape': found \(18446744073709551616,\); expected"),
    ({"shape": (1,) * 65}, ValueError, "bad_layout", r"'shape': found 65 dimensions; expected at most 64"),
    ({"shape": (2**62, 2**62), "strides": ...}, ValueError, "overflow", r"'shape': found \(4611.*float32; expected"),
    (
        {"strides": (3,)},
        ValueError,
        "bad_layout",
        r"'strides': found \(3,\) with 1 entries; expected one per dimension.*2",
    ),
    ({"strides": (3, "x")}, TypeError, "bad_argument", r"'strides': found \(3, 'x'\); expected a tuple of integers"),
    (
        {"strides": (2**61, 1)},
        ValueError,
        "overflow",
        r"'strides': found \(2305.*; expected elements within the address space",
    ),
    ({"dtype": "flaot32"}, ValueError, "bad_dtype", r"'dtype': found 'flaot32'; expected a dtype such as"),
    ({"dtype": (2, 33, 1)}, ValueError, "bad_dtype", r"'dtype': found \(2, 33, 1\); expected"),
    ({"dtype": (300, 32, 1)}, ValueError, "bad_dtype", r"'dtype': found \(300, 32, 1\); expected"),
    ({"dtype": 7}, TypeError, "bad_dtype", r"'dtype': found 7; expected a dtype"),
    ({"dtype": None}, TypeError, "bad_dtype", r"'dtype': found None; expected a dtype"),
    (
        {"dtype": np.dtype(">f4")},
        ValueError,
        "bad_dtype",
        r"'dtype': found dtype\('>f4'\); expected the machine's own byte order",
    ),
    ({"dtype": np.dtype("M8[s]")}, ValueError, "bad_dtype", r"'dtype': found dtype\('<M8\[s\]'\); expected"),
    ({"dtype": np.dtype("O")}, ValueError, "bad_dtype", r"'dtype': found dtype\('O'\); expected"),
    ({"dtype": np.dtype([("a", "f4")])}, ValueError, "bad_dtype", r"'dtype': found .*; expected"),
    ({"ptr": 0}, ValueError, "null_data", r"'ptr': found 0 with 6 elements \(shape \(2, 3\)\); expected the address"),
    ({"ptr": "0x10"}, TypeError, "bad_argument", r"'ptr': found '0x10'; expected an integer"),
    ({"ptr": True}, TypeError, "bad_argument", r"'ptr': found True; expected an integer"),
    ({"ptr": -8}, ValueError, "bad_argument", r"'ptr': found -8; expected an address"),
    ({"ptr": 2**64}, ValueError, "bad_argument", r"'ptr': found 18446744073709551616; expected an address"),
    (
        {"ptr": 0x1001},
        ValueError,
        "needs_copy",
        r"'ptr': found 0x1001; expected an address aligned to the 4 bytes of float32",
    ),
    ({"device": "gpu"}, ValueError, "bad_device", r"'device': found 'gpu'; expected a name such as 'cuda:0'"),
    ({"device": (99, 0)}, ValueError, "bad_device", r"'device': found \(99, 0\); expected"),
    ({"device": 2}, TypeError, "bad_device", r"'device': found 2; expected"),
    ({"element_size": 8}, ValueError, "bad_dtype", r"'element_size': found 8; expected 4, the bytes of one float32"),
    ({"element_size": "4"}, TypeError, "bad_dtype", r"'element_size': found '4'; expected 4"),
    ({"read_only": "no"}, TypeError, "bad_argument", r"'read_only': found 'no'; expected True or False"),
    ({"ptr": ...}, ValueError, "bad_argument", r"'blob': found \['device', .*; expected a mapping with 'ptr' as well"),
    ({"stride": (3, 1)}, ValueError, "bad_argument", r"'blob': found 'stride'; expected no key but ptr, shape"),
]


@pytest.mark.parametrize(("changes", "builtin", "code", "text"), REFUSED, ids=[str(case[0])[:40] for case in REFUSED])
def test_each_way_to_be_wrong(x, changes, builtin, code, text):
    with pytest.raises(isthmus.Error, match="^argument " + text) as info:
        isthmus.from_blob(fields(x, **changes), owner=x)
    assert isinstance(info.value, builtin)
    assert info.value.code == code


@pytest.mark.parametrize("blob", [None, 5, "blob", [("ptr", 1)]])
def test_no_blob(blob):
    with pytest.raises(
        isthmus.TensorTypeError, match=r"argument 'blob': found .*; expected an isthmus.Blob or a mapping"
    ):
        isthmus.from_blob(blob)


def test_no_tensor():
    with pytest.raises(isthmus.TensorTypeError):
        isthmus.to_blob("text")


def test_no_elements_need_no_memory():
    v = isthmus.from_blob({"ptr": 0, "shape": (0, 3), "dtype": "float32"})
    assert v.size == 0


def test_a_blob_of_ones_own(x):
    b = isthmus.Blob(
        ptr=x.ctypes.data,
        shape=(3,),
        strides=(2,),
        dtype=isthmus.DType("float32"),
        device=isthmus.Device("cpu"),
        element_size=4,
        owner=x,
    )
    v = isthmus.from_blob(b)
    assert v.owner is x
    np.testing.assert_array_equal(np.asarray(v), x.ravel()[::2])
    with pytest.raises(AttributeError):
        b.ptr = 0


# Memory of another device, which the host must not touch. The address is made up; nobody follows it.
CUDA = {"ptr": 0x7F0000000000, "shape": (2, 3), "dtype": "float32", "device": "cuda:0"}


def test_cuda_is_described_and_not_touched():
    owner = Owner()
    v = isthmus.from_blob(CUDA, owner=owner)
    assert (v.device, v.data_ptr, v.nbytes, v.owner) == ("cuda:0", CUDA["ptr"], 24, owner)
    assert v.__dlpack_device__() == (2, 0)
    assert "cuda:0" in repr(v)
    described = v.__cuda_array_interface__
    assert (described["data"], described["shape"], described["typestr"]) == ((CUDA["ptr"], False), (2, 3), "<f4")
    assert not hasattr(v, "__array_interface__")
    assert isthmus.to_blob(v).as_dict() == {**CUDA, "strides": (3, 1), "element_size": 4, "read_only": False}


@pytest.mark.parametrize(
    "touch",
    [
        memoryview,
        bytes,
        np.asarray,
        np.from_dlpack,
        lambda v: v.to("numpy"),
        lambda v: isthmus.from_dlpack(v, copy=True),
        lambda v: __import__("pickle").dumps(v),
    ],
    ids=["memoryview", "bytes", "asarray", "from_dlpack", "to", "copy", "pickle"],
)
def test_cuda_is_refused_where_elements_would_be_read(touch):
    v = isthmus.from_blob(CUDA, owner=Owner())
    with pytest.raises((BufferError, RuntimeError, isthmus.Error)):
        touch(v)


def test_cuda_travels_by_capsule():
    v = isthmus.from_blob(CUDA, owner=Owner())
    again = isthmus.from_dlpack(v.__dlpack__(max_version=(1, 3)))
    assert (again.device, again.data_ptr, again.shape) == ("cuda:0", CUDA["ptr"], (2, 3))


def test_cuda_on_a_gpu():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    y = torch.arange(6.0, device="cuda").reshape(2, 3)
    v = isthmus.from_blob(isthmus.to_blob(y).as_dict(), owner=y)
    z = v.to("torch")
    assert z.data_ptr() == y.data_ptr()
    assert z.device == y.device
    z += 1
    assert torch.equal(y, z)
