"""Gradients and tangents do not vanish without a word.

Promised (law 3): a function of C++ that reads a tensor that requires grad and returns a new one has cut the graph, so
that `(f(w) * b).sum().backward()` would leave `w.grad` None. A typed argument (Arguments, both casters) therefore
refuses such a tensor while grad mode is on, in the words of `Tensor.numpy()`: it says "requires grad" and what to call
(`.detach()`). `torch.no_grad()`, `.detach()` and an author's own `allow_grad` let it in. A bare handle (from_py,
borrow_py, isthmus.from_dlpack) may still be taken to read, read-only,
since it leads back to the very same object with its graph.

An alias that torch can write, made of memory that autograd watches, is refused as torch's own `__dlpack__` refuses it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from casters import CASTERS

torch = pytest.importorskip("torch", exc_type=ImportError)
np = pytest.importorskip("numpy")
ext = pytest.importorskip("isthmus_test_ext")
isthmus = pytest.importorskip("isthmus")
forward_ad = pytest.importorskip("torch.autograd.forward_ad")

import modules  # noqa: E402  # which needs ext

calls = modules.load("calls")


def leaf() -> torch.Tensor:
    return torch.ones(4, requires_grad=True)


WITH_GRAD: dict[str, Callable[[], torch.Tensor]] = {
    "leaf": leaf,
    "parameter": lambda: torch.nn.Parameter(torch.ones(4)),
    "no leaf": lambda: leaf() * 2,
    "view of a leaf": lambda: leaf()[1:],
}
with_grad = pytest.mark.parametrize("name", WITH_GRAD)


@with_grad
def test_a_function_that_reads_refuses(name: str) -> None:
    x = WITH_GRAD[name]()
    with pytest.raises(ext.Error) as info:
        calls.twice(x)
    assert info.value.code == "requires_grad"
    text = str(info.value)
    assert "twice(): argument 'x': " in text
    assert "requires grad" in text
    assert ".detach()" in text


@with_grad
@pytest.mark.parametrize("module", CASTERS)
def test_a_function_that_reads_refuses_through_a_caster(module: str, name: str) -> None:
    bound = pytest.importorskip(module)
    for function in (bound.twice, bound.which, bound.count, bound.total_without_grad):
        with pytest.raises(BufferError, match=r"requires grad.*detach"):
            function(WITH_GRAD[name]())
    assert bound.total(WITH_GRAD[name]()) > 0, "its author allows it"
    assert bound.twice(WITH_GRAD[name]().detach()).requires_grad is False
    assert bound.total_without_grad(WITH_GRAD[name]().detach()) == bound.total(WITH_GRAD[name]())
    with torch.no_grad():
        assert bound.total_without_grad(WITH_GRAD[name]()) > 0


@with_grad
def test_a_function_that_writes_refuses(name: str) -> None:
    """torch would record an in-place operation on a tensor that is no leaf; nobody records ours."""
    x = WITH_GRAD[name]()
    before = x.tolist()
    with pytest.raises(ext.Error) as info:
        calls.scale(x, 2.0)
    assert info.value.code == "requires_grad"
    assert "requires grad" in str(info.value)
    assert ".detach()" in str(info.value)
    assert (x.tolist(), x._version) == (before, 0)
    with torch.no_grad():
        calls.scale(x, 2.0)
    assert x._version == 1


@with_grad
def test_its_author_may_allow_it(name: str) -> None:
    x = WITH_GRAD[name]()
    assert calls.total(x) == x.detach().sum()
    calls.clear(x)
    assert x._version == 1
    assert x.detach().sum() == 0


@with_grad
def test_an_isthmus_tensor_of_it_is_refused_as_well(name: str) -> None:
    t = isthmus.from_dlpack(WITH_GRAD[name]())
    for shown in (t, t.as_read_only()):
        with pytest.raises(ext.Error, match="requires grad") as info:
            calls.twice(shown)
        assert info.value.code == "requires_grad"


@with_grad
@pytest.mark.parametrize("framework", ["numpy", "jax", "tensorflow", "pyarrow"])
def test_frameworks_that_cannot_write_still_read(framework: str, name: str) -> None:
    pytest.importorskip(framework)
    t = isthmus.from_dlpack(WITH_GRAD[name]())
    try:
        array = t.to(framework, allow_copy=True)
    except isthmus.Error as error:
        assert error.code != "requires_grad"
    else:
        assert np.asarray(array).tolist() == np.asarray(t).tolist()
        assert framework != "numpy" or not array.flags.writeable


@with_grad
def test_what_lets_it_in(name: str) -> None:
    x = WITH_GRAD[name]()
    assert calls.twice(x.detach()).tolist() == (x.detach() * 2).tolist()
    with torch.no_grad():
        assert calls.twice(x).tolist() == (x * 2).tolist()


def test_a_loss_does_not_lose_its_gradient() -> None:
    """The whole of it: the training step fails at the call, not silently at `w.grad`."""
    w, b = leaf(), torch.ones(4, requires_grad=True)
    with pytest.raises(ext.Error, match="requires grad"):
        (calls.twice(w) * b).sum().backward()


@with_grad
def test_a_handle_leads_back_to_the_object(name: str) -> None:
    x = WITH_GRAD[name]()
    t = isthmus.from_dlpack(x)
    assert t.read_only
    assert t.to("torch") is x


def as_capsule(t: object) -> object:
    return torch.utils.dlpack.from_dlpack(t.__dlpack__(max_version=(1, 0)))


def as_legacy_capsule(t: object) -> object:
    return torch.utils.dlpack.from_dlpack(t.__dlpack__())


ALIASES: dict[str, Callable] = {
    "torch.from_dlpack": torch.from_dlpack,
    "versioned capsule": as_capsule,
    "legacy capsule": as_legacy_capsule,
    "as_tensor": torch.as_tensor,
}


@with_grad
@pytest.mark.parametrize("way", ALIASES)
def test_no_alias_behind_autograd(name: str, way: str) -> None:
    """torch's own word for the same: "Can't export tensors that require gradient, use tensor.detach()"."""
    x = WITH_GRAD[name]()
    before, version = x.tolist(), x._version
    t = isthmus.from_dlpack(x)
    try:
        alias = ALIASES[way](t)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        assert "requires grad" in str(error)
        assert ".detach()" in str(error)
        return
    alias.add_(1)
    assert x.tolist() == before or x._version > version, "written behind autograd"


