"""Tensors through Ray: tasks, actors, and the object store, whose memory nobody else ever sees written."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import processes
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")
ray = pytest.importorskip("ray", reason="Ray is not installed")

import workers  # noqa: E402  # which need these
from tensors import KINDS, LARGE, copied, facts, may_write, private_kib  # noqa: E402  # which need these

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    ray.init(
        num_cpus=2,
        object_store_memory=512 * MIB,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        runtime_env={"worker_process_setup_hook": "ray_hook.enable"},
    )
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def enabled(cluster: None) -> None:
    isthmus.distributed.enable("ray")


class _Actor:
    def call(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def keep(self, x: Any) -> None:
        self.x = x

    def kept(self, function: Any) -> Any:
        return function(self.x)

    def pid(self) -> int:
        return os.getpid()


@processes.waiting_at_most(120)  # it starts, and imports torch and JAX
def started() -> Any:
    made = ray.remote(num_cpus=0)(_Actor).remote()
    ray.get(made.pid.remote())
    return made


@pytest.fixture(scope="module")
def actor(cluster: None) -> Any:
    return started()


@pytest.fixture(scope="module")
def other(cluster: None) -> Any:
    return started()


@pytest.mark.parametrize("rows", [1, LARGE])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_there_and_back(actor: Any, kind: str, rows: int):
    x = KINDS[kind](rows)
    there, writable = ray.get(actor.call.remote(workers.describe, x))
    assert there == facts(x)
    # What others read, too, is read-only; small ones are copied.
    assert writable is (may_write(x) and (isinstance(x, torch.Tensor) or rows == 1))
    again = ray.get(actor.call.remote(workers.back, ray.put(x)))
    assert facts(again) == facts(x)
    assert may_write(again) is writable


@pytest.mark.parametrize(
    "kind", ["torch float32", "torch bfloat16", "torch float8_e4m3fn", "torch Parameter", "torch transposed"]
)
def test_a_tensor_arrives_without_a_copy_of_its_elements(kind: str):
    x = KINDS[kind](64 * 1024)
    reference = ray.put(x)
    before, private = isthmus.distributed.stats(), private_kib()
    again = ray.get(reference)
    assert private_kib() - private < 4096
    assert isthmus.distributed.stats() == {**before, "copy_on_write": before["copy_on_write"] + 1}
    assert torch.equal(again.detach().view(torch.uint8), x.detach().view(torch.uint8)) if x.is_contiguous() else True


def test_a_write_is_seen_by_nobody_else(actor: Any, other: Any):
    reference = ray.put(torch.ones(4 * MIB))
    for one in (actor, other):
        ray.get(one.keep.remote(reference))
    # By name, so that the argument is not read again.
    assert ray.get(actor.call.remote(workers.write, reference)) == -4 * MIB
    ray.get(actor.kept.remote(workers.write))
    assert ray.get(other.kept.remote(workers.total)) == 4 * MIB
    mine = ray.get(reference)
    assert mine.sum() == 4 * MIB
    mine[:] = 7
    assert ray.get(reference).sum() == 4 * MIB
    assert ray.get(other.call.remote(workers.total, reference)) == 4 * MIB


def test_small_tensors_are_not_shared_between_gets():
    reference = ray.put(torch.ones(10))
    before = copied()
    ray.get(reference)[:] = 5
    assert ray.get(reference).sum() == 10
    assert copied() == before + 2


def test_views_share_and_one_object_stays_one(actor: Any):
    base = torch.arange(1_000_000.0)
    a, b, c, d = ray.get(actor.call.remote(workers.back, (base[5:10], base, base[::2], base)))
    assert b is d
    b[5] = -1
    assert a[0] == -1
    assert torch.equal(c, b[::2])
    slice_ = ray.get(actor.call.remote(workers.back, base[1000:51_000]))
    assert slice_.untyped_storage().nbytes() == 200_000


def test_memory_lives_as_long_as_the_tensor(actor: Any):
    """The store takes memory back and uses it again while tensors live: none of theirs."""
    kept = []
    for i in range(40):
        x = ray.get(ray.put(torch.full((4 * MIB,), float(i))))
        if i % 8 == 0:
            kept.append((i, x[100:], x.sum().item()))
        del x
        gc.collect()
    for i, x, total in kept:
        assert total == i * 4 * MIB
        assert x.min() == x.max() == i


def test_an_object_without_references_stays_readable_while_a_tensor_lives():
    reference = ray.put(torch.ones(8 * MIB))
    x = ray.get(reference)
    del reference
    for _ in range(20):
        ray.get(ray.put(torch.zeros(8 * MIB)))
    assert x.min() == x.max() == 1


def test_fallback_allocations_and_addresses_used_again():
    """More than the store holds goes to files of their own, mapped and unmapped as objects come and go."""
    references = [ray.put(torch.full((16 * MIB,), float(i))) for i in range(12)]  # 768 MiB in a store of 512
    tensors = [ray.get(reference) for reference in references]
    for _ in range(2):
        for i, x in enumerate(tensors):
            assert x[0] == x[-1] == x[8 * MIB] == i
            x[:1000] = -1.0
        for i, reference in enumerate(references[::3]):
            again = ray.get(reference)
            assert again[0] == again[-1] == 3 * i
        tensors = [ray.get(reference) for reference in references]
    del tensors, references, x, again
    gc.collect()
    for i in range(6):
        x = ray.get(ray.put(torch.full((16 * MIB,), float(i))))
        assert x.min() == x.max() == i


def test_where_the_store_cannot_be_mapped_there_is_one_counted_copy(monkeypatch: pytest.MonkeyPatch):
    from isthmus.distributed import private

    reference = ray.put(torch.ones(MIB))
    monkeypatch.setattr(private, "_candidates", lambda region: iter(()))
    before = copied()
    x = ray.get(reference)
    assert copied() == before + 1
    x[:] = 2
    assert ray.get(reference).sum() == MIB


def test_policies():
    x = torch.ones(1000, 1000)
    isthmus.distributed.enable("ray", "tensor")
    arrived = ray.get(ray.put(x))
    assert isinstance(arrived, isthmus.Tensor)
    assert arrived.read_only
    isthmus.distributed.enable("ray", "copy")
    before = copied()
    arrived = ray.get(ray.put(x))
    assert copied() == before + 1
    assert torch.equal(arrived, x)
    array = ray.get(ray.put(np.ones((1000, 1000))))
    assert array.flags.writeable


class _Step:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def twice(self, x: Any) -> dict[str, Any]:
        self.seen.append(x)
        assert [float(y[0]) for y in self.seen] == list(range(len(self.seen)))
        return {"y": x * 2, "views": [x, x[1:]], "number": 1}

    def plus_one(self, made: dict[str, Any]) -> dict[str, Any]:
        return {**made, "y": made["y"] + 1}


@pytest.mark.parametrize("kind", ["torch", "torch small", "jax"])
@processes.waiting_at_most(120)  # two actors start, who import torch and JAX
def test_results_of_a_compiled_graph_may_be_kept(monkeypatch: pytest.MonkeyPatch, kind: str):
    """Its channels use their memory again: the next call would wait for all tensors of the one before."""
    import jax.numpy as jnp

    monkeypatch.setenv("RAY_CGRAPH_get_timeout", "30")
    dag = pytest.importorskip("ray.dag")
    steps = [ray.remote(num_cpus=0)(_Step).remote() for _ in range(2)]
    with dag.InputNode() as given:
        graph = steps[1].plus_one.bind(steps[0].twice.bind(given))
    compiled = graph.experimental_compile()
    rows = 10 if kind == "torch small" else 50_000
    try:
        kept = []
        for i in range(5):
            x = jnp.full(rows, float(i)) if kind == "jax" else torch.full((rows,), float(i))
            kept.append(ray.get(compiled.execute(x)))
        for i, made in enumerate(kept):
            assert float(made["y"][0]) == float(made["y"][-1]) == 2 * i + 1
            assert float(made["views"][1][-1]) == i
            if kind != "jax":
                made["views"][0][1] = -1
                assert made["views"][1][0] == -1
        assert np.array_equal(ray.get(compiled.execute(np.full(rows, 5.0)))["y"], np.full(rows, 11.0))
    finally:
        compiled.teardown()


def test_what_cannot_be_sent_so_goes_as_before():
    assert ray.get(ray.put(torch.eye(3).to_sparse())).is_sparse
    conjugate = torch.ones(1000, dtype=torch.complex64).conj()
    assert torch.equal(ray.get(ray.put(conjugate)), conjugate)
    assert ray.get(ray.put(np.array([{"a": 1}, None], dtype=object))).tolist() == [{"a": 1}, None]


def test_disable_restores_the_serializers():
    from ray.cloudpickle import CloudPickler

    isthmus.distributed.disable("ray")
    before = dict(CloudPickler.dispatch)
    isthmus.distributed.enable("ray")
    isthmus.distributed.enable("ray")
    assert torch.Tensor in CloudPickler.dispatch
    isthmus.distributed.disable("ray")
    assert dict(CloudPickler.dispatch) == before


def test_a_worker_imports_no_framework_of_its_own_accord():
    @ray.remote(num_cpus=1, runtime_env={"env_vars": {"ANOTHER": "worker"}})
    def fresh() -> Any:
        return workers.imported(), "ray" in isthmus.distributed._undo

    assert ray.get(fresh.remote()) == ([], True)


def test_an_actor_that_is_killed_leaves_the_others_their_tensors(actor: Any):
    victim = ray.remote(num_cpus=0)(_Actor).remote()
    reference = ray.put(torch.ones(4 * MIB))
    ray.get([victim.keep.remote(reference), actor.keep.remote(reference)])
    mine = ray.get(victim.call.remote(workers.back, reference))
    os.kill(ray.get(victim.pid.remote()), signal.SIGKILL)
    time.sleep(0.5)
    assert mine.sum() == 4 * MIB
    assert ray.get(actor.kept.remote(workers.total)) == 4 * MIB


def test_a_driver_that_is_killed_leaves_the_others_their_tensors():
    """The owner of what an actor reads is gone, in mid-transfer: the store takes its memory back, but not this."""
    program = """
