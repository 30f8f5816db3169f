"""Other descriptions of one memory: each knows whose it is, and hides no cycle from the collector."""

from __future__ import annotations

import array
import ctypes
import gc
import weakref

import pytest

import isthmus

np = pytest.importorskip("numpy")


class Method:
    def __init__(self) -> None:
        self.array = np.arange(6, dtype="float32")

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (1, 0)


class Legacy(Method):
    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class Interface(Method):
    @property
    def __array_interface__(self):
        return self.array.__array_interface__

    __dlpack__ = __dlpack_device__ = None  # type: ignore[assignment]


class InterfaceOfAClass:
    memory = ctypes.create_string_buffer(24)
    __array_interface__ = {"shape": (6,), "typestr": "<f4", "data": (ctypes.addressof(memory), False), "version": 3}  # noqa: RUF012


class Array(np.ndarray):
    pass


class Bytes(bytearray):
    pass


class Numbers(array.array):
    pass


class Owner:
    def __init__(self) -> None:
        self.array = np.arange(6, dtype="float32")


def torch_tensor():
    torch = pytest.importorskip("torch")
    return torch.arange(6.0)


class Arrow:
    def __init__(self) -> None:
        self.array = pytest.importorskip("pyarrow").array([1.0, 2.0])

    def __arrow_c_array__(self, requested_schema=None):
        return self.array.__arrow_c_array__(requested_schema)


PRODUCERS = {
    "numpy": lambda: np.arange(6, dtype="float32").view(Array),
    "torch": torch_tensor,
    "bytearray": lambda: Bytes(24),
    "array.array": lambda: Numbers("f", range(6)),
    "__dlpack__": Method,
    "legacy __dlpack__": Legacy,
    "__array_interface__": Interface,
    "__array_interface__ of a class": InterfaceOfAClass,
    "__arrow_c_array__": Arrow,
    "from_blob": Owner,
}


def take(owner: object) -> isthmus.Tensor:
    if isinstance(owner, Owner):
        return isthmus.from_blob(isthmus.to_blob(owner.array).as_dict(), owner=owner)
    return isthmus.from_dlpack(owner)


ALIASES = {
    "itself": lambda t: t,
    "as_read_only": lambda t: t.as_read_only(),
    "as_read_only twice": lambda t: t.as_read_only().as_read_only(),
    "blob of as_read_only": lambda t: isthmus.from_blob(isthmus.to_blob(t.as_read_only())),
    "memoryview": lambda t: isthmus.from_dlpack(memoryview(t)),
    "capsule": lambda t: isthmus.from_dlpack(t.__dlpack__(max_version=(1, 0))),
}


@pytest.mark.parametrize("alias", ["itself", "as_read_only", "as_read_only twice", "blob of as_read_only"])
@pytest.mark.parametrize("producer", PRODUCERS)
def test_an_alias_knows_the_owner(producer: str, alias: str) -> None:
    owner = PRODUCERS[producer]()
    t = take(owner)
    a = ALIASES[alias](t)
    assert t.owner is owner
    assert a.owner is owner
    assert f"owner {isthmus_name(owner)}" in repr(a)


def isthmus_name(owner: object) -> str:
    kind = type(owner)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_cycle_through_it_is_collected(producer: str, alias: str) -> None:
    owner = PRODUCERS[producer]()
    t = take(owner)
    try:
        owner.tensor = ALIASES[alias](t)
    except (isthmus.Error, BufferError) as refused:
        pytest.skip(str(refused))
    reference = weakref.ref(owner)
    del owner, t
    gc.collect()
    assert reference() is None


def test_a_cycle_through_two_objects_of_one_memory() -> None:
    """The tensor and its alias both hang on the owner, and only all three together are garbage."""
    owner = PRODUCERS["numpy"]()
    t = take(owner)
    owner.both = [t, t.as_read_only(), isthmus.from_blob(isthmus.to_blob(t))]
    reference = weakref.ref(owner)
    del owner, t
    gc.collect()
    assert reference() is None


def test_an_alias_that_is_used_is_not_collected() -> None:
    owner = PRODUCERS["numpy"]()
    owner.tensor = take(owner).as_read_only()
    a = owner.tensor
    reference = weakref.ref(owner)
    del owner
    gc.collect()
    assert reference() is not None
    assert np.asarray(a).tolist() == [0, 1, 2, 3, 4, 5]


def test_the_list_says_whose_it_is() -> None:
    isthmus.live.enable()
    try:
        x = np.arange(6, dtype="float32")
        t = isthmus.from_dlpack(x)
        a = t.as_read_only()
        assert {entry.producer for entry in isthmus.live()} == {"numpy.ndarray"}
        del t, a
    finally:
        isthmus.live.disable()


def test_an_alias_of_memory_of_cpp_has_no_python_owner() -> None:
    assert isthmus.empty((3,)).as_read_only().owner is None
