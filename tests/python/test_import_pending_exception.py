"""An exception that is set when an import or an exit begins is still set, and still the same, when it ends.

Promised (law 8, and what CPython asks of code that may run in a cleanup: save with PyErr_Fetch, restore afterwards):
the outcome of from_py, borrow_py and to_py depends neither on a pending exception nor on whether the type was met
before.
"""

from __future__ import annotations

import array
import itertools
from collections.abc import Callable

import modules
import numpy as np
import pytest

import isthmus_test_ext as ext

calls = modules.load("calls")
count = itertools.count()


def torch() -> object:
    return pytest.importorskip("torch")


def of_a_new_type(base: type, *arguments: object, **members: object) -> object:
    """An instance of a type that nobody has looked at before."""
    return type(f"New{next(count)}", (base,), members)(*arguments)


def new_array() -> np.ndarray:
    return np.zeros(3).view(type(f"New{next(count)}", (np.ndarray,), {}))


def new_tensor() -> object:
    return torch().zeros(3).as_subclass(type(f"New{next(count)}", (torch().Tensor,), {}))


def dlpack(self: object, **keywords: object) -> object:
    return np.zeros(3).__dlpack__(**{k: v for k, v in keywords.items() if k == "max_version"})


KNOWN = {
    "numpy": lambda: np.zeros(3),
    "numpy, unusual": lambda: np.zeros(6)[::2],
    "numpy scalar": lambda: np.float64(1),
    "bytes": lambda: b"123",
    "array.array": lambda: array.array("d", [1]),
    "torch": lambda: torch().zeros(3),
    "torch, requires grad": lambda: torch().zeros(3, requires_grad=True),
    "jax": lambda: pytest.importorskip("jax").numpy.zeros(3),
    "isthmus.Tensor": lambda: ext.pages([3]),
    "capsule": lambda: np.zeros(3).__dlpack__(max_version=(1, 0)),
}
NEW = {
    "numpy subclass": new_array,
    "torch subclass": new_tensor,
    "bytes subclass": lambda: of_a_new_type(bytes, b"123"),
    "__dlpack__": lambda: of_a_new_type(object, __dlpack__=dlpack, __dlpack_device__=lambda self: (1, 0)),
    "array interface": lambda: of_a_new_type(object, __array_interface__=np.zeros(3).__array_interface__),
    "array interface of the instance": lambda: instance_interface(),
}


def instance_interface() -> object:
    x = of_a_new_type(object)
    x.__array_interface__ = np.zeros(3).__array_interface__
    return x


owning = pytest.mark.parametrize("owning", [False, True], ids=["borrow_py", "from_py"])


def check(failure: str | None, pending: object) -> None:
    assert failure is None
    assert type(pending) is LookupError, pending
    assert pending.args == ("set before",)
    assert pending.__context__ is None
    assert pending.__cause__ is None


@owning
@pytest.mark.parametrize("name", [*KNOWN, *NEW])
def test_of_a_type_met_before(name: str, owning: bool) -> None:
    make = {**KNOWN, **NEW}[name]
    x = make()
    if name != "capsule":
        ext.own(x)
    check(*calls.take_pending(x, owning))


@owning
@pytest.mark.parametrize("name", NEW)
def test_of_a_type_never_met(name: str, owning: bool) -> None:
    check(*calls.take_pending(NEW[name](), owning))


@owning
@pytest.mark.parametrize(
    "make", [object, lambda: of_a_new_type(object), lambda: None, list], ids=["object", "new", "None", "list"]
)
def test_what_is_refused_is_refused_for_its_own_reason(make: Callable[[], object], owning: bool) -> None:
    failure, pending = calls.take_pending(make(), owning)
    assert failure is not None
    assert "expected a tensor" in failure
    assert "set before" not in failure
    assert type(pending) is LookupError


@owning
def test_a_producer_that_raises(owning: bool) -> None:
    """Its exception is in the error; the one that was there before stays."""

    def fail(self: object, **_: object) -> object:
        raise RuntimeError("trouble of its own")

    failure, pending = calls.take_pending(of_a_new_type(object, __dlpack__=fail), owning)
    assert "trouble of its own" in failure
    assert "set before" not in failure
    assert type(pending) is LookupError


@pytest.mark.parametrize("framework", ["tensor", "numpy", "torch", "jax", "capsule", "capsule_legacy"])
@pytest.mark.parametrize("name", ["isthmus.Tensor", "numpy", "torch"])
def test_exits(name: str, framework: str) -> None:
    if framework in ("torch", "jax"):
        pytest.importorskip(framework)
    x = ext.pages([16]) if name == "isthmus.Tensor" else KNOWN[name]()
    if framework == "jax" and name != "isthmus.Tensor":
        pytest.skip("JAX wants memory aligned to 64 bytes")
    check(*calls.hand_pending(x, framework))
