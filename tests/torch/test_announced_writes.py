"""A write is announced to autograd once, and only when the whole call goes ahead.

Promised (docs/import.md): an import with `require_writable` moves the version counter, as an in-place operation would.
A call that is then refused (another argument does not fit, this one has another dtype or rank, an overload passes on)
has written nothing, so nothing has moved: a later `backward()` works.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from casters import CASTERS

torch = pytest.importorskip("torch", exc_type=ImportError)
ext = pytest.importorskip("isthmus_test_ext")


@pytest.fixture
def calls():
    import modules

    return modules.load("calls")


REFUSED: dict[str, tuple[Callable[[], torch.Tensor], Callable]] = {
    "another argument's dtype": (
        lambda: torch.zeros(3),
        lambda calls, x: calls.copy_into(x, torch.zeros(3, dtype=torch.float64)),
    ),
    "another argument's rank": (lambda: torch.zeros(3), lambda calls, x: calls.copy_into(x, torch.zeros(1, 3))),
    "another argument's size": (lambda: torch.zeros(3), lambda calls, x: calls.copy_into(x, torch.zeros(4))),
    "another argument is no tensor": (lambda: torch.zeros(3), lambda calls, x: calls.copy_into(x, "text")),
    "another argument is no number": (lambda: torch.zeros(3), lambda calls, x: calls.scale(x, "text")),
    "an argument is missing": (lambda: torch.zeros(3), lambda calls, x: calls.scale(x)),
    "its own dtype": (lambda: torch.zeros(3, dtype=torch.float64), lambda calls, x: calls.scale(x, 2.0)),
    "its own rank": (lambda: torch.zeros(3, 1), lambda calls, x: calls.scale(x, 2.0)),
    "another device": (lambda: torch.zeros(3), lambda calls, x: ext.own(x, require_writable=True, device=(2, 0))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_call_moves_nothing(calls, name: str) -> None:
    make, call = REFUSED[name]
    x = make()
    with pytest.raises((TypeError, ValueError, BufferError)):
        call(calls, x)
    assert x._version == 0


def test_backward_works_after_a_refused_call(calls) -> None:
    w = torch.ones(3, requires_grad=True)
    y = w.exp()  # backward() needs y as it was
    with pytest.raises(ext.Error):
        calls.copy_into(y, torch.zeros(4))
    y.sum().backward()
    assert w.grad is not None


def test_a_call_that_writes_moves_it_once(calls) -> None:
    x = torch.zeros(3)
    calls.copy_into(x, torch.ones(3))
    assert x._version == 1
    calls.scale(x, 2.0)
    assert x._version == 2
    calls.add(x, 1.0)
    assert x._version == 3
    assert x.tolist() == [3.0, 3.0, 3.0]


def test_the_same_tensor_read_and_written(calls) -> None:
    x = torch.ones(3)
    calls.copy_into(x, x)
    assert x._version == 1


def test_what_is_written_too_late_is_still_noticed(calls) -> None:
    w = torch.ones(3, requires_grad=True)
    y = w.exp()
    with torch.no_grad():  # else a typed argument refuses it
        calls.scale(y, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_second_argument_that_torch_closes(calls) -> None:
    """Whether torch takes the announcements is known before the first of them is made."""
    a = torch.zeros(3)
    with torch.inference_mode():
        b = torch.ones(3)
    for arguments in ((a, b), (b, a)):
        with pytest.raises(ext.Error, match="inference"):
            calls.swap(*arguments)
    assert a._version == 0
    assert (a.tolist(), b.tolist()) == ([0.0] * 3, [1.0] * 3)
    with torch.inference_mode():
        calls.swap(a, b)
    assert a.tolist() == [1.0] * 3


def test_two_written_arguments(calls) -> None:
    a, b = torch.zeros(3), torch.ones(3)
    calls.swap(a, b)
    assert (a._version, b._version) == (1, 1)


@pytest.mark.parametrize("module", CASTERS)
def test_sizes_that_agree_first(module: str) -> None:
    """agreeing() compares what the casters have read one by one."""
    bound = pytest.importorskip(module)
    out, first, other = torch.zeros(2, 3), torch.zeros(1), torch.zeros(1)
    with pytest.raises(ValueError, match="copy_rows"):
        bound.copy_rows(out, torch.ones(2, 4))
    with pytest.raises(TypeError):
        bound.copy_first(first, other, "text")
    assert (out._version, first._version, other._version) == (0, 0, 0)
    bound.copy_rows(out, torch.ones(2, 3))
    bound.copy_first(first, other, torch.ones(1, 1))
    assert (out._version, first._version, other._version) == (1, 1, 1)
    assert (out.sum(), first, other) == (6, 1, 1)
    bound.copy_first(first, None, torch.zeros(1, 1))
    assert (first._version, other._version, other) == (2, 1, 1)


@pytest.mark.parametrize("module", CASTERS)
def test_through_a_caster(module: str) -> None:
    """The casters convert each argument on its own and try one overload after another."""
    bound = pytest.importorskip(module)
    refused = [(torch.zeros(2, 2), 1.0), (torch.zeros(2, dtype=torch.float64), 1.0), (torch.zeros(2), "text")]
    for x, value in refused:
        with pytest.raises(TypeError):
            bound.fill(x, value)
        assert x._version == 0, (x, value)
    x = torch.zeros(2)
    bound.fill(x, 7.0)
    assert x._version == 1
    assert x.tolist() == [7.0, 7.0]
