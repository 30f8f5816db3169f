"""DLPack 1.3 as ctypes sees it: what is really in a capsule or behind the exchange API,
read by nobody's code but this."""

from __future__ import annotations

import ctypes as ct
from dataclasses import dataclass

READ_ONLY, IS_COPIED, PADDED = 1, 2, 4


class Device(ct.Structure):
    _fields_ = [("type", ct.c_int32), ("id", ct.c_int32)]


class DataType(ct.Structure):
    _fields_ = [("code", ct.c_uint8), ("bits", ct.c_uint8), ("lanes", ct.c_uint16)]


class DLTensor(ct.Structure):
    _fields_ = [
        ("data", ct.c_void_p),
        ("device", Device),
        ("ndim", ct.c_int32),
        ("dtype", DataType),
        ("shape", ct.POINTER(ct.c_int64)),
        ("strides", ct.POINTER(ct.c_int64)),
        ("byte_offset", ct.c_uint64),
    ]


DELETER = ct.CFUNCTYPE(None, ct.c_void_p)


class Managed(ct.Structure):
    _fields_ = [("tensor", DLTensor), ("manager_ctx", ct.c_void_p), ("deleter", ct.c_void_p)]


class ManagedVersioned(ct.Structure):
    _fields_ = [
        ("major", ct.c_uint32),
        ("minor", ct.c_uint32),
        ("manager_ctx", ct.c_void_p),
        ("deleter", ct.c_void_p),
        ("flags", ct.c_uint64),
        ("tensor", DLTensor),
    ]


SET_ERROR = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_char_p, ct.c_char_p)


class ExchangeAPI(ct.Structure):
    _fields_ = [
        ("major", ct.c_uint32),
        ("minor", ct.c_uint32),
        ("prev_api", ct.c_void_p),
        ("allocate", ct.CFUNCTYPE(ct.c_int, ct.POINTER(DLTensor), ct.POINTER(ct.c_void_p), ct.c_void_p, SET_ERROR)),
        ("from_object", ct.PYFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(ct.c_void_p))),
        ("to_object", ct.PYFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(ct.c_void_p))),
        ("view_object", ct.PYFUNCTYPE(ct.c_int, ct.c_void_p, ct.POINTER(DLTensor))),
        ("stream", ct.CFUNCTYPE(ct.c_int, ct.c_int32, ct.c_int32, ct.POINTER(ct.c_void_p))),
    ]


def _api(name: str, restype: object, *argtypes: object) -> object:
    function = ct.pythonapi[name]
    function.restype, function.argtypes = restype, argtypes
    return function


_pointer = _api("PyCapsule_GetPointer", ct.c_void_p, ct.py_object, ct.c_char_p)
_name = _api("PyCapsule_GetName", ct.c_char_p, ct.py_object)
_set_name = _api("PyCapsule_SetName", ct.c_int, ct.py_object, ct.c_char_p)
_new = _api("PyCapsule_New", ct.py_object, ct.c_void_p, ct.c_char_p, ct.c_void_p)
_decref = _api("Py_DecRef", None, ct.c_void_p)
# Capsules do not copy their name.
_USED, _USED_VERSIONED = b"used_dltensor", b"used_dltensor_versioned"
_NAMES = {True: b"dltensor_versioned", False: b"dltensor"}


def name_of(capsule: object) -> str:
    return _name(capsule).decode()


def rename(capsule: object, name: bytes) -> None:
    """The name is not copied: it has to live as long as the capsule."""
    assert _set_name(capsule, name) == 0


def is_whole(capsule: object) -> bool:
    """Whether nobody has taken the managed tensor out of it."""
    name = name_of(capsule)
    assert name.removeprefix("used_") in ("dltensor", "dltensor_versioned"), name
    return not name.startswith("used_")


def add_flags(capsule: object, flags: int) -> object:
    """The same versioned capsule, with these flags as well."""
    ManagedVersioned.from_address(_pointer(capsule, _NAMES[True])).flags |= flags
    return capsule


def on_device(capsule: object, device: tuple[int, int]) -> object:
    """The same versioned capsule, whose memory is said to be there."""
    found = ManagedVersioned.from_address(_pointer(capsule, _NAMES[True])).tensor.device
    found.type, found.id = device
    return capsule


@dataclass
class Content:
    """A managed tensor, copied out field by field."""

    versioned: bool
    version: tuple[int, int] | None
    flags: int
    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    byte_offset: int
    dtype: tuple[int, int, int]
    device: tuple[int, int]
    manager_ctx: int | None
    deleter: int | None

    @property
    def read_only(self) -> bool:
        return bool(self.flags & READ_ONLY)

    @property
    def copied(self) -> bool:
        return bool(self.flags & IS_COPIED)


def describe(tensor: DLTensor) -> dict:
    return {
        "data": tensor.data or 0,
        "shape": tuple(tensor.shape[i] for i in range(tensor.ndim)),
        "strides": tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None,
        "byte_offset": tensor.byte_offset,
        "dtype": (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes),
        "device": (tensor.device.type, tensor.device.id),
    }


def read_managed(address: int, versioned: bool = True) -> Content:
    managed = (ManagedVersioned if versioned else Managed).from_address(address)
    return Content(
        versioned=versioned,
        version=(managed.major, managed.minor) if versioned else None,
        flags=managed.flags if versioned else 0,
        manager_ctx=managed.manager_ctx,
        deleter=managed.deleter,
        **describe(managed.tensor),
    )


def read(capsule: object) -> Content:
    """What the capsule holds; it stays unconsumed."""
    versioned = name_of(capsule) == "dltensor_versioned"
    return read_managed(_pointer(capsule, _NAMES[versioned]), versioned)


def consume(capsule: object) -> int:
    """Takes the managed tensor out as a consumer does: its address, to be given to end()."""
    versioned = name_of(capsule) == "dltensor_versioned"
    address = _pointer(capsule, _NAMES[versioned])
    assert _set_name(capsule, _USED_VERSIONED if versioned else _USED) == 0
    return address


def end(address: int, versioned: bool = True) -> None:
    managed = (ManagedVersioned if versioned else Managed).from_address(address)
    DELETER(managed.deleter)(address)


def wrap(address: int, versioned: bool = True) -> object:
    """A bare capsule over a managed tensor, without a destructor."""
    return _new(address, _NAMES[versioned], None)


def exchange_api(of: object) -> ExchangeAPI:
    capsule = of.__dlpack_c_exchange_api__
    assert name_of(capsule) == "dlpack_exchange_api"
    return ExchangeAPI.from_address(_pointer(capsule, b"dlpack_exchange_api"))


def steal_object(address: int) -> object:
    """The Python object of a new reference that C handed out."""
    found = ct.cast(address, ct.py_object).value
    _decref(address)
    return found