@pytest.mark.parametrize("kind", ["capsule", "capsule_legacy"])
def test_no_capsule_for_a_consumer_that_nobody_knows(kind: str) -> None:
    t = ext.tensor_of(leaf())
    with pytest.raises(BufferError, match="requires grad") as info:
        t.to(kind)
    assert info.value.code == "requires_grad"
    assert type(t.to(kind, allow_read_only_loss=True)).__name__ == "PyCapsule"


def test_a_detached_tensor_is_shared() -> None:
    x = leaf()
    alias = torch.from_dlpack(isthmus.from_dlpack(x.detach()))
    assert alias.data_ptr() == x.data_ptr()


def test_numpy_reads_what_is_read_only() -> None:
    x = leaf()
    array = np.asarray(isthmus.from_dlpack(x))
    assert not array.flags.writeable


def dual() -> torch.Tensor:
    return forward_ad.make_dual(torch.ones(3), torch.full((3,), 5.0))


def says_tangent(error: Exception) -> bool:
    return error.code == "requires_grad" and "tangent" in str(error) and "unpack_dual" in str(error)


def test_a_dual_is_refused_by_a_function() -> None:
    """Forward-mode automatic differentiation: the result would have no tangent."""
    with forward_ad.dual_level():
        x = dual()
        with pytest.raises(ext.Error) as info:
            calls.twice(x)
        assert says_tangent(info.value), info.value
        assert calls.twice(forward_ad.unpack_dual(x).primal).tolist() == [2.0, 2.0, 2.0]


def test_a_dual_is_not_written() -> None:
    """An in-place operation of torch would change the tangent too."""
    with forward_ad.dual_level():
        x = dual()
        with pytest.raises(ext.Error) as info:
            calls.add(x, 1.0)
        assert says_tangent(info.value), info.value
        assert forward_ad.unpack_dual(x).primal.tolist() == [1.0, 1.0, 1.0]


def test_a_dual_may_be_read() -> None:
    """As a tensor that requires grad: read-only, and no way to a writable alias."""
    with forward_ad.dual_level():
        x = dual()
        t = isthmus.from_dlpack(x)
        assert t.read_only
        assert t.to("torch") is x
        with pytest.raises(BufferError, match="tangent"):
            torch.from_dlpack(t)
        with torch.no_grad(), pytest.raises(ext.Error, match="tangent"):
            calls.twice(x)
        assert calls.total(x) == 3
    assert calls.twice(x).tolist() == [2.0] * 3, "the tangent ended with its level"


@pytest.mark.parametrize("module", CASTERS)
def test_a_dual_is_refused_by_a_caster(module: str) -> None:
    bound = pytest.importorskip(module)
    with forward_ad.dual_level(), pytest.raises(BufferError, match=r"tangent.*unpack_dual"):
        bound.twice(dual())


TRANSFORMS: dict[str, Callable] = {
    "jvp": lambda f: torch.func.jvp(f, (torch.ones(3),), (torch.ones(3),)),
    "grad": lambda f: torch.func.grad(lambda x: f(x).sum())(torch.ones(3)),
    "vjp": lambda f: torch.func.vjp(f, torch.ones(3)),
    "vmap": lambda f: torch.vmap(f)(torch.ones(2, 3)),
    "functionalize": lambda f: torch.func.functionalize(f)(torch.ones(3)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_inside_a_transform_of_torch(name: str) -> None:
    """A wrapper of torch.func has no memory: the error names the transform's kind of tensor and says that it cannot be
    traced through, instead of passing on that "a tensor doesn't have storage"."""
    with pytest.raises(ext.Error) as info:
        TRANSFORMS[name](calls.twice)
    text = str(info.value)
    assert "torch.func" in text or "torch.vmap" in text
    assert "have storage" not in text
