"""Managed tensors built field by field with ctypes, whose deleters count, and the capsules and APIs that carry them."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

PYAPI = ctypes.pythonapi


class DLDevice(Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DLDataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class DLTensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", DLDevice),
        ("ndim", c_int32),
        ("dtype", DLDataType),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    ]


class DLManagedTensor(Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", c_void_p), ("deleter", c_void_p)]


class DLPackVersion(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class DLManagedTensorVersioned(Structure):
    _fields_ = [
        ("version", DLPackVersion),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", DLTensor),
    ]


DELETER = ctypes.CFUNCTYPE(None, c_void_p)
DESTRUCTOR = ctypes.CFUNCTYPE(None, c_void_p)

capsule_new = PYAPI.PyCapsule_New
capsule_new.restype, capsule_new.argtypes = ctypes.py_object, [c_void_p, c_void_p, c_void_p]
capsule_is_valid = PYAPI.PyCapsule_IsValid
capsule_is_valid.restype, capsule_is_valid.argtypes = ctypes.c_int, [c_void_p, ctypes.c_char_p]
capsule_name_of = PYAPI.PyCapsule_GetName
capsule_name_of.restype, capsule_name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]

# Callbacks and names must outlive every capsule: nothing here is ever freed.
KEPT: list[object] = []
DEFAULT = object()


def address_of_bytes(name: bytes) -> int:
    buffer = ctypes.create_string_buffer(name)
    KEPT.append(buffer)
    return ctypes.addressof(buffer)


class Managed:
    """One managed tensor of three float32 unless told otherwise, in 256 bytes of its own memory.

    `calls` counts its deleter. Sizes and strides are lists, or None for NULL.
    """

    def __init__(
        self,
        versioned: bool,
        *,
        shape=DEFAULT,
        strides=DEFAULT,
        ndim=DEFAULT,
        data=DEFAULT,
        offset_in_memory=0,
        dtype=(2, 32, 1),
        device=(1, 0),
        byte_offset=0,
        version=(1, 3),
        flags=0,
        deleter=True,
        context=True,
        poison=False,
        on_delete=None,
    ) -> None:
        self.versioned = versioned
        self.calls = 0
        self.on_delete = on_delete
        self.memory = (c_uint8 * 320)(*[i % 256 for i in range(320)])
        base = (ctypes.addressof(self.memory) + 63) // 64 * 64
        self.address = base + offset_in_memory
        shape = [3] if shape is DEFAULT else shape
        strides = None if strides is DEFAULT else strides
        # Two tails of zeros, so that a reader of too many dimensions is caught by the outcome and not by chance.
        self.shape = None if shape is None else (c_int64 * (len(shape) + 2))(*shape)
        self.strides = None if strides is None else (c_int64 * (len(strides) + 2))(*strides)
        self.deleter = DELETER(self._delete)
        self.struct = (DLManagedTensorVersioned if versioned else DLManagedTensor)()
        t = self.struct.dl_tensor
        t.data = self.address if data is DEFAULT else data
        t.device = DLDevice(*device)
        t.ndim = (len(shape) if shape is not None else 0) if ndim is DEFAULT else ndim
        t.dtype = DLDataType(*dtype)
        t.shape = None if self.shape is None else ctypes.addressof(self.shape)
        t.strides = None if self.strides is None else ctypes.addressof(self.strides)
        t.byte_offset = byte_offset
        self.struct.manager_ctx = 0x1234 if context else None
        self.struct.deleter = ctypes.cast(self.deleter, c_void_p).value if deleter else None
        if versioned:
            self.struct.version = DLPackVersion(*version)
            self.struct.flags = flags
        if poison:
            ctypes.memset(ctypes.addressof(t), 0x41, ctypes.sizeof(t))
            self.struct.flags = 0x4141414141414141
        KEPT.append(self)

    def _delete(self, pointer: int) -> None:
        self.calls += 1
        assert pointer == self.pointer, "the deleter got another pointer than its own tensor"
        if self.on_delete is not None:
            self.on_delete()

    @property
    def pointer(self) -> int:
        return ctypes.addressof(self.struct)

    def capsule(self, name=DEFAULT, destructor=True):
        """A capsule of the right name, whose destructor ends the tensor unless somebody took it."""
        if name is DEFAULT:
            name = b"dltensor_versioned" if self.versioned else b"dltensor"
        own = b"dltensor_versioned" if self.versioned else b"dltensor"

        def end(capsule: int) -> None:
            if capsule_is_valid(capsule, own) and self.struct.deleter:
                self.deleter(self.pointer)

        callback = DESTRUCTOR(end)
        KEPT.append(callback)
        return capsule_new(
            self.pointer,
            None if name is None else address_of_bytes(name),
            ctypes.cast(callback, c_void_p) if destructor else None,
        )


class Producer:
    """`__dlpack__` that hands out the capsules a function makes, counting its calls."""

    def __init__(self, make) -> None:
        self.make = make
        self.asked: list[dict] = []

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        return self.make()

    def __dlpack_device__(self):
        return (1, 0)


# The C exchange API

FROM_PY = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, POINTER(c_void_p))


class ApiHeader(Structure):
    pass


ApiHeader._fields_ = [("version", DLPackVersion), ("prev_api", POINTER(ApiHeader))]


class Api(Structure):
    _fields_ = [
        ("header", ApiHeader),
        ("managed_tensor_allocator", c_void_p),
        ("managed_tensor_from_py_object_no_sync", c_void_p),
        ("managed_tensor_to_py_object_no_sync", c_void_p),
        ("dltensor_from_py_object_no_sync", c_void_p),
        ("current_work_stream", c_void_p),
    ]


def make_api(function, version=(1, 3), prev=None, fill=0) -> Api:
    """An API whose import function is the Python callable `function(object_address, out) -> status`, or NULL."""
    api = Api()
    api.header.version = DLPackVersion(*version)
    if prev is not None:
        api.header.prev_api = ctypes.cast(ctypes.pointer(prev), POINTER(ApiHeader))
    if function is not None:
        callback = FROM_PY(function)
        KEPT.append(callback)
        api.managed_tensor_from_py_object_no_sync = ctypes.cast(callback, c_void_p).value
    if fill:
        api.managed_tensor_allocator = api.managed_tensor_to_py_object_no_sync = fill
    KEPT.append(api)
    return api


def api_capsule(api, name=b"dlpack_exchange_api"):
    return capsule_new(ctypes.addressof(api), None if name is None else address_of_bytes(name), None)


def type_with_api(attribute, **members) -> type:
    return type("ApiProducer", (), {"__dlpack_c_exchange_api__": attribute, **members})
