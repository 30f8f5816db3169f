"""Operators with a function for CUDA: it is called with the stream of the first tensor, which the other tensors' are
ordered with. The function writes by the address, so that it runs over the stand-in alone."""

from __future__ import annotations

import ctypes as ct

from cases import NeedsMore, case, refused
from cases_torch import current, tensor
from driver import Driver
from producers import Exchange, Interface, Method

import isthmus_test_ext as ext


def operators() -> object:
    try:
        import isthmus_operators_test_ext
    except ImportError:
        raise NeedsMore("needs the tests of operators to be built") from None
    return isthmus_operators_test_ext


def elements(address: int) -> ct.Array:
    return (ct.c_float * 4).from_address(address)


def fill(x: object, *values: float) -> object:
    elements(x.address)[:] = values
    return x


def three(d: Driver, x: type, y: type, out: type = Interface) -> tuple[object, object, object]:
    """Two arguments and a result, each on a stream of its own."""
    return fill(x(d, d.stream()), 1, 2, 3, 4), fill(y(d, d.stream()), 10, 20, 30, 40), out(d, d.stream())


@case("cuda")
def an_operator_runs_on_the_stream_of_its_first_tensor(d: Driver) -> None:
    ops = operators()
    for first in (Exchange, Interface):
        x, y, out = three(d, first, Interface)
        with d.busy(y.stream):
            assert not d.waits(x.stream)
            assert not d.waits(out.stream)
            assert ops.add(x, y, out=out) is out
            assert ops.last_stream() == x.stream
            assert d.waits(x.stream), d.log()  # for the other argument
            assert d.waits(out.stream), d.log()  # for the function
        assert list(elements(out.address)) == [11, 22, 33, 44]
    d.check_host_never_waited()


@case("cuda")
def an_operators_arguments_are_not_written_before_it_has_read_them(d: Driver) -> None:
    ops = operators()
    x, y, out = three(d, Interface, Interface)
    with d.busy(x.stream):
        ops.add(x, y, out=out)
        assert d.waits(y.stream), d.log()


@case("cuda")
def an_operator_asks_a_producer_that_alone_knows_its_stream(d: Driver) -> None:
    ops = operators()
    x, y, out = three(d, Interface, Method)
    ops.add(x, y, out=out)
    assert y.asked[-1]["stream"] == x.stream, y.asked
    x, y, out = three(d, Method, Interface)
    with d.busy(x.stream):
        ops.add(x, y, out=out)
        assert ops.last_stream() == d.legacy
        assert x.asked[-1]["stream"] == d.legacy, x.asked
        assert d.waits(out.stream), d.log()
    assert list(elements(out.address)) == [11, 22, 33, 44]


@case("cuda")
def an_operator_with_a_list_of_tensors(d: Driver) -> None:
    try:
        import isthmus_operators_lists_test_ext as lists
    except ImportError:
        raise NeedsMore("needs the tests of operators to be built") from None
    x, y, out = three(d, Interface, Interface)
    with d.busy(y.stream):
        assert lists.added([x, y], out=out) is out
        assert d.waits(x.stream), d.log()  # for the other element
        assert d.waits(out.stream), d.log()  # for the function
    assert list(elements(out.address)) == [11, 22, 33, 44]
    d.check_host_never_waited()
    other = ext.pages([4], "float32", device=(d.type, 1))
    found = refused("bad_device", ValueError, lists.added, [x, other], out=out)
    assert found == (
        "added(): argument 'xs', element 1: got float32[4] on cuda:1 beside tensors on cuda:0; expected one device"
    )


@case("cuda")
def an_operator_in_a_capture(d: Driver) -> None:
    ops, stream = operators(), d.stream()
    x, y, out = (kind(d, stream) for kind in (Exchange, Interface, Interface))
    fill(x, 1, 1, 1, 1), fill(y, 2, 2, 2, 2)
    with d.capture(stream):
        ops.add(x, y, out=out)
    assert list(elements(out.address)) == [3, 3, 3, 3]


@case("cuda")
def an_operator_writes_device_memory_in_place(d: Driver) -> None:
    ops = operators()
    y, x, _ = three(d, Interface, Interface)
    with d.busy(x.stream):
        assert ops.add_to(y, x) is None
        assert d.waits(y.stream), d.log()
    assert ops.last_stream() == y.stream
    assert list(elements(y.address)) == [11, 22, 33, 44]


