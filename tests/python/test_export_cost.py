"""What an exchange costs, counted rather than timed: allocations, and memory from 4 kB to 1 GB."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

COUNTER = Path(__file__).parent / "support" / "count_allocations.c"
SANITIZED = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the sanitizer has taken malloc for itself")

COUNT = """
    import ctypes, sys
    import numpy as np
    import isthmus_test_ext as ext

    counter = ctypes.CDLL(None)
    ROUNDS = 50

    def count(call, *args):
        # Of one round: the difference leaves out what the call around the rounds needs.
        def of(rounds):
            counter.allocations_begin()
            call(*args, rounds)
            return counter.allocations_end()

        call(*args, 20)  # caches, imports and free lists are filled
        return (min(of(2 * ROUNDS) for _ in range(3)) - min(of(ROUNDS) for _ in range(3))) / ROUNDS

    def made(n=1000):
        return ext.pages([n // 10, 10])
"""


@pytest.fixture(scope="session")
def counter(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the counting malloc with")
    library = tmp_path_factory.mktemp("counter") / "count_allocations.so"
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, COUNTER], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"the counting malloc does not build here: {done.stderr.strip()}")
    return str(library)


@SANITIZED
@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="CPython's objects do not come from malloc"
)
class TestAllocations:
    def count(self, child, counter: str, code: str) -> list[float]:
        return [float(x) for x in child(COUNT + code, LD_PRELOAD=counter, PYTHONMALLOC="malloc").split()]

    def test_the_counter_counts(self, child, counter):
        bare, more = self.count(
            child,
            counter,
            """
    def lists(n):
        for _ in range(n):
            ctypes.create_string_buffer(100000)
    t = made()
    print(count(ext.bare_times, t, "capsule"), count(lists))
    """,
        )
        assert bare >= 1
        assert more >= 1

    @pytest.mark.parametrize("framework", ["numpy", "capsule", "torch"])
    def test_one_beyond_the_frameworks_own(self, child, counter, framework):
        if framework == "torch":
            pytest.importorskip("torch")
        ours, bare = self.count(
            child,
            counter,
            f"""
    if {framework!r} == "torch":
        import torch
        if not hasattr(torch, "__version__") or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14):
            print(0, 0)
            sys.exit()
    t = made()
    print(count(ext.hand_times, t, {framework!r}), count(ext.bare_times, t, {framework!r}))
    """,
        )
        assert ours - bare <= 1, f"{ours} allocations an exit, of which {framework} makes {bare}"

    def test_the_same_object_costs_nothing(self, child, counter):
        (ours,) = self.count(child, counter, '\n    a = np.zeros(1000); print(count(ext.hand_times, a, "numpy"))')
        assert ours == 0

    @pytest.mark.parametrize("framework", ["numpy", "capsule", "tensor"])
    def test_not_in_proportion(self, child, counter, framework):
        small, large = self.count(
            child,
            counter,
            f"""
    def size(n):
        t = ext.pages([n])
        found = []
        for _ in range(5):
            counter.allocations_begin()
            ext.hand_times(t, {framework!r}, 1)
            counter.allocations_end()
            found.append(counter.allocated_bytes())
        return min(found)
    print(size(1000), size(1 << 28))
    """,
        )
        assert small == large


FLAT = """
    import gc
    import numpy as np
    import isthmus_test_ext as ext

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def exits(make):
        x = make()
        held = [ext.tensor_of(x)]
        t = held[0]
        held += [ext.hand(t, "numpy"), ext.hand(t, "capsule"), np.from_dlpack(t), np.asarray(t), memoryview(t)]
        held += [t.as_read_only(), t.__array_interface__, repr(t), t.__dlpack__(), ext.tensor_of(held[3])]
        return held

    makers = {
        "numpy": lambda n: lambda: np.zeros(n, np.uint8),
        "C++": lambda n: lambda: ext.pages([n], "uint8"),
    }
    for name, maker in makers.items():
        for size in (4096, 1 << 20, 1 << 30):
            exits(maker(4096))
            gc.collect()
            before = resident()
            held = exits(maker(size))
            grown = resident() - before
            print(name, size, grown)
"""


@SANITIZED
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_no_memory_is_touched_or_added(child):
    """Pages of a fresh array are not there until somebody reads them: an exchange never does."""
    plain = {"MALLOC_PERTURB_": "0", "PYTHONMALLOC": "default"}  # a debugging allocator writes to what it hands out
    lines = [line.rsplit(" ", 2) for line in child(FLAT, **plain).splitlines()]
    assert len(lines) == 6
    for name, size, grown in lines:
        assert int(grown) < 1 << 20, f"{name}: an array of {size} bytes added {grown} bytes of memory"


def test_time_is_flat(child):
    """Generous, since machines are busy: a copy of a GiB would take a thousand times as long as allowed here."""
    code = """
    import time
    import isthmus_test_ext as ext

    def seconds(n, framework):
        t = ext.pages([n], "uint8")
        best = 1e9
        for _ in range(20):
            start = time.perf_counter()
            ext.hand_times(t, framework, 100)
            best = min(best, time.perf_counter() - start)
        return best

    for framework in ("numpy", "capsule", "tensor"):
        print(seconds(4096, framework), seconds(1 << 30, framework))
    """
    for line in child(code).splitlines():
        small, large = map(float, line.split())
        assert large < 5 * small + 0.001
