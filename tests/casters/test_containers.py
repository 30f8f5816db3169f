"""Containers of views as arguments: what every element was borrowed from lives as long as the call,
and ends with it."""

from __future__ import annotations

import gc
import importlib
import operator
import types
import weakref

import capsules
import interrupts
import libraries
import numpy as np
import pytest


class Memory:
    """Fresh arrays that nobody but the argument holds: [1, 2, 3], [4, 5, 6], …"""

    def __init__(self):
        self.refs: list[weakref.ref] = []

    def array(self, dtype=np.float32):
        count = len(self.refs)
        array = np.arange(3 * count + 1, 3 * count + 4, dtype=dtype)
        self.refs.append(weakref.ref(array))
        return array

    def alive(self) -> int:
        return sum(ref() is not None for ref in self.refs)


class Producer:
    """Its memory lives by the capsule alone."""

    def __init__(self, memory: Memory):
        self.memory = memory

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return libraries.export(self.memory.array(), **options)


class Fresh:
    """A sequence that makes each of its elements when it is asked."""

    def __init__(self, make, count):
        self.make, self.count = make, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if i >= self.count:
            raise IndexError
        return self.make()


def from_arrays(memory):
    return memory.array


def from_producers(memory):
    return lambda: Producer(memory)


def from_buffers(memory):
    return lambda: memoryview(memory.array())


MAKERS = [from_arrays, from_producers, from_buffers]
#: function -> (a container of what `make` makes, how many, the total beside that of the elements)
CONTAINERS = {
    "total_of_vector": (lambda make: [make() for _ in range(3)], 3, 0),
    "total_of_list": (lambda make: (make(), make()), 2, 0),
    "total_of_array": (lambda make: [make(), make()], 2, 0),
    "total_of_arguments": (lambda make: [make(), make()], 2, 0),
    "total_of_borrowed": (lambda make: [make() for _ in range(20)], 20, 0),
    "total_of_map": (lambda make: {"a": make(), "b": make()}, 2, 2 / 1024),
    "total_of_unordered_map": (lambda make: {"a": make(), "b": make()}, 2, 2 / 1024),
    "total_of_optional_argument": (lambda make: make(), 1, 0),
    "total_of_optional_vector": (lambda make: [make(), make()], 2, 0),
    "total_of_variant": (lambda make: make(), 1, 0),
    "total_of_variants": (lambda make: [make(), make()], 2, 0),
    "total_of_pair": (lambda make: (make(), 0.5), 1, 0.5),
    "total_of_views": (lambda make: (make(), make()), 2, 0),
    "total_of_tuple": (lambda make: (make(), "text", make()), 2, 4 / 1024),
    "total_of_pairs": (lambda make: [("a", make()), ("b", make())], 2, 2 / 1024),
    "total_of_nested": (lambda make: {"a": [make(), make()], "b": [], "c": [make()]}, 3, 3 / 1024),
}
#: The same, of a sequence that holds none of its elements.
SEQUENCES = {
    "total_of_vector": 3,
    "total_of_list": 2,
    "total_of_array": 2,
    "total_of_borrowed": 2,
    "total_of_variants": 2,
    "total_of_views": 2,
    "total_of_optional_vector": 2,
}


def expected(count):
    return sum(range(1, 3 * count + 1))


def call(function, argument, memory, count):
    """The function's result, with all memory alive at its start and none of it afterwards."""
    alive = []
    result = function(argument, lambda: (gc.collect(), alive.append(memory.alive())))
    assert alive == [count]
    return result


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_container_holds_what_was_borrowed(ext, name, maker):
    build, count, beside = CONTAINERS[name]
    memory = Memory()
    total = call(getattr(ext, name), build(maker(memory)), memory, count)
    assert total == expected(count) + beside
    gc.collect()
    assert memory.alive() == 0


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", SEQUENCES)
def test_so_it_does_where_the_sequence_makes_its_elements(ext, name, maker):
    memory, count = Memory(), SEQUENCES[name]
    assert call(getattr(ext, name), Fresh(maker(memory), count), memory, count) == expected(count)
    gc.collect()
    assert memory.alive() == 0


def test_a_list_that_changes_during_the_call(ext):
    memory = Memory()
    arrays = [memory.array(), memory.array()]
    assert ext.total_of_vector(arrays, arrays.clear) == expected(2)
    assert memory.alive() == 0


def test_empty_ones(ext):
    def nothing():
        pass

    assert ext.total_of_vector([], nothing) == 0
    assert ext.total_of_map({}, nothing) == 0
    assert ext.total_of_optional_argument(None, nothing) == -1
    assert ext.total_of_optional_vector(None, nothing) == -1


