"""Descriptors with one field wrong, in both kinds of capsule and by every carrier."""

from __future__ import annotations

import ctypes

from cases import BOTH, collect, expect, ext, refused, register
from descriptors import Managed, Producer, api_capsule, make_api, type_with_api

BIG = 2**62
HIGH = 2**64 - 4096 - 64  # an address at the end: the last page is never memory

# name: (fields of the tensor, code expected or "" when it must be taken, versioned only)
TABLE: dict[str, tuple[dict, str]] = {
    "good": ({}, ""),
    "no_dimensions_null_shape": ({"shape": None}, ""),
    "no_dimensions": ({"shape": [], "strides": []}, ""),
    "null_shape": ({"shape": None, "ndim": 2}, "bad_layout"),
    "null_shape_with_strides": ({"shape": None, "strides": [1], "ndim": 1}, "bad_layout"),
    "ndim_negative": ({"ndim": -1}, "bad_layout"),
    "ndim_least": ({"ndim": -(2**31)}, "bad_layout"),
    "ndim_greatest": ({"ndim": 2**31 - 1}, "bad_layout"),
    "ndim_65": ({"shape": [1] * 65}, "bad_layout"),
    "ndim_64": ({"shape": [1] * 64}, ""),
    "size_negative": ({"shape": [2, -1]}, "bad_layout"),
    "size_least": ({"shape": [-(2**63)]}, "bad_layout"),
    "size_negative_beside_zero": ({"shape": [0, -1]}, "bad_layout"),
    "count_overflows": ({"shape": [2**32, 2**32]}, "overflow"),
    "count_overflows_to_zero": ({"shape": [2**32, 2**32, 1]}, "overflow"),
    "count_overflows_many": ({"shape": [3] * 64}, "overflow"),
    "count_overflows_beside_zero": ({"shape": [0, BIG, BIG]}, "overflow"),
    "bytes_overflow": ({"shape": [BIG]}, "overflow"),
    "bytes_leave_address_space": ({"shape": [2**63 - 1], "dtype": (1, 8, 1), "data": HIGH}, "overflow"),
    "end_leaves_address_space": ({"shape": [32], "data": HIGH}, "overflow"),
    "end_is_last_address": ({"shape": [16], "data": HIGH}, ""),
    "end_is_in_last_page": ({"shape": [17], "data": HIGH}, "overflow"),
    "in_last_page": ({"shape": [3], "data": 2**64 - 16}, "overflow"),
    "null_data": ({"data": None}, "null_data"),
    "null_data_scalar": ({"data": None, "shape": []}, "null_data"),
    "null_data_offset": ({"data": None, "byte_offset": 64}, "null_data"),
    "null_data_no_elements": ({"data": None, "shape": [0, 3]}, ""),
    "code_undefined": ({"dtype": (18, 32, 1)}, "bad_dtype"),
    "code_255": ({"dtype": (255, 8, 1)}, "bad_dtype"),
    "bits_zero": ({"dtype": (2, 0, 1)}, "bad_dtype"),
    "bits_odd": ({"dtype": (2, 33, 1)}, "bad_dtype"),
    "bits_255": ({"dtype": (0, 255, 1)}, "bad_dtype"),
    "lanes_zero": ({"dtype": (2, 32, 0)}, "bad_dtype"),
    "lanes_4": ({"dtype": (2, 32, 4), "shape": [2]}, ""),
    "lanes_65535_overflow": ({"dtype": (2, 128, 65535), "shape": [2**46]}, "overflow"),
    "bfloat_32": ({"dtype": (4, 32, 1)}, "bad_dtype"),
    "bool_16": ({"dtype": (6, 16, 1)}, "bad_dtype"),
    "float8_16": ({"dtype": (10, 16, 1)}, "bad_dtype"),
    "float4_8": ({"dtype": (17, 8, 1)}, "bad_dtype"),
    "float4_packed": ({"dtype": (17, 4, 1), "shape": [5]}, ""),
    "float4_packed_strided": ({"dtype": (17, 4, 1), "shape": [5], "strides": [2]}, "bad_layout"),
    "float6_packed": ({"dtype": (15, 6, 1), "shape": [4]}, ""),
    "device_0": ({"device": (0, 0)}, "bad_device"),
    "device_5": ({"device": (5, 0)}, "bad_device"),
    "device_99": ({"device": (99, 0)}, "bad_device"),
    "device_negative": ({"device": (-1, 0)}, "bad_device"),
    "device_id_negative": ({"device": (2, -1)}, "bad_device"),
    "device_cuda_never_touched": ({"device": (2, 3), "data": 0x7F0000000000}, ""),
    "device_handle_with_offset": ({"device": (4, 0), "data": 0x1001, "byte_offset": 8}, ""),
    "offset": ({"byte_offset": 8}, ""),
    "offset_unaligned": ({"byte_offset": 2}, "needs_copy"),
    "offset_greatest": ({"byte_offset": 2**64 - 1}, "overflow"),
    "offset_half": ({"byte_offset": 2**63}, "overflow"),
    "offset_leaves_address_space": ({"byte_offset": 128, "data": HIGH}, "overflow"),
    "offset_greatest_no_elements": ({"byte_offset": 2**64 - 1, "shape": [0]}, "overflow"),
    "unaligned": ({"offset_in_memory": 2}, "needs_copy"),
    "unaligned_bytes": ({"offset_in_memory": 1, "dtype": (1, 8, 1)}, ""),
    "unaligned_complex": ({"offset_in_memory": 4, "dtype": (5, 64, 1)}, ""),
    "strides_of_zero": ({"shape": [2, 3], "strides": [0, 0]}, ""),
    "strides_negative": ({"strides": [-1], "offset_in_memory": 64}, ""),
    "strides_below_zero": ({"strides": [-BIG]}, "overflow"),
    "strides_least": ({"strides": [-(2**63)]}, "overflow"),
    "strides_least_two": ({"shape": [2], "strides": [-(2**63)], "dtype": (1, 8, 1)}, "overflow"),
    "strides_greatest": ({"strides": [2**63 - 1]}, "overflow"),
    "strides_sum_overflows": ({"shape": [2, 2, 2], "strides": [BIG, BIG, BIG], "dtype": (1, 8, 1)}, "overflow"),
    "strides_bytes_overflow": ({"shape": [2], "strides": [2**61]}, "overflow"),
    "strides_below_address_zero": ({"shape": [2], "strides": [-64], "data": 64}, "overflow"),
    "strides_unused": ({"shape": [1, 3], "strides": [2**63 - 1, 1]}, ""),
    "strides_no_elements": ({"shape": [0, 3], "strides": [2**63 - 1, -(2**63)]}, ""),
    "null_deleter": ({"deleter": False}, ""),
    "null_context": ({"context": False}, ""),
    "null_deleter_refused": ({"deleter": False, "ndim": -1}, "bad_layout"),
}
VERSIONED: dict[str, tuple[dict, str]] = {
    "flags_read_only": ({"flags": 1}, ""),
    "flags_copied": ({"flags": 2}, "needs_copy"),
    "flags_padded": ({"flags": 4, "dtype": (17, 4, 1), "strides": [2]}, ""),
    "flags_unknown": ({"flags": 8}, "unsupported_version"),
    "flags_all": ({"flags": 2**64 - 1}, "unsupported_version"),
    "flags_top": ({"flags": 2**63}, "unsupported_version"),
    "flags_above_32": ({"flags": 2**32}, "unsupported_version"),
    "minor_to_come": ({"version": (1, 99)}, ""),
    "major_2": ({"version": (2, 0)}, "unsupported_version"),
    "major_2_poisoned": ({"version": (2, 0), "poison": True}, "unsupported_version"),
    "major_0": ({"version": (0, 8)}, "unsupported_version"),
    "major_greatest": ({"version": (2**32 - 1, 0), "poison": True}, "unsupported_version"),
    "major_2_null_deleter": ({"version": (2, 0), "poison": True, "deleter": False}, "unsupported_version"),
}


