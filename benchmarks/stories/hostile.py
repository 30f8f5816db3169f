# SPDX-License-Identifier: Apache-2.0
"""The tables of tests/python/hostile shown to every library: what must be refused, and what is sound.

Counted is only what no reading of the standards allows: memory outside the address space or outside its buffer,
negative sizes, absent memory, another major version, and for a function of float32 in the CPU's memory another type or
device. What is Isthmus' own decision (alignment, copies, numbers of dimensions, byte order) is left out,
and so is what is sound and refused.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import build

from stories.libraries import Library
from stories.verdict import NOT_COUNTED, Verdict, of_import

Case = Callable[[Library], Verdict]
#: Refused by Isthmus, which others may see otherwise: no element is outside of what can be memory,
#: or none would be read.
ARGUABLE_DESCRIPTORS = {
    "ndim_65",
    "size_negative_beside_zero",
    "count_overflows_beside_zero",
    "end_leaves_address_space",
    "end_is_in_last_page",
    "in_last_page",
    "offset_greatest_no_elements",
}
COUNTED_CODES = {"bad_layout", "overflow", "null_data", "bad_dtype", "bad_device", "unsupported_version"}
#: The rest of what only typestr, byte order and Python's types say is left to each library.
WRONG_INTERFACES = {
    "shape_negative",
    "shape_minus_one",
    "shape_too_big",
    "shape_far_too_big",
    "shape_overflow",
    "data_negative",
    "data_too_big",
    "data_null",
    "data_at_the_end",
    "buffer_too_small",
    "buffer_offset_too_far",
    "buffer_offset_beyond",
    "buffer_offset_negative",
    "buffer_offset_huge",
    "buffer_strides_beyond",
    "buffer_strides_before",
    "buffer_huge_shape",
    "strides_greatest",
    "strides_least",
}
#: suboffsets: who does not ask for them need not look for them.
ARGUABLE_BUFFERS = ("format_", "ndim_65", "unaligned", "strides_no_multiple", "suboffsets")


def corpus() -> types.SimpleNamespace:
    """The tables of the tests, whose modules ask for the tests' extension: the producers stand in for it."""
    sys.path[:0] = [str(build.ROOT / "tests/python/hostile"), str(build.MODULES)]
    import reliability_producers

    stand_in = types.ModuleType("isthmus_test_ext")
    stand_in.__dict__.update(borrow=None, own=None, Error=Exception, Exporter=reliability_producers.Exporter)
    sys.modules["isthmus_test_ext"] = stand_in
    import cases_array_interface
    import cases_buffer
    import cases_descriptor
    import descriptors

    return types.SimpleNamespace(
        descriptors=descriptors, descriptor=cases_descriptor, buffer=cases_buffer, interface=cases_array_interface
    )


def attempt(library: Library, x: object) -> tuple[int, tuple[int, ...]] | None:
    """Address and shape; None when it was refused."""
    try:
        address, shape = library.take(x)
        return address, tuple(shape)
    except Exception:  # whatever a library refuses with
        return None


class Offers:
    """A producer that offers one capsule, and knows the version that it is of."""

    def __init__(self, managed: Any) -> None:
        self.capsule = managed.capsule()
        self.versioned = managed.versioned
        self.asked = False

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **_: object) -> object:
        if self.versioned and max_version is None:
            raise BufferError("only with a version")
        self.asked = True
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def descriptor_case(managed_type: Any, fields: dict[str, Any], must_refuse: bool, versioned: bool) -> Case:
    def run(library: Library) -> Verdict:
        managed = managed_type(versioned, **fields)
        offers = Offers(managed)
        found = attempt(library, offers)
        asked = offers.asked
        del offers
        gc.collect()
        if not asked:
            return Verdict(NOT_COUNTED, "never asked for such a capsule")
        t = managed.struct.dl_tensor
        faithful = found == ((t.data or 0) + t.byte_offset if t.data else 0, tuple(managed.shape or ())[: t.ndim])
        if found is not None and 0 in found[1]:
            faithful = found[1] == tuple(managed.shape)[: t.ndim]  # nothing is behind the address
        return of_import(must_refuse, found is not None, faithful, managed.calls, int(fields.get("deleter", True)))

    return run


def descriptor_cases(c: Any) -> Iterator[tuple[str, str, Case]]:
    tables = [(c.descriptor.TABLE, (False, True)), (c.descriptor.VERSIONED, (True,))]
    for table, kinds in tables:
        for name, (fields, code) in table.items():
            arguable = name in ARGUABLE_DESCRIPTORS or name.startswith("flags_") or (code and code not in COUNTED_CODES)
            other_memory = not code and ("dtype" in fields or "device" in fields)
            if arguable or other_memory:
                continue
            group = "DLPack, wrong" if code else "DLPack, sound"
            for versioned in kinds:
                case = descriptor_case(c.descriptors.Managed, fields, bool(code), versioned)
                yield group, f"{name}{' (versioned)' if versioned else ''}", case


