"""Tensors through Dask's distributed, over TCP between two workers."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import processes
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")
distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")
protocol = pytest.importorskip("distributed.protocol")

import workers  # noqa: E402  # which need these
from tensors import KINDS, LARGE, facts, may_write, private_kib  # noqa: E402  # which need these


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as made,
    ):
        made.run(workers.enable, "dask")
        yield made


@pytest.fixture(autouse=True)
def enabled() -> None:
    isthmus.distributed.enable("dask")


def frames_of(x: Any) -> tuple[Any, list[Any]]:
    """As they arrive over TCP: in memory of the receiver's own."""
    header, frames = protocol.serialize(x)
    return header, [bytearray(frame) for frame in frames]


@pytest.mark.parametrize("rows", [1, LARGE])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_serialized(kind: str, rows: int):
    x = KINDS[kind](rows)
    again = protocol.deserialize(*frames_of(x))
    assert facts(again) == facts(x)
    assert may_write(again) is may_write(x)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_from_worker_to_worker_and_back(client: Any, kind: str):
    x = KINDS[kind](LARGE)
    first, second = client.scheduler_info()["workers"]
    there = client.scatter(x, workers=[first], hash=False)
    again = client.submit(workers.back, there, workers=[second], pure=False)
    described, _ = client.submit(workers.describe, there, workers=[second], pure=False).result()
    assert described == facts(x)
    assert facts(again.result()) == facts(x)


@pytest.mark.parametrize(
    "kind", ["torch float32", "torch bfloat16", "torch transposed", "numpy bfloat16", "isthmus bfloat16"]
)
def test_neither_side_copies_the_elements(kind: str):
    x = KINDS[kind](64 * 1024)
    private = private_kib()
    header, frames = protocol.serialize(x)
    assert private_kib() - private < 4096
    received = [bytearray(frame) for frame in frames]
    private = private_kib()
    again = protocol.deserialize(header, received)
    assert private_kib() - private < 4096
    assert again.shape == x.shape


def test_a_write_is_not_seen_by_the_other_worker(client: Any):
    first, second = client.scheduler_info()["workers"]
    x = torch.ones(1000, 1000)
    there = client.scatter(x, workers=[first], hash=False)
    assert client.submit(workers.write, there, workers=[second], pure=False).result() == -1e6
    assert client.submit(workers.total, there, workers=[first], pure=False).result() == 1e6
    assert x.sum() == 1e6


def test_read_only_frames_are_copied_for_torch():
    header, frames = protocol.serialize(torch.ones(1000, dtype=torch.bfloat16))
    before = isthmus.distributed.stats()["copied"]
    again = protocol.deserialize(header, [bytes(frame) for frame in frames])
    again[:] = 2
    assert isthmus.distributed.stats()["copied"] == before + 1
    assert protocol.deserialize(header, [bytes(frame) for frame in frames]).sum() == 1000


PLAIN = {
    "numpy": lambda base: base,
    "a column": lambda base: base[:, 3],
    "Fortran": np.asfortranarray,
    "broadcast": lambda base: np.broadcast_to(base[0], base.shape),
    "torch": torch.from_numpy,
    "torch, a block": lambda base: torch.from_numpy(base)[3:9, 5:50],
    "torch Parameter": lambda base: torch.nn.Parameter(torch.from_numpy(base)),
}


@pytest.mark.parametrize("kind", PLAIN)
def test_what_does_not_gain_goes_in_dasks_own_way(kind: str):
    """Also to a worker without the package; of the same type, dtype, shape and strides."""
    x = PLAIN[kind](np.arange(10_000.0).reshape(100, 100))
    header, frames = frames_of(x)
    assert "isthmus" not in repr((header, *map(bytes, frames)))
    isthmus.distributed.disable("dask")
    default = protocol.serialize(x)
    assert header == default[0]
    assert facts(protocol.deserialize(header, frames)) == facts(protocol.deserialize(*default))