def check(found: dict, managed: Managed) -> None:
    t = managed.struct.dl_tensor
    offset = 0 if found["device"].startswith("opencl") else t.byte_offset
    expect(found["data"] == (t.data + offset if t.data else 0), "the address")
    expect(found["shape"] == tuple(managed.shape or [])[: t.ndim], "the shape")
    expect(len(found["strides"]) == t.ndim, "the strides")
    if managed.strides is not None:
        expect(found["strides"] == tuple(managed.strides)[: t.ndim], "the strides")
    expect(found["read_only"] == bool(managed.versioned and managed.struct.flags & 1), "the read-only bit")


def by_capsule(fields: dict, code: str, versioned: bool) -> None:
    deletes = fields.get("deleter", True)
    for call in BOTH:
        for through_method in (False, True):
            managed = Managed(versioned, **fields)
            capsule = managed.capsule()
            own_name = b"dltensor_versioned" if versioned else b"dltensor"
            producer = Producer(lambda capsule=capsule: capsule) if through_method else capsule
            from descriptors import capsule_name_of

            if code:
                text = str(refused(code, call, producer, argument="the_name"))
                expect("the_name" in text, f"the argument is not named: {text}")
                other_major = versioned and managed.struct.version.major != 1
                expect(managed.calls == int(other_major and deletes), f"deleter ran {managed.calls} times")
                expect(capsule_name_of(capsule) == (b"used_" if other_major else b"") + own_name, "capsule's name")
            else:
                check(call(producer), managed)
                expect(capsule_name_of(capsule) == b"used_" + own_name, "a capsule that was taken keeps its name")
                expect(managed.calls == int(deletes), f"deleter ran {managed.calls} times, expected 1")
                refused("consumed_capsule", call, producer, error=ValueError)
            if through_method:
                # Taken once and refused once; a legacy one that was taken is asked for again, since it has no flag for
                # a copy.
                t = managed.struct.dl_tensor
                again = not versioned and t.device.type != 4 and 0 not in list(managed.shape or [])[: t.ndim]
                wanted = 1 if code else 2 + again
                expect(len(producer.asked) == wanted, f"asked {len(producer.asked)} times, expected {wanted}")
            producer = capsule = None
            collect()
            expect(managed.calls == int(deletes), f"deleter ran {managed.calls} times in the end, expected 1")