def whole_buffer(fields: dict[str, Any]) -> dict[str, Any]:
    """With strides: an exporter that is asked for them, as consumers do, must not leave them out."""
    if fields["shape"] is None or "strides" in fields:
        return fields
    strides: list[int] = []
    step = fields["itemsize"]
    for size in reversed(fields["shape"]):
        strides.insert(0, step if abs(step) < 2**63 else fields["itemsize"])
        step *= size
    return {**fields, "strides": tuple(strides)}


def buffer_cases(c: Any) -> Iterator[tuple[str, str, Case]]:
    for name, (own, code) in c.buffer.TABLE.items():
        fields = whole_buffer({**c.buffer.GOOD, **own})
        incomplete = fields["shape"] is None and fields["ndim"] != 0  # who asks for a shape gets one
        if name.startswith(ARGUABLE_BUFFERS) or incomplete or (not code and fields["format"] != "f"):
            continue

        def run(library: Library, fields: dict[str, Any] = fields, code: str = code) -> Verdict:
            x = c.buffer.ext.Exporter(**fields)
            found = attempt(library, x)
            gc.collect()
            wanted = 0 if fields.get("null_data") else x.address + fields.get("offset", 0)
            faithful = found is not None and (found[0] == wanted or 0 in found[1])
            # The exporter counts the buffers that are out: none may be, none may come back twice.
            return of_import(bool(code), found is not None, faithful, 1 - x.alive)

        yield ("buffer, wrong" if code else "buffer, sound"), name, run


def interface_cases(c: Any) -> Iterator[tuple[str, str, Case]]:
    for name, (fields, code) in c.interface.TABLE.items():
        sound = not code and "typestr" not in fields and "version" not in fields
        if not (sound or name in WRONG_INTERFACES):
            continue

        def run(library: Library, fields: dict[str, Any] = fields, code: str = code) -> Verdict:
            merged = {k: v for k, v in {**c.interface.GOOD, **fields}.items() if v is not None}
            found = attempt(library, type("Interface", (), {"__array_interface__": merged})())
            data = merged["data"]
            faithful = found is not None and (not isinstance(data, tuple) or found[0] == data[0] or 0 in found[1])
            return of_import(bool(code), found is not None, faithful, None)

        yield ("__array_interface__, wrong" if code else "__array_interface__, sound"), name, run


def producer_cases(c: Any) -> Iterator[tuple[str, str, Case]]:
    managed_type = c.descriptors.Managed

    class Odd:
        """Its `__dlpack__` does what `body` does."""

        def __init__(self, body: Callable[[], object]) -> None:
            self.body = body

        def __dlpack__(self, **_: object) -> object:
            return self.body()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    def cached(library: Library) -> Verdict:
        managed = managed_type(False)
        capsules = [managed.capsule()]
        x = Odd(lambda: capsules[0])
        first, second = attempt(library, x), attempt(library, x)
        capsules.clear()
        gc.collect()
        return of_import(True, first is None or second is not None, True, managed.calls)

    def other_name(library: Library) -> Verdict:
        managed = managed_type(False)
        capsule = managed.capsule(name=b"tensor")
        return of_import(True, attempt(library, Odd(lambda: capsule)) is not None, True, managed.calls, 0)

    def raises(kind: type[BaseException]) -> Case:
        def run(library: Library) -> Verdict:
            def body() -> object:
                raise kind("the producer's own")

            try:
                library.take(Odd(body))
            except BaseException as error:
                lost = issubclass(kind, KeyboardInterrupt) and not isinstance(error, kind)
                return Verdict("wrong", "the interrupt is lost") if lost else Verdict("right")
            return Verdict("wrong", "taken")

        return run

    def returns(value: object) -> Case:
        return lambda library: of_import(True, attempt(library, Odd(lambda: value)) is not None, True, None)

    def imports_itself(library: Library) -> Verdict:
        x = Odd(lambda: library.take(x))
        return of_import(True, attempt(library, x) is not None, True, None)

    group = "producers that misbehave"
    yield group, "the same capsule twice", cached
    yield group, "a capsule of another name", other_name
    for kind in (ValueError, BufferError, MemoryError, KeyboardInterrupt):
        yield group, f"raises {kind.__name__}", raises(kind)
    for value in (None, 3, "capsule", object()):
        yield group, f"returns {type(value).__name__}", returns(value)
    yield group, "imports itself", imports_itself


#: Group → the protocol that a library must read to be asked.
PROTOCOLS = {
    "DLPack, wrong": "dlpack",
    "DLPack, sound": "dlpack",
    "producers that misbehave": "dlpack",
    "buffer, wrong": "buffer",
    "buffer, sound": "buffer",
    "__array_interface__, wrong": "interface",
    "__array_interface__, sound": "interface",
}


def cases(library: Library) -> Iterator[tuple[str, str, Case]]:
    """Group, name and case of everything that the library can be shown."""
    c = corpus()
    for made in (descriptor_cases, producer_cases, buffer_cases, interface_cases):
        for group, name, case in made(c):
            if library.reads(PROTOCOLS[group]):
                yield group, name, case
