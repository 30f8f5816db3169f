"""An error reaches the user whole: the real cause, the argument, what was found, what was expected, and what to call.

Promised: law 8 of the design ("an interrupt passes through as it is") and docs/import.md, "Errors": the producer's own
exception is the `__cause__`, and an argument that does not fit what was expected is a ValueError, whatever about it
does not fit.
"""

from __future__ import annotations

from collections.abc import Callable

import modules
import numpy as np
import pytest
from casters import CASTERS

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")
calls = modules.load("calls")


class Stop(BaseException):
    pass


def wrapper(policy: str, raised: BaseException) -> object:
    """A wrapper subclass of torch.Tensor whose `__torch_dispatch__` raises when libtorch asks for `policy`."""
    torch = pytest.importorskip("torch")

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls):
            choice = (
                {policy: True}
                if policy.startswith("dispatch_device") or policy == "dispatch_layout"
                else {"dispatch_sizes_strides_policy": policy}
            )
            return torch.Tensor._make_wrapper_subclass(cls, (3,), dtype=torch.float32, device="cpu", **choice)

        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
            raise raised

    return Wrapper()


POLICIES = ["sizes", "strides", "dispatch_device", "dispatch_layout"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, Stop])
@pytest.mark.parametrize("policy", POLICIES)
def test_an_interrupt_inside_torch_dispatch(take, policy: str, kind: type) -> None:
    with pytest.raises(kind):
        take(wrapper(policy, kind("now")))


@pytest.mark.parametrize("policy", POLICIES)
def test_an_exception_inside_torch_dispatch(take, policy: str) -> None:
    with pytest.raises(ext.Error) as info:
        take(wrapper(policy, LookupError("no such size")))
    assert isinstance(info.value.__cause__, LookupError)
    assert "no such size" in str(info.value)


def test_an_exception_whose_text_holds_any_character(take) -> None:
    class Producer:
        def __dlpack__(self, **_: object) -> object:
            raise LookupError("no\0such\x1b[2J\nbuffer é")

    with pytest.raises(ext.Error) as info:
        take(Producer())
    assert "LookupError: no\\x00such\\x1b[2J\nbuffer é" in str(info.value)
    assert str(info.value.__cause__) == "no\0such\x1b[2J\nbuffer é"


@pytest.mark.parametrize("name", CASTERS)
def test_an_interrupt_ends_the_search_for_an_overload(name: str) -> None:
    bound = pytest.importorskip(name)

    class Interrupted:
        def __dlpack__(self, **_: object) -> object:
            raise KeyboardInterrupt

    for function in (bound.sum, bound.which, bound.describe, bound.keep, bound.count):
        with pytest.raises(KeyboardInterrupt):
            function(Interrupted())


def traced(transform: str) -> Exception:
    """What importing inside a transformation of JAX raises."""
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones(())
    run = {
        "jit": lambda f: jax.jit(f)(x),
        "vmap": lambda f: jax.vmap(f)(jax.numpy.ones((2, 3))),
        "grad": lambda f: jax.grad(f)(x),
        "jvp": lambda f: jax.jvp(f, (x,), (x,)),
        "linearize": lambda f: jax.linearize(f, x),
        "eval_shape": lambda f: jax.eval_shape(f, x),
        "vmap of grad": lambda f: jax.vmap(jax.grad(f))(jax.numpy.ones(3)),
        "checkpoint": lambda f: jax.checkpoint(f)(x),
        "scan": lambda f: jax.lax.scan(lambda c, y: (c, f(y)), 0.0, jax.numpy.ones(3)),
    }[transform]
    with pytest.raises(ext.Error) as info:
        run(ext.own)
    return info.value


TRANSFORMS = ["jit", "vmap", "grad", "jvp", "linearize", "eval_shape", "vmap of grad", "checkpoint", "scan"]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_tracer_of_jax_in_the_same_words(transform: str) -> None:
    error = traced(transform)
    assert error.code == "not_values"
    assert "a traced value has no memory" in str(error)
    assert "pure_callback" in str(error)
    assert "ConcretizationTypeError" not in str(error)


def test_torch_prints_nothing(child) -> None:
    """A fake tensor is refused before its data pointer is asked for, at which torch writes a warning to stderr."""
    pytest.importorskip("torch")
    out = child("""
        import os, sys, tempfile
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode
        import isthmus_test_ext as ext
        with FakeTensorMode():
            fakes = torch.zeros(3), torch.nn.Parameter(torch.zeros(3))
        kept, said = os.dup(2), tempfile.TemporaryFile()
        os.dup2(said.fileno(), 2)
        for x in fakes:
            for call in (ext.borrow, ext.own):
                try:
                    call(x)
                except ext.Error as error:
                    print(error.code, error)
        os.dup2(kept, 2)
        said.seek(0)
        assert said.read() == b"", "torch wrote to stderr"
    """)
    assert len(out.splitlines()) == 4
    assert {line.split()[0] for line in out.splitlines()} <= {"null_data", "not_values"}
    assert all("fake" in line for line in out.splitlines())


def test_a_legacy_capsule_of_a_tensor_that_requires_grad() -> None:
    """The reason is autograd's, and so is the remedy."""
    torch = pytest.importorskip("torch")
    t = isthmus.from_dlpack(torch.zeros(3, requires_grad=True))
    for call in (t.__dlpack__, lambda: t.to("capsule_legacy"), lambda: t.to("paddle")):
        with pytest.raises(BufferError) as info:
            call()
        assert "requires grad" in str(info.value)
        assert ".detach()" in str(info.value)


