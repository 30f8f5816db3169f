"""torch's own tensors of CUDA, whose current stream is the one that it says: on a real GPU,
or over stand-ins by LD_PRELOAD."""

from __future__ import annotations

import contextlib
import ctypes as ct
import os
from collections.abc import Iterator

from cases import NeedsMore, case, refused
from driver import Driver
from producers import Exchange, Method

import isthmus_test_ext as ext

V1 = {"max_version": (1, 0)}
# By the stable shims, by the exchange API, and by `__dlpack__`: what newer and older versions of torch are asked for.
DRIVERS = ("torch", "torch_exchange", "torch_method", "gpu")


def torch_module() -> object:
    try:
        import torch
    except ImportError:
        raise NeedsMore("needs torch") from None
    if not torch.backends.cuda.is_built() or torch.version.hip is not None:
        raise NeedsMore("needs a torch built with CUDA")
    if os.environ.get("ISTHMUS_TEST_NO_EXCHANGE_API"):  # as torch was before 2.10
        for cls in (torch.Tensor, torch._C.TensorBase):
            if "__dlpack_c_exchange_api__" in vars(cls):
                del cls.__dlpack_c_exchange_api__
        torch.cuda._initialized = True  # the stand-in is less than the CUDA runtime wants for that
    return torch


@contextlib.contextmanager
def current(d: Driver, stream: int) -> Iterator[None]:
    """Makes a stream torch's current one."""
    torch = torch_module()
    if d.is_standin:
        function = ct.CDLL(None).standin_set_torch_stream
        function.argtypes = [ct.c_void_p]
        function(stream)
        yield
        function(None)
    else:
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            yield


def tensor(d: Driver) -> object:
    torch = torch_module()
    if not d.is_standin:
        return torch.zeros(4, device="cuda")
    x = ext.pages([4], device=(d.type, 0)).to("torch")
    assert x.is_cuda
    return x


@case(*DRIVERS)
def torchs_current_stream_is_remembered(d: Driver) -> None:
    x, mine, theirs, other = tensor(d), d.stream(), d.stream(), d.stream()
    with current(d, mine), d.busy(mine):
        t = ext.hand(x, "tensor")
        assert t.__cuda_array_interface__["stream"] == mine
        with current(d, other):
            t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()
        assert not d.waits(other)
        d.check_host_never_waited()


@case(*DRIVERS)
def torchs_stream_comes_before_the_consumers(d: Driver) -> None:
    x, mine = tensor(d), d.stream()
    for take in (ext.borrow, ext.own):
        theirs = d.stream()
        with current(d, mine), d.busy(mine):
            assert take(x, stream=theirs)["device"] == "cuda:0"
            assert d.waits(theirs), d.log()


@case(*DRIVERS)
def torchs_stream_waits_for_what_it_is_handed(d: Driver) -> None:
    torch_module()
    mine, theirs = d.stream(), d.stream()
    with current(d, mine):
        t = ext.hand(tensor(d), "tensor").as_read_only()
    with current(d, theirs), d.busy(mine):
        t.to("torch", allow_read_only_loss=True)
        assert d.waits(theirs), d.log()


@case(*DRIVERS)
def torch_in_a_capture(d: Driver) -> None:
    x, mine = tensor(d), d.stream()
    with current(d, mine), d.capture(mine):
        t = ext.hand(x, "tensor")
        ext.borrow(x)
        ext.borrow(x, stream=mine)
        t.as_read_only().to("torch", allow_read_only_loss=True)
        t.__dlpack__(stream=mine, **V1)
        t.__dlpack__(**V1)


@case("torch_method")
def an_interrupt_as_torch_is_asked_for_its_stream_passes(d: Driver) -> None:
    torch, x = torch_module(), tensor(d)
    t = ext.hand(x, "tensor").as_read_only()
    ask = torch.cuda.current_stream

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    for take in (lambda: ext.own(x), lambda: ext.borrow(x), lambda: t.to("torch", allow_read_only_loss=True)):
        torch.cuda.current_stream = interrupted
        try:
            take()
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the interrupt was lost")
        torch.cuda.current_stream = ask
        take()


@case(*DRIVERS)
def torchs_tensor_is_handed_back_itself(d: Driver) -> None:
    x = tensor(d)
    d.clear()
    assert ext.hand(x, "torch") is x
    assert d.log() == "", d.log()


@case(*DRIVERS)
def torchs_tensor_goes_back_to_torchs_stream(d: Driver) -> None:
    """Native code has put work on a stream of its own: what is handed back is that very tensor,
    ready for torch's stream."""
    x, ours, theirs = tensor(d), d.stream(), d.stream()
    t = ext.tensor_of(x, stream=ours)
    with current(d, theirs), d.busy(ours):
        assert t.to("torch") is x
        assert d.waits(theirs), d.log()


@case("torch", "torch_exchange", "torch_method")
def a_driver_that_cannot_order_for_torch_is_an_error(d: Driver) -> None:
    t, theirs = ext.tensor_of(Exchange(d, d.stream())), d.stream()
    with current(d, theirs):
        for name in ("EventCreate", "EventRecord", "StreamWaitEvent"):
            d.fail(name)
            refused("producer_failed", BufferError, t.to, "torch")
    d.clear()


@case(*DRIVERS)
def a_tensor_that_requires_grad_is_on_torchs_stream(d: Driver) -> None:
    """Older versions of torch are asked by a detached alias, which does not outlive the import."""
    x, mine, theirs = tensor(d).requires_grad_(), d.stream(), d.stream()
    with current(d, mine), d.busy(mine):
        t = ext.tensor_of(x)
        assert ext.borrow(t)["stream"] == mine
    with current(d, theirs), d.busy(mine):
        assert t.to("torch") is x
        assert d.waits(theirs), d.log()


def linked() -> object:
    torch_module()
    try:
        import isthmus_torch_test_ext
    except ImportError:
        raise NeedsMore("needs the tests of isthmus/torch.h to be built") from None
    return isthmus_torch_test_ext


@case("torch", "gpu")
def libtorchs_current_stream_is_remembered(d: Driver) -> None:
    at, x, mine, theirs = linked(), tensor(d), d.stream(), d.stream()
    with current(d, mine), d.busy(mine):
        t = at.as_isthmus(x)
        assert t.__cuda_array_interface__["stream"] == mine
        t.__dlpack__(stream=theirs, **V1)
        assert d.waits(theirs), d.log()


@case("torch", "gpu")
def libtorchs_stream_waits_for_what_it_is_handed(d: Driver) -> None:
    at = linked()
    for producer in (Exchange, Method):
        mine, theirs = d.stream(), d.stream()
        t = ext.tensor_of(producer(d, mine))
        with current(d, theirs), d.busy(mine):
            at.to_at(t)
            assert d.waits(theirs), d.log()


@case("torch", "torch_exchange", "torch_method")
def the_hosts_tensors_have_no_stream(d: Driver) -> None:
    torch = torch_module()

    x = torch.zeros(3)
    for take in (ext.borrow, ext.own):
        assert take(x, stream=d.stream())["stream"] == take(x)["stream"]


@case("torch_method")
def a_method_that_fails_keeps_its_words(d: Driver) -> None:
    torch = torch_module()

    class Fails(torch.Tensor):
        def __dlpack__(self, **_: object) -> object:
            raise OSError("the disk is gone")

    words = refused("producer_failed", BufferError, ext.borrow, torch.zeros(3).as_subclass(Fails))
    assert words.endswith("raised OSError: the disk is gone"), words
