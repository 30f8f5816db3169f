#!/usr/bin/env python3
"""Measure a dict of arrays there and a small answer back: by a Channel, by torch.multiprocessing and by ZeroMQ.

Usage: benchmarks/shared/trees.py      prints a table; needs PyTorch and pyzmq beside the installed package
"""

from __future__ import annotations

import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
import zmq

from isthmus import shared

SHAPES = {"1 x 1 kB": (1, 1 << 10), "8 x 1 kB": (8, 1 << 10), "200 x 1 kB": (200, 1 << 10), "8 x 1 MB": (8, 1 << 20)}
SECONDS = 1.5  # of each of the rounds that take turns
ROUNDS = 3

Call = Callable[[Any], Any]


def serve(receive: Callable[[], Any], send: Callable[[Any], None]) -> None:
    """The worker: looks at every array, and answers with a number of each message."""
    while True:
        request = receive()
        if request is None:
            os._exit(0)
        total = sum(int(np.asarray(x)[-1]) for x in request["arrays"].values())
        answer = {"step": request["step"], "total": total}
        del request
        send(answer)


def channel() -> Call:
    ours, theirs = shared.Channel.pair("copy_on_write")
    if os.fork() == 0:
        ours.close()
        serve(theirs.receive, theirs.send)
    theirs.close()

    def call(x: Any) -> Any:
        ours.send(x)
        return None if x is None else ours.receive()

    return call


def torch_queues() -> Call:
    context = torch.multiprocessing.get_context("fork")
    requests, answers = context.SimpleQueue(), context.SimpleQueue()
    if os.fork() == 0:
        serve(requests.get, answers.put)

    def call(x: Any) -> Any:
        if x is not None:
            x = {**x, "arrays": {name: torch.from_numpy(array) for name, array in x["arrays"].items()}}
        requests.put(x)
        return None if x is None else answers.get()

    return call


def zeromq() -> Call:
    address = "ipc://" + os.path.join(tempfile.mkdtemp(), "socket")
    if os.fork() == 0:
        there = zmq.Context().socket(zmq.PAIR)
        there.connect(address)

        def receive() -> Any:
            head, *buffers = there.recv_multipart(copy=False)
            return pickle.loads(head, buffers=buffers)

        serve(receive, lambda x: there.send_multipart([pickle.dumps(x, 5)]))
    here = zmq.Context().socket(zmq.PAIR)
    here.bind(address)

    def call(x: Any) -> Any:
        buffers: list[pickle.PickleBuffer] = []
        head = pickle.dumps(x, 5, buffer_callback=buffers.append)
        here.send_multipart([head, *buffers], copy=False)
        return None if x is None else pickle.loads(here.recv_multipart()[0])

    return call


WAYS = {"Channel": channel, "torch.multiprocessing": torch_queues, "ZeroMQ and pickle 5": zeromq}


def measured(call: Call, count: int, nbytes: int) -> list[float]:
    arrays = {f"array {i}": np.full(nbytes, i % 100, "uint8") for i in range(count)}
    wanted = sum(i % 100 for i in range(count))
    times = []
    until = time.perf_counter() + SECONDS
    step = 0
    while time.perf_counter() < until:
        start = time.perf_counter()
        answer = call({"step": step, "arrays": arrays})
        times.append(time.perf_counter() - start)
        assert answer == {"step": step, "total": wanted}
        step += 1
    return times


def main() -> None:
    torch.set_num_threads(1)
    calls = {name: make() for name, make in WAYS.items()}
    print("| microseconds there and back, median |" + "".join(f" {name} |" for name in WAYS))
    print("|---|" + "---:|" * len(WAYS))
    for shape, (count, nbytes) in SHAPES.items():
        times: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                times[name] += measured(call, count, nbytes)
        row = "".join(f" {statistics.median(times[name]) * 1e6:,.0f} |" for name in WAYS)
        print(f"| {shape} |{row}", flush=True)
    for call in calls.values():
        call(None)


if __name__ == "__main__":
    main()
