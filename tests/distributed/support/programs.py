"""Ordinary programs over each engine, whose answers must not depend on enable(): `programs.py ENGINE ENABLED [START]`
prints them, one a line.

Each has arrays in tasks and results, writes in tasks, workers that come later or were never enabled, workers that are
killed, and exceptions that are kept while the same arrays are sent again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import workers

import isthmus

INIT = {"initializer": workers.enable, "initargs": ("multiprocessing",)}


class Own:
    """An object that holds arrays."""

    def __init__(self, x: Any) -> None:
        self.x, self.parts = x, {"half": x[::2], "again": x}


class Fails:
    def __reduce__(self) -> Any:
        raise ValueError("not this one")


def inputs() -> dict[str, Any]:
    """What tasks are given: small and large, in containers and in objects."""
    base = np.arange(200_000.0).reshape(400, 500)
    weights = torch.arange(100_000.0).reshape(100, 1000)
    return {
        "small": np.arange(25.0),
        "large": base,
        "column": base[:, 7],
        "turned": base.T,
        "fortran": np.asfortranarray(base),
        "dates": np.arange(5000).astype("M8[s]"),
        "record": np.zeros(3000, [("a", "i4"), ("b", "f8")]),
        "objects": np.array([{"a": 1}, None, "x"], dtype=object),
        "own": Own(base),
        "list": [base[i] for i in range(0, 400, 40)],
        "tensor": weights,
        "views": (weights[3], weights, weights[:, 5]),
        "parameter": torch.nn.Parameter(weights),
        "module": torch.nn.Linear(300, 200),
        "plain": {"a": [1, 2.5, None], "b": "text"},
    }


def _writeable(x: Any) -> bool | None:
    """Ray's default makes arrays read-only whoever reads them; Isthmus those that others read."""
    return None if "ray" in sys.modules else bool(x.flags.writeable)


def told(x: Any) -> Any:
    """A value that says what `x` is, whatever way it has come."""
    if isinstance(x, np.ndarray):
        flat = np.ascontiguousarray(x)
        elements = x.tolist() if x.dtype.hasobject else [flat.tobytes()[:32].hex(), int(flat.view(np.uint8).sum())]
        return ["array", str(x.dtype), x.shape, x.flags.c_contiguous, _writeable(x), elements]
    if isinstance(x, torch.Tensor):
        return [type(x).__name__, str(x.dtype), list(x.shape), bool(x.requires_grad), float(x.detach().double().sum())]
    if isinstance(x, torch.nn.Module):
        return [told(parameter) for parameter in x.parameters()]
    if isinstance(x, Own):
        return ["own", told(x.x), told(x.parts)]
    if isinstance(x, dict):
        return {name: told(value) for name, value in x.items()}
    return [told(value) for value in x] if isinstance(x, list | tuple) else repr(x)


def look(x: Any) -> Any:
    return told(x)


def change(x: Any) -> Any:
    """Writes where a program may, and returns what it was given."""
    x["large"] += 1
    x["small"][0] = -1
    x["own"].x[0] = 5
    return [x, float(x["large"].sum()), float(x["own"].parts["again"].sum())]


def fail(x: Any) -> Any:
    error = RuntimeError("this task failed")
    error.kept = x["large"][::3]  # type: ignore[attr-defined]
    raise error


