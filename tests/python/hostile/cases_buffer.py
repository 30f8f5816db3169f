"""Exporters of the buffer protocol with every field wrong (PEP 3118)."""

from __future__ import annotations

from cases import BOTH, case, expect, ext, refused, register

GOOD = {"format": "f", "itemsize": 4, "ndim": 1, "shape": (4,), "length": 16}
BIG = 2**62

# name: (fields other than those of GOOD, code expected or "")
TABLE: dict[str, tuple[dict, str]] = {
    "good": ({}, ""),
    "format_null": ({"format": None, "itemsize": 1, "shape": (16,)}, ""),
    "format_null_wide": ({"format": None}, "bad_dtype"),
    "format_empty": ({"format": ""}, "bad_dtype"),
    "format_order_only": ({"format": "<"}, "bad_dtype"),
    "format_unknown": ({"format": "y"}, "bad_dtype"),
    "format_pointer": ({"format": "P", "itemsize": 8, "shape": (2,)}, "bad_dtype"),
    "format_object": ({"format": "O", "itemsize": 8, "shape": (2,)}, "bad_dtype"),
    "format_chars": ({"format": "4s"}, "bad_dtype"),
    "format_char_of_another_size": ({"format": "c", "itemsize": 4}, "bad_dtype"),
    "format_unicode": ({"format": "w"}, "bad_dtype"),
    "format_repeat": ({"format": "2f", "itemsize": 8, "shape": (2,)}, "bad_dtype"),
    "format_repeat_of_one": ({"format": "1f"}, "bad_dtype"),
    "format_struct": ({"format": "T{f:x:}"}, "bad_dtype"),
    "format_two": ({"format": "hh"}, "bad_dtype"),
    "format_spaces": ({"format": " f"}, "bad_dtype"),
    "format_subarray": ({"format": "(2)f", "itemsize": 8}, "bad_dtype"),
    "format_padding": ({"format": "fx", "itemsize": 5}, "bad_dtype"),
    "format_double_order": ({"format": "<<f"}, "bad_dtype"),
    "format_complex_of_int": ({"format": "Zi", "itemsize": 8}, "bad_dtype"),
    "format_complex_unended": ({"format": "Z", "itemsize": 8}, "bad_dtype"),
    "format_complex_twice": ({"format": "ZZf", "itemsize": 8}, "bad_dtype"),
    "format_long": ({"format": "f" * 100_000}, "bad_dtype"),
    "format_no_text": ({"format": "é"}, "bad_dtype"),
    "format_big_endian": ({"format": ">f"}, "not_values"),
    "format_network": ({"format": "!f"}, "not_values"),
    "format_big_endian_bytes": ({"format": ">B", "itemsize": 1}, ""),
    "format_little_endian": ({"format": "<f"}, ""),
    "format_complex": ({"format": "Zf", "itemsize": 8, "shape": (2,)}, ""),
    "format_half": ({"format": "e", "itemsize": 2, "shape": (8,)}, ""),
    "format_long_double": ({"format": "g", "itemsize": 16, "shape": (1,)}, ""),
    "format_standard_long": ({"format": "<l", "itemsize": 4}, ""),
    "format_native_long": ({"format": "l", "itemsize": 8, "shape": (2,)}, ""),
    "itemsize_wrong": ({"itemsize": 2}, "bad_dtype"),
    "itemsize_too_wide": ({"itemsize": 8}, "bad_dtype"),
    "itemsize_zero": ({"itemsize": 0}, "bad_dtype"),
    "itemsize_negative": ({"itemsize": -4}, "bad_dtype"),
    "itemsize_least": ({"itemsize": -(2**63)}, "bad_dtype"),
    "itemsize_greatest": ({"itemsize": 2**63 - 1}, "bad_dtype"),
    "itemsize_zero_no_shape": ({"itemsize": 0, "shape": None}, "bad_layout"),
    "itemsize_negative_no_shape": ({"itemsize": -4, "shape": None}, "bad_layout"),
    "ndim_negative": ({"ndim": -1}, "bad_layout"),
    "ndim_greatest": ({"ndim": 2**31 - 1}, "bad_layout"),
    "ndim_65": ({"ndim": 65, "shape": (1,) * 65}, "bad_layout"),
    "ndim_zero": ({"ndim": 0, "shape": None, "length": 4}, ""),
    "shape_null": ({"shape": None}, ""),
    "shape_null_2d": ({"shape": None, "ndim": 2}, "bad_layout"),
    "shape_negative": ({"shape": (-4,)}, "bad_layout"),
    "shape_least": ({"shape": (-(2**63),)}, "bad_layout"),
    "shape_overflow": ({"shape": (BIG, BIG), "ndim": 2}, "overflow"),
    "shape_bytes_overflow": ({"shape": (BIG,)}, "overflow"),
    "shape_empty": ({"shape": (0,), "length": 0}, ""),
    "shape_empty_null_data": ({"shape": (0,), "length": 0, "null_data": True}, ""),
    "null_data": ({"null_data": True}, "null_data"),
    "length_negative_no_shape": ({"shape": None, "length": -16}, "bad_layout"),
    "unaligned": ({"offset": 1}, "needs_copy"),
    "unaligned_bytes": ({"offset": 1, "format": "B", "itemsize": 1}, ""),
    "strides_no_multiple": ({"strides": (6,)}, "needs_copy"),
    "strides_no_multiple_unused": ({"shape": (1,), "strides": (6,)}, ""),
    "strides_zero": ({"strides": (0,)}, ""),
    "strides_negative": ({"strides": (-4,), "offset": 64}, ""),
    "strides_least": ({"strides": (-(2**63),)}, "overflow"),
    "strides_greatest": ({"strides": (2**63 - 4,)}, "overflow"),
    "suboffsets": ({"suboffsets": (0,)}, "bad_layout"),
    "suboffsets_none": ({"suboffsets": (-1,)}, ""),
    "suboffsets_second": ({"ndim": 2, "shape": (2, 2), "suboffsets": (-1, 8)}, "bad_layout"),
    "read_only": ({"readonly": True}, ""),
    "refuses": ({"fail": True}, "producer_failed"),
}


