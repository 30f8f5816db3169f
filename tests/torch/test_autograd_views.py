"""Writing in place obeys torch's own rules: whatever torch refuses for `x.add_(1)` is refused,
and nothing has moved then.

Promised (docs/import.md, docs/torch.md): with `require_writable` a leaf that requires grad is refused while grad mode
is on "as torch refuses an in-place operation on it"; a view of it is the same memory. torch itself is the judge: each
case is first tried on a tensor of its own. A refused write leaves elements and version counters as they were; a taken
one moves the counter once.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
ext = pytest.importorskip("isthmus_torch_stable_ext")


def leaf() -> torch.Tensor:
    return torch.zeros(4, requires_grad=True)


def made_without_grad(make: Callable) -> Callable:
    """The same view, taken under no_grad: torch refuses a write to it while grad mode is on."""

    def view(w: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return make(w)

    return view


class Identity(torch.autograd.Function):
    """A view out of a custom function, of which torch cannot know how it was made."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return gradient


ONE_VIEW = {
    "w[:]": lambda w: w[:],
    "w[1:3]": lambda w: w[1:3],
    "w[...]": lambda w: w[...],
    "view(-1)": lambda w: w.view(-1),
    "view_as": lambda w: w.view_as(w),
    "reshape": lambda w: w.reshape(4),
    "flatten": lambda w: w.view(2, 2).flatten(),
    "narrow": lambda w: w.narrow(0, 0, 2),
    "select of rows": lambda w: w.view(2, 2).select(0, 1),
    "diagonal": lambda w: w.view(2, 2).diagonal(),
    "t()": lambda w: w.view(2, 2).t()[0],
    "T": lambda w: w.view(2, 2).T[1],
    "permute": lambda w: w.view(2, 2).permute(1, 0)[0],
    "transpose": lambda w: w.view(2, 2).transpose(0, 1)[0],
    "squeeze": lambda w: w.view(1, 4).squeeze(0),
    "unsqueeze": lambda w: w.unsqueeze(0)[0],
    "as_strided": lambda w: w.as_strided((2,), (2,)),
    "unfold": lambda w: w.unfold(0, 4, 4)[0],
    "movedim": lambda w: w.view(2, 2).movedim(0, 1)[0],
    "alias": lambda w: torch.ops.aten.alias(w),
    "view of a view": lambda w: w[1:][:2][:],
    "custom function": Identity.apply,
}
MANY_VIEWS = {
    "unbind": lambda w: w.view(2, 2).unbind()[0],
    "chunk": lambda w: w.chunk(2)[0],
    "split": lambda w: w.split(2)[1],
    "split_with_sizes": lambda w: w.split([1, 3])[1],
    "tensor_split": lambda w: w.tensor_split(2)[0],
    "hsplit": lambda w: w.hsplit(2)[0],
    "iteration": lambda w: next(iter(w.view(2, 2))),
}
NO_VIEW = {
    "the tensor itself": lambda w: w,
    "detach()": lambda w: w.detach(),
    "data": lambda w: w.data,
    "clone()": lambda w: w.clone(),
    "a view of a detached one": lambda w: w.detach()[1:],
}
VIEWS = {**ONE_VIEW, **MANY_VIEWS, **NO_VIEW}
BASES = {
    "leaf": leaf,
    "parameter": lambda: torch.nn.Parameter(torch.zeros(4)),
    "no leaf": lambda: leaf() * 1,
    "without grad": lambda: torch.zeros(4),
}


def torch_allows(make: Callable[[], torch.Tensor]) -> bool:
    try:
        make().add_(1)
    except RuntimeError:
        return False
    return True


def check(base: str, view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    allowed = torch_allows(lambda: view(BASES[base]()))
    w = BASES[base]()
    x = view(w)
    version, elements = x._version, x.tolist()
    if allowed:
        ext.add_in_place(x, 1.0)
        assert x.tolist() == [e + 1 for e in elements]
        assert x._version == version + 1
        return
    for call in (lambda: ext.add_in_place(x, 1.0), lambda: ext.own(x, require_writable=True)):
        with pytest.raises(Exception) as info:
            call()
        assert getattr(info.value, "code", None) == "requires_grad", info.value
        assert isinstance(info.value, BufferError)
        assert "grad" in str(info.value)
    assert x.tolist() == elements
    assert x._version == version, "a refused write is none"


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("view", VIEWS)
def test_as_torch_itself(base: str, view: str) -> None:
    check(base, VIEWS[view])


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("view", ["w[:]", "view(-1)", "unbind", "detach()"])
def test_views_made_without_grad(base: str, view: str) -> None:
    check(base, made_without_grad(VIEWS[view]))


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("view", VIEWS)
def test_without_grad_mode_all_may_be_written(base: str, view: str) -> None:
    w = BASES[base]()
    x = VIEWS[view](w)
    with torch.no_grad():
        if not torch_allows(lambda: VIEWS[view](BASES[base]())):
            pytest.skip("torch refuses it here too")
        ext.add_in_place(x, 1.0)
    assert set(x.tolist()) == {1.0}


@pytest.mark.parametrize("view", [*ONE_VIEW, *MANY_VIEWS])
def test_a_view_may_be_read(view: str) -> None:
    x = VIEWS[view](leaf())
    assert ext.own(x)["data"] == x.data_ptr()
    assert ext.own(x)["read_only"]


@pytest.mark.parametrize("view", ["w[:]", "unbind"])
def test_allow_grad_writes_all_the_same(view: str) -> None:
    """What an optimiser in C++ asks for."""
    x = VIEWS[view](leaf())
    assert not ext.own(x, require_writable=True, allow_grad=True)["read_only"]
