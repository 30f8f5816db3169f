"""The buffer protocol (PEP 3118) of isthmus.Tensor, by memoryview, by NumPy and by PyObject_GetBuffer itself."""

from __future__ import annotations

import array
import ctypes as ct
import gc
import hashlib
import struct

import numpy as np
import pytest
from owners import gone

import isthmus_test_ext as ext

SIMPLE, WRITABLE, FORMAT, ND, STRIDES = 0, 1, 4, 8, 0x18
C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS, INDIRECT = 0x38, 0x58, 0x98, 0x118
CONTIG, CONTIG_RO, STRIDED, STRIDED_RO = ND | WRITABLE, ND, STRIDES | WRITABLE, STRIDES
RECORDS, RECORDS_RO = STRIDES | WRITABLE | FORMAT, STRIDES | FORMAT
FULL, FULL_RO = INDIRECT | WRITABLE | FORMAT, INDIRECT | FORMAT

FORMATS = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "l" if struct.calcsize("l") == 8 else "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "L" if struct.calcsize("l") == 8 else "Q", "float16": "e",
    "float32": "f", "float64": "d", "complex64": "Zf", "complex128": "Zd",
}  # fmt: skip


class PyBuffer(ct.Structure):
    _fields_ = [
        ("buf", ct.c_void_p),
        ("obj", ct.c_void_p),
        ("len", ct.c_ssize_t),
        ("itemsize", ct.c_ssize_t),
        ("readonly", ct.c_int),
        ("ndim", ct.c_int),
        ("format", ct.c_char_p),
        ("shape", ct.POINTER(ct.c_ssize_t)),
        ("strides", ct.POINTER(ct.c_ssize_t)),
        ("suboffsets", ct.POINTER(ct.c_ssize_t)),
        ("internal", ct.c_void_p),
    ]


get_buffer = ct.pythonapi.PyObject_GetBuffer
get_buffer.argtypes = [ct.py_object, ct.POINTER(PyBuffer), ct.c_int]
release = ct.pythonapi.PyBuffer_Release
release.argtypes = [ct.POINTER(PyBuffer)]
release.restype = None


class Held:
    """One buffer, asked for with these flags."""

    def __init__(self, t, flags: int):
        self.view = PyBuffer()
        self.view.obj = 1  # the protocol must clear it when it fails
        get_buffer(t, ct.byref(self.view), flags)

    def __enter__(self) -> PyBuffer:
        return self.view

    def __exit__(self, *_) -> None:
        release(ct.byref(self.view))


def refused(t, flags: int, code: str) -> str:
    view = PyBuffer()
    view.obj = 1
    with pytest.raises(BufferError) as info:
        get_buffer(t, ct.byref(view), flags)
    assert view.obj is None
    assert info.value.code == code
    return str(info.value)


def grid(**options) -> object:
    return ext.pages([2, 3], data=np.arange(6, dtype=np.float32), **options)


class TestFormats:
    @pytest.mark.parametrize("dtype", FORMATS)
    def test_format(self, dtype):
        t = ext.pages([3], dtype)
        with Held(t, FULL) as view:
            assert view.format.decode() == FORMATS[dtype]
            assert view.itemsize == t.itemsize
            assert view.buf == t.data_ptr
        assert np.asarray(memoryview(t)).dtype == dtype
        assert memoryview(t).nbytes == t.nbytes

    @pytest.mark.parametrize("dtype", FORMATS)
    def test_numpy_reads_the_same_as_from_itself(self, dtype):
        a = np.arange(12).astype(dtype).reshape(3, 4)
        b = np.asarray(memoryview(ext.tensor_of(a)))
        assert b.dtype == a.dtype
        assert b.tolist() == a.tolist()

    def test_long_double(self):
        a = np.arange(3, dtype=np.longdouble)
        assert memoryview(ext.tensor_of(a)).format == "g"

    @pytest.mark.parametrize(
        "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "float32x4", "complex32"]
    )
    def test_no_word_for_it(self, dtype):
        for flags in (SIMPLE, FULL_RO):
            assert "uint" in refused(ext.pages([4], dtype), flags, "bad_dtype")

    @pytest.mark.parametrize("device", [(2, 0), (10, 1), (8, 0)])
    def test_device_memory(self, device):
        assert ext.pages([2], device=device).device.name in refused(ext.pages([2], device=device), SIMPLE, "bad_device")

    @pytest.mark.parametrize("device", [(3, 0), (11, 0)])
    def test_pinned_memory_is_host_memory(self, device):
        assert memoryview(ext.pages([2], device=device)).tolist() == [0, 0]


