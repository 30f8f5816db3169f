"""`__array_interface__` and `__cuda_array_interface__` with every field wrong."""

from __future__ import annotations

import ctypes
import sys

from cases import BOTH, case, collect, expect, ext, refused, register

MEMORY = (ctypes.c_float * 64)(*range(64))
ADDRESS = ctypes.addressof(MEMORY)
GOOD = {"shape": (4,), "typestr": "<f4", "data": (ADDRESS, False), "version": 3}
BIG = 2**62


class Fails:
    def __index__(self):
        raise ValueError("no number")

    __bool__ = __index__


# name: (fields other than those of GOOD; a code, several of which any will do, or "" when it is taken)
TABLE: dict[str, tuple[dict, str]] = {
    "good": ({}, ""),
    "shape_missing": ({"shape": None}, "bad_layout"),
    "shape_list": ({"shape": [4]}, "bad_layout"),
    "shape_number": ({"shape": 4}, "bad_layout"),
    "shape_text": ({"shape": "4"}, "bad_layout"),
    "shape_of_floats": ({"shape": (4.0,)}, "bad_layout"),
    "shape_of_none": ({"shape": (None,)}, "bad_layout"),
    "shape_negative": ({"shape": (-4,)}, "bad_layout"),
    "shape_minus_one": ({"shape": (-1,)}, "bad_layout"),
    "shape_too_big": ({"shape": (2**64,)}, "bad_layout"),
    "shape_far_too_big": ({"shape": (10**100,)}, "bad_layout"),
    "shape_overflow": ({"shape": (BIG, BIG)}, "overflow"),
    "shape_65": ({"shape": (1,) * 65}, "bad_layout"),
    "shape_10000": ({"shape": (1,) * 10_000}, "bad_layout"),
    "shape_64": ({"shape": (1,) * 64}, ""),
    "shape_empty": ({"shape": ()}, ""),
    "shape_fails": ({"shape": (Fails(),)}, "bad_layout"),
    "shape_of_bools": ({"shape": (True, True)}, ""),
    "typestr_missing": ({"typestr": None}, "bad_dtype"),
    "typestr_bytes": ({"typestr": b"<f4"}, "bad_dtype"),
    "typestr_number": ({"typestr": 4}, "bad_dtype"),
    "typestr_empty": ({"typestr": ""}, "bad_dtype"),
    "typestr_short": ({"typestr": "f4"}, "bad_dtype"),
    "typestr_no_size": ({"typestr": "<f"}, "bad_dtype"),
    "typestr_size_zero": ({"typestr": "<f0"}, "bad_dtype"),
    "typestr_size_odd": ({"typestr": "<f3"}, "bad_dtype"),
    "typestr_size_signed": ({"typestr": "<f-4"}, "bad_dtype"),
    "typestr_size_huge": ({"typestr": "<f99999999999999999999"}, "bad_dtype"),
    "typestr_size_32": ({"typestr": "<c32"}, "bad_dtype"),
    "typestr_half_complex": ({"typestr": "<c2"}, "bad_dtype"),
    "typestr_bool_wide": ({"typestr": "|b4"}, "bad_dtype"),
    "typestr_bits": ({"typestr": "|t4"}, "bad_dtype"),
    "typestr_object": ({"typestr": "|O8"}, "bad_dtype"),
    "typestr_text": ({"typestr": "<U4"}, "bad_dtype"),
    "typestr_bytes_s": ({"typestr": "|S4"}, "bad_dtype"),
    "typestr_void": ({"typestr": "|V4"}, "bad_dtype"),
    "typestr_datetime": ({"typestr": "<M8"}, "bad_dtype"),
    "typestr_datetime_unit": ({"typestr": "<M8[ns]"}, "bad_dtype"),
    "typestr_no_order": ({"typestr": "xf4"}, "bad_dtype"),
    "typestr_surrogate": ({"typestr": "\ud800"}, "bad_dtype"),
    "typestr_nul": ({"typestr": "<f4\0junk"}, "bad_dtype"),
    "typestr_big_endian": ({"typestr": ">f4"}, "not_values"),
    "typestr_big_endian_byte": ({"typestr": ">u1"}, ""),
    "typestr_native": ({"typestr": "=f4"}, ""),
    "data_missing": ({"data": None}, "null_data"),
    "data_number": ({"data": ADDRESS}, "null_data"),
    "data_one": ({"data": (ADDRESS,)}, "null_data"),
    "data_three": ({"data": (ADDRESS, False, 1)}, "null_data"),
    "data_list": ({"data": [ADDRESS, False]}, "null_data"),
    "data_text": ({"data": (str(ADDRESS), False)}, "null_data"),
    "data_negative": ({"data": (-4, False)}, "null_data overflow"),
    "data_too_big": ({"data": (2**64, False)}, "null_data"),
    "data_float": ({"data": (float(1 << 20), False)}, "null_data"),
    "data_null": ({"data": (0, False)}, "null_data"),
    "data_null_no_elements": ({"data": (0, False), "shape": (0,)}, ""),
    "data_unaligned": ({"data": (ADDRESS + 2, False)}, "needs_copy"),
    "data_flag_fails": ({"data": (ADDRESS, Fails())}, "null_data"),
    "data_read_only": ({"data": (ADDRESS, True)}, ""),
    "data_at_the_end": ({"data": (2**64 - 4, False)}, "overflow"),
    "buffer": ({"data": bytes(16)}, ""),
    "buffer_writable": ({"data": bytearray(16)}, ""),
    "buffer_too_small": ({"data": bytearray(15)}, "overflow"),
    "buffer_offset": ({"data": bytearray(32), "offset": 16}, ""),
    "buffer_offset_too_far": ({"data": bytearray(32), "offset": 20}, "overflow"),
    "buffer_offset_beyond": ({"data": bytearray(16), "offset": 17}, "bad_layout"),
    "buffer_offset_negative": ({"data": bytearray(32), "offset": -16}, "bad_layout"),
    "buffer_offset_huge": ({"data": bytearray(32), "offset": 2**64}, "bad_layout"),
    "buffer_offset_text": ({"data": bytearray(32), "offset": "16"}, "bad_layout"),
    "buffer_offset_unaligned": ({"data": bytearray(32), "offset": 2}, "needs_copy"),
    "buffer_strides_beyond": ({"data": bytearray(32), "strides": (16,)}, "overflow"),
    "buffer_strides_before": ({"data": bytearray(32), "strides": (-4,), "offset": 8}, "overflow"),
    "buffer_strides_back": ({"data": bytearray(32), "strides": (-4,), "offset": 12}, ""),
    "buffer_not_contiguous": ({"data": memoryview(bytearray(64))[::2]}, "producer_failed"),
    "buffer_empty": ({"data": b"", "shape": (0,)}, ""),
    "buffer_huge_shape": ({"data": bytearray(16), "shape": (BIG // 8,)}, "overflow"),
    "strides_none": ({"strides": None}, ""),
    "strides_list": ({"strides": [4]}, "bad_layout"),
    "strides_too_few": ({"strides": ()}, "bad_layout"),
    "strides_too_many": ({"strides": (4, 4)}, "bad_layout"),
    "strides_of_floats": ({"strides": (4.0,)}, "bad_layout"),
    "strides_too_big": ({"strides": (2**64,)}, "bad_layout"),
    "strides_greatest": ({"strides": (2**63 - 4,)}, "overflow"),
    "strides_least": ({"strides": (-(2**63),)}, "overflow"),
    "strides_no_multiple": ({"strides": (6,)}, "needs_copy"),
    "strides_no_multiple_unused": ({"shape": (1,), "strides": (6,)}, ""),
    "strides_no_multiple_overflow": ({"shape": (BIG, BIG), "strides": (6, 6)}, "overflow"),
    "strides_no_multiple_negative_shape": ({"shape": (-1,), "strides": (6,)}, "bad_layout"),
    "strides_zero": ({"strides": (0,)}, ""),
    "strides_negative": ({"data": (ADDRESS + 64, False), "strides": (-4,)}, ""),
    "mask": ({"mask": object()}, "not_values"),
    "mask_none": ({"mask": None}, ""),
    "extra_fields": ({"descr": [("", "<f4")], "more": 1}, ""),
    "version_missing": ({"version": None}, ""),
}


def add(name: str, fields: dict, code: str) -> None:
    def run() -> None:
        merged = {**GOOD, **fields}
        kind = type("Interface", (), {"__array_interface__": merged})
        missing = type("Interface", (), {"__array_interface__": {k: v for k, v in merged.items() if v is not None}})
        for make in (kind, missing):
            for call in BOTH:
                x = make()
                if not code:
                    found = call(x)
                    data = merged["data"]
                    if isinstance(data, tuple):
                        expect(found["data"] == data[0], "the address")
                        expect(found["read_only"] == bool(data[1]), "the read-only bit")
                    else:
                        expect(found["read_only"] == isinstance(data, bytes), "the read-only bit")
                    continue
                try:
                    found = call(x, argument="q")
                except ext.Error as error:
                    expect(error.code in code.split(), f"expected {code}, got {error.code}: {error}")
                    expect("'q'" in str(error), error)
                else:
                    raise AssertionError(f"expected {code}, but it was taken: {found}")

    register(f"array_interface_{name}", run)


for name, (fields, code) in TABLE.items():
    add(name, fields, code)


@case
def array_interface_that_is_no_dict() -> None:
    for value in (3, "text", (), [], object(), lambda: GOOD):
        kind = type("Interface", (), {"__array_interface__": value})
        for call in BOTH:
            refused("producer_failed", call, kind())


@case
def array_interface_that_raises() -> None:
    class Raises:
        @property
        def __array_interface__(self):
            raise OSError("no interface")

    class Interrupts:
        @property
        def __array_interface__(self):
            raise KeyboardInterrupt

    for call in BOTH:
        error = refused("producer_failed", call, Raises())
        expect(isinstance(error.__cause__, OSError), error)
        try:
            call(Interrupts())
        except KeyboardInterrupt:
            continue
        raise AssertionError("lost")


@case
def array_interface_keeps_its_owner() -> None:
    class Owner:
        def __init__(self) -> None:
            self.memory = (ctypes.c_float * 4)(1, 2, 3, 4)

        @property
        def __array_interface__(self):
            return {**GOOD, "data": (ctypes.addressof(self.memory), False)}

    x = Owner()
    before = sys.getrefcount(x)
    number = ext.keep(x)
    expect(sys.getrefcount(x) > before, "the object is kept")
    ext.drop(number)
    expect(sys.getrefcount(x) == before, "and let go")
    number = ext.keep(x)
    del x
    collect()
    expect(ext.kept_elements(number) == bytes((ctypes.c_float * 4)(1, 2, 3, 4)), "the elements")
    ext.drop_on_thread(number, False)


@case
def array_interface_fresh_dict_may_own_the_memory() -> None:
    class Fresh:
        @property
        def __array_interface__(self):
            memory = (ctypes.c_float * 4)(1, 2, 3, 4)
            return {**GOOD, "data": (ctypes.addressof(memory), False), "owner": memory}

    for _ in range(100):
        for elements in (ext.borrow_elements, ext.own_elements):
            found = elements(Fresh(), copy="from_producer")
            expect(found == bytes((ctypes.c_float * 4)(1, 2, 3, 4)), elements.__name__)
    for call in BOTH:
        expect(call(Fresh(), copy="from_producer")["copied"], "each question has its own memory")
        refused("needs_copy", call, Fresh(), error=BufferError)


@case
def array_interface_dict_that_changes() -> None:
    """The dict is a subclass whose reading has side effects, and empties itself."""

    class Shrinking(dict):
        def __getitem__(self, key):
            raise AssertionError("dict's own functions are used")

    kind = type("Interface", (), {"__array_interface__": Shrinking(GOOD)})
    for call in BOTH:
        expect(call(kind())["data"] == ADDRESS, "taken")


@case
def cuda_interface_fields() -> None:
    def kind(**fields):
        return type("Cuda", (), {"__cuda_array_interface__": {**GOOD, "data": (0x7F0000000000, False), **fields}})()

    for call in BOTH:
        found = call(kind())
        expect(found["device"] == "cuda:0" and found["data"] == 0x7F0000000000, found)
        expect(call(kind(stream=None))["device"] == "cuda:0", "None: nothing to wait for")
        expect(call(kind(shape=(0,), data=(0, False)))["shape"] == (0,), "no elements, no memory")
        for stream in (0, -1, "1", 1.5, 2**70, object()):
            refused("bad_argument", call, kind(stream=stream), error=ValueError)
        refused("not_values", call, kind(mask=1))
        refused("null_data", call, kind(data=(0, False)))
        refused("bad_dtype", call, kind(typestr="|O8"))
        expect(call(kind(data=(0x7F0000000000, True)))["read_only"], "read-only")


@case
def array_interface_dict_emptied_by_its_numbers() -> None:
    for key in ("shape", "strides", "data"):
        for value in (4, 0):
            fields = dict(GOOD, strides=(4,))

            class Evil:
                def __index__(self, fields=fields, value=value):
                    fields.clear()
                    collect()
                    return value

                def __bool__(self, fields=fields):
                    fields.clear()
                    return False

            fields[key] = {"shape": (Evil(), Evil(), 4), "strides": (Evil(),), "data": (ADDRESS, Evil())}[key]
            kind = type("Interface", (), {"__array_interface__": fields})
            for call in BOTH:
                try:
                    call(kind())
                except ext.Error as error:
                    expect(error.code in ("bad_layout", "null_data", "overflow", "bad_dtype"), error)


@case
def array_interface_numbers_that_interrupt() -> None:
    class Interrupts:
        def __index__(self):
            raise KeyboardInterrupt

        __bool__ = __index__

    for field in ({"shape": (Interrupts(),)}, {"strides": (Interrupts(),)}, {"data": (ADDRESS, Interrupts())}):
        kind = type("Interface", (), {"__array_interface__": {**GOOD, **field}})
        for call in BOTH:
            try:
                call(kind())
            except KeyboardInterrupt:
                continue
            raise AssertionError("lost")


@case
def array_interface_buffer_is_held() -> None:
    memory = bytearray(range(16))
    kind = type("Interface", (), {"__array_interface__": {**GOOD, "typestr": "|u1", "shape": (16,), "data": memory}})
    number = ext.keep(kind())
    try:
        memory.clear()
    except BufferError:
        pass
    else:
        raise AssertionError("resized under a living tensor")
    expect(ext.kept_elements(number) == bytes(range(16)), "the elements")
    ext.drop_on_thread(number, False)
    memory.clear()


@case
def array_interface_of_an_object_with_a_buffer_in_a_fresh_dict() -> None:
    class Image:
        @property
        def __array_interface__(self):
            return {**GOOD, "typestr": "|u1", "shape": (2, 3), "data": bytes(range(6))}

    for _ in range(100):
        expect(ext.borrow_elements(Image(), copy="if_needed") == bytes(range(6)), "borrowed")
        expect(ext.own_elements(Image(), copy="if_needed") == bytes(range(6)), "owned")
        refused("needs_copy", ext.borrow, Image())