def by_api(fields: dict, code: str) -> None:
    deletes = fields.get("deleter", True)
    for call in BOTH:
        made: list[Managed] = []

        def export(_object: int, out, made=made) -> int:
            made.append(Managed(True, **fields))
            out[0] = made[-1].pointer
            return 0

        producer = type_with_api(api_capsule(make_api(export)))()
        for _ in range(3):
            if code:
                refused(code, call, producer)
            else:
                check(call(producer), made[-1])
            expect(made[-1].calls == int(deletes), f"deleter ran {made[-1].calls} times")
        expect(len(made) == 3, f"asked {len(made)} times, expected 3")


def add(name: str, fields: dict, code: str, kinds: tuple[bool, ...]) -> None:
    def run() -> None:
        for versioned in kinds:
            by_capsule(fields, code, versioned)
        by_api(fields, code)

    register(f"descriptor_{name}", run)


for name, (fields, code) in TABLE.items():
    add(name, fields, code, (False, True))
for name, (fields, code) in VERSIONED.items():
    add(name, fields, code, (True,))


def kept_elsewhere() -> None:
    """An owning import keeps the memory until the last handle, and frees it once, on any thread."""
    for versioned in (False, True):
        for drop in (
            ext.drop,
            ext.drop_without_gil,
            lambda n: ext.drop_on_thread(n, False),
            lambda n: ext.drop_on_thread(n, True),
        ):
            managed = Managed(versioned)
            number = ext.keep(managed.capsule())
            other = ext.share(number)
            collect()
            expect(managed.calls == 0, "freed too early")
            drop(number)
            expect(managed.calls == 0, "freed with a handle left")
            expect(ext.kept_elements(other) == ctypes.string_at(managed.address, 12), "the elements")
            drop(other)
            expect(managed.calls == 1, f"deleter ran {managed.calls} times")


register("descriptor_kept_until_last_handle", kept_elsewhere)