import sys, ray, torch, isthmus
hook = {"worker_process_setup_hook": "ray_hook.enable"}
ray.init(address=sys.argv[1], namespace="faults", log_to_driver=False, logging_level="error", runtime_env=hook)
isthmus.distributed.enable("ray")
x = ray.put(torch.ones(4 << 20))
ray.get(ray.get_actor("keeper").keep.remote(x))
mine = ray.get(x)
print("kept", flush=True)
while True:
    mine = ray.get(ray.put(mine + 1))
"""
    keeper = ray.remote(num_cpus=0)(_Actor).options(name="keeper", namespace="faults").remote()
    ray.get(keeper.pid.remote())
    address = ray.get_runtime_context().gcs_address
    driver = subprocess.Popen([sys.executable, "-c", program, address], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    try:
        assert driver.stdout.readline() == "kept\n"
        time.sleep(0.5)
    finally:
        driver.kill()
        driver.wait()
        driver.stdout.close()
    for i in range(60):
        ray.get(ray.put(torch.full((8 * MIB,), float(i))))
    assert ray.get(keeper.kept.remote(workers.total)) == 4 * MIB


def test_enabled_before_ray_starts():
    program = """
import os, torch, isthmus
isthmus.distributed.enable("ray", "tensor")
import ray
ray.init(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False, logging_level="error")
x = ray.get(ray.put(torch.ones(1000, 1000, dtype=torch.bfloat16)))
print(type(x).__name__, x.read_only, x.dtype, x.shape)
del x
isthmus.distributed.enable("ray")
x = ray.get(ray.put(torch.ones(1000, 1000)))
ray.shutdown()
x += 1
print(float(x.sum()), isthmus.distributed.stats()["copied"])
"""
    environment = {**os.environ, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["Tensor True bfloat16 (1000, 1000)", "2000000.0 0"]


def test_the_two_ways_to_ask_for_a_mapping_agree(monkeypatch: pytest.MonkeyPatch):
    from isthmus.distributed import private

    x = isthmus.shared.empty((MIB,), "uint8")
    place = x.data_ptr, x.data_ptr + x.nbytes - 1
    asked = private._region_of(*place)
    assert asked is not None
    assert private._region_of(place[0], asked.end) is None

    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(private, "_query", refuse)
    assert private._region_of(*place) == asked
    assert private._region_of(place[0], asked.end) is None
