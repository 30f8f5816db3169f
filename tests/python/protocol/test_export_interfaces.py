"""`__array_interface__`, `__cuda_array_interface__` and `__array__` of isthmus.Tensor."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from owners import gone

import isthmus_test_ext as ext

CUDA, CUDA_MANAGED, PINNED = (2, 0), (13, 0), (3, 0)
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


def made(**options) -> object:
    return ext.pages([2, 3], data=np.arange(6, dtype=np.float32), **options)


class OnlyInterface:
    """Shows nothing else of a tensor."""

    def __init__(self, t):
        self.__array_interface__ = t.__array_interface__
        self.tensor = t


class TestArrayInterface:
    def test_fields(self):
        t = made()
        assert t.__array_interface__ == {
            "shape": (2, 3), "typestr": "<f4", "data": (t.data_ptr, False), "strides": None, "version": 3,
        }  # fmt: skip

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_typestr(self, dtype):
        assert ext.pages([2], dtype).__array_interface__["typestr"] == np.dtype(dtype).str

    @pytest.mark.parametrize(
        "view",
        [
            lambda a: a.T,
            lambda a: a[::-1],
            lambda a: a[:, ::2],
            lambda a: np.broadcast_to(a[0], (2, 3)),
            lambda a: a[0, 1, ...],
            lambda a: a[:0],
        ],
    )
    def test_numpy_reads_it(self, view):
        a = view(np.arange(6.0).reshape(2, 3))
        t = ext.tensor_of(a)
        b = np.asarray(OnlyInterface(t))
        assert b.tolist() == a.tolist()
        assert b.flags.writeable == a.flags.writeable
        if a.size:
            assert b.ctypes.data == a.ctypes.data
        if a.size and not a.flags.c_contiguous:
            assert t.__array_interface__["strides"] == a.strides

    def test_read_only(self):
        assert made(read_only=True).__array_interface__["data"][1] is True
        assert not np.asarray(OnlyInterface(made(read_only=True))).flags.writeable

    def test_pinned(self):
        assert made(device=PINNED).__array_interface__["version"] == 3

    @pytest.mark.parametrize("device", [CUDA, CUDA_MANAGED, (10, 0), (8, 0)])
    def test_device_memory_has_none(self, device):
        t = made(device=device)
        assert not hasattr(t, "__array_interface__")
        with pytest.raises(AttributeError, match=t.device.name):
            t.__array_interface__  # noqa: B018

    @pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "float4_e2m1fn"])
    def test_no_typestr(self, dtype):
        t = ext.pages([2], dtype)
        assert not hasattr(t, "__array_interface__")
        assert not hasattr(ext.pages([2], dtype, device=CUDA), "__cuda_array_interface__")


class TestCudaArrayInterface:
    """Only the description: no device is needed to tell where something is."""

    @pytest.mark.parametrize("device", [CUDA, (2, 3), CUDA_MANAGED])
    @pytest.mark.parametrize("read_only", [False, True])
    def test_fields(self, device, read_only):
        t = made(device=device, read_only=read_only)
        assert t.__cuda_array_interface__ == {
            "shape": (2, 3), "typestr": "<f4", "data": (t.data_ptr, read_only), "strides": None, "version": 3,
            "stream": None,
        }  # fmt: skip

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_typestr(self, dtype):
        assert ext.pages([2], dtype, device=CUDA).__cuda_array_interface__["typestr"] == np.dtype(dtype).str

    def test_strides_in_bytes(self):
        t = ext.pages([3, 2], "float64", strides=[1, 3], device=CUDA)
        assert t.__cuda_array_interface__["strides"] == (8, 24)

    @pytest.mark.parametrize("device", [(1, 0), PINNED, (10, 0), (11, 0)])
    def test_not_cuda(self, device):
        assert not hasattr(made(device=device), "__cuda_array_interface__")

    def test_ours_reads_it(self):
        class Only:
            pass

        t = made(device=CUDA)
        Only.__cuda_array_interface__ = t.__cuda_array_interface__
        found = ext.own(Only())
        assert found["data"] == t.data_ptr
        assert found["device"] == "cuda:0"


class TestArray:
    def test_shares(self):
        t = made()
        for a in (
            np.asarray(t),
            t.__array__(),
            t.__array__(None),
            t.__array__(np.float32),
            t.__array__(copy=None),
            t.__array__(copy=False),
            t.__array__("f4", copy=False),
        ):
            assert type(a) is np.ndarray
            assert a.ctypes.data == t.data_ptr
            assert a.flags.writeable

    def test_copies_when_asked(self):
        t = made(read_only=True)
        for a in (np.array(t), np.array(t, copy=True), t.__array__(copy=True), t.__array__(np.float32, copy=True)):
            assert a.tolist() == [[0, 1, 2], [3, 4, 5]]
            assert a.ctypes.data != t.data_ptr
            assert a.flags.writeable

    def test_converts(self):
        t = made()
        for a in (np.asarray(t, dtype=np.float64), t.__array__(np.int32), t.__array__(dtype="f8", copy=True)):
            assert a.dtype != np.float32
            assert a.tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_conversion_is_a_copy(self):
        with pytest.raises(ValueError, match="float32"):
            made().__array__(np.float64, copy=False)

    @pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 knows no copy= there")
    def test_numpy_2_passes_the_wish_on(self):
        t = made()
        assert np.asarray(t, copy=False).ctypes.data == t.data_ptr
        assert np.asarray(t, copy=True).ctypes.data != t.data_ptr
        with pytest.raises(ValueError):
            np.asarray(t, dtype=np.float64, copy=False)

    def test_read_only(self):
        assert not np.asarray(made(read_only=True)).flags.writeable
        with pytest.raises(ValueError):
            np.asarray(made(read_only=True)).flags.writeable = True

    def test_device_memory(self):
        t = made(device=CUDA)
        with pytest.raises(BufferError, match="cuda:0"):
            t.__array__()

    def test_not_a_dtype(self):
        with pytest.raises(TypeError):
            made().__array__("no such thing")

    def test_ufuncs(self):
        t = made()
        assert np.sum(t) == 15
        assert (np.add(t, 1) == np.arange(1, 7).reshape(2, 3)).all()

    def test_the_memory_outlives_the_tensor(self):
        before = gone()
        a = np.asarray(made())[:, 1]
        gc.collect()
        assert gone() == before
        assert a.tolist() == [1, 4]
        del a
        assert gone() == before + 1

    def test_ml_dtypes(self):
        ml_dtypes = pytest.importorskip("ml_dtypes")
        a = np.asarray(ext.pages([2], "bfloat16", data=b"\x80\x3f\x00\x40"))
        assert a.dtype == ml_dtypes.bfloat16
        assert a.astype(float).tolist() == [1, 2]
