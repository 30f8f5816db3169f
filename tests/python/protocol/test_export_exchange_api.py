"""`__dlpack_c_exchange_api__` of isthmus.Tensor, each function called through ctypes as a C consumer would."""

from __future__ import annotations

import ctypes as ct
import gc
import sys

import capsules
import numpy as np
import pytest
from owners import gone

import isthmus_test_ext as ext

Tensor = type(ext.pages([1]))
api = capsules.exchange_api(Tensor)


def made(**options) -> object:
    return ext.pages([2, 3], data=np.arange(6, dtype=np.float32), **options)


def from_object(x) -> int:
    """The caller's reference keeps x for the length of the call."""
    out = ct.c_void_p(1)
    assert api.from_object(id(x), ct.byref(out)) == 0
    return out.value


def to_object(address: int) -> object:
    out = ct.c_void_p()
    assert api.to_object(address, ct.byref(out)) == 0
    return capsules.steal_object(out.value)


def test_it_is_complete():
    assert (api.major, api.minor) == (1, 3)
    assert api.prev_api is None
    for name in ("allocate", "from_object", "to_object", "view_object", "stream"):
        assert ct.cast(getattr(api, name), ct.c_void_p).value, name


def test_on_the_type_and_on_the_object():
    assert Tensor.__dlpack_c_exchange_api__ is made().__dlpack_c_exchange_api__


def test_subclass_objects_are_not_needed():
    with pytest.raises(TypeError):
        Tensor()
    with pytest.raises(TypeError):
        type("Sub", (Tensor,), {})


class TestFromObject:
    def test_shares(self):
        t = made()
        address = from_object(t)
        found = capsules.read_managed(address)
        assert found.version[0] == 1
        assert found.data == t.data_ptr
        assert found.shape == (2, 3)
        assert found.strides == (3, 1)
        assert found.flags == 0
        assert found.manager_ctx
        capsules.end(address)

    def test_outlives_the_object(self):
        before = gone()
        address = from_object(made())
        gc.collect()
        assert gone() == before
        capsules.end(address)
        assert gone() == before + 1

    def test_read_only_is_told(self):
        address = from_object(made(read_only=True))
        assert capsules.read_managed(address).read_only
        capsules.end(address)

    @pytest.mark.parametrize("other", [None, 3, np.zeros(2), Tensor])
    def test_not_a_tensor_of_ours(self, other):
        out = ct.c_void_p(1)
        with pytest.raises(TypeError, match=r"isthmus\.Tensor"):
            api.from_object(id(other), ct.byref(out))
        assert out.value is None

    def test_null(self):
        out = ct.c_void_p(1)
        with pytest.raises(TypeError, match="NULL"):
            api.from_object(None, ct.byref(out))
        assert out.value is None

    def test_the_object_is_only_borrowed(self):
        t = made()
        count = sys.getrefcount(t)
        address = from_object(t)
        assert sys.getrefcount(t) == count
        capsules.end(address)
        assert sys.getrefcount(t) == count


class TestToObject:
    def test_there_and_back(self):
        before = gone()
        t = made()
        back = to_object(from_object(t))
        assert type(back) is Tensor
        assert back.data_ptr == t.data_ptr
        assert back.shape == (2, 3)
        alone = object()
        assert sys.getrefcount(back) == sys.getrefcount(alone)
        del t
        assert gone() == before
        del back
        assert gone() == before + 1

    @pytest.mark.parametrize("read_only", [False, True])
    def test_flags_are_kept(self, read_only):
        assert to_object(from_object(made(read_only=read_only))).read_only == read_only

    def test_of_numpy(self):
        a = np.arange(3)
        count = sys.getrefcount(a)
        t = to_object(capsules.consume(a.__dlpack__(max_version=(1, 0))))
        assert t.data_ptr == a.ctypes.data
        del t
        assert sys.getrefcount(a) == count

    def test_a_bad_one_is_ended_and_refused(self):
        calls = []
        deleter = capsules.DELETER(calls.append)
        shape = (ct.c_int64 * 1)(3)
        bad = capsules.ManagedVersioned(major=1, minor=3, deleter=ct.cast(deleter, ct.c_void_p).value)
        bad.tensor.shape = shape
        bad.tensor.ndim = 1
        bad.tensor.device = capsules.Device(1, 0)
        bad.tensor.dtype = capsules.DataType(2, 32, 1)
        out = ct.c_void_p(1)
        with pytest.raises(BufferError, match="NULL"):
            api.to_object(ct.addressof(bad), ct.byref(out))
        assert out.value is None
        assert calls == [ct.addressof(bad)]

    def test_another_major_version(self):
        calls = []
        deleter = capsules.DELETER(calls.append)
        bad = capsules.ManagedVersioned(major=2, minor=0, deleter=ct.cast(deleter, ct.c_void_p).value)
        bad.tensor.ndim = -5  # must not be read
        out = ct.c_void_p(1)
        with pytest.raises(BufferError, match=r"2\.0"):
            api.to_object(ct.addressof(bad), ct.byref(out))
        assert calls == [ct.addressof(bad)]

    def test_null(self):
        out = ct.c_void_p(1)
        with pytest.raises((ValueError, BufferError), match="NULL"):
            api.to_object(None, ct.byref(out))
        assert out.value is None


