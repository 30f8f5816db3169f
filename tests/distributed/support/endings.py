"""Processes that send and end in every way, for test_keeper.py."""

from __future__ import annotations

import os
import signal
import time
from typing import Any


def send_and_end(pipe: Any, how: str, nbytes: int) -> None:
    import torch

    import isthmus

    isthmus.distributed.enable("multiprocessing")
    pipe.send(torch.full((nbytes // 4,), 3.0))
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "_exit":
        os._exit(0)


def put_and_end(queue: Any, nbytes: int) -> None:
    import torch

    queue.put(torch.full((nbytes // 4,), 3.0))


def read_as_nobody(pipe: Any, answers: Any) -> None:
    os.setgid(65534)
    os.setuid(65534)
    answers.send(float(pipe.recv().sum()))


def read_without_network(pipe: Any, answers: Any) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(0x40000000):  # CLONE_NEWNET
        answers.send(None)
        return
    answers.send(float(pipe.recv().sum()))


def sleep(_: Any) -> None:
    time.sleep(60)


class Batches:
    """A data set of torch's: 1 MB a sample."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, i: int) -> Any:
        import torch

        return torch.full((1 << 18,), float(i))