def test_what_gains_does_not():
    x = np.arange(24_000.0).reshape(20, 30, 40)
    for kept in (x.transpose(1, 0, 2), x[::-1], np.lib.stride_tricks.sliding_window_view(x.reshape(-1), 500)):
        header, frames = frames_of(kept)
        assert sum(map(len, frames)) < x.nbytes + 1000
        again = protocol.deserialize(header, frames)
        assert again.strides == kept.strides
        assert np.array_equal(again, kept)


def test_policies():
    isthmus.distributed.enable("dask", "tensor")
    arrived = protocol.deserialize(*frames_of(torch.ones(1000, dtype=torch.bfloat16)))
    assert isinstance(arrived, isthmus.Tensor)
    assert arrived.read_only
    isthmus.distributed.enable("dask", "copy")
    assert protocol.deserialize(*frames_of(np.ones(1000))).flags.writeable


def test_what_cannot_be_sent_so_goes_as_before(client: Any):
    x = torch.ones(3, requires_grad=True)
    x.sum().backward()
    assert torch.equal(protocol.deserialize(*frames_of(x)).grad, torch.ones(3))
    objects = np.array([{"a": 1}, None], dtype=object)
    assert protocol.deserialize(*protocol.serialize(objects)).tolist() == objects.tolist()
    masked = np.ma.masked_array([1, 2], mask=[0, 1])
    assert protocol.deserialize(*protocol.serialize(masked)).mask.tolist() == [False, True]


def test_disable_restores_the_registrations():
    from distributed.protocol import dask_deserialize, dask_serialize

    class Mine(torch.Tensor):
        pass

    isthmus.distributed.disable("dask")
    torch_own = dask_serialize.dispatch(torch.Tensor), dask_deserialize.dispatch(torch.Tensor)
    numpy_own = dask_serialize.dispatch(np.ndarray)
    before = dict(dask_serialize._lookup), dict(dask_deserialize._lookup)
    isthmus.distributed.enable("dask")
    isthmus.distributed.enable("dask")
    assert dask_serialize.dispatch(torch.Tensor) is not torch_own[0]
    dask_serialize.dispatch(Mine)
    isthmus.distributed.disable("dask")
    assert (dask_serialize.dispatch(torch.Tensor), dask_deserialize.dispatch(torch.Tensor)) == torch_own
    assert dask_serialize.dispatch(np.ndarray) is numpy_own
    assert (dask_serialize._lookup, dask_deserialize._lookup) == before


@pytest.mark.parametrize("role", ["sends", "receives"])
def test_a_worker_that_is_killed_in_mid_transfer(role: str):
    """Dask makes the tensor once more or asks for it again, from a worker that is started anew and enables itself."""
    psutil = pytest.importorskip("psutil", reason="Dask brings it")
    rows = 256 * 1024  # 512 MiB
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, preload=["workers"], memory_limit=0
    )
    with cluster, distributed.Client(cluster) as client:
        sender, receiver = client.scheduler_info()["workers"]
        running = {address: psutil.Process(pid) for address, pid in client.run(os.getpid).items()}
        small = client.submit(workers.ones, 1024, workers=[receiver], pure=False).result()
        there = client.submit(workers.ones, rows, workers=[sender], allow_other_workers=True, pure=False)
        distributed.wait(there)
        before = running[receiver].memory_info().rss
        answer = client.submit(workers.ends, there, workers=[receiver], allow_other_workers=True, pure=False)
        while running[receiver].memory_info().rss < before + (32 << 20):
            time.sleep(0.001)
        victim, survivor = (sender, receiver) if role == "sends" else (receiver, sender)
        os.kill(running[victim].pid, signal.SIGKILL)
        assert not answer.done()
        assert answer.result(timeout=30) == ("torch.bfloat16", 1, 1)
        assert small.sum(dtype=torch.float32) == 1 << 20
        assert client.run(workers.stats, workers=[survivor])[survivor]["copied"] == 0