@case("cuda")
def an_operator_says_which_device_memory_it_wants(d: Driver) -> None:
    ops = operators()
    x, y, out = three(d, Interface, Interface)
    host = ext.pages([4], "float32")
    double = ext.pages([4], "float64", device=(d.type, 0))
    other = ext.pages([4], "float32", device=(d.type, 1))

    def words(*arguments: object, function: str = "add", **options: object) -> str:
        return refused("bad_device", ValueError, getattr(ops, function), *arguments, **options)

    assert words(x, 2, function="first") == (
        "first(): argument 'x': expected float32[n] on cpu, got float32[4] on cuda:0: this operator has no function "
        "for a GPU; register one with .cuda<f>()"
    )
    assert words(x, host, out=out).startswith("add(): argument 'y': expected float32[n] on cuda, got float32[4] on cpu")
    assert words(host, x, out=out).startswith(
        "add(): argument 'y': expected float32[n] on cpu, got float32[4] on cuda:0"
    )
    assert (
        words(x, other, out=out)
        == "add(): argument 'y': got float32[4] on cuda:1 beside 'x' on cuda:0; expected one device"
    )
    assert words(x, y, out=other).startswith("add(): argument 'out': got float32[4] on cuda:1 beside 'x' on cuda:0")
    assert words(x, y, out=host).startswith("add(): argument 'out': expected ")
    result = refused("bad_device", BufferError, ops.add, x, y)
    assert result == "add(): a result of tensor on cuda:0 cannot be made here; bring it as out=", result
    dtype = refused("bad_dtype", ValueError, ops.add, double, double, out=double)
    assert dtype.startswith("add(): argument 'x': expected float32[n] on cuda, got float64[4] on cuda:0"), dtype


@case("cuda")
def an_operator_whose_streams_cannot_be_ordered_is_not_called(d: Driver) -> None:
    ops = operators()
    x, y, out = three(d, Interface, Interface)
    before = ops.last_call()[2]
    d.fail("StreamWaitEvent")
    words = refused("producer_failed", BufferError, ops.add, x, y, out=out)
    assert words.startswith("add(): the driver could not order stream "), words
    assert ops.last_call()[2] == before
    d.clear()


@case("cuda")
def an_operator_whose_streams_cannot_be_ordered_afterwards_says_so(d: Driver) -> None:
    class FailsLater(Method):
        """The driver is well as long as this producer is asked, and fails at what comes next."""

        def __dlpack__(self, **keywords: object) -> object:
            capsule = super().__dlpack__(**keywords)
            d.fail("StreamWaitEvent")
            return capsule

    ops, stream = operators(), d.stream()
    x = fill(Interface(d, stream), 1, 2, 3, 4)
    y, out = fill(FailsLater(d, stream), 10, 20, 30, 40), Interface(d, stream)
    before = ops.last_call()[2]
    words = refused("producer_failed", BufferError, ops.add, x, y, out=out)
    assert words == "add(): the driver could not order the tensors' streams after the call", words
    assert ops.last_call()[2] == before + 1
    d.clear()


@case("cuda")
def an_operator_for_any_device_needs_no_function_for_one(d: Driver) -> None:
    x, double = (ext.pages([4], dtype, device=(d.type, 0)) for dtype in ("float32", "float64"))
    out = ext.pages([], "float64")
    assert operators().anywhere(x, out=out) is out
    assert ct.c_double.from_address(out.data_ptr).value == x.data_ptr
    words = refused("bad_dtype", ValueError, operators().anywhere, double, out=out)
    said = "anywhere(): argument 'x': expected float32[:] on any device, got float64[4] on cuda:0: dtype differs"
    assert words == said, words


@case("rocm")
def an_operators_function_for_cuda_is_none_for_rocm(d: Driver) -> None:
    x = ext.pages([4], "float32", device=(d.type, 0))
    words = refused("bad_device", ValueError, operators().add, x, x, out=x)
    assert words.startswith("add(): argument 'x': expected float32[n] on cuda, got float32[4] on rocm:0"), words


@case("torch", "torch_exchange", "torch_method")
def an_operator_runs_on_torchs_current_stream(d: Driver) -> None:
    x, y, out, mine = tensor(d), tensor(d), tensor(d), d.stream()
    ops = operators()
    elements(x.data_ptr())[:], elements(y.data_ptr())[:] = (1, 2, 3, 4), (10, 20, 30, 40)
    with current(d, mine):
        assert ops.add(x, y, out=out) is out
        assert ops.last_stream() == mine
    assert list(elements(out.data_ptr())) == [11, 22, 33, 44]


@case("torch")
def torchs_own_call_runs_the_kernel_on_its_current_stream(d: Driver) -> None:
    """By torch.ops, whose kernel for CUDA it is. (It makes no result: torch's allocator wants the CUDA runtime.)"""
    y, x, mine = tensor(d), tensor(d), d.stream()
    ops = operators()
    try:
        import isthmus.operators
    except ImportError:
        raise NeedsMore("needs the package isthmus") from None
    import torch

    isthmus.operators.register("torch")
    elements(x.data_ptr())[:], elements(y.data_ptr())[:] = (1, 2, 3, 4), (10, 20, 30, 40)
    with current(d, mine):
        torch.ops.geo.add_to(y, x)
        assert ops.last_stream() == mine
    assert list(elements(y.data_ptr())) == [11, 22, 33, 44]
    version = y._version
    torch.ops.geo.add_to(y, x)
    assert ops.last_stream() is None or ops.last_stream() == d.legacy
    assert y._version == version + 1
    try:
        torch.ops.geo.add_to(y, torch.zeros(4))
    except RuntimeError as error:
        assert "add_to(): argument 'x': expected float32[n] on cuda, got float32[4] on cpu" in str(error), error
    else:
        raise AssertionError("the host's memory was taken for the device's")