def add(name: str, fields: dict, code: str) -> None:
    def run() -> None:
        for call in BOTH:
            x = ext.Exporter(**{**GOOD, **fields})
            for _ in range(3):
                if code:
                    text = str(refused(code, call, x, argument="q"))
                    expect("'q'" in text, text)
                else:
                    found = call(x)
                    expect(found["read_only"] == bool(fields.get("readonly")), "the read-only bit")
                    wanted = 0 if fields.get("null_data") else x.address + fields.get("offset", 0)
                    expect(found["data"] == wanted, "the address")
                expect(x.alive == 0, f"{x.alive} buffers were never released")
            if code:
                continue
            number = ext.keep(x)
            expect(x.alive == 1, f"{x.alive} buffers for one tensor")
            ext.drop_on_thread(number, False)
            expect(x.alive == 0, "never released")

    register(f"buffer_{name}", run)


for name, (fields, code) in TABLE.items():
    add(name, fields, code)


@case
def buffer_refused_for_writing() -> None:
    for call in BOTH:
        x = ext.Exporter(**GOOD, readonly=True)
        refused("read_only", call, x, require_writable=True, error=BufferError)
        expect(x.alive == 0, "never released")


@case
def buffer_of_a_released_memoryview() -> None:
    view = memoryview(bytearray(8))
    view.release()
    for call in BOTH:
        error = refused("producer_failed", call, view)
        expect(isinstance(error.__cause__, ValueError), error)


@case
def buffer_locks_its_exporter() -> None:
    """A bytearray must not be resized under a living tensor, and may be afterwards."""
    x = bytearray(16)
    number = ext.keep(x)
    try:
        x.append(1)
    except BufferError:
        pass
    else:
        raise AssertionError("resized under a living tensor")
    ext.drop_without_gil(number)
    x.append(1)


@case
def buffer_beside_a_method() -> None:
    """`__dlpack__` comes first where a type has both, since it says more."""
    from descriptors import Managed

    class Both(ext.Exporter):
        def __dlpack__(self, **_):
            self.managed = Managed(True)
            return self.managed.capsule()

    for call in BOTH:
        x = Both(**GOOD)
        expect(call(x)["data"] == x.managed.address, "the method's data")
