"""A class that is met first: the facts about it are those of its base, unless it defines what a class is asked for.

The judge is the same class under a module of a known package, of which all is looked at.
"""

from __future__ import annotations

import array
from collections.abc import Callable

import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")

NAMES = [
    "__dlpack__", "__dlpack_device__", "__dlpack_c_exchange_api__", "__array_interface__", "__array_struct__",
    "__cuda_array_interface__", "__arrow_c_array__", "__arrow_c_device_array__", "__arrow_c_stream__", "__buffer__",
    "__array__", "__array_ufunc__", "__array_function__", "__add__", "__mul__", "__len__", "__contains__",
]  # fmt: skip
FILLER = {f"method_{i}": None for i in range(40)}


class Duck:
    def __init__(self) -> None:
        self.memory = np.arange(3.0)

    def __dlpack__(self, **options: object) -> object:
        return self.memory.__dlpack__(max_version=options.get("max_version"))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def of_torch(cls: type) -> object:
    import torch

    return torch.zeros(3).as_subclass(cls)


def torch_base() -> type:
    return pytest.importorskip("torch").Tensor


# The base, and what makes an instance of a class that is derived from it.
BASES: dict[str, tuple[Callable[[], type], Callable[[type], object]]] = {
    "ndarray": (lambda: np.ndarray, lambda cls: np.zeros(3).view(cls)),
    "MaskedArray": (lambda: np.ma.MaskedArray, lambda cls: np.ma.masked_array([1.0], [True]).view(cls)),
    "torch.Tensor": (torch_base, of_torch),
    "a producer": (lambda: Duck, lambda cls: cls()),
    "array.array": (lambda: array.array, lambda cls: cls("d", [1, 2, 3])),
    "object": (lambda: object, lambda cls: cls()),
}


def found(make: Callable[[type], object], cls: type) -> object:
    try:
        x = make(cls)
    except Exception as error:  # the framework's own code asks for it
        return str(error)
    try:
        told = ext.own(x)
    except ext.Error as error:
        return isthmus._isthmus._protocol_of(x), str(error).replace(cls.__module__ + ".", "")
    return isthmus._isthmus._protocol_of(x), told["dtype"], told["shape"], told["read_only"]


def both(base: str, bases: Callable[[type], tuple[type, ...]], **members: object) -> tuple[object, object]:
    """What is found of a class, and of the same one if all is looked at."""
    of_base, make = BASES[base]
    return tuple(
        found(make, type("Mine", bases(of_base()), {"__module__": module, **members}))
        for module in ("mine", "cupy.mine")
    )


@pytest.mark.parametrize("filler", [{}, FILLER], ids=["few members", "many members"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("base", BASES)
def test_a_class_that_defines_what_is_asked_for(base: str, name: str, filler: dict[str, object]) -> None:
    for value in (None, lambda self, *_, **__: NotImplemented, property(lambda self: 1 / 0)):
        first, judge = both(base, lambda of: (of,), **filler, **{name: value})
        assert first == judge, value


@pytest.mark.parametrize("name", ["__array_ufunc__", "__add__", "__dlpack__", "__array_interface__"])
@pytest.mark.parametrize("base", BASES)
def test_a_class_whose_bases_define_it(base: str, name: str) -> None:
    def never(self: object, *_: object, **__: object) -> object:
        return NotImplemented

    mixin = type("Mixin", (), {name: never})
    behind = [lambda of: (of, mixin)] if base != "object" else []
    for bases in (
        lambda of: (type("Parent", (of,), {name: never}),),
        lambda of: (mixin, of),
        lambda of: (type("Child", (mixin, of), {}),),
        *behind,
    ):
        first, judge = both(base, bases)
        assert first == judge


@pytest.mark.parametrize("base", BASES)
def test_a_plain_class_is_taken_as_its_base_is(base: str) -> None:
    first, judge = both(base, lambda of: (type("Between", (of,), {"__module__": "mine"}),))
    assert first == judge


def test_a_name_that_is_not_interned() -> None:
    name = "".join(["__array", "_ufunc__"])
    members = {name: lambda self, *_, **__: NotImplemented}
    assert next(iter(members)) is name
    first, judge = both("ndarray", lambda of: (of,), **members)
    assert first == judge
    assert "overrides" in first[1]
    assert found(BASES["ndarray"][1], type("Odd", (np.ndarray,), {1: 2}))[0] == "numpy's struct"


def test_a_class_that_changes_after_it_was_met() -> None:
    cls = type("Mine", (np.ndarray,), {})
    x = np.zeros(3).view(cls)
    assert ext.own(x)["dtype"] == "float64"
    cls.__array_ufunc__ = lambda self, *_, **__: NotImplemented
    with pytest.raises(ext.Error, match="overrides"):
        ext.own(x)
    del cls.__array_ufunc__
    assert ext.own(x)["dtype"] == "float64"


def test_a_base_that_changes_after_its_subclass_was_met() -> None:
    class Base:
        pass

    class Mine(Base):
        pass

    with pytest.raises(ext.Error, match="expected a tensor"):
        ext.own(Mine())
    Base.__array_interface__ = np.zeros(3).__array_interface__
    assert ext.own(Mine())["dtype"] == "float64"
    Mine.__bases__ = (type("Other", (), {}),)
    with pytest.raises(ext.Error, match="expected a tensor"):
        ext.own(Mine())


def test_the_order_of_the_bases_is_the_metaclass_s() -> None:
    """One that leaves a base out, or brings in another, is not taken for its base."""
    shown = type("Shown", (), {"__array_interface__": np.zeros(3).__array_interface__})

    class Meta(type):
        def mro(cls) -> list[type]:
            return [cls, shown, object]

    base = type("Base", (), {})
    with pytest.raises(ext.Error, match="expected a tensor"):
        ext.own(base())
    hidden = Meta("Hidden", (base,), {})
    assert ext.own(hidden())["dtype"] == "float64"
    asked = isthmus._isthmus._protocol_of
    assert asked(hidden()) == asked(shown())

    class Drops(type):
        def mro(cls) -> list[type]:
            return [cls, object]

    with pytest.raises(ext.Error, match="expected a tensor"):
        ext.own(Drops("Dropped", (shown,), {})())


def test_a_descriptor_that_answers_for_each_class() -> None:
    """`__dlpack_c_exchange_api__` may be a property of the class: each is asked."""
    asked = []

    class OfClass:
        def __get__(self, instance: object, owner: type) -> object:
            asked.append(owner.__name__)

    base = type(
        "Base", (), {"__dlpack_c_exchange_api__": OfClass(), "__array_interface__": np.ones(2).__array_interface__}
    )
    for name in ("First", "Second"):
        ext.own(type(name, (base,), {})())
    assert {"First", "Second"} <= set(asked)


def test_classes_that_are_made_and_die() -> None:
    """An address that another class had says nothing of the next one there."""
    refuses = {"__array_ufunc__": lambda self, *_, **__: NotImplemented}
    for turn in range(3000):
        x = np.zeros(2).view(type("Mine", (np.ndarray,), refuses if turn % 2 else {}))
        if turn % 2 == 0:
            assert ext.own(x)["dtype"] == "float64"
            continue
        with pytest.raises(ext.Error, match="overrides"):
            ext.own(x)
