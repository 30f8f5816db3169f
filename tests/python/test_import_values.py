"""Memory whose bytes are not its values, or which is not there, is refused by every way in; and every way out says what
it is.

Promised (law 3; docs/import.md, "Checks"): datetimes have no dtype in DLPack, a lazily negated tensor of any dtype
and an uninitialised parameter have no memory that shows their values, an address lies in the address space, and a
padded sub-byte tensor is never described as a packed one.
"""

from __future__ import annotations

import ctypes
import pickle

import capsules
import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")

TIMES = [np.datetime64("2020-01-01"), np.datetime64("NaT"), np.timedelta64(3, "s"), np.timedelta64(3)]


@pytest.mark.parametrize("scalar", TIMES, ids=repr)
def test_a_scalar_of_time(take, refused, scalar: np.generic) -> None:
    """As the array of it is: the bytes of its buffer are no uint8."""
    error = refused("bad_dtype", BufferError, take, scalar)
    assert scalar.dtype.name in str(error)
    assert ".view('int64')" in str(error)


STRUCTURED = [np.zeros(1, "i4,f4")[0], np.void(b"abc"), np.str_("abc")]


@pytest.mark.parametrize("scalar", STRUCTURED, ids=repr)
def test_other_scalars_that_are_no_numbers(take, refused, scalar: np.generic) -> None:
    """The scalar is refused where the array of it is: its buffer must not pass for numbers."""
    refused("bad_dtype", BufferError, take, np.asarray(scalar))
    refused("bad_dtype", BufferError, take, scalar)


