"""Objects whose `__dlpack__` is wrong, odd, or worse."""

from __future__ import annotations

import ctypes
import gc
import os
import weakref

from cases import BOTH, case, collect, expect, ext, refused, without_memory
from descriptors import Managed


def make(body, **members) -> object:
    """An object whose `__dlpack__` is `body`, and whose `calls` counts."""

    def method(self, *args, **keywords):
        self.calls += 1
        return body(self, *args, **keywords)

    return type("Odd", (), {"calls": 0, "__dlpack__": method, **members})()


@case
def producer_that_raises() -> None:
    for kind in (
        ValueError,
        RuntimeError,
        AttributeError,
        NotImplementedError,
        StopIteration,
        RecursionError,
        OSError,
    ):

        def body(self, kind=kind, **_):
            raise kind("my own trouble")

        for call in BOTH:
            x = make(body)
            error = refused("producer_failed", call, x, argument="q", error=BufferError)
            expect(type(error.__cause__) is kind, error.__cause__)
            expect("my own trouble" in str(error) and "'q'" in str(error), error)
            expect(error.__cause__.__traceback__ is not None, "the traceback is kept")
            expect(x.calls == 1, f"asked {x.calls} times")


@case
def producer_without_memory() -> None:
    def body(self, **_):
        raise MemoryError("my own trouble")

    for call in BOTH:
        without_memory(call, make(body))


@case
def producer_that_raises_type_error_inside() -> None:
    """An unrelated TypeError is no sign of an unknown keyword: one call,
    and the first error is the one that is told."""

    def add(self, max_version=None, **_):
        return 1 + "a"

    def speak(self, **_):
        raise TypeError("the keyword of the day is tensor")

    def call_wrongly(self, **_):
        return sorted([], depth=3)

    def speak_of_version(self, **_):
        raise TypeError("max_version must be a tuple")

    for body in (add, speak, call_wrongly, speak_of_version):
        for call in BOTH:
            x = make(body)
            error = refused("producer_failed", call, x)
            expect(type(error.__cause__) is TypeError, error.__cause__)
            expect(x.calls == 1, f"{body.__name__}: asked {x.calls} times")


class Knows:
    """Hands out a new legacy tensor per call, over memory that stays."""

    def __init__(self) -> None:
        self.memory = Managed(False)
        self.given: list[Managed] = []

    def give(self):
        self.given.append(Managed(False, data=self.memory.address))
        return self.given[-1].capsule()


class NoKeywords(Knows):
    def __dlpack__(self):
        return self.give()


class OnlyStream(Knows):
    def __dlpack__(self, stream=None):
        return self.give()


class OnlyStreamByName(Knows):
    def __dlpack__(self, *, stream=None):
        return self.give()


class PositionalStream(Knows):
    def __dlpack__(self, stream=None, /):
        return self.give()


class RefusesVersioned(Knows):
    def __dlpack__(self, *, max_version=None, **_):
        if max_version is not None:
            raise BufferError("no versions here")
        return self.give()


class AnswersLegacy(Knows):
    def __dlpack__(self, *, max_version=None, **_):
        return self.give()


class CheckedByHand(Knows):
    """As bindings that dispatch by themselves do: no Python frame, but a TypeError that names the keyword."""

    def __dlpack__(self, **keywords):
        if keywords:
            raise TypeError(f"__dlpack__() got an unexpected keyword argument '{next(iter(keywords))}'")
        return self.give()


@case
def producer_that_knows_less() -> None:
    for kind in (
        NoKeywords,
        OnlyStream,
        OnlyStreamByName,
        PositionalStream,
        RefusesVersioned,
        AnswersLegacy,
        CheckedByHand,
    ):
        for call in BOTH:
            x = kind()
            for _ in range(2):
                found = call(x)
                expect(found["data"] == x.memory.address, kind)
                calls = [given.calls for given in x.given]
                expect(set(calls) == {1}, f"{kind}: deleters ran {calls} times")
            # Each import asks twice, since a legacy capsule has no flag for a copy.
            expect(len(x.given) == 4, f"{kind}: exported {len(x.given)} tensors for 2 imports")


