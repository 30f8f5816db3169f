"""What an exchange costs along the axes on which a user grows, in counts that no noise touches: no cliff returns.

The module is that of benchmarks/growth.py, which measures the same in time.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark():
    """The script of the benchmark; a test is skipped if what it builds with is not here."""
    pytest.importorskip("numpy")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import build
        import growth

        try:
            growth.built()
        except build.Unavailable as why:
            if why.is_mistake():
                raise
            pytest.skip(str(why))
        yield growth
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def instructions(benchmark):
    """instructions(code): of each call of the module in turn."""
    if shutil.which("valgrind") is None:
        pytest.skip("no valgrind, which counts the instructions")
    return benchmark.instructions


CLASSES = """
def classes(count):
    return [np.zeros(3).view(type(f"Array{i}", (np.ndarray,), {})) for i in range(count)]
def seen(objects):
    growth.own(objects, 2)
    growth.own(objects, max(1, 1000 // len(objects)))
"""


@pytest.mark.slow
def test_a_thousand_classes_in_turn_cost_what_one_does(instructions) -> None:
    """20 times what one took, while the cache had one place for two classes whose addresses met."""
    calls = instructions(CLASSES + "for count in (1, 10, 100, 1000): seen(classes(count))")
    one, *more = [calls[i] / 1000 for i in (1, 3, 5, 7)]
    assert max(more) <= one + 100, f"{one} instructions of one class, {more} of 10, 100 and 1,000"


def test_no_process_is_unlucky_with_the_addresses_of_its_classes(instructions) -> None:
    calls = instructions(CLASSES + "for i in range(20):\n    kept = classes(i)\n    seen(classes(8))")
    assert max(calls[1::2]) <= 1.3 * min(calls[1::2]), sorted(calls[1::2])


def test_a_class_that_is_met_for_the_first_time(instructions) -> None:
    """Also of classes that are made and die by the thousand. Three times as many, while all was asked of each class
    though its base was known."""
    calls = instructions(CLASSES + "for _ in range(100): growth.own(classes(50), 1)")
    each = [calls[i] / 50 for i in (1, 98)]
    assert max(each) <= 3000, f"{each} instructions each"


def test_a_listed_tensor_is_dropped_in_the_same_time_among_many(instructions) -> None:
    few, many = instructions("for count in (1000, 300_000): growth.drop_listed(count)")
    assert many / 300_000 <= 1.2 * few / 1000, (
        f"{few / 1000} instructions to drop one of a thousand, {many / 300_000} of 300,000"
    )


def test_eight_views_cost_eight_times_a_view(instructions) -> None:
    """None of them zeroes the room that it has for sizes."""
    calls = instructions("x = np.zeros(3, np.float32)\nfor rounds in (10, 1000): growth.eight(x, rounds)")
    assert calls[1] / 1000 <= 1150, f"{calls[1] / 1000} instructions for eight views"


def test_a_loop_over_a_view_is_the_loop_over_its_memory(instructions) -> None:
    """No stride is read for an element, and for_each begins without a plan if the elements are neighbours."""
    code = """
small, large = np.zeros((2, 2, 3), np.float32), np.zeros((100, 100, 3), np.float32)
for run in (growth.by_index, growth.by_element):
    for image in (small, large): run(image, 100)
"""
    by_index, by_element = ([int(n / 100) for n in pair] for pair in zip(*[iter(instructions(code))] * 2, strict=True))
    assert (by_index[1] - by_index[0]) / 29_988 <= 8, "10.7 while three strides were"
    assert (by_element[1] - by_element[0]) / 29_988 <= 6.1
    assert by_element[0] <= 200, "690 while there was always a plan"


def test_an_element_of_a_container_takes_the_room_of_its_view(benchmark) -> None:
    """1.3 kB, while each kept a borrow with room for 64 dimensions."""
    import numpy as np

    growth = benchmark.module()
    arrays = [np.zeros(3, np.float32) for _ in range(10_000)]
    assert growth.vector_of_views(arrays)[1] <= 100
    assert growth.map_of_views({str(i): array for i, array in enumerate(arrays)})[1] <= 300  # a node and its text
    assert growth.vector_of_borrowed(arrays)[1] <= 1300


def test_an_element_of_a_long_container_costs_what_one_of_a_short_does(instructions) -> None:
    short, long = instructions(
        "for count in (100, 10_000): growth.vector_of_views([np.zeros(3, np.float32) for _ in range(count)])"
    )
    assert long / 10_000 <= 1.1 * short / 100
    assert long / 10_000 <= 150


def test_a_copied_element_costs_the_same_in_every_layout(instructions) -> None:
    """One call of memcpy each, while they were copied one by one."""
    shapes = """
pixels = np.zeros((100, 100, 3), np.uint8)
square = np.zeros((173, 173))
for array in (pixels.transpose(2, 0, 1), pixels.reshape(3, 100, 100).transpose(1, 2, 0), square.T, square[:, ::2],
              square.astype(np.float32)[:, ::-1]):
    growth.copied(array, 1)
"""
    elements = (30_000, 30_000, 173 * 173, 173 * 87, 173 * 173)
    each = [calls / count for calls, count in zip(instructions(shapes), elements, strict=True)]
    assert max(each) <= 8, f"{each} instructions an element"


def test_an_element_is_converted_in_vectors(instructions) -> None:
    pairs = [("float64", "float32"), ("uint8", "float32"), ("int32", "int64"), ("int64", "int32"), ("bool", "float32")]
    # The first call of all also sets up what later ones find.
    code = f"for a, b in {[pairs[0], *pairs]!r}: growth.converted(np.zeros(30_000, a), b, 1)"
    each = [calls / 30_000 for calls in instructions(code)[1:]]
    assert max(each[:-1]) <= 5.5, f"{each} instructions an element of {pairs}"
    assert each[-1] <= 12, f"{each} instructions an element of {pairs}"


@pytest.mark.parametrize(("count", "size"), [(1, 16), (256, 16), (64, 256), (64, 1024), (1, 65_536)])
def test_a_result_is_made_of_what_others_left_however_many_are_alive(benchmark, count: int, size: int) -> None:
    """The cache held 16 pieces, whatever their size, and none below 4 MiB."""
    faults = benchmark.module().results(count, 4096 * size, 4)[1]
    assert faults <= 0.01 * size + 0.5, f"{faults} faults for each of {count} results of {size} pages"


def test_a_number_is_refused_at_the_cost_of_the_text(instructions) -> None:
    """75,000 instructions, while six attributes were looked for on it and the text was copied by the byte."""
    calls = instructions(
        "def refused():\n    try: growth.eight(3, 1)\n    except TypeError as error: assert 'got int' in str(error)\n"
        "for _ in range(5): refused()"
    )
    assert len(calls) == 5
    assert min(calls) <= 20_000