def die(_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def pid(_: Any = None) -> int:
    return os.getpid()


#: Of every program: the exceptions that it has caught, as a notebook keeps the last one.
kept: list[BaseException] = []


def again(send: Callable[[Any], Any]) -> list[Any]:
    """A message that cannot be pickled, its exception kept, and the same arrays after a change."""
    base = np.zeros((300, 200))
    tensor = torch.zeros(300, 200)
    answers = []
    for i in range(3):
        base += 1
        tensor += 1
        with contextlib.suppress(AssertionError):
            try:
                send([base[:, ::2], tensor[:, ::2], Fails()])
                raise AssertionError("it was sent")
            except ValueError as error:
                kept.append(error)
        answers.append(told(send([base[:, ::2], tensor[:, ::2], i])))
    return answers


def through_pipe(x: Any) -> Any:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    taken = []

    def read() -> None:
        with contextlib.suppress(EOFError):
            taken.append(ours.recv())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        theirs.send(x)
    finally:
        theirs.close()
        reader.join()
        ours.close()
    return taken[0]


def put_and_end(queue: Any, n: int) -> None:
    queue.put(np.arange(float(n)))


def caught(work: Callable[[], Any]) -> str:
    try:
        return repr(work())
    except Exception as error:
        kept.append(error)
        return f"{type(error).__name__}: {error}"[:60]


def of_multiprocessing(enabled: bool, start: str) -> None:
    context: Any = multiprocessing.get_context(start)
    init: dict[str, Any] = INIT if enabled else {}
    if enabled:
        isthmus.distributed.enable("multiprocessing")
    with context.Pool(2, **init) as pool:
        for name, x in inputs().items():
            print(name, pool.apply(look, (x,)), told(pool.apply(workers.back, (x,))))
        print("change", told(pool.map(change, [inputs(), inputs()])))
        print("fail", caught(lambda: pool.apply(fail, (inputs(),))), caught(lambda: pool.apply(fail, (inputs(),))))
    with context.Pool(2, maxtasksperchild=1) as pool:  # each comes later, and is not told to enable
        # They return no torch tensors: torch's own way loses those of a worker that ends.
        print("later", pool.map(look, [inputs()] * 4, chunksize=1))
    for _ in range(2):
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context, **init) as executor:
            print("first", executor.submit(look, inputs()).result())
            print("killed", caught(executor.submit(die, None).result).partition(":")[0])
    print("again", again(through_pipe))
    queue = context.Queue()
    process = context.Process(target=put_and_end, args=(queue, 100_000))
    process.start()
    print("ended", told(queue.get(timeout=60)))
    process.join()
    loader: Any = torch.utils.data.DataLoader(
        workers.Samples(),
        batch_size=16,
        num_workers=2,
        multiprocessing_context=start,
        collate_fn=isthmus.distributed.collate if enabled else None,
    )
    for _ in range(2):
        print("batches", [told(batch) for batch in loader])
    for batch in loader:
        print("break", told(batch["image"]))
        break


def of_joblib(enabled: bool, _: str) -> None:
    import joblib

    if enabled:
        isthmus.distributed.enable("joblib")
    with joblib.parallel_config("loky", n_jobs=2):
        run = joblib.Parallel()
        for name, x in inputs().items():
            # joblib maps large arrays of its arguments itself, read-only.
            print(name, run(joblib.delayed(look)(x) for _ in range(2)))
        print("fail", caught(lambda: run([joblib.delayed(fail)(inputs())])))
        print("killed", caught(lambda: joblib.Parallel()([joblib.delayed(die)(inputs())])).partition(":")[0])
        print("later", joblib.Parallel()(joblib.delayed(look)(inputs()) for _ in range(4)))


def names_of_workers(client: Any, least: int) -> list[str]:
    """On a busy machine one that was restarted comes late, and the scheduler lists it later still."""
    deadline = time.monotonic() + 60
    while True:
        client.wait_for_workers(least)
        names = sorted(client.scheduler_info()["workers"])
        if len(names) >= least or time.monotonic() > deadline:
            return names
        time.sleep(0.05)


