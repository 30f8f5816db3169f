"""What an import does with the streams of producer and consumer: it remembers the one and orders the other,
by events."""

from __future__ import annotations

import ctypes as ct
import gc
import weakref
from collections.abc import Callable

from arrow import OnDevice
from cases import add, case, refused
from driver import Driver
from producers import Exchange, HostMethod, Interface, Method, OldMethod

import isthmus_test_ext as ext

V1 = {"max_version": (1, 0)}
WAYS: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "method": (Method, ()),
    "old_method": (OldMethod, ()),
    "exchange_api": (Exchange, ()),
    "interface": (Interface, ("cuda", "gpu")),
}


def for_each_way(check: Callable[[Driver, Callable], None]) -> Callable:
    for name, (producer, drivers) in WAYS.items():
        add(f"{check.__name__}_{name}", lambda d, producer=producer: check(d, producer), *drivers)
    return check


@for_each_way
def the_producers_stream_is_honoured_when_exported_again(d: Driver, producer: Callable) -> None:
    mine, theirs = d.stream(), d.stream()
    with d.busy(mine):
        x = producer(d, mine)
        t = ext.tensor_of(x)
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()
        d.check_host_never_waited()
    assert not d.waits(theirs)


@for_each_way
def the_consumers_stream_waits_for_the_producers(d: Driver, producer: Callable) -> None:
    for take in (ext.borrow, ext.own):
        mine, theirs = d.stream(), d.stream()
        with d.busy(mine):
            x = producer(d, mine)
            assert take(x, stream=theirs)["device"] == ("rocm:0" if d.hip else "cuda:0")
            assert d.waits(theirs), d.log()
            d.check_host_never_waited()
        assert not d.waits(theirs)


@for_each_way
def a_handle_is_on_the_stream_that_was_named(d: Driver, producer: Callable) -> None:
    mine, ours, theirs = d.stream(), d.stream(), d.stream()
    t = ext.tensor_of(producer(d, mine), stream=ours)
    with d.busy(ours):
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()


@for_each_way
def the_legacy_stream_may_be_named(d: Driver, producer: Callable) -> None:
    mine = d.stream()
    with d.busy(mine):
        x = producer(d, mine)
        ext.borrow(x, stream=d.legacy)
        assert d.waits(d.legacy), d.log()


@for_each_way
def one_stream_needs_no_event(d: Driver, producer: Callable) -> None:
    mine = d.stream()
    x = producer(d, mine)
    ext.tensor_of(x, stream=mine).__dlpack__(stream=mine, **V1)
    assert "EventRecord" not in d.log(), d.log()


@for_each_way
def minus_one_orders_nothing(d: Driver, producer: Callable) -> None:
    mine = d.stream()
    x = producer(d, mine)
    d.clear()
    for take in (ext.borrow, ext.own):
        take(x, stream=-1)
    t = ext.tensor_of(x)
    asked = len(x.asked)
    t.__dlpack__(stream=-1, **V1)
    assert d.log() == "", d.log()
    assert len(x.asked) == asked, x.asked


@for_each_way
def numbers_that_name_no_stream_are_refused(d: Driver, producer: Callable) -> None:
    x = producer(d, d.stream())
    for number in (-2, *((1, 2) if d.hip else (0,))):
        for take in (ext.borrow, ext.own):
            text = refused("bad_argument", ValueError, take, x, stream=number, argument="x")
            assert "stream" in text, text
            assert str(number) in text, text


@case()
def a_method_is_asked_for_no_synchronisation(d: Driver) -> None:
    """The data is as the producer's own stream leaves it: to ask for None would order the legacy default stream."""
    x = Method(d, d.stream())
    d.clear()
    ext.borrow(x)
    assert [asked.get("stream") for asked in x.asked] == [-1], x.asked
    assert d.log() == "", d.log()


@case()
def a_method_without_the_keyword_is_taken(d: Driver) -> None:
    class Oldest(Method):
        def __dlpack__(self) -> object:
            return super().__dlpack__(stream=-1)

    for take in (ext.borrow, ext.own):
        assert take(Oldest(d, d.stream()))["size"] == 4