class TestView:
    def test_no_ownership(self):
        t = made()
        out = capsules.DLTensor()
        assert api.view_object(id(t), ct.byref(out)) == 0
        found = capsules.describe(out)
        assert found == {
            "data": t.data_ptr, "shape": (2, 3), "strides": (3, 1), "byte_offset": 0, "dtype": (2, 32, 1),
            "device": (1, 0),
        }  # fmt: skip

    def test_read_only_cannot_be_said(self):
        out, t = capsules.DLTensor(), made(read_only=True)
        with pytest.raises(BufferError, match="read-only"):
            api.view_object(id(t), ct.byref(out))

    @pytest.mark.parametrize("other", [None, "x", np.zeros(2)])
    def test_not_a_tensor_of_ours(self, other):
        with pytest.raises(TypeError, match=r"isthmus\.Tensor"):
            api.view_object(id(other), ct.byref(capsules.DLTensor()))


class TestAllocate:
    def prototype(self, shape=(2, 3), dtype=(2, 32, 1), device=(1, 0), ndim=None):
        sizes = (ct.c_int64 * max(len(shape), 1))(*shape)
        made = capsules.DLTensor(ndim=len(shape) if ndim is None else ndim, shape=sizes)
        made.dtype = capsules.DataType(*dtype)
        made.device = capsules.Device(*device)
        return made

    def allocate(self, prototype):
        said = []
        out = ct.c_void_p(1)

        @capsules.SET_ERROR
        def set_error(context, kind, text):
            said.append((context, kind.decode(), text.decode()))

        argument = ct.byref(prototype) if prototype is not None else None
        status = api.allocate(argument, ct.byref(out), 0x77, set_error)
        return status, out.value, said

    @pytest.mark.parametrize("shape", [(2, 3), (), (0,), (5, 0, 2), (1,) * 64])
    @pytest.mark.parametrize("dtype", [(2, 32, 1), (0, 8, 1), (4, 16, 1), (5, 128, 1), (17, 4, 1)])
    def test_memory(self, shape, dtype):
        status, address, said = self.allocate(self.prototype(shape, dtype))
        assert (status, said) == (0, [])
        found = capsules.read_managed(address)
        assert found.shape == shape
        assert found.dtype == dtype
        assert found.flags == 0
        assert found.strides is not None
        assert found.data % 64 == 0
        items = int(np.prod(shape, dtype=np.int64))
        ct.memset(found.data, 0x55, (items * dtype[1] + 7) // 8)
        capsules.end(address)

    @pytest.mark.parametrize(
        ("wrong", "kind"),
        [
            ({"device": (2, 0)}, "BufferError"),
            ({"shape": (-1,)}, "ValueError"),
            ({"shape": (2**62, 8)}, "ValueError"),
            ({"dtype": (2, 0, 1)}, "ValueError"),
            ({"dtype": (99, 32, 1)}, "ValueError"),
            ({"ndim": -1}, "ValueError"),
            ({"ndim": 65}, "ValueError"),
        ],
    )
    def test_refused(self, wrong, kind):
        status, address, said = self.allocate(self.prototype(**wrong))
        assert status == -1
        assert address is None
        ((context, name, text),) = said
        assert (context, name) == (0x77, kind)
        assert text

    def test_no_memory(self):
        status, address, said = self.allocate(self.prototype((2**45, 1)))
        assert (status, address) == (-1, None)
        assert said[0][1] == "MemoryError"

    def test_null_shape(self):
        prototype = self.prototype()
        prototype.shape = ct.POINTER(ct.c_int64)()
        assert self.allocate(prototype)[2][0][1] == "ValueError"

    def test_null_prototype(self):
        assert self.allocate(None)[0] == -1

    def test_without_a_word_from_the_caller(self):
        out = ct.c_void_p(1)
        assert api.allocate(ct.byref(self.prototype(device=(2, 0))), ct.byref(out), None, capsules.SET_ERROR()) == -1

    def test_becomes_an_object(self):
        t = to_object(self.allocate(self.prototype())[1])
        assert t.shape == (2, 3)
        assert not t.read_only


def test_stream():
    for device in ((1, 0), (2, 0), (2, 7)):
        out = ct.c_void_p(1)
        assert api.stream(*device, ct.byref(out)) == 0
        assert out.value is None
