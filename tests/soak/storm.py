"""One process of the soak: threads that import, export, drop, fork and collect by every protocol,
for a time or a count.

Usage: storm.py --seconds S [--threads N] [--fork] | storm.py --flat COUNT
Prints one line of JSON: the exchanges made, the children that ended well, the memory gained in bytes.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import gc
import json
import os
import random
import sys
import threading
import time

import soak

try:
    import numpy as np
except ImportError:
    np = None  # type: ignore[assignment]


class Interface:
    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(32)

    @property
    def __array_interface__(self) -> dict:
        return {"shape": (8,), "typestr": "<f4", "data": (ctypes.addressof(self.memory), False), "version": 3}


class Method:
    def __init__(self) -> None:
        self.inner = soak.exchange(bytearray(8), soak.TENSOR, 0)

    def __dlpack__(self, **options: object) -> object:
        return self.inner.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Legacy(Method):
    def __dlpack__(self, stream: object = None) -> object:
        return self.inner.__dlpack__()


class Cyclic(bytearray):
    """Its tensor hangs on itself: only the collector takes it."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.tensor = soak.exchange(self, soak.TENSOR, 0)


def producers() -> list:
    makers = [
        lambda: bytearray(8),
        lambda: b"12345678",
        lambda: array.array("f", [1, 2]),
        lambda: memoryview(bytearray(8)),
        lambda: (ctypes.c_int * 4)(),
        lambda: soak.exchange(bytearray(8), soak.TENSOR, 0),
        lambda: soak.exchange(bytearray(8), soak.CAPSULE, 0),
        Interface,
        Method,
        Legacy,
        lambda: Cyclic(8),
    ]
    if np is not None:
        makers += [lambda: np.arange(4.0), lambda: np.zeros((3, 4), np.float32)[::2, 1:], lambda: np.zeros(0)]
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        makers += [lambda: torch.ones(3), lambda: torch.zeros(2, 3).t()]
    return makers


def exits() -> list[int]:
    known = [soak.TENSOR, soak.CAPSULE]
    if np is not None:
        known.append(soak.NUMPY)
    if "torch" in sys.modules:
        known.append(soak.TORCH)
    return known


class Storm:
    def __init__(self, seconds: float, fork: bool) -> None:
        self.until = time.monotonic() + seconds
        self.fork, self.exchanges, self.children, self.failures = fork, 0, 0, []  # type: ignore[var-annotated]
        self.count = threading.Lock()

    def work(self, seed: int) -> None:
        rng, done = random.Random(seed), 0
        makers, ways = producers(), exits()
        try:
            while time.monotonic() < self.until:
                held = []
                for _ in range(50):
                    x = rng.choice(makers)()
                    held.append(soak.exchange(x, rng.choice(ways), rng.randrange(4)))
                    if rng.random() < 0.3:
                        held.pop(rng.randrange(len(held)))
                    done += 1
                if rng.random() < 0.02:
                    gc.collect()
                if self.fork and seed == 0 and rng.random() < 0.05:
                    self.fork_once(makers)
        except BaseException as error:
            self.failures.append(repr(error))
        with self.count:
            self.exchanges += done

    def fork_once(self, makers: list) -> None:
        pid = os.fork()
        if pid == 0:
            import signal

            signal.alarm(30)
            for make in makers:
                soak.exchange(make(), soak.TENSOR, 1)
            gc.collect()
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        if status != 0:
            raise RuntimeError(f"a forked child ended with {status}")
        self.children += 1


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def flat(count: int) -> dict:
    """Memory gained between a tenth of the exchanges, which warm up, and all of them."""
    made, gained = 0, 0
    makers = producers()
    for make in makers:
        x = make()
        if type(x).__name__ == "PyCapsule":
            continue  # taken once
        each = count // len(makers)
        made += soak.repeat(x, each // 10)
        gc.collect()
        before = resident()
        made += soak.repeat(x, each)
        gc.collect()
        gained = max(gained, resident() - before)
    return {"exchanges": made, "gained": gained}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--fork", action="store_true")
    parser.add_argument("--flat", type=int)
    options = parser.parse_args()
    if options.flat:
        print(json.dumps(flat(options.flat)))
        return 0
    sys.setswitchinterval(1e-5)
    storm = Storm(options.seconds, options.fork)
    threads = [threading.Thread(target=storm.work, args=(n,)) for n in range(options.threads)]
    for thread in threads:
        thread.start()
    native = soak.native(2, 2000)
    for thread in threads:
        thread.join()
    print(json.dumps({"exchanges": storm.exchanges + native, "children": storm.children, "failures": storm.failures}))
    return 1 if storm.failures else 0


if __name__ == "__main__":
    sys.exit(main())