@case
def producer_that_refuses_every_version() -> None:
    def body(self, **keywords):
        raise BufferError("versioned" if keywords else "legacy")

    for call in BOTH:
        x = make(body)
        error = refused("producer_failed", call, x)
        expect("versioned" in str(error), f"the first error is the one to tell: {error}")
        expect(isinstance(error.__cause__, BufferError) and x.calls == 2, x.calls)


@case
def producer_that_fails_at_the_second_call() -> None:
    class Second:
        def __dlpack__(self):
            raise OSError("the disk is gone")

    for call in BOTH:
        error = refused("producer_failed", call, Second())
        expect(isinstance(error.__cause__, OSError) and "the disk is gone" in str(error), error)


@case
def producer_that_returns_something_else() -> None:
    for value in (None, 3, "capsule", (), b"dltensor", object(), NotImplemented, type):

        def body(self, value=value, **_):
            return value

        for call in BOTH:
            x = make(body)
            error = refused("producer_failed", call, x)
            expect("expected a capsule" in str(error) and x.calls == 1, error)


@case
def producer_that_is_interrupted() -> None:
    class OwnInterrupt(BaseException):
        pass

    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, OwnInterrupt):
        thrown = kind("stop")

        def body(self, thrown=thrown, **_):
            raise thrown

        for call in BOTH:
            x = make(body)
            try:
                call(x)
            except BaseException as exception:
                expect(exception is thrown, f"another exception: {exception!r}")
                expect(exception.__cause__ is None, "unchanged means without a cause")
            else:
                raise AssertionError("lost")
            expect(x.calls == 1, x.calls)


@case
def producer_that_interrupts_at_the_second_call() -> None:
    class Second:
        def __dlpack__(self):
            raise KeyboardInterrupt

    for call in BOTH:
        try:
            call(Second())
        except KeyboardInterrupt:
            continue
        raise AssertionError("lost")


@case
def producer_that_imports_itself() -> None:
    for call in BOTH:

        def body(self, call=call, **_):
            return call(self)

        x = make(body)
        error = refused("producer_failed", call, x)
        expect(x.calls < 5_000, f"asked {x.calls} times")
        while error.__cause__ is not None:
            error = error.__cause__
        expect(isinstance(error, RecursionError), repr(error))


@case
def producers_in_a_row() -> None:
    """Each imports the next, the last one fails: as many calls as there are producers."""
    calls = []

    def body(self, **_):
        calls.append(self)
        if self.next is None:
            raise BufferError("the end")
        return ext.own(self.next)

    for call in BOTH:
        x = make(body, next=None)
        for _ in range(30):
            x = make(body, next=x)
        refused("producer_failed", call, x)
        # The last one is asked again without a version: BufferError is its way to say that it knows none.
        expect(len(calls) == 32, f"{len(calls)} calls")
        calls.clear()


@case
def producer_that_imports_itself_and_hides_it() -> None:
    for call in BOTH:

        def body(self, call=call, **_):
            try:
                return call(self)
            except Exception:
                raise BufferError("no reason") from None

        x = make(body)
        refused("producer_failed", call, x)
        expect(x.calls < 5_000, f"asked {x.calls} times")


@case
def producer_that_imports_another() -> None:
    def body(self, **_):
        inner = Managed(True)
        expect(ext.own(inner.capsule())["data"] == inner.address, "the inner one")
        self.outer = Managed(True)
        return self.outer.capsule()

    for call in BOTH:
        x = make(body)
        expect(call(x)["data"] == x.outer.address, "the outer one")


