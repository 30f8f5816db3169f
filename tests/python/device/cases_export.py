"""What an export does with the consumer's stream: it waits for the stream that the handle remembers,
by the array API rules."""

from __future__ import annotations

import ctypes as ct
import sys
import threading
import types
from collections.abc import Callable

import capsules
from cases import NeedsMore, add, case, refused
from driver import Driver
from producers import Exchange, Interface

import isthmus_test_ext as ext

V1 = {"max_version": (1, 0)}


def handle(d: Driver, stream: int, **options: object) -> object:
    return ext.tensor_of(Exchange(d, stream, **options))


@case()
def none_is_the_legacy_default_stream(d: Driver) -> None:
    for keywords in ({}, {"stream": None}, {"stream": d.legacy}):
        mine = d.stream()
        with d.busy(mine):
            handle(d, mine).__dlpack__(**keywords, **V1)
            assert d.waits(d.legacy), d.log()
            d.check_host_never_waited()
        assert not d.waits(d.legacy)


@case("cuda", "gpu")
def two_is_the_per_thread_default_stream(d: Driver) -> None:
    mine = d.stream()
    with d.busy(mine):
        handle(d, mine).__dlpack__(stream=2, **V1)
        assert d.waits(2), d.log()
        assert not d.waits(d.legacy)


@case()
def addresses_are_streams(d: Driver) -> None:
    mine, theirs, other = d.stream(), d.stream(), d.stream()
    t = handle(d, mine)
    with d.busy(mine):
        for _ in range(3):
            t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()
        assert not d.waits(other)
        assert not d.waits(d.legacy)


