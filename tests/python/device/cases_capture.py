"""Graph captures: nothing that Isthmus does invalidates one, and work inside of one is ordered by it."""

from __future__ import annotations

import ctypes as ct

import capsules
from cases import add, case
from cases_import import V1, WAYS, arrow_of
from driver import GLOBAL, RELAXED, THREAD_LOCAL, Driver
from producers import Exchange, Interface, Method

import isthmus_test_ext as ext

MODES = {"global": GLOBAL, "thread_local": THREAD_LOCAL, "relaxed": RELAXED}


def imported(d: Driver, producer: type, mode: int, blocking: bool) -> None:
    mine = d.stream(blocking=blocking)
    x = producer(d, mine)
    with d.capture(mine, mode):
        for take in (ext.borrow, ext.own):
            take(x)
            take(x, stream=mine)
            take(x, stream=-1)


def exported(d: Driver, producer: type, mode: int, blocking: bool) -> None:
    mine = d.stream(blocking=blocking)
    x = producer(d, mine)
    for t in (ext.tensor_of(x), ext.tensor_of(x, stream=mine)):
        with d.capture(mine, mode):
            t.__dlpack__(stream=mine, **V1)
            t.__dlpack__(stream=-1, **V1)
            t.as_read_only()
            if not d.hip and producer in (Exchange, Interface):
                assert t.__cuda_array_interface__["stream"] == mine


def exported_without_a_stream(d: Driver, producer: type, mode: int, blocking: bool) -> None:
    """The legacy default stream can take no part in a capture: nothing is ordered then, instead of the capture lost.
    (Of a producer that has nothing but the method nobody can tell its stream: it is asked itself,
    and answers for the capture.)"""
    mine = d.stream(blocking=blocking)
    t = ext.tensor_of(producer(d, mine))
    with d.capture(mine, mode):
        t.__dlpack__(**V1)
        t.__dlpack__(stream=d.legacy, **V1)
        t.to("capsule")
        out = ct.c_void_p()
        assert capsules.exchange_api(type(t)).from_object(id(t), ct.byref(out)) == 0


for _check in (imported, exported, exported_without_a_stream):
    for _way, (_producer, _drivers) in WAYS.items():
        if _check is exported_without_a_stream and issubclass(_producer, Method) and _producer is not Exchange:
            continue
        for _mode, _number in MODES.items():
            for _blocking in (False, True):
                add(
                    f"{_check.__name__}_in_a_{_mode}_capture_of_a_{'blocking' if _blocking else 'plain'}_stream_{_way}",
                    lambda d, c=_check, p=_producer, m=_number, b=_blocking: c(d, p, m, b),
                    *_drivers,
                )


@case()
def memory_of_cpp_goes_to_a_capturing_stream(d: Driver) -> None:
    for blocking in (False, True):
        theirs = d.stream(blocking=blocking)
        t = ext.pages([4], device=(d.type, 0))
        with d.capture(theirs):
            t.__dlpack__(stream=theirs, **V1)


@case()
def another_stream_while_a_blocking_one_captures(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    cpp, t = ext.pages([4], device=(d.type, 0)), ext.tensor_of(Exchange(d, mine))
    with d.capture(d.stream(blocking=True)):
        cpp.__dlpack__(stream=theirs, **V1)
        t.__dlpack__(stream=theirs, **V1)
        t.__dlpack__(**V1)


@case("cuda", "rocm")
def what_was_made_outside_is_ready_before_the_capture_goes_on(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    t = ext.tensor_of(Exchange(d, mine))
    with d.busy(mine), d.capture(theirs):
        t.__dlpack__(stream=theirs, **V1)
        log = d.log()
        assert "EventSynchronize" in log or "StreamSynchronize" in log, log
    assert not d.waits(mine)


@case()
def the_consumers_stream_joins_the_capture(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    t = ext.tensor_of(Exchange(d, mine))
    with d.capture(mine):
        t.__dlpack__(stream=theirs, **V1)
        assert d.order(theirs, mine) == 0, d.log()


@case()
def two_captures_are_not_merged(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    t = ext.tensor_of(Exchange(d, mine))
    with d.capture(mine, RELAXED), d.capture(theirs, RELAXED):
        t.__dlpack__(stream=theirs, **V1)


@case()
def arrows_event_from_before_the_capture(d: Driver) -> None:
    for options in ({}, {"stream": None}):
        mine, theirs = d.stream(), d.stream()
        event = d.event(mine)
        with d.capture(theirs):
            ext.borrow(arrow_of(d, event), **({"stream": theirs} if options else {}))
        d.call("event_destroy", event)


@case()
def the_mode_of_the_thread_is_left_as_it_was(d: Driver) -> None:
    theirs = d.stream()
    t = ext.tensor_of(Exchange(d, d.stream()))
    with d.capture(theirs):
        t.__dlpack__(stream=theirs, **V1)
    mode = ct.c_int(THREAD_LOCAL)
    exchange = d.library["hipThreadExchangeStreamCaptureMode" if d.hip else "cuThreadExchangeStreamCaptureMode"]
    assert exchange(ct.byref(mode)) == 0
    assert mode.value == GLOBAL