@case
def producer_that_destroys_itself() -> None:
    """The caller lent a reference that the producer itself gives back while it is asked."""
    for call in (ext.borrow_first, ext.own_first):
        for good in (True, False):
            managed = Managed(True)
            dead, holder = [], []

            def body(self, managed=managed, good=good, holder=holder, **_):
                holder.clear()
                return managed.capsule() if good else 7

            holder.append(make(body))
            weakref.finalize(holder[0], dead.append, 1)
            if good:
                expect(call(holder)["data"] == managed.address, "the tensor is good, its producer dead")
                expect(managed.calls == 1, f"deleter ran {managed.calls} times")
            else:
                refused("producer_failed", call, holder)
            collect()
            expect(dead == [1], "it did not die")


@case
def producer_that_destroys_itself_by_interface() -> None:
    memory = (ctypes.c_float * 4)(1, 2, 3, 4)

    class Interface:
        @property
        def __array_interface__(self):
            holder.clear()
            return {"shape": (4,), "typestr": "<f4", "data": (ctypes.addressof(memory), False), "version": 3}

    for call in (ext.borrow_first, ext.own_first):
        holder = [Interface()]
        expect(call(holder)["data"] == ctypes.addressof(memory), "the address")


@case
def producer_that_changes_its_class() -> None:
    class Other:
        pass

    def body(self, **_):
        self.__class__ = Other
        gc.collect()
        self.managed = Managed(True)
        return self.managed.capsule()

    for call in BOTH:
        x = make(body)
        expect(call(x)["data"] == x.managed.address, "taken")
        refused("not_a_tensor", call, x, error=TypeError)


@case
def producer_that_forgets_its_method() -> None:
    def body(self, **_):
        del type(self).__dlpack__
        raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")

    for call in BOTH:
        refused("producer_failed", call, make(body))


@case
def producer_whose_method_is_no_method() -> None:
    for value in (3, "text", object()):
        x = type("Odd", (), {"__dlpack__": value})()
        for call in BOTH:
            error = refused("producer_failed", call, x)
            expect(isinstance(error.__cause__, TypeError), error)
    for call in BOTH:
        refused("not_a_tensor", call, type("Odd", (), {"__dlpack__": None})())


@case
def producer_with_a_method_of_its_own() -> None:
    class Plain:
        pass

    for call in BOTH:
        x = Plain()
        x.managed = Managed(True)
        x.__dlpack__ = lambda managed=x.managed, **_: managed.capsule()
        expect(call(x)["data"] == x.managed.address, "an instance's attribute will do")
        refused("not_a_tensor", call, Plain())
        del x.__dlpack__
        refused("not_a_tensor", call, x)


@case
def producer_with_a_failing_attribute() -> None:
    class Failing:
        @property
        def __dlpack__(self):
            raise ValueError("looking is forbidden")

    for call in BOTH:
        error = refused("producer_failed", call, Failing())
        expect("looking is forbidden" in str(error), error)


@case
def producer_with_any_attribute() -> None:
    class Anything:
        def __getattr__(self, name):
            return lambda *a, **k: self

    for call in BOTH:
        refused("producer_failed", call, Anything())


@case
def producer_whose_attributes_interrupt() -> None:
    class Interrupts:
        def __getattr__(self, name):
            raise KeyboardInterrupt

    for call in BOTH:
        try:
            call(Interrupts())
        except KeyboardInterrupt:
            continue
        raise AssertionError("lost")


@case
def producer_whose_metaclass_interrupts() -> None:
    """What a metaclass has, an instance does not have: it is not asked."""

    class Meta(type):
        def __getattr__(cls, name):
            raise KeyboardInterrupt

    class Interrupts(metaclass=Meta):
        pass

    for call in BOTH:
        refused("not_a_tensor", call, Interrupts(), error=TypeError)


@case
def producer_that_is_a_class() -> None:
    class Kind:
        def __dlpack__(self, **_):
            return Managed(True).capsule()

    class Interface:
        __array_interface__ = 1

    for kind in (Kind, Interface, ext.Exporter):
        for call in BOTH:
            expect("the class" in str(refused("not_a_tensor", call, kind, error=TypeError)), kind)


