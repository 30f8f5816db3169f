"""Tensors between two nodes of a Ray cluster, each with a raylet and an object store of its own, on one host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")
ray = pytest.importorskip("ray", reason="Ray is not installed")
cluster_utils = pytest.importorskip("ray.cluster_utils")

import workers  # noqa: E402  # which need these
from tensors import KINDS, LARGE, facts, private_kib  # noqa: E402  # which need these

MIB = 1 << 20
ROWS = 64 * 1024  # 32 MiB and more: far above what Ray sends within a message


class _Far:
    """An actor on the other node."""

    def call(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def read(self, references: list[Any]) -> dict[str, Any]:
        """Gets what the other node has put: what this process has for itself afterwards, and where it reads."""
        before, counted = private_kib(), isthmus.distributed.stats()
        self.x = ray.get(references[0])
        self.x.view(-1)[:: MIB // 16].float().sum() if self.x.is_contiguous() else None
        grown = private_kib() - before
        now = isthmus.distributed.stats()
        return {
            "node": ray.get_runtime_context().get_node_id(),
            "file": workers.file_behind(self.x),
            "grown": grown,
            "counts": {name: now[name] - counted[name] for name in now},
            "facts": facts(self.x),
        }

    def write(self) -> Any:
        return workers.write(self.x)


@pytest.fixture(scope="module")
def far() -> Iterator[Any]:
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    cluster = cluster_utils.Cluster()
    try:
        for resources in ({}, {"far": 1}):
            cluster.add_node(num_cpus=1, resources=resources, object_store_memory=400 * MIB, include_dashboard=False)
        ray.init(
            address=cluster.address,
            log_to_driver=False,
            logging_level="error",
            runtime_env={"worker_process_setup_hook": "ray_hook.enable"},
        )
        isthmus.distributed.enable("ray")
        yield ray.remote(num_cpus=0, resources={"far": 1})(_Far).remote()
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(autouse=True)
def enabled(far: Any) -> None:
    isthmus.distributed.enable("ray")


@pytest.mark.parametrize(
    "kind", ["torch float32", "torch bfloat16", "torch float8_e4m3fn", "torch Parameter", "torch transposed"]
)
def test_nothing_is_copied_on_either_side_beyond_the_stores(far: Any, kind: str):
    x = KINDS[kind](ROWS)
    before = private_kib()
    reference = ray.put(x)
    assert private_kib() - before < 4096
    there = ray.get(far.read.remote([reference]))
    assert there["node"] != ray.get_runtime_context().get_node_id()
    assert there["grown"] < 4096
    assert there["counts"] == {
        "shared": 0,
        "copy_on_write": 1,
        "inline": 0,
        "copied": 0,
        "waiting": 0,
        "waiting_bytes": 0,
    }
    assert there["facts"] == facts(x)
    # Its own store's pages, not this one's.
    here = workers.file_behind(ray.get(reference))
    assert here is not None
    assert there["file"] not in (None, here)


def test_nor_on_the_way_back(far: Any):
    reference = far.call.remote(KINDS["torch bfloat16"], ROWS)
    ray.wait([reference], fetch_local=True)
    before, counted = private_kib(), isthmus.distributed.stats()
    x = ray.get(reference)
    assert private_kib() - before < 4096
    assert isthmus.distributed.stats() == {**counted, "copy_on_write": counted["copy_on_write"] + 1}
    assert facts(x) == facts(KINDS["torch bfloat16"](ROWS))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_there_and_back(far: Any, kind: str):
    x = KINDS[kind](LARGE)
    assert ray.get(far.call.remote(workers.describe, x))[0] == facts(x)
    assert facts(ray.get(far.call.remote(workers.back, ray.put(x)))) == facts(x)


def test_a_write_stays_on_its_node(far: Any):
    x = torch.ones(4 * MIB)
    reference = ray.put(x)
    mine = ray.get(reference)
    ray.get(far.read.remote([reference]))
    assert ray.get(far.write.remote()) == -4 * MIB
    assert ray.get(far.call.remote(workers.total, reference)) == 4 * MIB
    mine[:] = 7
    assert ray.get(reference).sum() == x.sum() == 4 * MIB