def of_dask(enabled: bool, start: str) -> None:
    import dask
    import distributed

    with (
        dask.config.set({"distributed.worker.multiprocessing-method": start}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        if enabled:
            isthmus.distributed.enable("dask")
            first = next(iter(client.scheduler_info()["workers"]))
            client.run(workers.enable, "dask", workers=[first])  # the other one is not told

        def submit(function: Any, x: Any, where: int | None = None) -> Any:
            names = names_of_workers(client, 1 + (where or 0))
            return client.submit(function, x, pure=False, **({} if where is None else {"workers": [names[where]]}))

        def everything() -> None:
            for name, x in inputs().items():
                there = submit(workers.back, x, 0)
                print(name, submit(look, there, 1).result(60), told(submit(workers.back, there, 1).result(60)))
            print("change", told(submit(change, submit(workers.back, inputs(), 1), 0).result(60)))
            print("fail", caught(submit(fail, inputs(), 0).result), caught(submit(fail, inputs(), 1).result))

        everything()
        cluster.scale(3)
        client.wait_for_workers(3)
        print("later", [submit(look, submit(workers.back, inputs(), i), (i + 1) % 3).result(60) for i in range(3)])
        running = client.run(os.getpid)
        there = submit(workers.back, inputs())
        distributed.wait(there)
        os.kill(running[next(iter(client.who_has(there).values()))[0]], signal.SIGKILL)
        time.sleep(0.5)
        print("killed", submit(look, there).result(60))
        client.wait_for_workers(3)
        everything()


def when_restarted(call: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 30
    while True:
        try:
            return call()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def of_ray(enabled: bool, _: str) -> None:
    import ray

    hook = {"worker_process_setup_hook": "ray_hook.enable"} if enabled else None
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="fatal", runtime_env=hook)
    if enabled:
        isthmus.distributed.enable("ray")

    class Keeper:
        def keep(self, x: Any) -> None:
            self.x = x

        def call(self, function: Any, x: Any = None) -> Any:
            return function(self.x if x is None else x)

        def die(self) -> None:
            die(None)

    run = ray.remote(num_cpus=1)(lambda function, x: function(x))
    for name, x in inputs().items():
        print(name, ray.get(run.remote(look, x)), told(ray.get(run.remote(workers.back, ray.put(x)))))
    print("fail", caught(lambda: ray.get(run.remote(fail, inputs()))).partition("(")[0])
    actor = ray.remote(num_cpus=1, max_restarts=1)(Keeper).remote()
    reference = ray.put(inputs())
    for turn in range(2):
        ray.get(actor.keep.remote(reference))
        print("kept", ray.get(actor.call.remote(look)))
        print("killed", caught(lambda: ray.get(actor.die.remote())).partition(":")[0])
        if turn == 0:
            given = inputs()
            print("restarted", when_restarted(lambda given=given: ray.get(actor.call.remote(look, given))))
    print("again", again(lambda x: ray.get(ray.put(x))))
    ray.shutdown()


def of_mpi4py(enabled: bool, way: str) -> None:
    """On each rank. Rank 0 is enabled alone, and every rank in a second turn."""
    from mpi4py import MPI
    from mpi4py.util import pkl5

    world = MPI.COMM_WORLD
    rank, there = world.Get_rank(), (world.Get_rank() + 1) % world.Get_size()
    comm: Any = pkl5.Intracomm(world) if way == "pkl5" else world
    lines = []

    def there_and_back(x: Any) -> Any:
        """Sent by each rank to the next, which sends what it has got."""
        for _ in range(world.Get_size()):
            request = comm.isend(x, dest=there)
            x = comm.recv(None, rank - 1 if rank else world.Get_size() - 1)
            request.wait()
        return x

    for turn in range(2):
        if enabled and (rank == 0 or turn == 1):
            isthmus.distributed.enable("mpi4py")
        for name, x in inputs().items():
            lines.append([turn, name, told(there_and_back(x)), told(comm.bcast(x if rank == 0 else None, root=0))])
        lines.append(["all", told(comm.allgather(inputs()["views"]))])
        lines.append(["change", told(change(comm.bcast(inputs() if rank == 0 else None, root=0)))])
        lines.append(["again", again(there_and_back)])
    for one in world.gather(lines, root=0) or ():
        print(*one, sep="\n")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    globals()[f"of_{sys.argv[1]}"](sys.argv[2] == "enabled", *(sys.argv[3:] or [""]))
