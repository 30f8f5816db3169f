"""Tensors through multiprocessing's queues, pipes and pools, and through concurrent.futures,
however a process was started."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")

import workers  # noqa: E402  # which need these
from tensors import KINDS, LARGE, facts, may_write  # noqa: E402  # which need these

START = ("fork", "forkserver", "spawn")


class Worker:
    """A process that calls what it is sent."""

    def __init__(self, start: str) -> None:
        context: Any = multiprocessing.get_context(start)
        self.requests, self.answers = context.Queue(), context.Queue()
        self.process = context.Process(target=workers.answer, args=(self.requests, self.answers), daemon=True)
        self.process.start()
        self.call(workers.enable, "multiprocessing")

    def call(self, function: Callable[[Any], Any], x: Any = None) -> Any:
        self.requests.put((function, x))
        return self.answers.get(timeout=60)

    def end(self) -> None:
        self.requests.put(None)
        self.process.join(30)
        assert self.process.exitcode == 0


@pytest.fixture(autouse=True)
def enabled() -> None:
    isthmus.distributed.enable("multiprocessing")


@pytest.fixture(scope="module", params=START)
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    isthmus.distributed.enable("multiprocessing")
    made = Worker(request.param)
    yield made
    made.end()


@pytest.fixture(scope="module")
def peer() -> Iterator[Worker]:
    made = Worker("forkserver")  # JAX, used here by now, does not bear a fork
    yield made
    made.end()


@pytest.mark.parametrize("rows", [1, LARGE])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_there_and_back(worker: Worker, kind: str, rows: int):
    x = KINDS[kind](rows)
    there, writable = worker.call(workers.describe, x)
    assert there == facts(x)
    assert writable is may_write(x)
    again = worker.call(workers.back, x)
    assert facts(again) == facts(x)
    assert may_write(again) is may_write(x)


def test_a_write_stays_where_it_is_made(peer: Worker):
    x = torch.ones(1000, 1000)
    assert peer.call(workers.write, x) == -1e6
    assert x.sum() == 1e6
    again = peer.call(workers.back, x)
    again[:] = 5
    assert x.sum() == 1e6
    x[:] = 7
    assert again.sum() == 5e6


def test_what_the_sender_writes_later_is_not_seen():
    ours, theirs = multiprocessing.Pipe()
    for x in (torch.ones(1000, 1000), np.ones((1000, 1000)), isthmus.shared.empty((1000, 1000))):
        np.asarray(x)[:] = 1
        ours.send(x)
        np.asarray(x)[:] = 2
        assert np.asarray(theirs.recv()).max() == 1


def test_nothing_is_copied_on_arrival(peer: Worker):
    before = peer.call(workers.stats)
    for x in (torch.ones(1000, 1000), np.ones((1000, 1000)), KINDS["jax float32"](LARGE), KINDS["isthmus"](LARGE)):
        peer.call(workers.total if not isinstance(x, isthmus.Tensor) else workers.describe, x)
    after = peer.call(workers.stats)
    assert {name: after[name] - before[name] for name in ("shared", "copy_on_write", "copied")} == {
        "shared": 1,
        "copy_on_write": 3,
        "copied": 0,
    }


def test_a_slice_ships_its_own_bytes(peer: Worker):
    base = torch.arange(1_000_000.0)
    for x in (base[5000:9000], base.reshape(1000, 1000)[:, :7], base[::1000]):
        again = peer.call(workers.back, x)
        assert torch.equal(again, x)
        assert again.untyped_storage().nbytes() == x.nbytes
    columns = base.reshape(1000, 1000)
    again = peer.call(workers.back, (columns[:, 0], columns[:, 500]))
    assert sum(part.untyped_storage().nbytes() for part in again) == 8000


@pytest.mark.parametrize("rows", [10, 5000])
def test_views_of_one_storage_still_share_and_one_object_stays_one(peer: Worker, rows: int):
    base = torch.arange(rows * 10.0).reshape(rows, 10)
    sent = {
        "narrow first": base[1:3],
        "column": base[:, 2:3],
        "all": base,
        "transposed": base.t(),
        "bytes": base.view(torch.uint8)[0, 1:],
        "again": base,
        "apart": torch.ones(3),
    }
    there = peer.call(workers.back, sent)
    assert there["all"] is there["again"]
    for name, x in sent.items():
        assert torch.equal(there[name], x), name
        assert there[name].shape == x.shape, name
        assert there[name].stride() == x.stride(), name
    there["all"][:] = torch.arange(rows * 10.0).reshape(rows, 10) + 0.5
    for name in ("narrow first", "column", "transposed"):
        assert torch.equal(there[name], sent[name] + 0.5), name
    assert torch.equal(there["bytes"], there["all"].view(torch.uint8)[0, 1:])
    assert len({there[name].untyped_storage().data_ptr() for name in ("narrow first", "column", "all", "bytes")}) == 1


def test_a_model_with_tied_weights(peer: Worker):
    embedding = torch.nn.Embedding(500, 64)
    head = torch.nn.Linear(64, 500, bias=False)
    head.weight = embedding.weight
    again = peer.call(workers.back, torch.nn.Sequential(embedding, head))
    assert again[0].weight is again[1].weight
    assert isinstance(again[0].weight, torch.nn.Parameter)
    assert torch.equal(again[0].weight, embedding.weight)


@pytest.mark.parametrize("kind", ["torch bfloat16", "numpy bfloat16", "numpy", "jax float32", "isthmus"])
@pytest.mark.parametrize("rows", [1, LARGE])
def test_policies(kind: str, rows: int):
    ours, theirs = multiprocessing.Pipe()
    x = KINDS[kind](rows)
    isthmus.distributed.enable("multiprocessing", "tensor")
    ours.send(x)
    arrived = theirs.recv()
    assert isinstance(arrived, isthmus.Tensor)
    assert arrived.read_only
    assert arrived.shape == tuple(x.shape)
    isthmus.distributed.enable("multiprocessing", "copy")
    ours.send(x)
    arrived = theirs.recv()
    assert facts(arrived) == facts(x)
    assert may_write(arrived) is not kind.startswith("jax")


def test_what_cannot_be_sent_so_goes_as_before(peer: Worker):
    sparse = torch.eye(3).to_sparse()
    assert peer.call(workers.back, sparse).is_sparse
    conjugate = torch.ones(1000, dtype=torch.complex64).conj()
    assert torch.equal(peer.call(workers.back, conjugate), conjugate)
    objects = np.array([{"a": 1}, None], dtype=object)
    assert peer.call(workers.back, objects).tolist() == objects.tolist()
    with pytest.raises(RuntimeError, match="requires_grad"):
        multiprocessing.reduction.ForkingPickler.dumps(torch.ones(3, requires_grad=True) * 2)


def test_what_torch_was_asked_to_share_stays_shared(peer: Worker):
    x = torch.zeros(1000, 1000).share_memory_()
    peer.call(workers.write, x)
    assert x.sum() == -1e6


@pytest.mark.parametrize("start", START)
def test_pools(start: str):
    context: Any = multiprocessing.get_context(start)
    xs = [torch.full((300, 300), float(i)) for i in range(8)]
    with context.Pool(2, initializer=workers.enable, initargs=("multiprocessing",)) as pool:
        assert pool.map(workers.total, xs) == [i * 9e4 for i in range(8)]
        assert [facts(x) for x in pool.map(workers.back, xs)] == [facts(x) for x in xs]
    with concurrent.futures.ProcessPoolExecutor(
        2, mp_context=context, initializer=workers.enable, initargs=("multiprocessing",)
    ) as executor:
        assert [facts(x) for x in executor.map(workers.back, xs)] == [facts(x) for x in xs]


@pytest.mark.parametrize("start", START)
def test_arguments_of_a_process(start: str):
    context: Any = multiprocessing.get_context(start)
    queue = context.Queue()
    process = context.Process(target=workers.put_total, args=(queue, torch.ones(1000, 1000)))
    process.start()
    assert queue.get(timeout=60) == 1e6
    process.join(30)


def test_a_process_that_ends_waits_until_what_it_sent_is_fetched():
    context: Any = multiprocessing.get_context("fork")
    for _ in range(10):  # the end of the process races with its thread that hands the memory over
        queue = context.Queue()
        process = context.Process(target=workers.put_and_end, args=(queue, 1000))
        process.start()
        x = queue.get(timeout=60)
        process.join(30)
        assert process.exitcode == 0
        assert x.shape == (1000, 1000)
        assert x.sum() == 1e6


def test_a_worker_that_uses_no_framework_imports_none():
    out = subprocess.run([sys.executable, workers.__file__], capture_output=True, text=True, timeout=100)
    assert (out.returncode, out.stdout.split()) == (0, ["[]", "9.0", "[]"]), out.stderr
