"""Eight threads at once, as an interpreter without the GIL runs them: each in a process of its own,
which a fault may end.

With a GIL the same holds, and is seldom in danger.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

PREAMBLE = """
import gc, sys, threading, time, weakref
import numpy as np
import isthmus_test_ext as ext
from at_once import FREE, THREADS, check_no_gil, side_by_side, together

check_no_gil()
"""


@pytest.fixture
def threads(child) -> Callable[..., str]:
    """threads(code): runs it in a process of its own; what it printed."""
    return lambda code: child(PREAMBLE + code)


@pytest.mark.parametrize("version", ["(1, 0)", "None"], ids=["versioned", "legacy"])
@pytest.mark.parametrize("take", ["keep", "own"])
def test_a_capsule_is_claimed_once(threads, version: str, take: str) -> None:
    threads(f"""
ROUNDS = 1500 if FREE else 300
owners = [np.arange(8.0) for _ in range(ROUNDS)]
capsules = [x.__dlpack__(max_version={version}) for x in owners]
claims = [[] for _ in range(ROUNDS)]

def claim(thread, i):
    try:
        claims[i].append(ext.{take}(capsules[i]))
    except ext.Error as error:
        assert error.code == "consumed_capsule", error

together(claim, 100)
side_by_side(lambda thread, i: i < 100 or claim(thread, i), ROUNDS)
assert {{len(x) for x in claims}} == {{1}}, [len(x) for x in claims]
ends = [weakref.ref(x) for x in owners]
if {take!r} == "keep":
    for (number,) in claims:
        assert ext.kept(number)["shape"] == (8,)
        ext.drop(number)
del owners
capsules.clear()
gc.collect()
assert not any(ref() for ref in ends)
""")


def test_a_refused_capsule_stays_whole(threads) -> None:
    threads("""
ROUNDS = 200
def read_only():
    x = np.arange(8.0)
    x.flags.writeable = False
    return x
owners = [read_only() for _ in range(ROUNDS)]
capsules = [x.__dlpack__(max_version=(1, 0)) for x in owners]

def refuse(thread, i):
    try:
        ext.own(capsules[i], require_writable=True)
    except ext.Error as error:
        assert error.code in ("read_only", "consumed_capsule"), error  # the other thread looks at it just then
    else:
        raise AssertionError("it was taken")

together(refuse, ROUNDS)
for capsule in capsules:
    assert ext.own(capsule)["shape"] == (8,)
""")


@pytest.mark.parametrize("same", [True, False], ids=["the same array", "an array each"])
def test_imports_and_exports(threads, same: bool) -> None:
    threads(f"""
arrays = [np.arange(6.0).reshape(2, 3)] * THREADS if {same} else [np.arange(6.0).reshape(2, 3) for _ in range(THREADS)]
before = [sys.getrefcount(x) for x in arrays]

def work(thread, i):
    x = arrays[thread]
    for _ in range(3000):
        assert ext.own(x)["shape"] == (2, 3)
        assert ext.hand(x, "numpy") is x
        t = ext.tensor_of(x)
        assert t.shape == (2, 3) and np.asarray(t).shape == (2, 3)
        number = ext.keep(t)
        ext.drop_without_gil(number)

together(work)
gc.collect()
assert [sys.getrefcount(x) for x in arrays] == before
""")


def test_an_object_that_dies_is_not_handed_out(threads) -> None:
    threads("""
array = np.arange(6.0)
number = ext.keep(array)

def show(thread, i):
    for _ in range(20000):
        t = ext.kept_object(number)
        assert t.shape == (6,)
        del t  # the last one, where no other thread has it

together(show)
assert ext.kept(number)["use_count"] == 1
""")


def test_all_threads_see_one_object(threads) -> None:
    threads("""
ROUNDS = 1500 if FREE else 300
numbers = [ext.keep(np.arange(6.0)) for _ in range(ROUNDS)]
shown = [[None] * THREADS for _ in range(ROUNDS)]

def show(thread, i):
    shown[i][thread] = ext.kept_object(numbers[i])

together(show, 100)
side_by_side(lambda thread, i: i < 100 or show(thread, i), ROUNDS)
for number, objects in zip(numbers, shown):
    assert len({id(x) for x in objects} - {id(None)}) == 1
    assert ext.kept(number)["use_count"] == 2
""")


def test_aliases_are_counted(threads) -> None:
    threads("""
class Node:
    pass