@case()
def the_consumer_waits_for_no_other_stream(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    t = handle(d, mine)
    with d.busy(d.stream()), d.busy(d.legacy):
        t.__dlpack__(stream=theirs, **V1)
        assert not d.waits(theirs), d.log()


@case()
def numbers_that_are_not_allowed(d: Driver) -> None:
    kinds = [d.type] if d.hip else [d.type, d.managed]
    for kind in kinds:
        for t in (handle(d, d.stream(), kind=kind), ext.pages([4], device=(kind, 0))):
            d.clear()
            for number in (-2, *((1, 2) if d.hip else (0,))):
                text = refused("bad_argument", ValueError, t.__dlpack__, stream=number)
                assert "'stream'" in text, text
                assert str(number) in text, text
            for number in ("1", 1.0, object()):
                refused("bad_argument", TypeError, t.__dlpack__, stream=number)
            assert d.log() == "", d.log()


@case()
def memory_of_cpp_is_ready_on_the_legacy_stream(d: Driver) -> None:
    theirs = d.stream()
    t = ext.pages([4], device=(d.type, 0))
    with d.busy(d.legacy):
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()


@case()
def memory_of_cpp_is_on_the_stream_that_it_says(d: Driver) -> None:
    mine, theirs, other = d.stream(), d.stream(), d.stream()
    t = ext.pages([4], device=(d.type, 0), stream=mine)
    with d.busy(mine):
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()
        ext.borrow(t, stream=other)
        assert d.waits(other), d.log()
        if not d.hip:
            assert t.__cuda_array_interface__["stream"] == mine


@case("cuda", "gpu")
def managed_memory_is_ordered_like_the_devices(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    with d.busy(mine):
        t = handle(d, mine, kind=d.managed)
        assert t.device == "cuda_managed:0"
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()


@case("cuda", "gpu")
def the_interface_says_the_stream(d: Driver) -> None:
    mine = d.stream()
    assert handle(d, mine).__cuda_array_interface__["stream"] == mine
    assert handle(d, d.legacy).__cuda_array_interface__["stream"] == 1
    assert ext.tensor_of(Interface(d, mine)).__cuda_array_interface__["stream"] == mine
    assert ext.tensor_of(Interface(d, mine, says=None)).__cuda_array_interface__["stream"] is None
    assert ext.pages([4], device=(d.type, 0)).__cuda_array_interface__["stream"] is None


@case()
def a_read_only_alias_is_on_the_same_stream(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    with d.busy(mine):
        handle(d, mine).as_read_only().__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()


@case()
def another_shape_of_it_is_on_the_same_stream(d: Driver) -> None:
    mine = d.stream()
    with d.busy(mine):
        ext.hand_reshaped(Exchange(d, mine), "tensor").__dlpack__(**V1)
        assert d.waits(d.legacy), d.log()


def bare(d: Driver, name: str) -> None:
    """A capsule that goes to a consumer without a word on streams is ordered as None is."""
    mine = d.stream()
    with d.busy(mine):
        ext.hand(Exchange(d, mine), name)
        assert d.waits(d.legacy), d.log()


for _name in ("capsule", "capsule_legacy"):
    add(f"a_{_name}_is_ready_on_the_legacy_stream", lambda d, name=_name: bare(d, name))


def exchanged(d: Driver, call: Callable) -> None:
    mine = d.stream()
    with d.busy(mine):
        t = handle(d, mine)
        api = capsules.exchange_api(type(t))
        stream = ct.c_void_p(1)
        assert api.stream(d.type, 0, ct.byref(stream)) == 0
        call(api, t)
        assert d.waits(stream.value or d.legacy), d.log()
        d.check_host_never_waited()


@case()
def the_exchange_api_hands_out_what_its_stream_may_use(d: Driver) -> None:
    def take(api: object, t: object) -> None:
        out = ct.c_void_p()
        assert api.from_object(id(t), ct.byref(out)) == 0
        capsules.end(out.value)

    exchanged(d, take)


@case()
def the_exchange_api_shows_what_its_stream_may_use(d: Driver) -> None:
    def view(api: object, t: object) -> None:
        assert api.view_object(id(t), ct.byref(capsules.DLTensor())) == 0

    exchanged(d, view)


@case()
def the_device_of_the_tensor_counts_not_the_current_one(d: Driver) -> None:
    if d.devices < 2:
        raise NeedsMore("needs two GPUs")
    d.set_device(1)
    mine, theirs = d.stream(), d.stream()
    with d.busy(d.legacy):
        d.set_device(0)
        ext.pages([4], device=(d.type, 1)).__dlpack__(stream=theirs, **V1)
        d.set_device(1)
        assert d.waits(theirs), d.log()
    with d.busy(mine):
        x = Exchange(d, mine, device=1)
        d.set_device(0)
        ext.tensor_of(x).__dlpack__(stream=theirs, **V1)
        d.set_device(1)
        assert d.waits(theirs), d.log()


@case()
def a_thread_without_a_current_device_may_export(d: Driver) -> None:
    mine, theirs = d.stream(), d.stream()
    t = handle(d, mine)
    failed = []

    def export() -> None:
        try:
            t.__dlpack__(stream=theirs, **V1)
        except Exception as error:
            failed.append(error)

    with d.busy(mine):
        thread = threading.Thread(target=export)
        thread.start()
        thread.join()
        assert not failed, failed
        assert d.waits(theirs), d.log()


@case("cuda", "rocm")
def a_driver_that_fails_is_an_error(d: Driver) -> None:
    t = handle(d, d.stream())
    theirs = d.stream()
    for name in ("EventCreate", "EventRecord", "StreamWaitEvent"):
        d.fail(name)
        text = refused("producer_failed", BufferError, t.__dlpack__, stream=theirs)
        assert "driver" in text, text
    d.clear()
    refused("producer_failed", BufferError, t.__dlpack__, stream=0x1234)
    api, out, view = capsules.exchange_api(type(t)), ct.c_void_p(), capsules.DLTensor()
    calls = (
        lambda: t.to("capsule"),
        lambda: t.to("capsule_legacy"),
        lambda: api.from_object(id(t), ct.byref(out)),
        lambda: api.view_object(id(t), ct.byref(view)),
    )
    for call in calls:
        d.fail("EventCreate")
        assert "driver" in refused("producer_failed", BufferError, call)
    assert (out.value, view.data) == (None, None)
    d.clear()


@case()
def the_host_has_no_streams(d: Driver) -> None:
    for device in ((1, 0), (d.pinned, 0)):
        t = ext.pages([4], device=device)
        for number in (d.stream(), d.legacy):
            refused("bad_argument", ValueError, t.__dlpack__, stream=number)
        t.__dlpack__(stream=-1)


class StandinArray:
    """What an exchange table makes of a managed tensor, or is told to refuse."""

    _api = capsules.ExchangeAPI(major=1, minor=3)
    current = 0

    @staticmethod
    def _to_object(managed: int, out: object) -> int:
        array = StandinArray()
        ct.pythonapi.Py_IncRef(ct.py_object(array))
        out[0] = id(array)
        return 0

    @staticmethod
    def _stream(device_type: int, device: int, out: object) -> int:
        out[0] = StandinArray.current
        return 0


for _name, _call in {"to_object": StandinArray._to_object, "stream": StandinArray._stream}.items():
    setattr(StandinArray._api, _name, dict(capsules.ExchangeAPI._fields_)[_name](_call))
StandinArray._api.from_object = dict(capsules.ExchangeAPI._fields_)["from_object"](lambda *_: -1)


def standin_of_paddle(**content: object) -> None:
    for name in ("paddle", "paddle.utils", "paddle.utils.dlpack"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["paddle"].Tensor = StandinArray
    vars(sys.modules["paddle.utils.dlpack"]).update(content)


@case("cuda", "rocm")
def an_array_of_an_exchange_table_is_for_its_frameworks_stream(d: Driver) -> None:
    new = ct.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ct.py_object, (ct.c_void_p, ct.c_char_p, ct.c_void_p)
    StandinArray.__dlpack_c_exchange_api__ = new(ct.addressof(StandinArray._api), b"dlpack_exchange_api", None)
    standin_of_paddle(from_dlpack=None)
    mine, StandinArray.current = d.stream(), d.stream()
    t = handle(d, mine)
    with d.busy(mine):
        assert isinstance(t.to("paddle"), StandinArray)
        assert d.waits(StandinArray.current), d.log()
    d.fail("EventCreate")
    assert "driver" in refused("producer_failed", BufferError, t.to, "paddle")
    d.clear()


def goes_by_the_legacy_default_stream(d: Driver, framework: str) -> None:
    """To the stand-in of a framework that takes capsules, and not at all where its stream cannot be ordered."""
    mine = d.stream()
    t = handle(d, mine)
    StandinArray.data_ptr = lambda self: t.data_ptr
    with d.busy(mine):
        assert isinstance(t.to(framework), StandinArray)
        assert d.waits(d.legacy), d.log()
    d.fail("EventCreate")
    assert "driver" in refused("producer_failed", BufferError, t.to, framework)


@case("cuda", "rocm")
def a_capsule_for_a_framework_is_for_the_legacy_default_stream(d: Driver) -> None:
    given: list[object] = []
    standin_of_paddle(from_dlpack=lambda capsule: given.append(capsule) or StandinArray())
    goes_by_the_legacy_default_stream(d, "paddle")
    assert len(given) == 1
    d.clear()


@case("cuda", "rocm")
def a_capsule_for_onnxruntime_is_for_the_legacy_default_stream(d: Driver) -> None:
    for name in ("onnxruntime", "onnxruntime.capi", "onnxruntime.capi.onnxruntime_pybind11_state"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["onnxruntime.capi.onnxruntime_pybind11_state"].OrtValue = StandinArray
    StandinArray.from_dlpack = lambda capsule: StandinArray()
    goes_by_the_legacy_default_stream(d, "onnxruntime")
    d.clear()


@case("cuda")
def an_interrupt_as_the_object_goes_back_passes(d: Driver) -> None:
    interrupted: list[bool] = []

    class Table:
        def __get__(self, instance: object, owner: type | None = None) -> object:
            if interrupted:
                raise KeyboardInterrupt
            return Exchange.__dlpack_c_exchange_api__

    class Tensor(Exchange):
        __module__ = "paddle"
        __dlpack_c_exchange_api__ = Table()

    standin_of_paddle(from_dlpack=None)
    sys.modules["paddle"].Tensor = Tensor
    x = Tensor(d, d.stream())
    t = ext.tensor_of(x)
    assert t.to("paddle") is x
    interrupted.append(True)
    try:
        t.to("paddle")
    except KeyboardInterrupt:
        return
    raise AssertionError("the interrupt was lost")
