"""What runs in other processes: importable, so that processes of every kind can be told to run it."""

from __future__ import annotations

import os
import sys
from typing import Any

import isthmus


def enable(engine: str, policy: str = "copy_on_write") -> None:
    isthmus.distributed.enable(engine, policy)


def disable(engine: str) -> None:
    isthmus.distributed.disable(engine)


def plugins_of_scheduler(dask_scheduler: Any) -> list[str]:
    return sorted(name for name in dask_scheduler.worker_plugins if name.startswith("isthmus"))


def dask_setup(worker: Any) -> None:
    """What each worker of Dask that preloads this module runs before anything else."""
    enable("dask")


def ones(rows: int) -> Any:
    """bfloat16, 2 KiB a row."""
    import torch

    return torch.ones(rows, 1024, dtype=torch.bfloat16)


def ends(x: Any) -> tuple[str, float, float]:
    """Without reading the whole of it."""
    return str(x.dtype), float(x[0, 0]), float(x[-1, -1])


def describe(x: Any) -> tuple[Any, ...]:
    from tensors import facts, may_write

    return facts(x), may_write(x)


def back(x: Any) -> Any:
    return x


def write(x: Any) -> float:
    """Writes into a torch tensor, and returns its sum then."""
    x[:] = -1
    return float(x.sum())


def total(x: Any) -> float:
    return float(x.sum())


def stats(_: Any = None) -> dict[str, int]:
    return isthmus.distributed.stats()


def memory() -> tuple[int, int]:
    """KiB of this process alone, and the copies that it has made."""
    from tensors import copied, private_kib

    return private_kib(), copied()


def file_behind(x: Any) -> tuple[int, int] | None:
    """Device and inode of the file whose pages a tensor of torch's shows, without reading them."""
    address = x.data_ptr()
    with open("/proc/self/maps") as lines:
        for line in lines:
            span, _, _, device, inode = line.split(None, 5)[:5]
            low, high = (int(part, 16) for part in span.split("-"))
            if low <= address < high and inode != "0":
                major, minor = (int(part, 16) for part in device.split(":"))
                return os.makedev(major, minor), int(inode)
    return None


def imported(_: Any = None) -> list[str]:
    """Which of the frameworks this process has imported."""
    return [name for name in ("torch", "jax", "tensorflow", "paddle") if name in sys.modules]


def answer(requests: Any, answers: Any) -> None:
    """Calls (function, argument) of a queue until None comes."""
    while True:
        request = requests.get()
        if request is None:
            return
        function, x = request
        try:
            answers.put(function(x))
        except BaseException as error:
            answers.put(repr(error))
        del request, x


def put_total(queue: Any, x: Any) -> None:
    queue.put(total(x))


def put_and_end(queue: Any, rows: int) -> None:
    import torch

    queue.put(torch.ones(rows, rows))


def init(_: int) -> None:
    enable("multiprocessing")


class Samples:
    """A data set of torch's."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> dict[str, Any]:
        import torch

        return {"image": torch.full((3, 64, 64), float(i)), "label": i, "small": torch.tensor([i]), "name": str(i)}


def sum_of_bytes(x: Any) -> int:
    return sum(memoryview(x).cast("B")[:9])


def main() -> None:
    """Sends an isthmus.Tensor to a spawned pool: what the worker has imported, a sum, what it has imported then."""
    import multiprocessing

    context: Any = multiprocessing.get_context("spawn")
    x = isthmus.shared.empty((1 << 20,), "uint8")
    memoryview(x)[:9] = bytes([1] * 9)
    enable("multiprocessing")
    with context.Pool(1, initializer=enable, initargs=("multiprocessing",)) as pool:
        print(*pool.map(imported, [None]), float(*pool.map(sum_of_bytes, [x])), *pool.map(imported, [None]))


if __name__ == "__main__":
    main()
