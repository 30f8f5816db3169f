"""Engines with messages of every size and count, the default and Isthmus in turns: the group `sizes` of engines.py."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

WAYS = ("default", "isthmus")
#: Sends a message in this way and has it back, or an answer that needs all of it; returns seconds.
Trip = Callable[[str, Any], float]

SIZES = {
    "100 B": 25,
    "4 kB": 1000,
    "60 kB": 15_000,
    "100 kB": 25_000,
    "200 kB": 50_000,
    "1 MB": 250_000,
    "16 MB": 4_000_000,
}
# What many of them are measured with.
_SEVERAL = 100
_LARGEST_OF_SEVERAL = 50_000
# Seconds that a row may take, and rounds.
_TIME, _FEWEST, _MOST = 1.5, 7, 51
# Seconds of messages that a way sends in its turn, and the most of them: one alone would tell what the switch costs.
_TURN, _MOST_OF_TURN = 2e-3, 20


#: The way of each engine in this process.
_ways: dict[str, str] = {}


def switch(engine: str, way: str) -> None:
    """Once for each change: what enable() itself does is no part of a message, nor are the caches that it empties."""
    import isthmus

    if _ways.get(engine) == way:
        return
    _ways[engine] = way
    (isthmus.distributed.enable if way == "isthmus" else isthmus.distributed.disable)(engine)


def messages(engine: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    import numpy as np
    import torch

    makers: dict[str, Callable[[int], Any]] = {"numpy": lambda n: np.ones(n, np.float32), "torch": torch.ones}
    for framework, make in makers.items():
        for size, length in SIZES.items():
            yield f"{framework}, 1 x {size}", lambda make=make, length=length: [make(length)]
            if length <= _LARGEST_OF_SEVERAL:
                yield (
                    f"{framework}, {_SEVERAL} x {size}",
                    lambda make=make, length=length: [make(length) for _ in range(_SEVERAL)],
                )
    yield "numpy, 10,000 x 100 B", lambda: [np.ones(25, np.float32) for _ in range(10_000)]
    if engine == "multiprocessing":
        # A new tensor for each message: torch's own way makes its memory shared for good. The default of the others
        # sends the whole storage with each row.
        yield "torch, 4,000 rows of one tensor", lambda: list(torch.ones(4000, 16))


def last_elements(x: list[Any]) -> float:
    return sum(float(one[-1]) for one in x)


def answer(connection: Any, way: str) -> None:
    import torch

    torch.set_num_threads(1)
    switch("multiprocessing", way)
    while True:
        x = connection.recv()
        if x is None:
            return
        connection.send(last_elements(x))
        del x


@contextlib.contextmanager
def of_multiprocessing() -> Iterator[Trip]:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    pipes = {way: context.Pipe() for way in WAYS}
    workers = [context.Process(target=answer, args=(pipes[way][1], way), daemon=True) for way in WAYS]
    for worker in workers:
        worker.start()

    def trip(way: str, x: Any) -> float:
        switch("multiprocessing", way)
        start = time.perf_counter()
        pipes[way][0].send(x)
        pipes[way][0].recv()
        return time.perf_counter() - start

    yield trip
    for (connection, _), worker in zip(pipes.values(), workers, strict=True):
        connection.send(None)
        worker.join(10)


@contextlib.contextmanager
def of_joblib() -> Iterator[Trip]:
    import loky

    pools = {way: loky.ProcessPoolExecutor(1, initializer=switch, initargs=("joblib", way)) for way in WAYS}

    def trip(way: str, x: Any) -> float:
        switch("joblib", way)
        start = time.perf_counter()
        pools[way].submit(last_elements, x).result()
        return time.perf_counter() - start

    yield trip
    for pool in pools.values():
        pool.shutdown(kill_workers=True)


@contextlib.contextmanager
def of_ray() -> Iterator[Trip]:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    ray.init(
        num_cpus=1,
        object_store_memory=1 << 29,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
    )

    def trip(way: str, x: Any) -> float:
        switch("ray", way)
        start = time.perf_counter()
        last_elements(ray.get(ray.put(x)))
        return time.perf_counter() - start

    yield trip
    ray.shutdown()


@contextlib.contextmanager
def of_dask() -> Iterator[Trip]:
    from distributed.protocol import deserialize, serialize

    def trip(way: str, x: Any) -> float:
        switch("dask", way)
        start = time.perf_counter()
        header, frames = serialize(x)
        # As they come from a socket: in memory of the receiver.
        last_elements(deserialize(header, [bytearray(frame) for frame in frames]))
        return time.perf_counter() - start

    yield trip


@contextlib.contextmanager
def of_mpi4py() -> Iterator[Trip]:
    from mpi4py import MPI

    to_itself = MPI.COMM_SELF

    def trip(way: str, x: Any) -> float:
        switch("mpi4py", way)
        start = time.perf_counter()
        last_elements(to_itself.sendrecv(x, 0, source=0))
        return time.perf_counter() - start

    yield trip


#: By name: a module that it needs, and the trip. multiprocessing and joblib: to another process through a pipe, and an
#: answer that needs every tensor; Ray: put, then get; Dask: serialize, then deserialize; mpi4py: dumps, then loads.
ENGINES = {
    "multiprocessing": ("torch", of_multiprocessing),
    "joblib": ("loky", of_joblib),
    "ray": ("ray", of_ray),
    "dask": ("distributed", of_dask),
    "mpi4py": ("mpi4py", of_mpi4py),
}


def measure(quick: bool) -> Iterator[tuple[str, float, float, str]]:
    """Rows of engines.py: a name, the median of milliseconds, 0, and the way."""
    import torch

    torch.set_num_threads(1)
    for engine, (module, start) in ENGINES.items():
        if importlib.util.find_spec(module) is None:
            continue
        with start() as trip:
            for name, make in messages(engine):
                for way, ms in medians(trip, make, quick).items():
                    yield f"{engine}: {name}", ms, 0, way
        switch(engine, "default")


def medians(trip: Trip, make: Callable[[], Any], quick: bool) -> dict[str, float]:
    """Milliseconds of each way, measured in turns."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for way in WAYS:
        trip(way, make())
    gc.collect()
    deadline = time.monotonic() + (_TIME / 5 if quick else _TIME)
    rounds = 0
    while rounds < _FEWEST or (rounds < _MOST and time.monotonic() < deadline):
        # Neither is always the first after the other.
        for way in WAYS if rounds % 2 else reversed(WAYS):
            x = make()
            trip(
                way, [type(x[0])([0.0])] if hasattr(x[0], "untyped_storage") else [x[0][:1].copy()]
            )  # after the switch
            taken = [trip(way, x)]
            while sum(taken) < _TURN and len(taken) < _MOST_OF_TURN:
                taken.append(trip(way, make()))
            times[way] += taken
        rounds += 1
    return {way: statistics.median(taken) * 1000 for way, taken in times.items()}
