"""Clusters, an engine's default and Isthmus in turns: the groups `spill`, `overlap` and `machines` of engines.py."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine_sizes import WAYS, switch

MIB = 1 << 20
Row = tuple[str, float, float, str]


def in_turns(name: str, rounds: int, work: Callable[[str], float]) -> Iterator[Row]:
    """Medians; `work` returns the seconds that its way has taken."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds + 1):
        for way in WAYS if number % 2 else reversed(WAYS):
            seconds = work(way)
            if number > 0:  # the first time caches are cold
                times[way].append(seconds)
    for way, taken in times.items():
        yield name, statistics.median(taken) * 1000, 0, way


@contextlib.contextmanager
def dask_cluster(**options: Any) -> Iterator[Any]:
    import distributed

    with (
        distributed.LocalCluster(threads_per_worker=1, dashboard_address=None, silence_logs=50, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def chosen(client: Any, way: str) -> None:
    """In the client and in the workers."""
    switch("dask", way)
    client.run(switch, "dask", way)


def filled(i: int, nbytes: int) -> Any:
    import numpy as np

    return np.full(nbytes // 8, float(i))


def filled_torch(i: int, nbytes: int) -> Any:
    import torch

    return torch.full((nbytes // 4,), float(i))


def total(x: Any) -> float:
    return float(x.sum())


def measure_spill(quick: bool) -> Iterator[Row]:
    """Arrays of 16 MiB that a worker of 640 MiB makes, writes to its disk, and reads again."""
    import distributed

    nbytes = 16 * MIB
    count = 50 if quick else 100
    # Beside the arrays a worker holds what their library itself takes.
    for framework, make, library in (("numpy", filled, 0), ("torch", filled_torch, 512 * MIB)):
        with dask_cluster(n_workers=1, memory_limit=640 * MIB + library) as client:

            def work(way: str, client: Any = client, make: Any = make) -> float:
                chosen(client, way)
                start = time.perf_counter()
                made = client.map(make, range(count), nbytes=nbytes, pure=False)
                distributed.wait(made)
                client.gather(client.map(total, made, pure=False))
                seconds = time.perf_counter() - start
                del made
                time.sleep(0.5)
                return seconds

            yield from in_turns(f"spill, {framework}, {count} x 16 MiB", 3 if quick else 7, work)


def smoothed(block: Any) -> Any:
    out = block.copy()
    out[1:-1, 1:-1] = (block[:-2, 1:-1] + block[2:, 1:-1] + block[1:-1, :-2] + block[1:-1, 2:]) / 4
    return out


def measure_overlap(quick: bool) -> Iterator[Row]:
    """Dask's arrays, whose chunks exchange their edges."""
    import dask.array as da
    import distributed

    side = 2048 if quick else 8192
    with dask_cluster(n_workers=2, memory_limit=0) as client:
        x = da.random.default_rng(0).random((side, side), chunks=(side // 4, side // 4)).persist()
        distributed.wait(x)
        programs: dict[str, Callable[[], Any]] = {
            "map_overlap": lambda: da.map_overlap(smoothed, x, depth=1, boundary="reflect", dtype=x.dtype).sum(),
            "x @ x.T": lambda: (x @ x.T)[: side // 4].sum(),
            "rechunk": lambda: x.rechunk((side, side // 8)).sum(axis=0).max(),
        }
        for name, program in programs.items():

            def work(way: str, program: Any = program) -> float:
                chosen(client, way)
                start = time.perf_counter()
                program().compute()
                return time.perf_counter() - start

            yield from in_turns(f"{name}, {side} x {side}", 3 if quick else 7, work)


def arrays(nbytes: int) -> dict[str, Callable[[], Any]]:
    import numpy as np
    import torch

    return {
        "numpy": lambda: np.ones(nbytes // 4, np.float32),
        "torch": lambda: torch.ones(nbytes // 4),
        "many numpy": lambda: [np.ones(256, np.float32) for _ in range(1000)],
    }


def back(x: Any) -> Any:
    return x


def dask_over_tcp(quick: bool) -> Iterator[Row]:
    with dask_cluster(n_workers=1, memory_limit=0, protocol="tcp") as client:
        (address,) = client.scheduler_info()["workers"]
        for name, make in arrays(64 * MIB).items():
            x = make()

            def work(way: str, x: Any = x) -> float:
                chosen(client, way)
                start = time.perf_counter()
                there = client.scatter(x, workers=[address], hash=False, direct=True)
                client.submit(back, there, pure=False).result()
                return time.perf_counter() - start

            yield from in_turns(f"Dask over tcp, there and back: {name}, {size_of(x)}", 5 if quick else 11, work)


def size_of(x: Any) -> str:
    return f"{len(x):,} x 1 kB" if isinstance(x, list) else f"{x.nbytes // MIB} MiB"


def ray_on_two_nodes(quick: bool) -> Iterator[Row]:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray
    from ray.cluster_utils import Cluster

    class Far:
        def switch(self, way: str) -> None:
            switch("ray", way)

        def back(self, x: Any) -> Any:
            return x

    cluster = Cluster()
    try:
        for resources in ({}, {"far": 1}):
            cluster.add_node(num_cpus=1, resources=resources, object_store_memory=1024 * MIB, include_dashboard=False)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        actor = ray.remote(num_cpus=0, resources={"far": 1})(Far).remote()
        for name, make in arrays(64 * MIB).items():
            x = make()

            def work(way: str, x: Any = x) -> float:
                switch("ray", way)
                ray.get(actor.switch.remote(way))
                start = time.perf_counter()
                ray.get(actor.back.remote(ray.put(x)))
                return time.perf_counter() - start

            yield from in_turns(f"Ray on two nodes, there and back: {name}, {size_of(x)}", 5 if quick else 11, work)
    finally:
        ray.shutdown()
        cluster.shutdown()


def mpi_ranks(quick: bool) -> None:
    """Two ranks; prints the rows of the first."""
    import json

    from mpi4py import MPI
    from mpi4py.util import pkl5

    rank = MPI.COMM_WORLD.Get_rank()
    for how, comm in {"": MPI.COMM_WORLD, " (pkl5)": pkl5.Intracomm(MPI.COMM_WORLD)}.items():
        for name, make in arrays(64 * MIB).items():
            x = make()

            def work(way: str, x: Any = x, comm: Any = comm) -> float:
                switch("mpi4py", way)
                MPI.COMM_WORLD.barrier()
                start = time.perf_counter()
                if rank == 0:
                    comm.send(x, dest=1)
                    comm.recv(source=1)
                else:
                    comm.send(comm.recv(source=0), dest=0)
                return time.perf_counter() - start

            for row in in_turns(f"MPI over tcp{how}, there and back: {name}, {size_of(x)}", 5 if quick else 11, work):
                if rank == 0:
                    print(json.dumps(row), flush=True)


def mpi_over_tcp(quick: bool) -> Iterator[Row]:
    import json

    beside = Path(sys.executable).with_name("mpiexec")
    command = [str(beside) if beside.exists() else "mpiexec", "-n", "2", sys.executable, __file__]
    # MPICH's own settings: not through shared memory.
    settings = {"MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "tcp"}
    done = subprocess.run(
        [*command, *(["--quick"] if quick else [])], env={**os.environ, **settings}, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    for line in done.stdout.splitlines():
        yield tuple(json.loads(line))


def measure_machines(quick: bool) -> Iterator[Row]:
    """What goes over the network between machines, over this one's own."""
    yield from dask_over_tcp(quick)
    yield from mpi_over_tcp(quick)
    yield from ray_on_two_nodes(quick)


if __name__ == "__main__":
    mpi_ranks("--quick" in sys.argv)
