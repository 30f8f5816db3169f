"""What every framework is asked: the tensors to hand over, and how to look at what arrived."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable

import numpy as np
from waiting import eventually

import isthmus_test_ext as ext

Tensor = type(ext.pages([1]))
# name, bytes of the elements 1, 2, 3, 4 (sub-byte: as packed), for dtypes that NumPy itself has not
SMALL_FLOATS = {
    "bfloat16": b"\x80\x3f\x00\x40\x40\x40\x80\x40",
    "float8_e4m3fn": b"\x38\x40\x44\x48",
    "float8_e5m2": b"\x3c\x40\x42\x44",
}
DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


class Skip(Exception):
    """This framework cannot be asked that here, and why."""


def gone() -> int:
    gc.collect()
    return ext.owners()[1]


def made(dtype: str = "float32", shape: Iterable[int] = (2, 3), **options: object) -> object:
    """0, 1, 2, … in memory of C++ (in memory order), page-aligned."""
    if dtype in SMALL_FLOATS:
        return ext.pages([4], dtype, data=SMALL_FLOATS[dtype], **options)
    shape = list(shape)
    count = max(int(np.prod(shape)), 1)
    return ext.pages(shape, dtype, data=np.arange(count + 64).astype(dtype), **options)


def values(t: object) -> list:
    """The elements of an isthmus.Tensor, read by the test extension."""
    found = ext.own(t)
    if found["dtype"] in SMALL_FLOATS:
        return [*ext.own_elements(t)]
    return np.frombuffer(ext.own_elements(t), found["dtype"]).reshape(found["shape"]).tolist()


def steps(strides: Iterable[int], shape: Iterable[int]) -> list[int]:
    """The strides that mean something."""
    return [step for step, size in zip(strides, shape, strict=True) if size > 1]


def refuses(code: str, call: Callable, *args: object, **keywords: object) -> str:
    try:
        call(*args, **keywords)
    except ext.Error as error:
        assert error.code == code, f"{error.code}: {error}"
        return str(error)
    raise AssertionError(f"not refused; expected {code}")


def kept_by_consumer(take: Callable[[object], object], read: Callable[[object], list]) -> None:
    """The memory lives as long as the framework's array, and not longer; the owner ends once."""
    before = gone()
    t = made()
    array = take(t)
    del t
    assert gone() == before
    assert read(array) == [[0, 1, 2], [3, 4, 5]]
    del array
    eventually(lambda: ext.owners()[1] == before + 1)
    assert gone() == before + 1


def kept_by_isthmus(make: Callable[[], object], wanted: list) -> None:
    """The framework's memory lives as long as our tensor."""
    t = ext.tensor_of(make())
    gc.collect()
    assert values(t) == wanted
    kept = ext.keep(t)
    del t
    gc.collect()
    assert np.frombuffer(ext.kept_elements(kept), ext.kept(kept)["dtype"]).tolist() == np.ravel(wanted).tolist()
    ext.drop_on_thread(kept, False)


def from_threads(work: Callable[[], None], threads: int = 4, rounds: int = 25) -> None:
    failures = []

    def run() -> None:
        try:
            for _ in range(rounds):
                work()
        except BaseException as failure:
            failures.append(failure)

    all_threads = [threading.Thread(target=run) for _ in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    if failures:
        raise failures[0]
