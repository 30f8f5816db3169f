"""Every question that a call asks of its arguments is interrupted in turn: the interrupt is what the call raises, and
the next call is right.

The like of tests/allocations for code of the caller's own: whatever an argument runs (a protocol, an attribute, a
number, a key, a word of an error) counts, and raises at its n-th time.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import interrupts
import pytest

np = pytest.importorskip("numpy")
isthmus = pytest.importorskip("isthmus")
ext = pytest.importorskip("isthmus_test_ext")

ROW, GRID = np.arange(3, dtype=np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)


class Clock:
    """Counts what an argument runs; the n-th raises."""

    count, at, kind = 0, 0, KeyboardInterrupt

    def tick(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise self.kind

    def start(self, at: int, kind: type[BaseException]) -> None:
        self.count, self.at, self.kind = 0, at, kind


clock = Clock()


class Number:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        clock.tick()
        return self.value

    def __float__(self) -> float:
        clock.tick()
        return float(self.value)

    def __repr__(self) -> str:
        clock.tick()
        return str(self.value)


class Word(str):
    def __str__(self) -> str:
        clock.tick()
        return str.__str__(self)

    def __repr__(self) -> str:
        clock.tick()
        return str.__repr__(self)

    def __eq__(self, other: object) -> bool:
        clock.tick()
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        clock.tick()
        return str.__hash__(self)


class Refusal(BufferError):
    def __str__(self) -> str:
        clock.tick()
        return "mine"


def counted(value: Callable[[], Any]) -> property:
    def get(self: object) -> Any:
        clock.tick()
        return value()

    return property(get)


def numbers(*values: int) -> tuple[Number, ...]:
    return tuple(map(Number, values))


def interface(**more: Any) -> dict[str, Any]:
    own = GRID.__array_interface__
    return {"shape": numbers(2, 3), "strides": numbers(12, 4), "data": (Number(own["data"][0]), False),
            "typestr": "<f4", "version": 3, **more}  # fmt: skip


class Interface:
    __array_interface__ = counted(interface)


class InterfaceOfWords:
    __array_interface__ = counted(lambda: {Word(key): value for key, value in interface().items()})


class Array:
    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        clock.tick()
        return GRID


class Device:
    def __dlpack_device__(self) -> tuple[Number, Number]:
        clock.tick()
        return Number(1), Number(0)


class Legacy(Device):
    def __dlpack__(self, stream: object = None) -> Any:
        clock.tick()
        return isthmus.from_dlpack(GRID).__dlpack__()


class LegacyBeside(Legacy):
    __array_interface__ = counted(interface)
    __array_struct__ = counted(lambda: GRID.__array_struct__)


class Versioned(Device):
    def __dlpack__(self, **options: object) -> Any:
        clock.tick()
        return isthmus.from_dlpack(GRID).__dlpack__(max_version=(1, 3))


class Cannot(Device):
    def __dlpack__(self, **_: object) -> Any:
        clock.tick()
        raise Refusal


class CannotButInterface(Cannot):
    __array_interface__ = counted(interface)


class CannotButArrow(Cannot):
    def __arrow_c_array__(self, requested: object = None) -> Any:
        clock.tick()
        return isthmus.from_dlpack(ROW).__arrow_c_array__()


class Misaligned:
    __array_interface__ = counted(lambda: interface(strides=numbers(11, 4)))


class OnInstance:
    """Its attributes are asked for one by one."""

    def __getattr__(self, name: str) -> Any:
        clock.tick()
        if name == "__array_interface__":
            return interface()
        raise AttributeError(name)


class Nothing:
    def __getattr__(self, name: str) -> Any:
        clock.tick()
        raise AttributeError(name)


class Sequence:
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        clock.tick()
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        clock.tick()
        return self.items[index]

    def __iter__(self) -> Any:
        for item in self.items:
            clock.tick()
            yield item


class Mapping:
    def __init__(self, **items: Any) -> None:
        self._items = items

    def keys(self) -> Any:
        clock.tick()
        return self._items.keys()

    def items(self) -> Any:
        clock.tick()
        return [(Word(key), value) for key, value in self._items.items()]

    def __getitem__(self, key: str) -> Any:
        clock.tick()
        return self._items[key]


class Fields:
    def __init__(self, **items: Any) -> None:
        self.__dict__["_items"] = items

    def __getattr__(self, name: str) -> Any:
        clock.tick()
        try:
            return self.__dict__["_items"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __copy__(self) -> Fields:
        clock.tick()
        return Fields(**self.__dict__["_items"])


class Bag(list):
    def __copy__(self) -> Bag:
        clock.tick()
        return Bag(self)


class Table(dict):
    def __copy__(self) -> Table:
        clock.tick()
        return Table(self)


class MyDType:
    name = counted(lambda: 3)

    def __str__(self) -> str:
        clock.tick()
        return "my.float32"


class NotADType:
    def __repr__(self) -> str:
        clock.tick()
        return "<none>"


PRODUCERS = [
    Interface, InterfaceOfWords, Legacy, LegacyBeside, Versioned, Cannot, CannotButInterface, CannotButArrow,
    Misaligned, OnInstance, Nothing,
]  # fmt: skip
MATRIX = {"indptr": np.array([0, 1, 1, 3], np.int32), "indices": np.array([2, 0, 3], np.int32), "data": np.ones(3)}


def calls() -> dict[str, Callable[[], Any]]:
    made: dict[str, Callable[[], Any]] = {}
    for producer in PRODUCERS:
        name = producer.__name__
        for options in ({}, {"copy": "always"}, {"copy": "if_needed"}, {"copy": "from_producer"},
                        {"require_writable": True}):  # fmt: skip
            made[f"own {name} {options}"] = lambda p=producer, o=options: ext.own(p(), **o)
            made[f"borrow {name} {options}"] = lambda p=producer, o=options: ext.borrow(p(), **o)
        for options in ({}, {"copy": True}, {"copy": False}, {"device": "cpu"}):
            made[f"from_dlpack {name} {options}"] = lambda p=producer, o=options: isthmus.from_dlpack(p(), **o)
        made[f"to_blob {name}"] = lambda p=producer: isthmus.to_blob(p())
    t = isthmus.from_dlpack(GRID)
    made |= {
        "DType": lambda: isthmus.DType(MyDType()),
        "DType of none": lambda: isthmus.DType(NotADType()),
        "DType of numbers": lambda: isthmus.DType(*numbers(2, 32, 1)),
        "Device of numbers": lambda: isthmus.Device(*numbers(1, 0)),
        "Device of none": lambda: isthmus.Device(NotADType()),
        "empty": lambda: isthmus.empty(numbers(2, 3), MyDType()),
        "empty of a sequence": lambda: isthmus.empty(Sequence(2, 3), "float32"),
        "empty of none": lambda: isthmus.empty(numbers(-2, 3), NotADType()),
        "index": lambda: t[Number(1)],
        "indices": lambda: t[Number(1), Number(0)],
        "slice": lambda: t[Number(0) : Number(2) : Number(1)],
        "dlpack": lambda: t.__dlpack__(max_version=numbers(1, 0), dl_device=numbers(1, 0), stream=None),
        "dlpack of a sequence": lambda: t.__dlpack__(max_version=Sequence(1, 0)),
        "dlpack of none": lambda: t.__dlpack__(max_version=NotADType()),
        "reduce": lambda: t.__reduce_ex__(Number(5)),
        "from_blob": lambda: isthmus.from_blob(blob()),
        "named map": lambda: ext.total_by_name({Word("a"): ROW}),
        "map": lambda: ext.total_by_name(types.MappingProxyType(Mapping(a=ROW))),
        "list": lambda: ext.total_of(Sequence(ROW, ROW), Number(2)),
        "dtype and device": lambda: ext.dtype_back(MyDType(), Word("cpu")),
        "by name": lambda: ext.distances(**{Word("a"): GRID, Word("b"): GRID}),
    }  # fmt: skip
    return made


def blob() -> Any:
    told = isthmus.to_blob(GRID)
    return Fields(**{name: getattr(told, name) for name in dir(told) if not name.startswith("_")})


def casters(module: Any) -> dict[str, Callable[[], Any]]:
    return {
        "numbers": lambda: module.numbers_float32(Sequence(*numbers(1, 2))),
        "rows": lambda: module.numbers_float64([Sequence(1, 2), Sequence(3, 4)]),
        "arrays": lambda: module.numbers_float64([Array(), Array()]),
        "interfaces": lambda: module.numbers_float64([Interface(), Interface()]),
        "a mapping": lambda: module.matrix_sum(Mapping(**MATRIX, shape=numbers(3, 4))),
        "an object": lambda: module.matrix_sum(Fields(**MATRIX, shape=Sequence(3, 4))),
        "an object returned": lambda: module.twice_matrix(Fields(**MATRIX, shape=(3, 4))),
        "an object that lacks": lambda: module.matrix_sum(Fields(indptr=MATRIX["indptr"])),
        "a dict of words": lambda: module.matrix_sum({Word(k): v for k, v in {**MATRIX, "shape": (3, 4)}.items()}),
        "a tree": lambda: module.leaves_of({Word("a"): [Interface(), (Legacy(),)], Number(3): Versioned()}),
        "a tree returned": lambda: module.copied_tree(Table(a=Bag([ROW]), b=OrderedDict(c=ROW)), False),
        "a tree with none": lambda: module.leaves_of({"a": Nothing()}),
        "a named map": lambda: module.stack_by_name({Word("a"): ROW}),
        "a named list": lambda: module.stack(Sequence(ROW, ROW)),
        "a list": lambda: module.total_of_vector(Sequence(ROW, Interface()), lambda: None),
        "a list that does not fit": lambda: module.total_of_vector(Sequence(ROW, Nothing()), lambda: None),
        "a dtype": lambda: module.dtype_back(MyDType()),
        "overloads": lambda: module.which(Interface()),
        "overloads of none": lambda: module.which(Nothing()),
        "owned": lambda: module.own_vector(Sequence(Legacy(), Interface())),
    }


def sweep(call: Callable[[], Any]) -> None:
    def outcome() -> str:
        try:
            return type(call()).__name__
        except Exception as error:
            return type(error).__name__

    clock.start(0, KeyboardInterrupt)
    outcome()  # what is asked of a class once, and kept
    clock.start(0, KeyboardInterrupt)
    right, total = outcome(), clock.count
    assert total > 0, "nothing is asked"
    for kind in interrupts.KINDS:
        for at in range(1, total + 1):
            clock.start(at, kind)
            with pytest.raises(kind):
                call()
            assert clock.count == at, f"asked on after the interrupt at {at} of {total}"
            clock.start(0, kind)
            assert outcome() == right
            assert clock.count == total


@pytest.mark.parametrize("name", calls())
def test_each_question_of_a_call(name: str) -> None:
    sweep(calls()[name])


@pytest.mark.parametrize("binder", ["nanobind", "pybind11", "nanobind_abi3", "pybind11_backend"])
@pytest.mark.parametrize("name", casters(types.SimpleNamespace()))
def test_each_question_of_a_binders_call(binder: str, name: str) -> None:
    module = pytest.importorskip(f"isthmus_{binder}_test_ext")
    sweep(casters(module)[name])


OPERATORS: dict[str, Callable[[Any], Any]] = {
    "tensors": lambda ops: ops.dot(Interface(), Legacy()),
    "tensors that cannot": lambda ops: ops.twice(Cannot()),
    "a number": lambda ops: ops.first(ROW, Number(2)),
    "numbers": lambda ops: ops.shift(ROW.astype(float), Number(1), Number(2), True),
    "results": lambda ops: ops.add_to(Interface(), Interface()),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_each_question_of_an_operators_call(name: str) -> None:
    operators = pytest.importorskip("isthmus_operators_test_ext")
    sweep(lambda: OPERATORS[name](operators))
