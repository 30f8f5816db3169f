"""Capsules: their names, their destructors, and who takes them when."""

from __future__ import annotations

import contextlib
import ctypes
import sys

from cases import BOTH, case, collect, expect, ext, refused
from descriptors import Managed, Producer, api_capsule, capsule_name_of, make_api


@case
def capsule_consumed_twice() -> None:
    for versioned in (False, True):
        for call in BOTH:
            managed = Managed(versioned)
            capsule = managed.capsule()
            call(capsule)
            text = str(refused("consumed_capsule", call, capsule, error=ValueError, argument="x"))
            expect("'x'" in text and "used_" in text, text)
            del capsule
            collect()
            expect(managed.calls == 1, f"deleter ran {managed.calls} times")


@case
def capsule_consumed_while_kept() -> None:
    managed = Managed(True)
    capsule = managed.capsule()
    number = ext.keep(capsule)
    for _ in range(10):
        refused("consumed_capsule", ext.own, capsule)
    del capsule
    collect()
    expect(managed.calls == 0, "freed under a living tensor")
    ext.drop(number)
    expect(managed.calls == 1, f"deleter ran {managed.calls} times")


@case
def capsule_cached_by_its_producer() -> None:
    for versioned in (False, True):
        for call in BOTH:
            managed = Managed(versioned)
            capsule = managed.capsule()
            producer = Producer(lambda capsule=capsule: capsule)
            call(producer)
            refused("consumed_capsule", call, producer)
            # The second answer of a legacy producer is the capsule that was just taken: nothing to compare.
            expect(len(producer.asked) == (2 if versioned else 3), f"asked {len(producer.asked)} times for 2 imports")
            del capsule, producer
            collect()
            expect(managed.calls == 1, f"deleter ran {managed.calls} times")


def refuses_name(name: bytes | None) -> None:
    for call in BOTH:
        managed = Managed(True)
        capsule = managed.capsule(name=name)
        refused("bad_capsule", call, capsule, error=ValueError)
        expect(managed.calls == 0, "a capsule of another name was touched")
        expect(capsule_name_of(capsule) == name, "and renamed")


@case
def capsule_of_another_name() -> None:
    for name in (b"dltensor_", b"DLTENSOR", b"", b"tensor", b"dltensor_versioned2", b"used", b"x" * 10_000):
        refuses_name(name)


@case
def capsule_without_name() -> None:
    refuses_name(None)


@case
def capsule_with_name_that_is_no_text() -> None:
    refuses_name(b"\xff\xfe\x80")


@case
def capsule_used_from_birth() -> None:
    for name in (b"used_dltensor", b"used_dltensor_versioned"):
        managed = Managed(True)
        refused("consumed_capsule", ext.own, managed.capsule(name=name))
        expect(managed.calls == 0, "touched")


@case
def capsule_that_is_an_exchange_api() -> None:
    refused("bad_capsule", ext.own, api_capsule(make_api(None)))


@case
def capsule_with_null_pointer() -> None:
    """PyCapsule_New refuses NULL, so it is written into the object: type and count come first, then the pointer."""
    for call in BOTH:
        managed = Managed(True)
        capsule = managed.capsule(destructor=False)
        ctypes.c_void_p.from_address(id(capsule) + object.__basicsize__).value = None
        refused("bad_capsule", call, capsule)
        ctypes.c_void_p.from_address(id(capsule) + object.__basicsize__).value = managed.pointer


@case
def capsule_without_destructor() -> None:
    for versioned in (False, True):
        managed = Managed(versioned)
        ext.own(managed.capsule(destructor=False))
        expect(managed.calls == 1, f"deleter ran {managed.calls} times")


@case
def capsule_refused_for_writing_stays_whole() -> None:
    managed = Managed(True, flags=1)
    capsule = managed.capsule()
    refused("read_only", ext.own, capsule, require_writable=True, error=BufferError)
    expect(managed.calls == 0 and capsule_name_of(capsule) == b"dltensor_versioned", "consumed by a refusal")
    expect(ext.own(capsule)["read_only"], "and still good")
    expect(managed.calls == 1, f"deleter ran {managed.calls} times")


@case
def capsule_flagged_as_copied() -> None:
    for call in BOTH:
        managed = Managed(True, flags=2)
        capsule = managed.capsule()
        refused("needs_copy", call, capsule)
        expect(managed.calls == 0 and capsule_name_of(capsule) == b"dltensor_versioned", "consumed by a refusal")
        expect(call(capsule, copy="if_needed")["copied"], "taken where a copy is welcome")
        expect(managed.calls == 1, f"deleter ran {managed.calls} times")


@case
def capsule_copied_always() -> None:
    for call in BOTH:
        managed = Managed(True, flags=1)
        found = call(managed.capsule(), copy="always", require_writable=True)
        expect(found["data"] != managed.address and not found["read_only"], "memory of its own")
        expect(managed.calls == 1, f"deleter ran {managed.calls} times")


@case
def capsule_whose_deleter_throws() -> None:
    for versioned in (0, 1):
        for misdeed in ("none", "throws", "throws_int"):
            before = ext.deleter_calls()
            expect(ext.borrow(ext.capsule_with_deleter(misdeed, versioned))["shape"] == (3,), "taken")
            expect(ext.own(ext.capsule_with_deleter(misdeed, versioned))["shape"] == (3,), "taken")
            number = ext.keep(ext.capsule_with_deleter(misdeed, versioned))
            ext.drop_on_thread(number, False)
            expect(ext.deleter_calls() - before == 3, "each once")


@case
def capsule_whose_deleter_leaves_an_exception() -> None:
    """It is reported as what it is, unraisable; neither the caller's result nor the caller's own exception suffers."""
    told: list = []
    sys.unraisablehook = lambda report: told.append(report.exc_value)
    for versioned in (0, 1):
        for call in BOTH:
            expect(call(ext.capsule_with_deleter("sets_exception", versioned))["shape"] == (3,), "taken")
        try:
            ext.borrow_and_raise(ext.capsule_with_deleter("sets_exception", versioned))
        except LookupError as exception:
            expect(exception.__cause__ is None, exception)
        else:
            raise AssertionError("the function's own exception was lost")
        ext.drop(ext.keep(ext.capsule_with_deleter("sets_exception", versioned)))
    expect(len(told) == 8 and all(isinstance(e, RuntimeError) for e in told), told)


@case
def capsule_whose_python_deleter_raises() -> None:
    told: list = []
    sys.unraisablehook = lambda report: told.append(report.exc_value)

    def fail() -> None:
        raise ValueError("from the deleter")

    for versioned in (False, True):
        for call in BOTH:
            managed = Managed(versioned, on_delete=fail)
            call(managed.capsule())
            expect(managed.calls == 1, f"deleter ran {managed.calls} times")
        managed = Managed(versioned, on_delete=fail)
        # Without a destructor, which is Python here too and would meet the exception when the capsule goes.
        with contextlib.suppress(LookupError):
            ext.borrow_and_raise(managed.capsule(destructor=False))
        expect(managed.calls == 1, f"deleter ran {managed.calls} times")
    expect(len(told) == 6 and all(isinstance(e, ValueError) for e in told), told)


@case
def capsule_whose_deleter_imports() -> None:
    """A deleter may run any Python code, imports and drops among it."""
    inner = Managed(True)
    outer = Managed(True, on_delete=lambda: ext.own(inner.capsule()))
    ext.own(outer.capsule())
    expect((outer.calls, inner.calls) == (1, 1), (outer.calls, inner.calls))
