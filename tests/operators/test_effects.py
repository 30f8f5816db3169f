"""Operators without results: no compiler drops a call that is made for what else it does."""

from __future__ import annotations

import numpy as np
import pytest


def test_eager(kinds):
    kinds.take_total()
    assert kinds.observe(np.array([1, 2], np.float32), 2.0) is None
    assert kinds.take_total() == 6


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_torch_keeps_the_call(kinds, torch_kinds, backend):
    torch = pytest.importorskip("torch")

    def run(x):
        kinds.observe(x)
        torch_kinds.observe(2 * x, 0.5)
        return x + 1

    compiled = torch.compile(run, fullgraph=True, backend=backend)
    kinds.take_total()
    for _ in range(2):
        assert compiled(torch.ones(3)).tolist() == [2, 2, 2]
        assert kinds.take_total() == 6


def test_torch_exports_the_call(kinds, torch_kinds):
    torch = pytest.importorskip("torch")

    class Module(torch.nn.Module):
        def forward(self, x):
            kinds.observe(x)
            return x + 1

    exported = torch.export.export(Module(), (torch.ones(3),))
    kinds.take_total()
    exported.module()(torch.ones(3))
    exported.run_decompositions().module()(torch.ones(3))
    assert kinds.take_total() == 6
    torch.library.opcheck(torch_kinds.observe.default, (torch.ones(3),))


def test_torch_maps_the_call(kinds, torch_kinds):
    torch = pytest.importorskip("torch")

    def run(x):
        torch_kinds.observe(x)
        return x + 1

    kinds.take_total()
    torch.vmap(run)(torch.ones(2, 3))
    assert kinds.take_total() == 6


def test_jax_keeps_the_call(kinds):
    jax = pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")

    def run(x):
        kinds.observe(x)
        return x + 1

    kinds.take_total()
    jax.block_until_ready(jax.jit(run)(jax.numpy.ones(3)))
    jax.effects_barrier()
    assert kinds.take_total() == 3
    jax.block_until_ready(jax.jit(jax.vmap(run))(jax.numpy.ones((2, 3))))
    jax.effects_barrier()
    assert kinds.take_total() == 6