@pytest.mark.parametrize("device", [(999, 3), (0, 0), (-1, 0), (2, -1), "cuda:x", "nosuch:0"], ids=repr)
def test_a_device_that_is_none(device: object) -> None:
    """Says what is wrong with it, not the form that it already has."""
    with pytest.raises(isthmus.Error) as info:
        isthmus.from_dlpack(np.zeros(3), device=device)
    text = str(info.value)
    assert info.value.code == "bad_argument"
    assert isinstance(info.value, ValueError)
    if isinstance(device, tuple):
        assert "or (type, id)" not in text
        assert ("type" if device[1] >= 0 else "id") in text
        assert str(device[0] if device[1] >= 0 else device[1]) in text


def read_only() -> np.ndarray:
    a = np.zeros(3, np.float32)
    a.flags.writeable = False
    return a


MISFITS = {
    "read-only": (read_only, "read_only"),
    "dtype": (lambda: np.zeros(3), "bad_dtype"),
    "rank": (lambda: np.zeros((3, 1), np.float32), "bad_layout"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_an_argument_that_does_not_fit_is_a_value_error(name: str) -> None:
    """One function, one family: whoever catches ValueError catches every argument that does not fit."""
    make, code = MISFITS[name]
    for call in (lambda x: calls.copy_into(x, np.ones(3, np.float32)), lambda x: calls.scale(x, 2.0)):
        with pytest.raises(ext.Error) as info:
            call(make())
        assert info.value.code == code
        assert isinstance(info.value, ValueError)
        assert "argument 'out'" in str(info.value)


# Containers that hold arrays and are none: what to call instead. (Arrow's streams: test_import_sources.py.)
HINTS: dict[str, tuple[Callable[[], object], str]] = {}


def hint(words: str) -> Callable:
    def register(make: Callable[[], object]) -> Callable:
        HINTS[make.__name__] = make, words
        return make

    return register


@hint("column")
def pyarrow_table() -> object:
    pa = pytest.importorskip("pyarrow")
    return pa.table({"a": [1.0, 2.0]})


@hint("to_numpy()")
def polars_frame() -> object:
    return pytest.importorskip("polars").DataFrame({"a": [1.0], "b": [2.0]})


@hint("to_numpy()")
def pandas_series() -> object:
    return pytest.importorskip("pandas").Series([1.0, 2.0])


@hint("to_numpy()")
def pandas_frame() -> object:
    return pytest.importorskip("pandas").DataFrame({"a": [1.0, 2.0]})


@hint("to_numpy()")
def pandas_index() -> object:
    return pytest.importorskip("pandas").Index([1.0, 2.0])


@hint(".values")
def xarray_array() -> object:
    return pytest.importorskip("xarray").DataArray(np.zeros(3))


@hint(".compute()")
def dask_array() -> object:
    return pytest.importorskip("dask.array").zeros(3)


@hint("x.magnitude")
def pint_quantity() -> object:
    return pytest.importorskip("pint").UnitRegistry().Quantity(np.arange(3.0), "m")


@hint("[...]")
def zarr_array() -> object:
    return pytest.importorskip("zarr").zeros(3)


@hint("[...]")
def h5py_dataset() -> object:
    import tempfile

    h5py = pytest.importorskip("h5py")
    return h5py.File(tempfile.mktemp(), "w", driver="core", backing_store=False).create_dataset("x", data=np.zeros(3))


@hint(".value()")
def tensorflow_variable() -> object:
    return pytest.importorskip("tensorflow").Variable([1.0, 2.0])


def test_a_quantity_with_a_unit_is_not_its_numbers(take, refused) -> None:
    """pint's hands on its array's attributes, the interface too."""

    class Quantity:
        magnitude = np.arange(3.0)

        def __getattr__(self, name: str) -> object:
            return getattr(self.magnitude, name)

    assert take(Quantity())["shape"] == (3,), "a class that is not known stands for what it hands on"
    known = type("Quantity", (Quantity,), {"__module__": "pint"})()
    assert "; x.magnitude gives one" in str(refused("not_a_tensor", TypeError, take, known))
    assert take(known.magnitude)["shape"] == (3,), "the remedy"


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_of_what_to_call(take, refused, name: str) -> None:
    """`expected a tensor, got …` says which call gives one."""
    make, words = HINTS[name]
    x = make()
    try:
        found = take(x)
    except ext.Error:
        assert words in str(refused("not_a_tensor", TypeError, take, x))
    else:
        assert found["size"] > 0, "taken is right too"


@pytest.mark.parametrize(
    ("package", "name", "words"), [("pandas.core.frame", "DataFrame", "x.to_numpy()"), ("zarr", "Array", "x[...]")]
)
def test_a_hint_by_the_name_of_a_class(take, refused, package: str, name: str, words: str) -> None:
    base = type(name, (), {"__module__": package})
    for kind in (base, type("Mine", (base,), {})):
        assert f"; {words} gives one" in str(refused("not_a_tensor", TypeError, take, kind()))
    other = type(name, (), {"__module__": "elsewhere"})
    assert "gives one" not in str(refused("not_a_tensor", TypeError, take, other()))


def test_a_list_needs_no_hint(take, refused) -> None:
    refused("not_a_tensor", TypeError, take, [1.0, 2.0])
