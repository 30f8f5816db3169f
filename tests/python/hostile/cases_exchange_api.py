"""The C exchange API: a type's attribute that is not what it should be,
and functions that do not do what they should."""

from __future__ import annotations

import ctypes

from cases import BOTH, case, expect, ext, refused, without_memory
from descriptors import Managed, api_capsule, make_api, type_with_api


class Fallback:
    """An object whose `__dlpack__` is good; what its type's API is must not matter."""

    def __init__(self) -> None:
        self.asked = 0

    def __dlpack__(self, *, max_version=None, **_):
        self.asked += 1
        self.managed = Managed(True)
        return self.managed.capsule()


def falls_back(attribute: object) -> None:
    for call in BOTH:
        producer = type("Odd", (Fallback,), {"__dlpack_c_exchange_api__": attribute})()
        for round_ in (1, 2):
            expect(call(producer)["data"] == producer.managed.address, "the data of __dlpack__")
            expect(producer.asked == round_ and producer.managed.calls == 1, "once each")
    # With nothing to fall back to it is no tensor, and no crash.
    for call in BOTH:
        refused("not_a_tensor", call, type_with_api(attribute)(), error=TypeError)


def never(_object: int, _out) -> int:
    raise AssertionError("this function must not be called")


@case
def api_that_is_no_capsule() -> None:
    for attribute in (None, 3, "text", object(), make_api(None), lambda: None, property(lambda self: 1 / 0)):
        falls_back(attribute)


@case
def api_of_another_name() -> None:
    falls_back(api_capsule(make_api(never), name=b"dlpack_api"))


@case
def api_without_name() -> None:
    falls_back(api_capsule(make_api(never), name=None))


@case
def api_that_is_a_tensor_capsule() -> None:
    falls_back(Managed(True).capsule())


@case
def api_of_another_major() -> None:
    falls_back(api_capsule(make_api(never, version=(2, 0))))
    falls_back(api_capsule(make_api(never, version=(0, 8))))


@case
def api_with_null_functions() -> None:
    falls_back(api_capsule(make_api(None)))


@case
def api_of_a_newer_minor() -> None:
    managed = []

    def export(_object: int, out) -> int:
        managed.append(Managed(True))
        out[0] = managed[-1].pointer
        return 0

    producer = type_with_api(api_capsule(make_api(export, version=(1, 99))))()
    expect(ext.own(producer)["data"] == managed[0].address, "taken")


@case
def api_in_a_chain() -> None:
    managed = []

    def export(_object: int, out) -> int:
        managed.append(Managed(True))
        out[0] = managed[-1].pointer
        return 0

    oldest = make_api(export)
    newer = make_api(never, version=(2, 0), prev=oldest)
    newest = make_api(never, version=(3, 1), prev=newer)
    producer = type_with_api(api_capsule(newest))()
    for call in BOTH:
        expect(call(producer)["data"] == managed[-1].address, "found at the end of the chain")
        expect(managed[-1].calls == 1, "deleted once")


@case
def api_in_a_chain_that_bites_its_tail() -> None:
    first = make_api(never, version=(2, 0))
    second = make_api(never, version=(3, 0), prev=first)
    first.header.prev_api = ctypes.pointer(second.header)
    falls_back(api_capsule(second))
    alone = make_api(never, version=(2, 0))
    alone.header.prev_api = ctypes.pointer(alone.header)
    falls_back(api_capsule(alone))


@case
def api_on_the_instance_only() -> None:
    for call in BOTH:
        producer = Fallback()
        producer.__dlpack_c_exchange_api__ = api_capsule(make_api(never))
        expect(call(producer)["data"] == producer.managed.address, "the data of __dlpack__")


@case
def api_added_to_the_type_later() -> None:
    managed = []

    def export(_object: int, out) -> int:
        managed.append(Managed(True))
        out[0] = managed[-1].pointer
        return 0

    for call in BOTH:
        kind = type("Late", (Fallback,), {})
        producer = kind()
        call(producer)
        kind.__dlpack_c_exchange_api__ = api_capsule(make_api(export))
        expect(call(producer)["data"] == managed[-1].address, "by the API now")
        del kind.__dlpack_c_exchange_api__
        expect(call(producer)["data"] == producer.managed.address, "and by the method again")
        expect(producer.asked == 2, producer.asked)


@case
def api_that_returns_null() -> None:
    def export(_object: int, out) -> int:
        out[0] = None
        return 0

    for call in BOTH:
        refused("producer_failed", call, type_with_api(api_capsule(make_api(export)))(), error=BufferError)


@case
def api_that_writes_nothing() -> None:
    for call in BOTH:
        refused("producer_failed", call, type_with_api(api_capsule(make_api(lambda _object, _out: 0)))())


@case
def api_that_fails_without_exception() -> None:
    for status in (-1, 1, -(2**31)):
        for call in BOTH:
            error = refused(
                "producer_failed", call, type_with_api(api_capsule(make_api(lambda _o, _out, s=status: s)))()
            )
            expect(error.__cause__ is None, error)


@case
def api_that_fails_with_exception() -> None:
    for kind in (ValueError, BufferError, TypeError):
        for call in BOTH:
            error = refused("producer_failed", call, type_with_api(ext.api_capsule(-1, kind, 0))())
            expect(isinstance(error.__cause__, kind) and "not today" in str(error), error)
    for call in BOTH:  # out of memory says nothing about the producer
        without_memory(call, type_with_api(ext.api_capsule(-1, MemoryError, 0))())


@case
def api_that_fails_with_a_tensor() -> None:
    """On failure the out pointer is nobody's: it is not read, and not freed."""
    managed = Managed(True)
    for call in BOTH:
        refused("producer_failed", call, type_with_api(ext.api_capsule(-1, ValueError, managed.pointer))())
        refused("producer_failed", call, type_with_api(ext.api_capsule(-1, None, managed.pointer))())
    expect(managed.calls == 0, "freed what was not handed over")


@case
def api_that_succeeds_with_exception() -> None:
    for call in BOTH:
        managed = Managed(True)
        error = refused("producer_failed", call, type_with_api(ext.api_capsule(0, ValueError, managed.pointer))())
        expect(isinstance(error.__cause__, ValueError), error)
        expect(managed.calls == 1, f"deleter ran {managed.calls} times")


@case
def api_that_is_interrupted() -> None:
    for kind in (KeyboardInterrupt, SystemExit):
        for call in BOTH:
            try:
                call(type_with_api(ext.api_capsule(-1, kind, 0))())
            except kind as exception:
                expect(type(exception) is kind and exception.__cause__ is None, exception)
            else:
                raise AssertionError("the interrupt was lost")


@case
def api_of_a_base_type() -> None:
    made = []

    def export(_object: int, out) -> int:
        made.append(Managed(True))
        out[0] = made[-1].pointer
        return 0

    base = type_with_api(api_capsule(make_api(export)))
    derived = type("Derived", (base,), {"__slots__": ()})
    expect(ext.own(derived())["data"] == made[-1].address, "inherited")


@case
def api_capsule_that_dies_with_its_type() -> None:
    """A type and its API die, another type may get the address: the cache must not answer for the dead."""
    for _ in range(2_000):
        made = []

        def export(_object: int, out, made=made) -> int:
            made.append(Managed(True))
            out[0] = made[-1].pointer
            return 0

        kind = type("Brief", (), {"__dlpack_c_exchange_api__": api_capsule(make_api(export))})
        expect(ext.borrow(kind())["data"] == made[0].address, "its own API")
        del kind
        other = type("Brief", (), {})
        refused("not_a_tensor", ext.borrow, other())
