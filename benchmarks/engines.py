#!/usr/bin/env python3
"""Measure tensors through Ray, Dask, multiprocessing and a DataLoader: each engine's default, its own fast way,
and Isthmus.

Usage:
    benchmarks/engines.py [--quick] [--runs N] [--json FILE] [--picture FILE] [--page FILE] [GROUP ...]

GROUP: ray, weights, dask, queue, sizes, spill, overlap, machines, loader; all of them when none is named. Every way is
measured in a process of its own; in sizes, spill, overlap and machines in turns, with the medians of many rounds, and
the quotient of both. Times are milliseconds, else the best of a few rounds; memory is what became private to the
receiver, in MiB. Needs what `make test-distributed` installs; a picture needs matplotlib. --page puts each table into
a page between the lines `<!-- make bench-distributed GROUP: begin -->` and `... end -->`.
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

import engine_clusters
import engine_sizes

MIB = 1 << 20
WAYS = {
    "ray": ("default", "own", "isthmus"),
    "weights": ("default", "own", "isthmus"),
    "dask": ("default", "isthmus"),
    "queue": ("default", "isthmus"),
    "sizes": ("default", "isthmus"),
    "spill": ("default", "isthmus"),
    "overlap": ("default", "isthmus"),
    "machines": ("default", "isthmus"),
    "loader": ("default", "isthmus"),
}
#: Groups that measure all ways in one process: what takes microseconds is not compared between processes.
IN_TURNS: dict[str, Callable[[bool], Iterator[tuple[str, float, float, str]]]] = {
    "sizes": engine_sizes.measure,
    "spill": engine_clusters.measure_spill,
    "overlap": engine_clusters.measure_overlap,
    "machines": engine_clusters.measure_machines,
}
WHAT = {
    "ray": "Ray: put, then get",
    "weights": "Ray: weights read by two actors",
    "dask": "Dask: serialize and deserialize",
    "queue": "a queue there and back (default: torch.multiprocessing)",
    "sizes": "a list of tensors, there and back or read there",
    "spill": "Dask: a worker that spills to its disk",
    "overlap": "Dask: arrays of 16 chunks on two workers",
    "machines": "over the network: tcp, or two nodes",
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
    for row in IN_TURNS[group](quick) if group in IN_TURNS else globals()[f"measure_{group}"](way, quick):
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


def median_of_runs(group: str, quick: bool, runs: int) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """As collect(): if the group is measured in turns, of each row the run with the median quotient, else one run."""
    if group not in IN_TURNS:
        return collect([group], quick)
    every = [collect([group], quick).get(group, {}) for _ in range(runs)]
    medians = {}
    for name in every[0]:
        measured = [rows[name] for rows in every if name in rows]
        measured.sort(key=lambda ways: ways["isthmus"][0] / ways["default"][0])
        medians[name] = measured[len(measured) // 2]
    return {group: medians} if medians else {}


def number(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 99.5 else f"{ms:.3g}"


def side_by_side(rows: dict[str, dict[str, tuple[float, float]]]) -> list[str]:
    """A line for each message and a column for each engine: the default, Isthmus, and the quotient of both."""
    cells: dict[str, dict[str, str]] = {}
    for name, ways in rows.items():
        engine, _, message = name.partition(": ")
        default, ours = ways["default"][0], ways["isthmus"][0]
        cells.setdefault(message, {})[engine] = f"{number(default)}, {number(ours)} (**{ours / default:.2f}**)"
    engines = list(dict.fromkeys(name.partition(": ")[0] for name in rows))
    lines = [f"| default, isthmus, ms | {' | '.join(engines)} |", "|---" + "|---:" * len(engines) + "|"]
    for message, measured in cells.items():
        lines.append(f"| {message} | {' | '.join(measured.get(engine, '') for engine in engines)} |")
    return lines


def table(found: dict[str, dict[str, dict[str, tuple[float, float]]]]) -> str:
    lines = []
    for group, rows in found.items():
        if group == "sizes":
            lines += ["", *side_by_side(rows)]
            continue
        in_turns = group in IN_TURNS
        heads = [*(f"{way}, ms" if in_turns else f"{way}, ms (+ MiB)" for way in WAYS[group]), *["quotient"] * in_turns]
        lines += ["", f"| {WHAT[group]} | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
        for name, ways in rows.items():
            cells = []
            for way in WAYS[group]:
                ms, mib = ways.get(way, (float("nan"), 0))
                cells.append("-" if ms != ms else number(ms) + (f" (+ {mib:.0f})" if mib >= 1 else ""))
            if in_turns:
                cells.append(f"{ways['isthmus'][0] / ways['default'][0]:.2f}")
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines[1:])


def put_into(page: Path, found: dict[str, dict[str, dict[str, tuple[float, float]]]]) -> None:
    text = page.read_text()
    for group, rows in found.items():
        begin, end = (f"<!-- make bench-distributed {group}: {which} -->" for which in ("begin", "end"))
        before, mark, rest = text.partition(begin)
        if mark:
            _, _, after = rest.partition(end)
            text = f"{before}{begin}\n\n{table({group: rows})}\n\n{end}{after}"
    page.write_text(text)


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
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of what is measured in turns; default 1")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="such as docs/distributed.md")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("groups", nargs="*", metavar="GROUP", choices=[[], *WAYS])
    options = parser.parse_args()
    if options.measure:
        return measure(*options.measure, options.quick)
    found = {}
    for group in options.groups or WAYS:
        rows = median_of_runs(group, options.quick, options.runs)
        print(table(rows), "\n", sep="", flush=True)
        found |= rows
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.page:
        put_into(options.page, found)
    if options.picture:
        draw(found, options.picture)
    return None


if __name__ == "__main__":
    main()
