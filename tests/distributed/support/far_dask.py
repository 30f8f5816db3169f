"""Tensors of every kind between two workers of Dask on two machines, and what each of them copies."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import distributed
import torch
import workers
from machine import FAR, NEAR, far
from tensors import KINDS, LARGE, facts

import isthmus

MIB = 1 << 20
OPTIONS = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0")


def exchange(client: Any, here: str, there: str, and_back: bool) -> None:
    for kind in KINDS:
        x = KINDS[kind](LARGE)
        near = client.scatter(x, workers=[here], hash=False)
        described, _ = client.submit(workers.describe, near, workers=[there], pure=False).result(timeout=60)
        assert described == facts(x), kind
        if not and_back:
            continue
        away = client.submit(workers.back, near, workers=[there], pure=False)
        assert facts(away.result(timeout=60)) == facts(x), kind
        assert client.submit(workers.describe, away, workers=[here], pure=False).result(timeout=60)[0] == facts(x), kind


def copies(client: Any, here: str, there: str) -> None:
    """The elements are once with the receiver, and no second time with the sender."""
    nbytes = 64 * MIB
    near = client.submit(workers.ones, nbytes // 2048, workers=[here], pure=False)
    distributed.wait(near)
    before = client.run(workers.memory)
    assert client.submit(workers.ends, near, workers=[there], pure=False).result(timeout=60) == ("torch.bfloat16", 1, 1)
    after = client.run(workers.memory)
    grown = {name: (after[name][0] - before[name][0]) / 1024 for name in after}
    assert grown[there] < nbytes / MIB * 1.25, grown
    assert grown[here] < nbytes / MIB * 0.25, grown
    assert {name: after[name][1] - before[name][1] for name in after} == {here: 0, there: 0}


def main() -> None:
    torch.set_num_threads(1)
    isthmus.distributed.enable("dask")
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(far())
        print("machine", flush=True)
        cluster = stack.enter_context(
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=1, host=NEAR, dashboard_address=None, silence_logs=50, memory_limit=0
            )
        )
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, *OPTIONS]
        process = machine.start([*worker, "--host", FAR])
        try:
            client = stack.enter_context(distributed.Client(cluster))
            client.wait_for_workers(2, timeout=60)
            (there,) = [one for one in client.scheduler_info()["workers"] if FAR in one]
            (here,) = [one for one in client.scheduler_info()["workers"] if NEAR in one]
            assert client.run(os.path.exists, f"/proc/{process.pid}/fd", workers=[there])[there] is False
            one = len(sys.argv) > 1  # that is enabled: the other one reads, and sends in Dask's own way
            client.run(workers.enable, "dask", workers=[here] if one else None)
            exchange(client, here, there, and_back=not one)
            copies(client, here, there)
        finally:
            process.kill()
            process.wait()
    print("good", flush=True)


if __name__ == "__main__":
    main()