def test_alternatives_are_tried_in_turn(ext):
    def nothing():
        pass

    assert ext.total_of_variant(np.full(2, 1.5, np.float32), nothing) == 3
    assert ext.total_of_variant(np.full(2, 1.5), nothing) == -1.5
    assert ext.total_of_variant(2.5, nothing) == 2.5
    assert ext.total_of_variants([np.ones(2, np.float32), np.full(2, 7.0)], nothing) == 2 - 7
    assert ext.which_of([np.ones(2, np.float32)] * 2) == "float32"
    assert ext.which_of([np.ones(2)]) == "float64"


class Mapping:
    """A mapping whose items are what it is told, right or wrong."""

    def __init__(self, items):
        self._items = items

    def __getitem__(self, key):
        raise KeyError(key)

    def items(self):
        return self._items


def test_what_does_not_fit_is_passed_on(ext):
    row = np.ones(3, np.float32)
    for function, wrong in [
        (ext.total_of_vector, [row, "text"]),
        (ext.total_of_vector, [row, np.ones((2, 2), np.float32)]),
        (ext.total_of_vector, "text"),
        (ext.total_of_vector, 3),
        (ext.total_of_vector, None),
        (ext.total_of_vector, ""),
        (ext.total_of_vector, b""),
        (ext.total_of_vector, set()),
        (ext.total_of_vector, iter([row])),
        (ext.total_of_pair, 3),
        (ext.total_of_pair, "ab"),
        (ext.total_of_map, types.MappingProxyType(Mapping([3]))),
        (ext.total_of_map, types.MappingProxyType(Mapping([("a",)]))),
        (ext.total_of_map, types.MappingProxyType(Mapping([("a", row, row)]))),
        (ext.total_of_array, [row]),
        (ext.total_of_array, [row] * 3),
        (ext.total_of_map, {"a": None}),
        (ext.total_of_map, {3: row}),
        (ext.total_of_map, [row]),
        (ext.total_of_nested, 3),
        (ext.total_of_nested, [row]),
        (ext.total_of_views, (row,)),
        (ext.total_of_variant, "text"),
        (ext.total_of_optional_argument, "text"),
    ]:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            function(wrong, lambda: None)
    assert ext.total_of_map(types.MappingProxyType(Mapping([("a", row)])), lambda: None) == ext.total_of_map(
        {"a": row}, str
    )


def test_an_error_in_a_sequence_is_passed_on_and_an_interrupt_is_not(ext):
    def broken(kind):
        def make():
            raise kind("mine")

        return Fresh(make, 2)

    with pytest.raises(TypeError, match="incompatible function arguments"):
        ext.total_of_vector(broken(ValueError), lambda: None)
    with pytest.raises(KeyboardInterrupt):
        ext.total_of_vector(broken(KeyboardInterrupt), lambda: None)


OWNED = {
    "own_vector": lambda x: [x],
    "own_optional": lambda x: x,
    "own_map": lambda x: {"a": x},
    "own_pair": lambda x: (x, 1.0),
    "own_tuple": lambda x: (x, np.ones(3, np.float32), 1.0),
    "own_variant": lambda x: x,
    "own_either": lambda x: (x, "text"),
}


@pytest.mark.parametrize("kind", [*interrupts.KINDS, ValueError])
def test_an_interrupt_in_the_name_of_an_element(ext, kind):
    batch = {interrupts.key(kind): np.ones(3, np.float32)}
    if kind is ValueError:
        assert ext.stack_by_name(batch) == 1
    else:
        with pytest.raises(kind):
            ext.stack_by_name(batch)


@pytest.mark.parametrize("name", OWNED)
@pytest.mark.parametrize("kind", interrupts.KINDS)
def test_an_interrupt_leaves_the_binders_own_containers(ext, name, kind) -> None:
    """nanobind calls from_python() of an element where no exception may pass."""

    class Interrupted:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            raise kind("mine")

    take, wrap = getattr(ext, name), OWNED[name]
    assert take(wrap(np.ones(3, np.float32))) == "taken"

    def take_and_go_on() -> None:
        """pybind11 raises at once; nanobind's TypeError is overtaken a few instructions later."""
        try:
            take(wrap(Interrupted()))
        except TypeError:
            for _ in range(100):
                pass

    with pytest.raises(kind) as info:
        take_and_go_on()
    assert info.type is kind
    assert info.value.args == ("mine",)
    assert take(wrap(np.ones(3, np.float32))) == "taken"


