"""An interrupt, or no memory, reaches the caller as itself, whichever code of an argument it was raised in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import isthmus

KINDS = (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError)


def raising(kind: type[BaseException], *methods: str, name: str = "Odd") -> object:
    def method(self: object, *args: object, **_: object) -> object:
        raise kind("from within")

    return type(name, (), dict.fromkeys(methods, method))()


def with_attribute(kind: type[BaseException], attribute: str, name: str = "Odd") -> object:
    def get(self: object) -> object:
        raise kind("from within")

    return type(name, (), {attribute: property(get)})()


def integer(kind: type[BaseException]) -> object:
    return raising(kind, "__index__")


def grid() -> np.ndarray:
    return np.arange(6, dtype="float32").reshape(2, 3)


def fields(**changes: object) -> dict:
    return {**isthmus.to_blob(GRID).as_dict(), **changes}


def sized(kind: type[BaseException], method: str) -> object:
    def length(self: object) -> int:
        return 2

    def item(self: object, i: int) -> int:
        if i > 1:
            raise IndexError
        return 1

    odd = raising(kind, method)
    return type("Sizes", (type(odd),), {"__len__": length, "__getitem__": item})()


GRID = grid()

CALLS: dict[str, Callable[[type[BaseException]], object]] = {
    "an instance's attribute": lambda kind: isthmus.from_dlpack(with_attribute(kind, "__dlpack__")),
    "__dlpack__": lambda kind: isthmus.from_dlpack(raising(kind, "__dlpack__", "__dlpack_device__")),
    "__array_interface__": lambda kind: isthmus.from_dlpack(with_attribute(kind, "__array_interface__")),
    "a size of __array_interface__": lambda kind: isthmus.from_dlpack(
        type("Odd", (), {"__array_interface__": {**GRID.__array_interface__, "shape": (2, integer(kind))}})()
    ),
    "dl_device": lambda kind: isthmus.from_dlpack(GRID).__dlpack__(dl_device=(integer(kind), 0)),
    "max_version": lambda kind: isthmus.from_dlpack(GRID).__dlpack__(max_version=(integer(kind), 0)),
    "device": lambda kind: isthmus.from_dlpack(GRID, device=(integer(kind), 0)),
    "Device": lambda kind: isthmus.Device((integer(kind), 0)),
    "DType": lambda kind: isthmus.DType((integer(kind), 32)),
    "DType's arguments": lambda kind: isthmus.DType(integer(kind), 32),
    "a dtype's name": lambda kind: isthmus.DType(with_attribute(kind, "name", "mydtype")),
    "a dtype's text": lambda kind: isthmus.DType(raising(kind, "__str__", name="mydtype")),
    "a class's dtype": lambda kind: isthmus.DType(type(with_attribute(kind, "isnative", "mydtype"))()),
    "a shape's item": lambda kind: isthmus.empty((2, integer(kind)), "float32"),
    "a shape's __iter__": lambda kind: isthmus.empty(sized(kind, "__iter__"), "float32"),
    "a shape's __length_hint__": lambda kind: isthmus.empty(raising(kind, "__len__", "__getitem__"), "float32"),
    "a blob's ptr": lambda kind: isthmus.from_blob(fields(ptr=integer(kind)), GRID),
    "a blob's shape": lambda kind: isthmus.from_blob(fields(shape=(2, integer(kind))), GRID),
    "a blob's strides": lambda kind: isthmus.from_blob(fields(strides=(3, integer(kind))), GRID),
    "a blob's device": lambda kind: isthmus.from_blob(fields(device=(integer(kind), 0)), GRID),
    "a blob's dtype": lambda kind: isthmus.from_blob(fields(dtype=(integer(kind), 32)), GRID),
    "a blob's element_size": lambda kind: isthmus.from_blob(fields(element_size=integer(kind)), GRID),
    "a blob's attribute": lambda kind: isthmus.from_blob(with_attribute(kind, "ptr"), GRID),
    "timeout": lambda kind: isthmus.shared.Pool().empty((2,), "uint8", timeout=raising(kind, "__float__")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_it_is_itself(name: str, kind: type[BaseException]) -> None:
    with pytest.raises(kind) as info:
        CALLS[name](kind)
    assert type(info.value) is kind
    assert str(info.value) == "from within"


def test_the_next_call_is_right() -> None:
    for call in CALLS.values():
        with pytest.raises(KeyboardInterrupt):
            call(KeyboardInterrupt)
        assert isthmus.from_dlpack(GRID).shape == (2, 3)
