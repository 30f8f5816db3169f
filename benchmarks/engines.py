#!/usr/bin/env python3
"""Measure tensors through Ray, Dask, multiprocessing and a DataLoader: each engine's default, its own fast way,
and Isthmus.

Usage:
    benchmarks/engines.py [--quick] [--json FILE] [--picture FILE] [GROUP ...]

GROUP: ray, weights, dask, queue, sizes, loader; all of them when none is named. Every way is measured in a process of
its own, but for sizes, in turns. Times are milliseconds, the best of a few rounds (sizes: the median of 25); memory is
what became private to the receiver, in MiB. Needs what `make test-distributed` installs; a picture needs matplotlib.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

MIB = 1 << 20
WAYS = {
    "ray": ("default", "own", "isthmus"),
    "weights": ("default", "own", "isthmus"),
    "dask": ("default", "isthmus"),
    "queue": ("default", "isthmus"),
    "sizes": ("default", "isthmus"),
    "loader": ("default", "isthmus"),
}
#: Groups that measure all ways in one process: what takes microseconds is not compared between processes.
IN_TURNS = {"sizes"}
WHAT = {
    "ray": "Ray: put, then get",
    "weights": "Ray: weights read by two actors",
    "dask": "Dask: serialize and deserialize",
    "queue": "a queue there and back (default: torch.multiprocessing)",
    "sizes": "multiprocessing: a list of tensors through a pipe, and an answer",
    "loader": "torch's DataLoader, a batch of 38 MB",
}
# Those of the other pictures in docs.
COLOURS = {"default": "#777777", "own": "#2c7fb8", "isthmus": "#c0392b"}
Row = tuple[str, float, float]


def private_mib() -> float:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def best(rounds: int, work: Callable[[], Any]) -> float:
    times = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        kept = work()
        times.append(time.perf_counter() - start)
        del kept
    return min(times) * 1000


def tensors(nbytes: int) -> dict[str, Callable[[], Any]]:
    import numpy as np
    import torch

    def of(dtype: torch.dtype) -> torch.Tensor:
        return torch.ones(nbytes, dtype=torch.uint8).view(dtype)

    return {
        "numpy float32": lambda: np.ones(nbytes // 4, np.float32),
        "torch float32": lambda: of(torch.float32),
        "torch bfloat16": lambda: of(torch.bfloat16),
        "torch float8_e4m3fn": lambda: of(torch.float8_e4m3fn),
        "torch Parameter": lambda: torch.nn.Parameter(of(torch.float32)),
        "torch transposed": lambda: of(torch.float32).reshape(-1, 256).t(),
        "torch 1 kB slice": lambda: of(torch.float32)[:256],
    }


def start_ray(way: str, store: int) -> Any:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    if way == "own":
        os.environ["RAY_ENABLE_ZERO_COPY_TORCH_TENSORS"] = "1"
    import ray

    import isthmus

    hook = {"worker_process_setup_hook": lambda: isthmus.distributed.enable("ray")} if way == "isthmus" else None
    ray.init(
        num_cpus=2,
        object_store_memory=store,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        runtime_env=hook,
    )
    if way == "isthmus":
        isthmus.distributed.enable("ray")
    return ray


def measure_ray(way: str, quick: bool) -> Iterator[Row]:
    nbytes = (64 if quick else 512) * MIB
    ray = start_ray(way, 3 * nbytes)
    for name, make in tensors(nbytes).items():
        try:
            x = make()
            put = best(2, lambda x=x: ray.put(x))
            reference = ray.put(x)
            del x
            before = private_mib()
            arrived = ray.get(reference)
            grown = private_mib() - before
            del arrived
            get = best(3, lambda reference=reference: ray.get(reference))
            del reference
            yield f"{name}, {nbytes // MIB} MiB: put", put, 0
            yield f"{name}, {nbytes // MIB} MiB: get", get, grown
        except Exception as error:
            yield f"{name}: {type(error).__name__}", float("nan"), 0
    ray.shutdown()


def measure_weights(way: str, quick: bool) -> Iterator[Row]:
    nbytes = (64 if quick else 1024) * MIB
    ray = start_ray(way, 2 * nbytes)

    class Reader:
        def __init__(self) -> None:
            import torch  # noqa: F401  # seconds, once a process

        def read(self, references: list[Any]) -> tuple[float, float]:
            before, start = private_mib(), time.perf_counter()
            self.weights = ray.get(references)
            return (time.perf_counter() - start) * 1000, private_mib() - before

    import torch

    references = [ray.put(torch.ones(nbytes // 16, dtype=torch.bfloat16)) for _ in range(8)]
    actors = [ray.remote(num_cpus=1)(Reader).remote() for _ in range(2)]
    ray.get([actor.__ray_ready__.remote() for actor in actors])
    read = ray.get([actor.read.remote(references) for actor in actors])
    yield f"bfloat16, {nbytes // MIB} MiB: get, the slower actor", max(t for t, _ in read), max(m for _, m in read)
    ray.shutdown()


def measure_dask(way: str, quick: bool) -> Iterator[Row]:
    from distributed.protocol import deserialize, serialize

    import isthmus

    if way == "isthmus":
        isthmus.distributed.enable("dask")
    nbytes = (64 if quick else 256) * MIB
    for name, make in tensors(nbytes).items():
        x = make()
        header, frames = serialize(x)
        if header.get("serializer") == "error":
            yield f"{name}: refused", float("nan"), 0
            continue
        before = private_mib()
        kept = serialize(x)
        sent = private_mib() - before
        del kept
        received = [bytearray(frame) for frame in frames]
        before = private_mib()
        again = deserialize(header, received)
        grown = private_mib() - before
        del again
        yield f"{name}, {nbytes // MIB} MiB: serialize", best(3, lambda x=x: serialize(x)), sent
        yield f"{name}, {nbytes // MIB} MiB: deserialize", best(3, partial(deserialize, header, received)), grown


def echo(requests: Any, answers: Any, way: str) -> None:
    if way == "isthmus":
        import isthmus

        isthmus.distributed.enable("multiprocessing")
    while True:
        x = requests.get()
        if x is None:
            return
        answers.put(x)
        del x


def measure_queue(way: str, quick: bool) -> Iterator[Row]:
    import torch
    import torch.multiprocessing

    import isthmus

    if way == "isthmus":
        isthmus.distributed.enable("multiprocessing")
    context = torch.multiprocessing.get_context("spawn")
    requests, answers = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(requests, answers, way), daemon=True)
    process.start()
    base = torch.ones(64 * MIB // 4)

    def there_and_back(make: Callable[[], Any]) -> Any:
        requests.put(make())
        return answers.get()

    sizes: dict[str, tuple[int, Callable[[], Any]]] = {
        "1 kB slice of 64 MiB": (100, lambda: base[:256]),
        "1 MB": (100, lambda: torch.ones(250_000)),
        "256 MB": (2 if quick else 5, lambda: torch.ones(64_000_000)),
    }
    there_and_back(lambda: torch.ones(3))
    for name, (rounds, make) in sizes.items():
        yield name, best(rounds, lambda make=make: there_and_back(make)), 0
    requests.put(None)
    process.join(10)


def answer(connection: Any, way: str) -> None:
    """Reads an element of each tensor."""
    import torch

    import isthmus

    torch.set_num_threads(1)
    if way == "isthmus":
        isthmus.distributed.enable("multiprocessing")
    while True:
        x = connection.recv()
        if x is None:
            return
        connection.send(sum(float(one[-1]) for one in x))
        del x


def measure_sizes(_: str, quick: bool) -> Iterator[tuple[str, float, float, str]]:
    import multiprocessing
    import statistics

    import numpy as np
    import torch

    import isthmus

    torch.set_num_threads(1)
    context = multiprocessing.get_context("spawn")
    pipes = {way: context.Pipe() for way in WAYS["sizes"]}
    workers = [context.Process(target=answer, args=(pipes[way][1], way), daemon=True) for way in pipes]
    for worker in workers:
        worker.start()

    def seconds(way: str, x: list[Any]) -> float:
        (isthmus.distributed.enable if way == "isthmus" else isthmus.distributed.disable)("multiprocessing")
        start = time.perf_counter()
        pipes[way][0].send(x)
        pipes[way][0].recv()
        return time.perf_counter() - start

    makers: dict[str, Callable[[int], Any]] = {"numpy": lambda n: np.ones(n, np.float32), "torch": torch.ones}
    sizes = {"100 B": 25, "4 kB": 1000, "60 kB": 15_000, "100 kB": 25_000, "200 kB": 50_000, "1 MB": 250_000,
             "16 MB": 4_000_000}  # fmt: skip
    for framework, make in makers.items():
        for size, length in sizes.items():
            for count in (1, 100) if length < 1_000_000 else (1,):
                times: dict[str, list[float]] = {way: [] for way in pipes}
                for way in list(pipes) * (5 if quick else 25):
                    times[way].append(seconds(way, [make(length) for _ in range(count)]))
                for way, taken in times.items():
                    yield f"{framework}, {count} x {size}", statistics.median(taken) * 1000, 0, way
    for (connection, _there), worker in zip(pipes.values(), workers, strict=True):
        connection.send(None)
        worker.join(10)


class Images:
    """A data set that costs nothing, so that the loader alone is measured."""

    def __init__(self, batches: int) -> None:
        import torch

        self.image = torch.ones(3, 224, 224)
        self.length = 64 * batches

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Any:
        return self.image


def epoch(batches: int, use: Callable[[Any], Any], options: dict[str, Any]) -> tuple[float, float]:
    """Milliseconds of all of it, and of a batch once memory is in use again: after a fifth."""
    import torch

    loader = torch.utils.data.DataLoader(Images(batches), batch_size=64, num_workers=2, **options)
    begun = start = time.perf_counter()
    for count, batch in enumerate(loader):
        use(batch)
        if count == batches // 5:
            start = time.perf_counter()
    end = time.perf_counter()
    return (end - begun) * 1000, (end - start) * 1000 / (batches - 1 - batches // 5)


def measure_loader(way: str, quick: bool) -> Iterator[Row]:
    import torch

    import isthmus

    torch.set_num_threads(1)
    options: dict[str, Any] = {}
    if way == "isthmus":
        isthmus.distributed.enable("multiprocessing")
        options["collate_fn"] = isthmus.distributed.collate
    uses: dict[str, Callable[[Any], Any]] = {
        "a batch": lambda batch: batch[0, 0, 0, 0].item(),
        "a batch, and its sum": lambda batch: batch.sum().item(),
    }
    for name, use in uses.items():
        times = [epoch(20 if quick else 100, use, options)[1] for _ in range(1 if quick else 2)]
        yield f"float32, 64 x 3 x 224 x 224: {name}", min(times), 0
    yield (
        "the same: 24 batches, with the start of the workers",
        min(epoch(24, uses["a batch"], options)[0] for _ in range(2)),
        0,
    )


def measure(group: str, way: str, quick: bool) -> None:
    for row in globals()[f"measure_{group}"](way, quick):
        print(json.dumps(row), flush=True)


def collect(groups: list[str], quick: bool) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """group -> row -> way -> (milliseconds, MiB)."""
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for group in groups:
        for way in ("each",) if group in IN_TURNS else WAYS[group]:
            command = [sys.executable, __file__, "--measure", group, way, *(["--quick"] if quick else [])]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{group}, {way}: {done.stderr[-1000:]}", file=sys.stderr)
            for line in done.stdout.splitlines():
                if line.startswith("["):
                    name, ms, mib, *measured = json.loads(line)
                    found.setdefault(group, {}).setdefault(name, {})[measured[0] if measured else way] = (ms, mib)
    return found


def table(found: dict[str, dict[str, dict[str, tuple[float, float]]]]) -> str:
    lines = []
    for group, rows in found.items():
        lines += [
            "",
            f"| {WHAT[group]} | {' | '.join(f'{way}, ms (+ MiB)' for way in WAYS[group])} |",
            "|---" * (1 + len(WAYS[group])) + "|",
        ]
        for name, ways in rows.items():
            cells = []
            for way in WAYS[group]:
                ms, mib = ways.get(way, (float("nan"), 0))
                cells.append("-" if ms != ms else f"{ms:.2f}" + (f" (+ {mib:.0f})" if mib >= 1 else ""))
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines[1:])


def draw(found: dict[str, dict[str, dict[str, tuple[float, float]]]], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = {
        group: {name: ways for name, ways in rows.items() if "isthmus" in ways} for group, rows in found.items()
    }
    groups = [group for group in measured if measured[group]]
    heights = [1 + len(measured[group]) for group in groups]
    figure, panels = pyplot.subplots(
        len(groups),
        1,
        figsize=(9, 0.3 * sum(heights) + 1),
        height_ratios=heights,
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    for axes, group in zip(panels[:, 0], groups, strict=True):
        rows = measured[group]
        for at, ways in enumerate(rows.values()):
            for way, (ms, _) in ways.items():
                axes.scatter([ms], [-at], color=COLOURS[way], label=way, zorder=4 if way == "isthmus" else 3)
        axes.set_yticks([-at for at in range(len(rows))], list(rows), fontsize=8)
        axes.set_ylim(0.6 - len(rows), 0.6)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(
            lambda ms, _: f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms" if ms >= 1 else f"{ms * 1000:g} µs"
        )
        axes.set_title(WHAT[group], fontsize=10)
        axes.grid(True, which="major", alpha=0.3)
    named = dict(zip(*reversed(panels[0, 0].get_legend_handles_labels()), strict=True))
    panels[0, 0].legend(named.values(), named.keys(), fontsize=8)
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small tensors, few rounds")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("groups", nargs="*", metavar="GROUP", choices=[[], *WAYS])
    options = parser.parse_args()
    if options.measure:
        return measure(*options.measure, options.quick)
    found = {}
    for group in options.groups or WAYS:
        rows = collect([group], options.quick)
        print(table(rows), "\n", sep="", flush=True)
        found |= rows
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.picture:
        draw(found, options.picture)
    return None


if __name__ == "__main__":
    main()
