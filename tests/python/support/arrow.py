"""Arrow's C structs as ctypes sees them, and objects that hand them out; every release is counted."""

from __future__ import annotations

import ctypes as ct


class Schema(ct.Structure):
    pass


class Array(ct.Structure):
    pass


RELEASE_SCHEMA = ct.CFUNCTYPE(None, ct.POINTER(Schema))
RELEASE_ARRAY = ct.CFUNCTYPE(None, ct.POINTER(Array))
Schema._fields_ = [
    ("format", ct.c_char_p), ("name", ct.c_char_p), ("metadata", ct.c_char_p), ("flags", ct.c_int64),
    ("n_children", ct.c_int64), ("children", ct.POINTER(ct.POINTER(Schema))), ("dictionary", ct.POINTER(Schema)),
    ("release", ct.c_void_p), ("private_data", ct.c_void_p),
]  # fmt: skip
Array._fields_ = [
    ("length", ct.c_int64), ("null_count", ct.c_int64), ("offset", ct.c_int64), ("n_buffers", ct.c_int64),
    ("n_children", ct.c_int64), ("buffers", ct.POINTER(ct.c_void_p)), ("children", ct.POINTER(ct.POINTER(Array))),
    ("dictionary", ct.POINTER(Array)), ("release", ct.c_void_p), ("private_data", ct.c_void_p),
]  # fmt: skip


class DeviceArray(ct.Structure):
    _fields_ = [
        ("array", Array),
        ("device_id", ct.c_int64),
        ("device_type", ct.c_int32),
        ("sync_event", ct.c_void_p),
        ("reserved", ct.c_int64 * 3),
    ]


_new = ct.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ct.py_object, (ct.c_void_p, ct.c_char_p, ct.c_void_p)
_pointer = ct.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ct.c_void_p, (ct.c_void_p, ct.c_char_p)


def pointer(capsule: object, name: bytes) -> int:
    return _pointer(id(capsule), name)


DESTRUCTOR = ct.PYFUNCTYPE(None, ct.c_void_p)
#: For good, with what they look at: a capsule may outlive its producer,
#: also where the garbage collector ends both at once.
for_good: list[object] = []


def extension(name: str) -> bytes:
    """The metadata of a field of this extension type, beside another key."""
    pairs = {"unit": "m", "ARROW:extension:name": name}
    out = len(pairs).to_bytes(4, "little")
    for text in (part for pair in pairs.items() for part in pair):
        out += len(text).to_bytes(4, "little") + text.encode()
    return out


class Producer:
    """An object of one protocol method. `values` is what the data buffer holds; the rest are fields of the structs."""

    method = "__arrow_c_array__"

    def __init__(
        self,
        values: object = (),
        kind: type = ct.c_float,
        form: bytes = b"f",
        *,
        lists: tuple[int, ...] = (),
        valid: bytes | None = None,
        device: tuple[int, int, int | None] = (1, -1, None),
        **fields: int | None,
    ) -> None:
        self.released: list[str] = []
        self.data = (kind * max(1, len(values)))(*values)
        self.valid = None if valid is None else ct.create_string_buffer(valid)
        self.device = device
        self._kept: list[object] = []
        count = len(values)
        schema, array = Schema(format=form), Array(length=count, n_buffers=2)
        array.buffers = (ct.c_void_p * 2)(self.valid and ct.addressof(self.valid), ct.addressof(self.data))
        inner = array
        for size in reversed(lists):
            count //= size
            schema = self._around(schema, Schema(format=b"+w:%d" % size))
            array = self._around(array, Array(length=count, n_buffers=1, buffers=(ct.c_void_p * 1)()))
        self.schema, self.array, self.inner = schema, array, inner
        for name, value in fields.items():
            for struct in (schema, array):
                if hasattr(type(struct), name):
                    setattr(struct, name, value)

    def _around(self, child: object, parent: object) -> object:
        pointer = ct.pointer(child)
        children = (type(pointer) * 1)(pointer)
        self._kept += [child, pointer, children]
        parent.n_children, parent.children = 1, children
        return parent

    @property
    def address(self) -> int:
        return ct.addressof(self.data)

    def release_of(self, what: str, kind: type) -> int:
        released = self.released

        def release(pointer: object) -> None:
            released.append(what)
            pointer.contents.release = None

        function = kind(release)
        for_good.append(function)
        return ct.cast(function, ct.c_void_p).value

    def capsule(self, struct: object, name: bytes, release_offset: int, release: type) -> object:
        def destroy(capsule: int) -> None:
            address = _pointer(capsule, name)
            at = ct.c_void_p.from_address(address + release_offset)
            if at.value:
                release(at.value)(ct.cast(address, ct.POINTER(Schema if release is RELEASE_SCHEMA else Array)))

        destructor = DESTRUCTOR(destroy)
        for_good.extend([struct, destructor, name])
        return _new(ct.addressof(struct), name, ct.cast(destructor, ct.c_void_p))

    def export(self) -> tuple[object, object]:
        schema = Schema.from_buffer_copy(self.schema)
        array = Array.from_buffer_copy(self.array)
        schema.release = self.release_of("schema", RELEASE_SCHEMA)
        array.release = self.release_of("array", RELEASE_ARRAY)
        name, struct = b"arrow_array", array
        if self.method == "__arrow_c_device_array__":
            kind, number, event = self.device
            name, struct = b"arrow_device_array", DeviceArray(array, number, kind, event)
        return (
            self.capsule(schema, b"arrow_schema", Schema.release.offset, RELEASE_SCHEMA),
            self.capsule(struct, name, Array.release.offset, RELEASE_ARRAY),
        )


class Plain(Producer):
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.export()


class OnDevice(Producer):
    method = "__arrow_c_device_array__"

    def __arrow_c_device_array__(self, requested_schema: object = None, **keywords: object) -> tuple[object, object]:
        return self.export()