@case
def producer_whose_text_fails() -> None:
    class Wordless(Exception):
        def __str__(self):
            raise ValueError("no words")

    class Surrogate(Exception):
        def __str__(self):
            return "\ud800"

    for kind in (Wordless, Surrogate):

        def body(self, kind=kind, **_):
            raise kind

        for call in BOTH:
            error = refused("producer_failed", call, make(body))
            expect(type(error.__cause__) is kind, error.__cause__)


@case
def producer_of_an_odd_name() -> None:
    def body(self, **_):
        return None

    for name in ("a" * 5_000, "\ud800", "名", "%s%n%d"):
        try:
            x = type(name, (), {"__dlpack__": body})()
        except UnicodeEncodeError:
            continue
        for call in BOTH:
            refused("producer_failed", call, x)
        for call in BOTH:
            refused("not_a_tensor", call, type(name, (), {})())
        for module in (3, None, "\ud800", ""):
            for call in BOTH:
                refused("not_a_tensor", call, type("Odd", (), {"__module__": module})())


@case
def producer_that_posed_as_known() -> None:
    """Names alone decide nothing dangerous: a class that calls itself JAX's or TensorFlow's is asked like any other."""
    for module, name in (
        ("jaxlib._jax", "ArrayImpl"),
        ("tensorflow.python.framework.ops", "EagerTensor"),
        ("numpy.ma", "MaskedArray"),
    ):
        kind = type(name, (), {"__module__": module})
        for call in BOTH:
            try:
                call(kind())
            except ext.Error:
                continue
            raise AssertionError(f"{module}.{name} was taken")


@case
def producer_types_that_die() -> None:
    """Types that come and go, half of them at the address of the one before, each with another protocol."""
    memory = (ctypes.c_float * 4)(1, 2, 3, 4)
    interface = {"shape": (4,), "typestr": "<f4", "data": (ctypes.addressof(memory), False), "version": 3}
    addresses = set()
    for i in range(3_000):
        managed = Managed(True)
        kinds = [
            {"__dlpack__": lambda self, managed=managed, **_: managed.capsule()},
            {"__array_interface__": interface},
            {},
        ]
        kind = type("Brief", (), kinds[i % 3])
        addresses.add(id(kind))
        if i % 3 == 2:
            refused("not_a_tensor", ext.borrow, kind())
        else:
            found = ext.borrow(kind())["data"]
            expect(found == (managed.address if i % 3 == 0 else ctypes.addressof(memory)), "another type's answer")
        kind = kinds = None
        if i % 50 == 0:
            gc.collect()
    # A sanitizer keeps what is freed from being used again.
    expect(len(addresses) < 3_000 or "ISTHMUS_SANITIZER" in os.environ, "no address came twice, so nothing was tested")


@case
def producer_type_that_changes() -> None:
    memory = (ctypes.c_float * 4)(1, 2, 3, 4)
    interface = {"shape": (4,), "typestr": "<f4", "data": (ctypes.addressof(memory), False), "version": 3}
    for call in BOTH:
        for _ in range(200):
            kind = type("Changing", (), {})
            x = kind()
            refused("not_a_tensor", call, x)
            kind.__array_interface__ = interface
            expect(call(x)["data"] == ctypes.addressof(memory), "by the interface")
            managed = Managed(True)
            kind.__dlpack__ = lambda self, managed=managed, **_: managed.capsule()
            expect(call(x)["data"] == managed.address, "by the method")
            del kind.__dlpack__
            expect(call(x)["data"] == ctypes.addressof(memory), "by the interface again")
            del kind.__array_interface__
            refused("not_a_tensor", call, x)


@case
def producer_base_type_that_changes() -> None:
    for call in BOTH:
        base = type("Base", (), {})
        x = type("Derived", (base,), {})()
        refused("not_a_tensor", call, x)
        managed = Managed(True)
        base.__dlpack__ = lambda self, managed=managed, **_: managed.capsule()
        expect(call(x)["data"] == managed.address, "the base's method")