node = Node()
elements = np.arange(6.0)
node.tensor = ext.own_by_python(elements, node)

def alias(thread, i):
    tensor = node.tensor
    for _ in range(20000 if FREE else 5000):
        assert tensor.as_read_only().shape == (6,)
        assert tensor[2:].shape == (4,)

together(alias)
ref = weakref.ref(node)
del node
gc.collect()
assert ref() is None, "the collector takes an alias that is gone for one that is there"
""")


FIRST_USES = {
    "import": "ext.own(np.arange(4.0))",
    "keep": "ext.drop_without_gil(ext.keep(np.arange(4.0)))",
    "tensor": "made.append(type(ext.tensor_of(np.arange(4.0))))",
    "numpy": "ext.hand(ext.pages([4]), 'numpy')",
    "capsule": "ext.own(ext.hand(np.arange(4.0), 'capsule'))",
    "error": "made.append(error_class())",
    "dtype": "made.append(type(ext.tensor_of(np.arange(4.0)).dtype))",
}


@pytest.mark.parametrize("first", FIRST_USES)
@pytest.mark.parametrize("attempt", range(3))
def test_the_first_use(threads, first: str, attempt: int) -> None:
    threads(f"""
made = []
def error_class():
    try:
        ext.own(object())
    except Exception as error:
        return type(error)

def use(thread, i):
    {FIRST_USES[first]}

together(use)
assert len(set(made)) <= 1, made
assert ext.own(np.arange(4.0))["shape"] == (4,)
""")


def test_types_that_take_each_others_place_in_the_cache(threads) -> None:
    threads("""
class Method:
    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)
    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

class Interface:
    @property
    def __array_interface__(self):
        return self.array.__array_interface__

def one(i):
    base, dtype = (Method, np.int16) if i % 2 else (Interface, np.float64)
    x = type(f"Producer{i}", (base,), {})()
    x.array = np.zeros(i % 7 + 1, dtype)
    return x

producers = [one(i) for i in range(400)]  # of the cache's 64 places each is expected by several

def work(thread, i):
    for k in range(len(producers)):
        x = producers[(k * (2 * thread + 1)) % len(producers)]
        if k % 16 == thread:
            type(x).changed = k  # a class in another state is another class for the cache
        found = ext.own(x)
        assert found["shape"] == x.array.shape and found["dtype"] == x.array.dtype.name, (found, type(x))

together(work, 40 if FREE else 10)
""")


def test_a_type_that_changes_while_it_is_looked_at(threads) -> None:
    threads("""
class Changing:
    pass

x = Changing()
x.array = np.arange(3.0)
def interface(self):
    return self.array.__array_interface__

def work(thread, i):
    for _ in range(300):
        if thread == 0:
            Changing.__array_interface__ = property(interface)
            assert ext.own(x)["shape"] == (3,)
            del Changing.__array_interface__
            try:
                ext.own(x)
            except ext.Error as error:
                assert error.code == "not_a_tensor"
            else:
                raise AssertionError("the cache remembers what the class is no longer")
        else:
            try:
                ext.own(x)
            except ext.Error:
                pass

together(work, 5)
""")


def test_lists_that_shrink_while_they_are_read(threads) -> None:
    threads("""
shared = {"shape": (2,), "typestr": "<f8", "version": 3}
class Interface:
    __array_interface__ = shared
x, memory = Interface(), np.arange(2.0)

def work(thread, i):
    for k in range(3000):
        if thread % 2:
            shared["data"] = (memory.ctypes.data, bool(k % 2))
            shared["shape"] = (k % 2 + 1,)
        else:
            try:
                assert ext.own(x)["ndim"] == 1
            except ext.Error as error:
                assert error.code == "null_data", error

shared["data"] = (memory.ctypes.data, False)
together(work)
""")


@pytest.mark.parametrize(
    ("lender", "free"),
    [
        ("bytearray(8)", "x.append(1)"),
        ("array.array('f', [1, 2])", "x.append(1)"),
        ("memoryview(bytearray(8))", "x.release()"),
    ],
)
def test_what_lent_its_buffer_is_free_again(threads, lender: str, free: str) -> None:
    """CPython counts the buffers that are out without a lock."""
    threads(f"""
import array
x = {lender}

def work(thread, i):
    times = 300_000 if FREE else 1000
    assert (ext.repeat_own if thread % 2 else ext.repeat_borrow)(x, times) == times

together(work)
{free}  # fails with a BufferError where one is thought to be out
""")