class TestFlags:
    """What each request promises, as "Buffer request types" of the C API manual has it."""

    @pytest.mark.parametrize(
        "flags",
        [
            SIMPLE,
            WRITABLE,
            CONTIG,
            CONTIG_RO,
            ND,
            STRIDED,
            STRIDED_RO,
            RECORDS,
            RECORDS_RO,
            FULL,
            FULL_RO,
            C_CONTIGUOUS,
            ANY_CONTIGUOUS,
            FORMAT,
        ],
    )
    def test_row_major(self, flags):
        t = grid()
        with Held(t, flags) as view:
            assert view.len == 24
            assert view.itemsize == 4
            assert view.readonly == 0
            assert not view.suboffsets
            assert bool(view.format) == bool(flags & FORMAT)
            assert bool(view.shape) == (flags & ND == ND)
            assert bool(view.strides) == (flags & STRIDES == STRIDES)
            if view.shape:
                assert view.ndim == 2
                assert view.shape[:2] == [2, 3]
            if view.strides:
                assert view.strides[:2] == [12, 4]

    @pytest.mark.parametrize("flags", [SIMPLE, ND, C_CONTIGUOUS, CONTIG])
    def test_column_major_is_not_row_major(self, flags):
        t = ext.tensor_of(np.zeros((2, 3), order="F"))
        assert "contiguous" in refused(t, flags, "bad_layout")

    @pytest.mark.parametrize("flags", [F_CONTIGUOUS, ANY_CONTIGUOUS, STRIDED, FULL])
    def test_column_major(self, flags):
        with Held(ext.tensor_of(np.zeros((2, 3), order="F")), flags) as view:
            assert view.strides[:2] == [8, 16]

    @pytest.mark.parametrize("flags", [SIMPLE, ND, C_CONTIGUOUS, F_CONTIGUOUS, ANY_CONTIGUOUS])
    def test_strided(self, flags):
        t = ext.tensor_of(np.arange(10.0)[::2])
        refused(t, flags, "bad_layout")
        with Held(t, STRIDED_RO) as view:
            assert view.strides[0] == 16
            assert view.len == 40

    def test_row_major_is_not_column_major(self):
        refused(grid(), F_CONTIGUOUS, "bad_layout")
        with Held(ext.pages([6]), F_CONTIGUOUS):
            pass  # one dimension is both

    @pytest.mark.parametrize("flags", [WRITABLE, CONTIG, STRIDED, RECORDS, FULL])
    def test_read_only_refused(self, flags):
        assert "read-only" in refused(grid(read_only=True), flags, "read_only")

    @pytest.mark.parametrize("flags", [SIMPLE, CONTIG_RO, STRIDED_RO, RECORDS_RO, FULL_RO])
    def test_read_only_given(self, flags):
        with Held(grid(read_only=True), flags) as view:
            assert view.readonly == 1

    @pytest.mark.parametrize("shape", [[], [0], [2, 0, 3]])
    @pytest.mark.parametrize("flags", [SIMPLE, ND, C_CONTIGUOUS, F_CONTIGUOUS, FULL])
    def test_scalars_and_nothing(self, shape, flags):
        with Held(ext.pages(shape), flags) as view:
            assert view.len == (4 if shape == [] else 0)
            if flags & ND:
                assert view.ndim == len(shape)
                assert bool(view.shape) == bool(shape)
            else:
                assert view.ndim == 1

    def test_none_of_the_memory_is_touched(self):
        with Held(ext.pages([1 << 28]), SIMPLE) as view:  # 1 GiB that was never mapped in
            assert view.len == 1 << 30


class TestMemoryview:
    def test_reads_and_writes(self):
        t = grid()
        view = memoryview(t)
        assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert (view.shape, view.strides, view.format, view.readonly) == ((2, 3), (12, 4), "f", False)
        view[1, 2] = 50
        assert np.from_dlpack(t)[1, 2] == 50

    def test_read_only(self):
        view = memoryview(grid(read_only=True))
        with pytest.raises(TypeError):
            view[0, 0] = 1

    def test_scalar(self):
        assert memoryview(ext.pages([], "int32", data=struct.pack("i", -7))).tolist() == -7

    def test_backwards(self):
        assert memoryview(ext.tensor_of(np.arange(4)[::-1])).tolist() == [3, 2, 1, 0]

    def test_broadcast(self):
        assert memoryview(ext.tensor_of(np.broadcast_to(np.int8(3), (2, 2)))).tolist() == [[3, 3], [3, 3]]

    def test_64_dimensions(self):
        assert np.asarray(memoryview(ext.pages([1] * 64))).ndim == 64

    def test_whoever_takes_bytes(self):
        t = ext.pages([4], "uint8", data=b"abcd")
        assert bytes(t) == b"abcd"
        assert bytearray(t) == b"abcd"
        assert hashlib.sha256(t).digest() == hashlib.sha256(b"abcd").digest()
        assert struct.unpack_from("2s", t, 1) == (b"bc",)
        assert (ct.c_char * 4).from_buffer(t).raw == b"abcd"
        assert b"".join([t, t]) == b"abcdabcd"
        array.array("B", b"wxyz").tobytes()
        memoryview(t)[:] = b"wxyz"
        assert bytes(t) == b"wxyz"


class TestExports:
    def test_the_memory_outlives_the_tensor(self):
        before = gone()
        view = memoryview(grid())
        gc.collect()
        assert gone() == before
        assert view[1, 2] == 5
        view.release()
        assert gone() == before + 1

    def test_many_at_once(self):
        before = gone()
        views = [memoryview(t := grid()), memoryview(t), memoryview(memoryview(t)), np.frombuffer(t, np.float32)]
        del t
        while views:
            assert gone() == before
            views.pop(0)
        assert gone() == before + 1

    def test_a_refused_buffer_leaves_nothing_behind(self):
        import sys

        t = grid(read_only=True)
        count = sys.getrefcount(t)
        for _ in range(100):
            refused(t, FULL, "read_only")
        gc.collect()
        assert sys.getrefcount(t) == count

    def test_strides_belong_to_their_view(self):
        t = grid()
        first, second = Held(t, FULL), Held(t, FULL)
        assert ct.addressof(first.view.strides.contents) != ct.addressof(second.view.strides.contents)
        first.__exit__()
        assert second.view.strides[:2] == [12, 4]
        second.__exit__()

    def test_the_collector_does_not_clear_a_tensor_with_views(self):
        class Owner:
            pass

        owner = Owner()
        a = np.arange(4.0)
        owner.tensor = ext.own_by_python(a, owner)
        view = memoryview(owner.tensor)
        del owner
        gc.collect()
        assert view.tolist() == [0, 1, 2, 3]
