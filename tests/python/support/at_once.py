"""Work that several threads do at once. With a GIL they take turns as often as it lets them."""

from __future__ import annotations

import itertools
import sys
import sysconfig
import threading
import time
from collections.abc import Callable

FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
THREADS = 8
#: Whether a process of many threads may fork. CPython 3.13 without the GIL leaves its lock of the interned strings
#: taken, for which the child waits for ever; seen by its stack.
FORKS = not FREE or sys.version_info >= (3, 14)

if not FREE:
    sys.setswitchinterval(1e-6)


def check_no_gil() -> None:
    if FREE:
        assert not sys._is_gil_enabled(), "something has switched the GIL on"


def run_threads(run: Callable[[int, list[BaseException]], None], count: int) -> None:
    """run(thread, failed) in so many threads; the first of what one has put into `failed` is raised here."""
    failed: list[BaseException] = []

    def guarded(thread: int) -> None:
        try:
            run(thread, failed)
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    check_no_gil()


def together(work: Callable[[int, int], None], rounds: int = 1, threads: int = THREADS) -> None:
    """work(thread, round) in all threads: they begin each round at the same moment."""
    barrier = threading.Barrier(threads)

    def run(thread: int, _: list[BaseException]) -> None:
        try:
            for i in range(rounds):
                barrier.wait()
                work(thread, i)
        except threading.BrokenBarrierError:
            raise
        except BaseException:
            barrier.abort()
            raise

    run_threads(run, threads)


def side_by_side(work: Callable[[int, int], None], rounds: int) -> None:
    """work(thread, round) in two threads, which begin each round within a few instructions of each other."""
    reached = [-1, -1]

    def run(thread: int, failed: list[BaseException]) -> None:
        for i in range(rounds):
            reached[thread] = i
            for spins in itertools.count():
                if reached[1 - thread] >= i or failed:
                    break
                if spins > 1000:
                    time.sleep(0)  # the other thread may want this very core
            work(thread, i)

    run_threads(run, 2)