@case()
def one_of_our_own_is_ordered_too(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    t = ext.tensor_of(Exchange(d, mine))
    with d.busy(mine):
        ext.borrow(t, stream=theirs)
        assert d.waits(theirs), d.log()
        again = ext.tensor_of(t)
        assert again is t


@case()
def numbers_that_name_no_stream_are_refused_for_one_of_our_own(d: Driver) -> None:
    t = ext.tensor_of(Exchange(d, d.stream()))
    for number in (-2, *((1, 2) if d.hip else (0,))):
        for take in (ext.borrow, ext.own):
            refused("bad_argument", ValueError, take, t, stream=number)


@case("cuda", "rocm")
def an_import_that_the_driver_cannot_order_is_an_error(d: Driver) -> None:
    theirs = d.stream()
    x = Exchange(d, d.stream())
    for take in (ext.borrow, ext.own):
        for source in (x, ext.tensor_of(x)):
            for name in ("EventCreate", "EventRecord", "StreamWaitEvent"):
                d.fail(name)
                assert "driver" in refused("producer_failed", BufferError, take, source, stream=theirs)
        absent = Exchange(d, x.stream, device=99)
        for source in (absent, ext.tensor_of(absent)):
            refused("producer_failed", BufferError, take, source, stream=theirs)
    d.clear()


@case()
def one_of_our_own_goes_to_the_stream_that_is_named(d: Driver) -> None:
    """The work that follows is on the caller's stream; the tensor that was there stays on its own."""
    mine, ours, theirs = d.stream(), d.stream(), d.stream()
    first = ext.tensor_of(Exchange(d, mine))
    second = ext.tensor_of(first, stream=ours)
    assert (ext.borrow(first)["stream"], ext.borrow(second)["stream"]) == (mine, ours)
    assert ext.borrow(first, stream=ours)["stream"] == ours
    assert ext.borrow(first, stream=-1)["stream"] == mine
    with d.busy(ours):
        first.__dlpack__(stream=theirs, **V1)
        assert not d.waits(theirs), d.log()
        second.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()


@case()
def the_producer_that_is_asked_later_lives_as_long_as_the_handle(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    with d.busy(mine):
        x = Method(d, mine)
        gone = weakref.ref(x)
        t = ext.tensor_of(x)
        alias = t.as_read_only()
        del x, t
        gc.collect()
        assert gone() is not None
        alias.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()
    del alias
    gc.collect()
    assert gone() is None


@case()
def a_producer_that_fails_to_order_is_an_error(d: Driver) -> None:
    class Failing(Method):
        def __dlpack__(self, **keywords: object) -> object:
            if keywords.get("stream") != -1:
                raise RuntimeError("not now")
            return super().__dlpack__(**keywords)

    t = ext.tensor_of(Failing(d, d.stream()))
    calls = [t.__dlpack__, lambda **_: t.to("capsule"), lambda **_: t.to("capsule_legacy")]
    if not d.hip:
        calls.append(lambda **_: t.__cuda_array_interface__)
    for call in calls:
        assert "not now" in refused("producer_failed", BufferError, call, **V1)
    t.__dlpack__(stream=-1, **V1)


@case()
def what_a_producer_copies_for_us_is_ready_on_the_legacy_stream(d: Driver) -> None:
    """The producer knows nothing of the copy later, so it is not asked again."""
    mine, theirs = d.stream(), d.stream()
    for options in ({"copy": "always"}, {"device": (d.type, 0), "copy": "always"}):
        x = Method(d, mine)
        with d.busy(mine):
            t = ext.tensor_of(x, **options)
            assert d.waits(d.legacy), d.log()
            copying = [asked for asked in x.asked if "copy" in asked]
            assert [asked.get("stream") for asked in copying] == [None], x.asked
            count = len(x.asked)
            t.__dlpack__(stream=theirs, **V1)
            assert len(x.asked) == count
            assert d.waits(theirs), d.log()


@case()
def a_capsule_with_a_number_of_no_stream_stays_whole(d: Driver) -> None:
    theirs = d.stream()
    capsule = Method(d, d.legacy).__dlpack__()
    refused("bad_argument", ValueError, ext.own, capsule, stream=-2)
    with d.busy(d.legacy):
        assert ext.own(capsule, stream=theirs)["stream"] == theirs
        assert d.waits(theirs), d.log()


@case()
def a_framework_that_cannot_name_its_stream_is_taken(d: Driver) -> None:
    Exchange.fails = True
    theirs = d.stream()
    t = ext.tensor_of(Exchange(d, d.stream()))
    with d.busy(d.legacy):
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()


@case()
def a_producer_of_the_host_is_never_given_a_stream(d: Driver) -> None:
    for take in (ext.borrow, ext.own):
        for number in (d.stream(), d.legacy, -1):
            assert take(HostMethod(), stream=number)["device"] == "cpu"


@case("cuda", "gpu")
def interface_without_a_stream_has_nothing_to_wait_for(d: Driver) -> None:
    for version in (3, 2):
        x = Interface(d, d.stream(), says=None)
        if version == 2:  # which has no such field
            x.fields = {"version": 2}
        d.clear()
        for take in (ext.borrow, ext.own):
            assert take(x)["device"] == "cuda:0"
        assert d.log() == "", d.log()


@case("cuda", "gpu")
def interface_by_the_number_of_a_default_stream(d: Driver) -> None:
    for number in (1, 2):
        theirs = d.stream()
        with d.busy(number):
            t = ext.tensor_of(Interface(d, number))
            assert t.__cuda_array_interface__["stream"] == number
            t.__dlpack__(stream=theirs, **V1)
            assert d.waits(theirs), d.log()


@case("cuda", "gpu")
def interface_with_a_number_of_no_stream(d: Driver) -> None:
    for number in (0, -1, "1", 1.5, 2**70):
        for options in ({}, {"stream": d.stream()}):
            text = refused(
                "bad_argument", ValueError, ext.borrow, Interface(d, 1, says=number), argument="x", **options
            )
            assert "'stream'" in text, text


def arrow_of(d: Driver, event: int, kind: int | None = None, device: int = 0) -> OnDevice:
    box = ct.c_void_p(event)
    x = OnDevice(range(4), device=(d.type if kind is None else kind, device, ct.addressof(box)))
    x._kept.append(box)
    return x


@case()
def arrows_event_is_waited_for_by_the_consumers_stream(d: Driver) -> None:
    for take in (ext.borrow, ext.own):
        mine, theirs = d.stream(), d.stream()
        with d.busy(mine):
            event = d.event(mine)
            take(arrow_of(d, event), stream=theirs)
            assert d.waits(theirs), d.log()
            d.check_host_never_waited()
        d.call("event_destroy", event)
    gc.collect()


@case()
def arrows_event_is_waited_for_when_no_stream_is_named(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    with d.busy(mine):
        event = d.event(mine)
        t = ext.tensor_of(arrow_of(d, event))
        d.check_host_never_waited()
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()
    d.call("event_destroy", event)


@case("cuda", "rocm")
def arrows_event_of_pinned_memory_is_waited_for_by_the_host(d: Driver) -> None:
    for options in ({}, {"stream": d.stream()}):
        mine = d.stream()
        with d.busy(mine):
            event = d.event(mine)
            found = ext.borrow(arrow_of(d, event, d.pinned), **options)
            assert found["device"] == ("rocm_host:0" if d.hip else "cuda_host:0")
            assert not d.waits(mine), "the host may read it now"
        d.call("event_destroy", event)


@case()
def the_event_of_another_kind_of_device_is_not_the_drivers(d: Driver) -> None:
    d.clear()
    for kind in (4, 7, 8):  # OpenCL, Vulkan, Metal
        refused("unavailable", BufferError, ext.borrow, arrow_of(d, 1, kind))
    assert d.log() == "", d.log()


@case()
def arrows_event_is_left_to_the_caller_who_wants_no_order(d: Driver) -> None:
    mine = d.stream()
    with d.busy(mine):
        event = d.event(mine)
        d.clear()
        for take in (ext.borrow, ext.own):
            take(arrow_of(d, event), stream=-1)
        assert d.log() == "", d.log()
    d.call("event_destroy", event)
    gc.collect()


@case()
def arrows_tensor_with_a_number_of_no_stream_is_refused(d: Driver) -> None:
    event = d.event(d.stream())
    for take in (ext.borrow, ext.own):
        refused("bad_argument", ValueError, take, arrow_of(d, event), stream=-2)
    d.call("event_destroy", event)
    gc.collect()


@case("cuda", "rocm")
def arrows_event_on_a_device_that_is_not_there_is_an_error(d: Driver) -> None:
    event = d.event(d.stream())
    x = arrow_of(d, event, device=99)
    for take in (ext.borrow, ext.own):
        refused("unavailable", BufferError, take, x, stream=d.legacy)
    d.call("event_destroy", event)
    del x
    gc.collect()


@case()
def arrow_without_an_event_needs_none(d: Driver) -> None:
    d.clear()
    ext.borrow(OnDevice(range(4), device=(d.type, 0, None)))
    assert d.log() == "", d.log()