@pytest.mark.parametrize(
    "name", ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "complex64"]
)
def test_the_negative_bit_of_every_dtype(take, refused, name: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch._neg_view(torch.arange(3).to(getattr(torch, name)))
    assert ".resolve_neg()" in str(refused("not_values", BufferError, take, x))


def test_the_negative_bit_of_a_shared_view(refused) -> None:
    torch = pytest.importorskip("torch")
    x = torch._neg_view(torch.arange(4))[1:]
    refused("not_values", BufferError, ext.own, x, require_writable=True)
    with pytest.raises(isthmus.Error):
        isthmus.from_dlpack(x)


@pytest.mark.parametrize("name", ["UninitializedParameter", "UninitializedBuffer"])
def test_uninitialised(take, refused, name: str) -> None:
    """A lazy module's parameter has no shape yet: it is none of shape (0,)."""
    torch = pytest.importorskip("torch")
    x = getattr(torch.nn.parameter, name)()
    error = refused("not_values", BufferError, take, x)
    assert "uninitialized" in str(error).lower() or "uninitialised" in str(error).lower()
    assert "materialize" in str(error)


class Interface:
    def __init__(self, **fields: object) -> None:
        self.__array_interface__ = {"shape": (3,), "typestr": "<f4", "version": 3, **fields}


ADDRESSES = [-16, -(2**63), 2**64 - 16, 2**64, 2**70, -(2**70), 4.5, "16", 2**64 - 4]


@pytest.mark.parametrize("address", ADDRESSES, ids=repr)
def test_an_address_that_is_none(take, address: object) -> None:
    """Negative, beyond the address space, or with its elements beyond it; and what is no integer at all."""
    with pytest.raises(ext.Error) as info:
        take(Interface(data=(address, False)))
    assert info.value.code in ("null_data", "overflow")
    assert isinstance(info.value, BufferError)


@pytest.mark.parametrize("strides", [None, (-4,)], ids=repr)
def test_elements_around_the_address_space(take, strides: object) -> None:
    with pytest.raises(ext.Error) as info:
        take(Interface(data=(4 if strides else 2**64 - 8, False), strides=strides))
    assert info.value.code == "overflow"


@pytest.mark.parametrize("address", [-16, 2**64 - 16])
def test_an_address_that_is_none_of_a_device(take, address: int) -> None:
    interface = {"shape": (3,), "typestr": "<f4", "version": 3, "data": (address, False)}
    with pytest.raises(ext.Error):
        take(type("Cuda", (), {"__cuda_array_interface__": interface})())


def test_from_blob_of_an_address_that_is_none() -> None:
    for pointer in (-16, 2**64 - 16, 2**64):
        with pytest.raises(isthmus.Error):
            isthmus.from_blob({"ptr": pointer, "shape": (3,), "dtype": "float32"}, owner=object())


def padded() -> object:
    return ext.pages([4], "int4", padded=True)


def test_a_view_of_the_exchange_api_does_not_call_padded_packed() -> None:
    """dltensor_from_py_object_no_sync has no flags (dlpack.h): what needs one is refused with a BufferError."""
    t, view = padded(), capsules.DLTensor()
    api = capsules.exchange_api(type(t))
    with pytest.raises(BufferError, match=r"padded|byte for each"):
        assert api.view_object(id(t), ctypes.byref(view)) != 0, "taken for a packed int4"


def test_a_managed_tensor_of_the_exchange_api_says_padded() -> None:
    t, out = padded(), ctypes.c_void_p()
    assert capsules.exchange_api(type(t)).from_object(id(t), ctypes.byref(out)) == 0
    content = capsules.read_managed(out.value)
    assert content.flags & capsules.PADDED
    capsules.end(out.value)


def test_a_packed_tensor_has_a_view() -> None:
    t, view = ext.pages([4], "int4"), capsules.DLTensor()
    assert capsules.exchange_api(type(t)).view_object(id(t), ctypes.byref(view)) == 0
    assert (view.dtype.code, view.dtype.bits) == (0, 4)


PINNED = {"CUDA": (3, 0), "ROCm": (11, 0)}


@pytest.mark.parametrize("device", PINNED.values(), ids=PINNED)
def test_a_copy_of_pinned_memory_is_not_pinned(device: tuple[int, int]) -> None:
    """The copy comes from the heap, and says so: whoever takes it for pinned would start asynchronous transfers of
    it."""
    t = ext.pages([4], device=device)
    content = capsules.read(t.__dlpack__(max_version=(1, 0), copy=True))
    assert content.data != t.data_ptr
    assert content.device == (1, 0)
    copy = isthmus.from_dlpack(t, copy=True)
    assert copy.device == "cpu"
    assert ext.own(t, copy="always")["device"] == "cpu"
    assert pickle.loads(pickle.dumps(t)).device == "cpu"


@pytest.mark.parametrize("device", PINNED.values(), ids=PINNED)
def test_a_pinned_copy_is_not_ours_to_make(device: tuple[int, int]) -> None:
    """Whoever asks for a copy there gets no heap memory under that name."""
    t = ext.pages([4], device=device)
    with pytest.raises(isthmus.Error, match="only cpu memory is allocated here") as info:
        t.__dlpack__(max_version=(1, 0), dl_device=device, copy=True)
    assert info.value.code == "bad_device"
    with pytest.raises(isthmus.Error):
        isthmus.from_dlpack(t, device=device, copy=True)
    assert capsules.read(t.__dlpack__(max_version=(1, 0), dl_device=device)).device == device
    assert capsules.read(t.__dlpack__(max_version=(1, 0), dl_device=(1, 0), copy=True)).device == (1, 0)


def test_pinned_memory_itself_stays_pinned() -> None:
    t = ext.pages([4], device=(3, 0))
    assert capsules.read(t.__dlpack__(max_version=(1, 0))).device == (3, 0)


def misaligned() -> object:
    return ext.pages([3], "uint8", offset=1, read_only=True)


READ_ONLY = {
    "contiguous": lambda: ext.pages([4], read_only=True),
    "transposed": lambda: ext.pages([2, 3], strides=[1, 2], read_only=True),
    "every other": lambda: ext.pages([3], strides=[2], read_only=True),
    "reversed": lambda: ext.tensor_of(read_only_array(np.arange(6.0))[::-1]),
    "broadcast": lambda: ext.tensor_of(np.broadcast_to(np.zeros(1), (4,))),
    "not aligned to its elements' neighbours": misaligned,
    "empty": lambda: ext.pages([0, 3], read_only=True),
    "0-d": lambda: ext.pages([], read_only=True),
    "padded": lambda: ext.pages([4], "int4", padded=True, read_only=True),
}


def read_only_array(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", READ_ONLY)
def test_a_pickled_tensor_stays_read_only(name: str, protocol: int) -> None:
    t = READ_ONLY[name]()
    back = pickle.loads(pickle.dumps(t, protocol))
    assert t.read_only
    assert back.read_only
    assert ext.own_elements(back) == ext.own_elements(t)


@pytest.mark.parametrize("name", READ_ONLY)
def test_out_of_band_it_stays_read_only(name: str) -> None:
    t = READ_ONLY[name]()
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    assert pickle.loads(data, buffers=buffers).read_only
    # Also over writable buffers, as a transport makes them.
    assert pickle.loads(data, buffers=[bytearray(b.raw()) for b in buffers]).read_only


@pytest.mark.parametrize("read_only", [True, False])
def test_out_of_band_buffers_that_lie_badly(read_only: bool) -> None:
    """A transport may put the bytes at any address; they are moved then, and what was read-only stays so."""
    t = ext.pages([3], "float64", data=np.arange(3.0), read_only=read_only)
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(t, 5, buffer_callback=buffers.append)
    room = bytearray(32 + t.nbytes)
    at = (1 - np.frombuffer(room, np.uint8).ctypes.data) % 8
    room[at : at + t.nbytes] = buffers[0].raw()
    badly = memoryview(room)[at : at + t.nbytes]
    back = pickle.loads(data, buffers=[badly.toreadonly() if read_only else badly])
    assert back.read_only == read_only
    assert np.asarray(back).tolist() == [0, 1, 2]
