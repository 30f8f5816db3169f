"""What runs in other processes: importable, so that processes of every kind can be told to run it."""

from __future__ import annotations

import sys
from typing import Any

import isthmus


def enable(engine: str, policy: str = "copy_on_write") -> None:
    isthmus.distributed.enable(engine, policy)


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
