"""Tensors through joblib and loky."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")
joblib = pytest.importorskip("joblib", reason="joblib is not installed")
loky = pytest.importorskip("loky", reason="loky is not installed")

import workers  # noqa: E402  # which need these
from tensors import KINDS, LARGE, facts, may_write  # noqa: E402  # which need these

# NumPy's arrays go in joblib's own way, with reducers of each executor's own: mapped files, or copies.
OURS = [kind for kind in KINDS if not kind.startswith("numpy")]


@pytest.fixture(scope="module")
def executor() -> Iterator[Any]:
    made = loky.get_reusable_executor(max_workers=1, initializer=workers.enable, initargs=("joblib",))
    yield made
    made.shutdown(wait=True, kill_workers=True)


@pytest.fixture(autouse=True)
def enabled() -> None:
    isthmus.distributed.enable("joblib")


@pytest.mark.parametrize("rows", [1, LARGE])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_through_loky(executor: Any, kind: str, rows: int):
    x = KINDS[kind](rows)
    there, writable = executor.submit(workers.describe, x).result(60)
    assert there == facts(x)
    assert writable is may_write(x)
    assert facts(executor.submit(workers.back, x).result(60)) == facts(x)


@pytest.mark.parametrize("rows", [1, 2048])
@pytest.mark.parametrize("kind", OURS)
def test_each_kind_through_joblib(kind: str, rows: int):
    x = KINDS[kind](rows)
    with joblib.parallel_config("loky", n_jobs=2):
        for there, _ in joblib.Parallel()(joblib.delayed(workers.describe)(x) for _ in range(2)):
            assert there == facts(x)


def test_a_write_stays_where_it_is_made(executor: Any):
    x = torch.ones(1000, 1000)
    assert executor.submit(workers.write, x).result(60) == -1e6
    assert x.sum() == 1e6


def test_views_share(executor: Any):
    base = torch.arange(100_000.0)
    a, b, c = executor.submit(workers.back, (base[:10], base, base)).result(60)
    assert b is c
    b[0] = 5
    assert a[0] == 5


def test_nothing_is_copied_on_arrival(executor: Any):
    before = executor.submit(workers.stats).result(60)
    for x in (torch.ones(1000, 1000), KINDS["jax float32"](LARGE), np.ones((1000, 1000))):
        executor.submit(workers.total, x).result(60)
    after = executor.submit(workers.stats).result(60)
    assert after["copied"] == before["copied"]
    assert after["copy_on_write"] == before["copy_on_write"] + 2
    assert after["shared"] == before["shared"] + 1


def test_disable_restores_the_tables():
    from joblib.externals.loky.backend import reduction as vendored
    from loky.backend import reduction

    isthmus.distributed.disable("joblib")
    before = dict(vendored._dispatch_table), dict(reduction._dispatch_table)
    isthmus.distributed.enable("joblib")
    assert torch.Tensor in vendored._dispatch_table
    assert torch.Tensor in reduction._dispatch_table
    isthmus.distributed.disable("joblib")
    assert (dict(vendored._dispatch_table), dict(reduction._dispatch_table)) == before