@pytest.mark.parametrize("name", ["total_of_pair", "total_of_views", "total_of_tuple"])
def test_a_tensor_that_requires_grad_is_refused_in_any_container(ext, name) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(3, requires_grad=True)
    whole = {"total_of_pair": (x, 1.0), "total_of_views": (x, x), "total_of_tuple": (x, "text", x)}
    with pytest.raises((TypeError, BufferError)):
        getattr(ext, name)(whole[name], lambda: None)


def test_writes_are_announced_once_all_fit(ext):
    torch = pytest.importorskip("torch")
    x, y = torch.zeros(3), torch.zeros(2)
    ext.fill_all([x, y], 7)
    assert (x.tolist(), y.tolist(), x._version, y._version) == ([7] * 3, [7] * 2, 1, 1)
    with pytest.raises(TypeError):
        ext.fill_all([x, torch.zeros(2, 2)], 8)
    assert x._version == 1


def test_a_capsule_is_whole_where_another_element_misfits(ext):
    x = np.ones(3, np.float32).__dlpack__()
    with pytest.raises(TypeError):
        ext.total_of_vector([x, "text"], lambda: None)
    assert capsules.is_whole(x)
    with pytest.raises(TypeError):
        ext.total_of_variant(x, "no function")
    assert capsules.is_whole(x)
    assert ext.total_of_variants([x], lambda: None) == 3
    assert not capsules.is_whole(x)


OWNED_IF = {
    "own_vector_if": lambda x: [x],
    "own_optional_if": lambda x: x,
    "own_map_if": lambda x: {"a": x},
    "own_pair_if": lambda x: (x, 1.0),
    "own_tuple_if": lambda x: (x, 1.0),
    "own_array_if": lambda x: [x],
    "own_variant_if": lambda x: x,
}


@pytest.mark.parametrize("name", OWNED_IF)
def test_a_capsule_in_a_container_of_tensors_is_not_lost(ext, name):
    """The other argument refuses the call: the capsule is as it was, and can be taken afterwards."""
    take, wrap = getattr(ext, name), OWNED_IF[name]
    capsule = np.ones(3, np.float32).__dlpack__()
    with pytest.raises(TypeError):
        take(wrap(capsule), "no truth")
    assert capsules.is_whole(capsule)
    back = take(wrap(capsule), True)
    assert not capsules.is_whole(capsule)
    one = back if name in ("own_optional_if", "own_variant_if") else back["a"] if name == "own_map_if" else back[0]
    assert np.from_dlpack(one).tolist() == [1, 1, 1]


class TestResults:
    X = np.arange(3, dtype=np.float32)

    def test_replies_are_in_the_callers_framework(self, ext, torch):
        for x, kind in ((self.X, np.ndarray), (torch.from_numpy(self.X), torch.Tensor)):
            first, second = ext.replies(x)
            assert type(first) is kind
            assert second is None
            assert type(ext.replies_by_name(x)["a"]) is kind
            assert type(ext.reply_if(x, True)) is kind
            pair = ext.reply_pair(x)
            assert (type(pair), type(pair[0]), pair[1]) == (tuple, kind, 0.5)
            reply, text, tensor = ext.reply_tuple(x)
            assert (type(reply), text, type(tensor).__module__) == (kind, "text", "isthmus")
        assert ext.reply_if(self.X, False) is None

    def test_arrays_and_results(self, ext):
        assert ext.arrays_of(self.X)[0].tolist() == [0, 1, 2]
        assert np.from_dlpack(ext.results_of(self.X)[0]).tolist() == [0, 1, 2]

    def test_what_is_refused_is_the_error_of_the_call(self, ext, torch):
        assert ext.frozen_replies(self.X)[0].flags.writeable is False
        with pytest.raises(BufferError, match="read-only"):
            ext.frozen_replies(torch.from_numpy(self.X))


