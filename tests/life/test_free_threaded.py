"""Several extensions and eight threads at once, as an interpreter without the GIL runs them;
with a GIL the same holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from at_once import FREE

PREAMBLE = """
import array, gc, sys
from at_once import together
"""


@pytest.fixture(scope="module")
def two_extensions(life, in_packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the packages `first` and `second`, each with an extension `life` of its own."""
    folder = tmp_path_factory.mktemp("two")
    in_packages(folder, life / "life.so", "first", "second")
    return folder


@pytest.mark.parametrize("attempt", range(10))
def test_the_first_uses_of_two_extensions(child, two_extensions, attempt: int) -> None:
    child(
        PREAMBLE
        + """
from first import life as first
from second import life as second
made = []

def use(thread, _):
    extension = first if thread % 2 else second
    number = extension.keep(array.array("f", [1, 2, 3]))
    made.append(type(extension.export(number, "tensor")))
    extension.drop(number)

together(use)
assert len(set(made)) == 1, made  # there is one isthmus.Tensor in a process
first.live(True)
number = second.keep(array.array("f", [1, 2, 3]))
assert len(second.live(None)) == len(first.live(None)) == 1  # who listens in one listens in both
""",
        two_extensions,
    )


@pytest.mark.parametrize("attempt", range(3))
def test_the_imports_of_two_extensions_and_the_package(child, two_extensions, attempt: int) -> None:
    child(
        PREAMBLE
        + """
import importlib
import first, second  # the packages alone
made = []

def use(thread, _):
    if thread % 3 == 0:
        import isthmus
        made.append(isthmus.Tensor)
    else:
        extension = importlib.import_module("first.life" if thread % 3 == 1 else "second.life")
        made.append(type(extension.export(extension.empty(), "tensor")))

together(use)
assert len(set(made)) == 1, made
""",
        two_extensions,
    )


def test_the_list_of_live_tensors(child, life) -> None:
    child(
        PREAMBLE
        + """
import life
kept = life.keep(array.array("f", [1, 2]))
life.live(True)

def work(thread, _):
    for i in range(2000):
        if thread == 0:
            assert all(len(row) == 3 for row in life.live(None))
        elif thread == 1 and i % 100 == 0:
            life.live(False)
            life.live(True)
        else:
            number = life.keep(array.array("f", [thread]))
            shown = life.export(number, "tensor")
            life.drop_without_gil(number)
            del shown

together(work)
life.live(False)
life.live(True)
number = life.keep(array.array("f", [1]))
assert len(life.live(None)) == 1
life.drop(number)
assert life.live(None) == []
""",
        life,
    )


@pytest.mark.skipif(not FREE, reason="with a GIL a count is no place that threads take from each other")
def test_the_classes_count_no_references(child, life) -> None:
    """Every instance has one to its class: counted, it would be the same place for all threads."""
    child(
        PREAMBLE
        + """
import life
number = life.keep(array.array("f", [1]))
shown = life.export(number, "tensor")

def counts():
    return [sys.getrefcount(type(x)) for x in (shown, shown.dtype, shown.device)]

before = counts()
held = [life.export(life.keep(array.array("f", [i])), "tensor") for i in range(100)]
parts = [(x.dtype, x.device) for x in held]
assert len({id(x) for x in held}) == 100
assert counts() == before
del held, parts
gc.collect()
assert counts() == before
assert memoryview(shown).tolist() == [1]
""",
        life,
    )


@pytest.fixture(scope="module")
def guards(compile_extension):
    if not FREE:
        pytest.skip("with a GIL there is nothing to guard")
    return compile_extension("guards.cpp", name="guards")


def test_an_entry_of_the_type_cache_is_read_whole_or_not_at_all(child, guards) -> None:
    assert child("import guards; print(guards.mixed_entries(10_000_000))", guards) == "0\n"


def test_aliases_are_counted_by_two_threads(child, guards) -> None:
    assert child("import guards; print(guards.miscounted(30_000_000))", guards) == "0\n"


def test_an_object_that_is_found_is_not_taken_away_before_it_is_counted_up(child, guards) -> None:
    assert child("import guards; print(guards.taken_away_too_early())", guards) == "False\n"
