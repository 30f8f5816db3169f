"""Interrupts and a lack of memory that come while the library asks something on the way: they are not swallowed, and
what was asked is asked again."""

from __future__ import annotations

from pathlib import Path

import interrupts
import processes
import pytest

ext = pytest.importorskip("isthmus_test_ext")

KINDS = interrupts.KINDS


def words_that_raise(base: type[Exception], kind: type[BaseException]) -> Exception:
    class Wordless(base):  # type: ignore[misc, valid-type]
        def __str__(self) -> str:
            raise kind

    return Wordless()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [ValueError, TypeError, BufferError])
@pytest.mark.parametrize("options", [{}, {"dl_device": (1, 0), "copy": True}])
def test_in_the_words_of_a_producers_exception(base: type, kind: type, options: dict) -> None:
    class Producer:
        def __dlpack__(self, **_: object) -> object:
            raise words_that_raise(base, kind)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    isthmus = pytest.importorskip("isthmus")
    with pytest.raises(kind):
        ext.tensor_of(Producer())
    if options:
        with pytest.raises(kind):
            isthmus.from_dlpack(Producer(), device=isthmus.Device("cpu"), copy=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "words", "at"),
    [({"device": (1, 0)}, "dl_device", at) for at in (1, 2)] + [({"copy": "never"}, "copy", at) for at in (1, 2, 3)],
)
def test_in_the_words_of_a_keyword_that_is_unknown(kind: type, options: dict, words: str, at: int) -> None:
    """Which are asked for several times: for what is not known, for what is, and for the error."""
    asked: list[int] = []

    class Unknown(TypeError):
        def __str__(self) -> str:
            asked.append(1)
            if len(asked) == at:
                raise kind
            return f"__dlpack__() got an unexpected keyword argument '{words}'"

    class Producer:
        def __dlpack__(self, max_version: object = None, **more: object) -> object:
            if more or not options.get("device"):
                raise Unknown
            return elsewhere.__dlpack__(stream=-1, max_version=max_version)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0) if options.get("device") else (1, 0)

    elsewhere = ext.pages([2, 3], device=(2, 0))
    with pytest.raises(kind):
        ext.own(Producer(), **options)
    assert len(asked) == at


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_name_of_a_field(kind: type) -> None:
    np = pytest.importorskip("numpy")

    calm = [True]  # for str(dtype), which comes first

    class Name(str):
        def __repr__(self) -> str:
            if calm:
                calm.clear()
                return "'a'"
            raise kind

    x = np.zeros(2, np.dtype([(Name("a"), "f4")]))
    with pytest.raises(kind):
        ext.tensor_of(x)
    assert not calm


@pytest.mark.parametrize("kind", [*KINDS, ValueError])
def test_in_the_name_of_an_element(kind: type) -> None:
    np = pytest.importorskip("numpy")

    batch = {interrupts.key(kind): np.ones(3, np.float32)}
    if kind is ValueError:
        assert ext.total_by_name(batch) == 3
    else:
        with pytest.raises(kind):
            ext.total_by_name(batch)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_asked_after_an_interrupt(kind: type) -> None:
    isthmus = pytest.importorskip("isthmus")
    asked: list[str] = []

    class MyDType:
        @property
        def name(self) -> str:
            raise kind

        def __str__(self) -> str:
            asked.append("str")
            return "my.float32"

    with pytest.raises(kind):
        isthmus.DType(MyDType())

    class Array:
        def __init__(self) -> None:
            self.array = isthmus.empty(3, "float32")

        def __dlpack__(self, stream: object = None) -> object:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        @property
        def __array_interface__(self) -> object:
            raise kind

        @property
        def __array_struct__(self) -> object:
            asked.append("struct")
            raise AttributeError

    with pytest.raises(kind):
        ext.tensor_of(Array())
    assert asked == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["shape", "strides", "data"])
def test_in_a_number_of_an_interface(kind: type, place: str) -> None:
    class Interface:
        def __init__(self) -> None:
            fields = {"shape": (2,), "strides": (8,), "data": (4096, True), "typestr": "<f8", "version": 3}
            self.__array_interface__ = {**fields, place: (interrupts.number(kind), True)[: 2 if place == "data" else 1]}

    with pytest.raises(kind):
        ext.tensor_of(Interface())


def number_of_an_interface(kind: type) -> dict:
    return {"shape": (interrupts.number(kind),), "data": (4096, True), "typestr": "<f8", "version": 3}


def interrupted_array(kind: type) -> object:
    def array(*_: object) -> object:
        raise kind

    return array


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("__array_interface__", number_of_an_interface),
        ("__arrow_c_array__", interrupted_array),
        ("__arrow_c_stream__", interrupted_array),
    ],
)
def test_in_the_protocol_that_is_tried_after_dlpack(kind: type, name: str, make: object) -> None:
    class Producer:
        def __dlpack__(self, **_: object) -> object:
            raise BufferError("mine")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    setattr(Producer, name, make(kind))  # type: ignore[operator]
    with pytest.raises(kind):
        ext.tensor_of(Producer())


@pytest.mark.parametrize("kind", KINDS)
def test_while_a_copy_is_made_because_one_is_needed(kind: type) -> None:
    asked: list[int] = []
    memory = bytearray(16)

    class Interface:
        @property
        def __array_interface__(self) -> dict:
            asked.append(1)
            if len(asked) > 1:
                raise kind
            return {"shape": (2,), "strides": (6,), "data": memory, "typestr": "<f4", "version": 3}

    with pytest.raises(kind):
        ext.own(Interface(), copy="if_needed")
    assert len(asked) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_name_of_a_dtype(kind: type) -> None:
    np = pytest.importorskip("numpy")

    with pytest.raises(kind):
        ext.tensor_of(np.zeros(2, np.dtype([(interrupts.key(kind), "f4")])))


def test_at_the_first_look_at_torchs_storages() -> None:
    pytest.importorskip("torch")
    source = """
import torch, isthmus_test_ext as ext
storage = torch.UntypedStorage
def interrupted(*_):
    raise KeyboardInterrupt
torch.UntypedStorage = interrupted
x = torch.zeros(3)
try:
    ext.tensor_of(x)
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("the interrupt was lost")
torch.UntypedStorage = storage
t = ext.tensor_of(x)
try:
    x.resize_(100)
except RuntimeError as error:
    assert "not resizable" in str(error), error
else:
    raise AssertionError("the storage is not marked")
"""
    processes.run_python(source, Path(ext.__file__).parent)