def test_a_worker_that_was_never_enabled_reads_what_it_is_sent():
    """One that came after the others: scaled up, or started anew by its nanny."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as fresh,
    ):
        first, second = fresh.scheduler_info()["workers"]
        fresh.run(workers.enable, "dask", workers=[first])
        for kind in ("torch float32", "torch bfloat16", "torch Parameter", "numpy bfloat16", "numpy", "isthmus"):
            x = KINDS[kind](LARGE)
            there = fresh.submit(workers.back, x, workers=[first], pure=False)
            described, _ = fresh.submit(workers.describe, there, workers=[second], pure=False).result(timeout=20)
            assert described == facts(x), kind


def wait_until(holds: Any) -> None:
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert holds()


def test_workers_that_come_later_are_enabled():
    """Scaled up, restarted, and with the policy of the last call; none after disable()."""
    plugins = workers.plugins_of_scheduler
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as fresh,
    ):
        (first,) = fresh.scheduler_info()["workers"]
        fresh.run(workers.enable, "dask")
        fresh.run(workers.enable, "dask", "tensor")
        wait_until(lambda: fresh.run_on_scheduler(plugins) == ["isthmus.distributed"])
        cluster.scale(2)
        fresh.wait_for_workers(2)
        (later,) = set(fresh.scheduler_info()["workers"]) - {first}
        x = torch.ones(1000, dtype=torch.bfloat16)
        there = fresh.scatter(x, workers=[first], hash=False)
        assert fresh.submit(workers.describe, there, workers=[later]).result(timeout=30)[0][0] == "Tensor"
        fresh.restart()
        fresh.wait_for_workers(2)
        for again in fresh.scheduler_info()["workers"]:
            there = fresh.scatter(x, workers=[again], hash=False)
            assert fresh.submit(workers.describe, there, workers=[again]).result(timeout=30)[0][0] == "Tensor"
        fresh.run(workers.disable, "dask")
        wait_until(lambda: fresh.run_on_scheduler(plugins) == [])


def test_a_later_worker_without_isthmus_starts_and_says_what_it_lacks(tmp_path: Path):
    (tmp_path / "isthmus.py").write_text("raise ModuleNotFoundError(\"No module named 'isthmus'\", name='isthmus')")
    plugins = workers.plugins_of_scheduler
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as fresh,
    ):
        (first,) = fresh.scheduler_info()["workers"]
        fresh.run(workers.enable, "dask")
        wait_until(lambda: len(fresh.run_on_scheduler(plugins)) == 1)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--no-nanny"]
        late = subprocess.Popen(
            [*command, "--nthreads", "1", "--no-dashboard"],
            env=processes.environment(tmp_path),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            fresh.wait_for_workers(2, timeout=30)
            (other,) = set(fresh.scheduler_info()["workers"]) - {first}
            assert fresh.submit(sum, [1, 2], workers=[other]).result(timeout=20) == 3
            there = fresh.scatter(torch.ones(5), workers=[first], hash=False)
            assert fresh.submit(torch.sum, there, workers=[other]).result(timeout=20) == 5
            # What Dask has no way for: one error, and no wait without an end.
            there = fresh.scatter(torch.ones(5, dtype=torch.bfloat16), workers=[first], hash=False)
            for function in (len, np.asarray, operator.neg, list):
                with pytest.raises(Exception, match=r"(?i)isthmus ?is ?not ?installed"):
                    fresh.submit(function, there, workers=[other], pure=False).result(timeout=20)
        finally:
            late.terminate()
            late.wait()


def test_a_worker_imports_no_framework_of_its_own_accord():
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        with distributed.Client(cluster) as fresh:
            fresh.run(workers.enable, "dask")
            assert set(map(tuple, fresh.run(workers.imported).values())) == {()}
