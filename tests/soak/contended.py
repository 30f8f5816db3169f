"""One process of the soak: threads that import, show, drop and change the same objects, round after round for a time.

Usage: contended.py --seconds S [--threads N]
Prints one line of JSON: the rounds of each kind. The modules `life` and `at_once` must be found; NumPy is not needed.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import json
import sys
import time
from collections.abc import Callable

import life
from at_once import check_no_gil, together

Work = Callable[[int, int], None]


class Interface:
    def __init__(self) -> None:
        self.memory = array.array("f", range(8))

    @property
    def __array_interface__(self) -> dict:
        return {"shape": (8,), "typestr": "<f4", "data": (self.memory.buffer_info()[0], False), "version": 3}


class Method:
    def __init__(self) -> None:
        self.inner = tensor()

    def __dlpack__(self, **options: object) -> object:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def tensor() -> object:
    number = life.keep(array.array("f", range(8)))
    shown = life.export(number, "tensor")
    life.drop(number)
    return shown


def same_objects(threads: int) -> Work:
    objects = [bytearray(8), array.array("f", [1, 2]), memoryview(bytearray(8)), tensor(), Interface(), Method()]

    def work(thread: int, i: int) -> None:
        for k in range(60):
            x = objects[(k + thread) % len(objects)]
            life.own(x)
            life.borrow(x)
            (life.drop_without_gil if k % 2 else life.drop)(life.keep(x))

    return work


def one_capsule(threads: int) -> Work:
    capsules = [life.export(life.empty(), "capsule") for _ in range(400)]
    claimed = [[] for _ in capsules]

    def work(thread: int, i: int) -> None:
        for capsule, claims in zip(capsules, claimed, strict=True):
            with contextlib.suppress(ValueError):  # another thread had it first
                claims.append(life.keep(capsule))

    def checked(thread: int, i: int) -> None:
        if i == 0:
            work(thread, i)
        elif thread == 0:
            assert {len(claims) for claims in claimed} == {1}, "a capsule was claimed twice, or never"

    return checked


def one_tensor_shown(threads: int) -> Work:
    number = life.keep(bytearray(8))

    def work(thread: int, i: int) -> None:
        for _ in range(100):
            shown = life.export(number, "tensor")
            assert shown.shape == (8,)
            del shown  # the last one, where no other thread has it

    return work


def aliases(threads: int) -> Work:
    shared = tensor()

    def work(thread: int, i: int) -> None:
        for _ in range(100):
            assert shared.as_read_only().shape == (8,)

    return work


def classes(threads: int) -> Work:
    """More than the cache of types has places, of which some change."""
    objects = [type(f"Producer{i}", (Interface, Method)[i % 2 :][:1], {})() for i in range(150)]

    def work(thread: int, i: int) -> None:
        for k in range(len(objects)):
            x = objects[(k * (2 * thread + 1)) % len(objects)]
            if k % 16 == thread:
                type(x).changed = k
            life.own(x)

    return work


def the_live_list(threads: int) -> Work:
    life.live(True)

    def work(thread: int, i: int) -> None:
        for k in range(40):
            if thread == 0:
                assert all(len(row) == 3 for row in life.live(None))
            elif thread == 1 and k % 10 == 0:
                life.live(False)
                life.live(True)
            else:
                number = life.keep(array.array("f", [1]))
                shown = life.export(number, "tensor")
                life.drop_without_gil(number)
                del shown

    return work


KINDS = [same_objects, one_capsule, one_tensor_shown, aliases, classes, the_live_list]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    rounds = {kind.__name__: 0 for kind in KINDS}
    until = time.monotonic() + options.seconds
    while True:
        for kind in KINDS:
            together(kind(options.threads), 2, options.threads)
            rounds[kind.__name__] += 1
        if time.monotonic() > until:
            break
    check_no_gil()
    print(json.dumps(rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