@case
def producer_asked_with_the_right_words() -> None:
    seen: list[dict] = []

    def body(self, **keywords):
        seen.append(keywords)
        self.managed = Managed(True)
        return self.managed.capsule()

    x = make(body)
    ext.own(x)
    ext.own(x, stream=7)
    ext.own(x, max_version=(1, 0))
    ext.own(x, max_version=(0, 0))
    never = {"copy": False}
    expect(seen[:2] == [{"max_version": (1, 3), **never}, {"max_version": (1, 3), "stream": 7, **never}], seen)
    expect(seen[2:] == [{"max_version": (1, 0), **never}, never], seen)


def odd_values() -> list[object]:
    """What an attribute may turn out to be."""
    return [5, "text", [], {}, {"data": 3}, {"data": (1,)}, {"data": (1, 2, 3)}, object()]


def interrupting(self) -> object:
    raise KeyboardInterrupt


def failing(self) -> object:
    raise ValueError("not that one either")


@case
def producer_that_cannot_with_odd_interfaces() -> None:
    """Its other protocols are tried, and fail: the first error is told."""

    def body(self, **_):
        raise BufferError("no word for it")

    for name in ("__array_interface__", "__cuda_array_interface__"):
        found = [property(failing), *(property(lambda self, value=value: value) for value in odd_values())]
        for call in BOTH:
            for attribute in found:
                x = make(body, **{name: attribute})
                error = refused("producer_failed", call, x, error=BufferError)
                expect("no word for it" in str(error) and type(error.__cause__) is BufferError, error)
            try:
                call(make(body, **{name: property(interrupting)}))
            except KeyboardInterrupt:
                continue
            raise AssertionError("the interrupt was swallowed")


@case
def producer_of_a_legacy_capsule_with_odd_interfaces() -> None:
    """Whether the memory may be written is asked of them: what is no answer leaves it writable, an interrupt passes."""
    for call in BOTH:
        for attribute in [property(failing), *(property(lambda self, value=value: value) for value in odd_values())]:
            given = [Managed(False)]

            def body(self, given=given, **_):
                given.append(Managed(False, data=given[0].address))
                return given[-1].capsule()

            expect(not call(make(body, __array_interface__=attribute))["read_only"], attribute.fget)
            expect([managed.calls for managed in given] == [0, 1, 1], "once each")
        managed = Managed(False)
        x = make(lambda self, managed=managed, **_: managed.capsule(), __array_interface__=property(interrupting))
        try:
            call(x)
        except KeyboardInterrupt:
            expect(managed.calls <= 1, "by whoever has the capsule")
            continue
        raise AssertionError("the interrupt was swallowed")


@case
def producer_of_an_odd_device() -> None:
    """The stream is passed on where nothing says that the memory is the host's."""
    for answer in (None, 5, (), (1,), ("cpu", 0), (1, 0, 0), (2**70, 0), (2**32 + 1, 0), (-1, 0), (2, 0), (99, 0)):
        seen: list[dict] = []

        def body(self, seen=seen, **keywords):
            seen.append(keywords)
            self.managed = Managed(True)
            return self.managed.capsule()

        ext.own(make(body, __dlpack_device__=lambda self, answer=answer: answer), stream=7)
        ext.own(make(body, __dlpack_device__=failing), stream=7)
        expect([keywords.get("stream") for keywords in seen] == [7, 7], (answer, seen))
        ext.own(make(body, __dlpack_device__=lambda self: (1, 0)), stream=7)
        expect("stream" not in seen[-1], seen)


@case
def producer_of_much_garbage() -> None:
    """A collection in the midst of an import, with the producer in a cycle."""

    def body(self, **_):
        self.self = self
        gc.collect()
        self.managed = Managed(True)
        return self.managed.capsule()

    for call in BOTH:
        for _ in range(20):
            x = make(body)
            call(x)
            del x
    gc.collect()


@case
def null_object() -> None:
    refused("not_a_tensor", ext.import_null, error=TypeError)