class TestErrorsNameTheElement:
    """A wrong element is named: by the name that the elements' type has, or that overloads() was told."""

    RIGHT, WRONG = np.ones(3, np.float32), np.ones(3)
    SAID = r": expected float32\[:\] on cpu, got float64\[3\] on cpu: dtype differs"

    @pytest.mark.parametrize(
        ("name", "wrap", "place"),
        [
            ("stack", lambda right, wrong: [right, wrong], "element 1"),
            ("stack", lambda right, wrong: [wrong], "element 0"),
            ("stack", lambda right, wrong: [right] * 1000 + [wrong], "element 1000"),
            ("stack_by_name", lambda right, wrong: {"a": right, "b": wrong}, "element 'b'"),
            ("stack_pair", lambda right, wrong: (right, wrong), "element 1"),
            ("stack_nested", lambda right, wrong: [[right], [right, wrong]], "element 1, element 1"),
        ],
    )
    def test_by_its_type(self, ext, name, wrap, place):
        with pytest.raises(ValueError, match=rf"stack\(\): argument 'batch', {place}{self.SAID}"):
            getattr(ext, name)(wrap(self.RIGHT, self.WRONG))
        with pytest.raises(TypeError, match=rf"stack\(\): argument 'batch', {place}: expected a tensor .*, got str"):
            getattr(ext, name)(wrap(self.RIGHT, "text"))

    def test_without_a_name_the_error_is_the_binders(self, ext):
        with pytest.raises(TypeError, match="incompatible function arguments") as info:
            ext.total_of_vector([self.RIGHT, self.WRONG], lambda: None)
        assert "element" not in str(info.value)

    def test_when_it_may_not_be_written(self, ext, torch):
        x = torch.zeros(3, requires_grad=True)
        with pytest.raises(BufferError, match=r"stack\(\): argument 'batch', element 1: .*requires grad"):
            ext.stack_written([np.zeros(3, np.float32), x])

    def test_by_overloads(self, ext):
        row = np.ones((2, 2), np.float32)
        assert ext.batches([row]) == "list"
        assert ext.batches({"a": self.RIGHT}) == "mapping"
        with pytest.raises(TypeError) as info:
            ext.batches([row, row.astype(float)])
        assert str(info.value).splitlines() == [
            "batches(): no overload takes these arguments:",
            "  argument 'batch', element 1: expected float32[:, :] on cpu, got float64[2, 2] on cpu: dtype differs",
            "  argument 'batch': expected a mapping of tensors, got list",
        ]
        with pytest.raises(TypeError, match=r"argument 'batch', element 'b': expected float32\[:\] on cpu"):
            ext.batches({"a": self.RIGHT, "b": self.WRONG})
        assert ext.two_of((row, self.RIGHT)) == "pair"
        with pytest.raises(TypeError, match=r"argument 'both', element 1: expected float32\[:\]"):
            ext.two_of((row, self.WRONG))
        with pytest.raises(TypeError, match=r"argument 'both': expected a sequence of two elements, got tuple"):
            ext.two_of((row,))
        with pytest.raises(TypeError, match=r"argument 'batch', element 0, element 1: expected float32\[:\]"):
            ext.nested_batches([[self.RIGHT, self.WRONG]])
        with pytest.raises(TypeError, match=r"argument 'batch', element 1: expected a sequence of tensors, got int"):
            ext.nested_batches([[self.RIGHT], 3])


def test_an_array_of_one_dimension_more_is_a_list_in_every_framework(ext):
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    given = [x, memoryview(x), list(x), tuple(x)]
    makers = {"torch": "from_numpy", "jax": "numpy.asarray", "tensorflow": "constant"}
    for name, make in makers.items():
        if libraries.is_usable(name):
            given.append(operator.attrgetter(make)(importlib.import_module(name))(x))
    given.append(pytest.importorskip("isthmus").from_dlpack(x))
    given.append(Bare(x))
    for batch in given:
        assert ext.batches(batch) == "list", type(batch)
    with pytest.raises(TypeError):
        ext.batches(Bare(x[0]))


class Bare:
    """A producer with DLPack's methods alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **options):
        return libraries.export(self.array, **options)


def test_signatures_say_what_is_wanted(ext):
    row = "typing.Annotated[isthmus.typing.TensorLike[numpy.float32], 'float32[:] on cpu']"
    assert f"collections.abc.Sequence[{row}]" in ext.total_of_vector.__doc__
    assert f"collections.abc.Mapping[str, {row}]" in ext.total_of_map.__doc__
    assert f"{row} | None" in ext.total_of_optional_argument.__doc__
    assert (
        f"{row} | typing.Annotated[isthmus.typing.TensorLike[numpy.float64], 'float64[:] on cpu'] | "
        in ext.total_of_variant.__doc__
    )
    assert f"tuple[{row}, {row}]" in ext.total_of_views.__doc__
    for optional in (ext.total_of_optional_argument, ext.own_optional, ext.count):
        assert optional.__doc__.count("| None") == 1
    results = "list[isthmus.Tensor]" if "213" not in ext.__name__ else "collections.abc.Sequence[isthmus.Tensor]"
    assert f"-> {results}" in ext.own_vector_if.__doc__


@pytest.mark.parametrize("what", ["view", "argument", "handle", "array", "pair", "vector", "variant"])
def test_room_for_a_borrow_is_not_written_before_it_is_used(ext, what) -> None:
    """1.2 kB of zeros for each view took three quarters of a call."""
    assert getattr(ext, f"written_for_{what}")() <= 400
