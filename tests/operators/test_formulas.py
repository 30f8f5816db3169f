"""Sizes by formula: "n+1", "n-1", products and quotients, solved and checked in eager calls and symbolic in tracers."""

from __future__ import annotations

import numpy as np
import pytest

X = np.arange(12, dtype=np.float64).reshape(4, 3)
BORDERS = np.array([0, 1, 4])
SUMS = [[0, 1, 2], [18, 21, 24]]


@pytest.fixture
def torch(torch_parameters):
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    pytest.importorskip("isthmus.operators")
    return pytest.importorskip("jax")


def test_numpy(parameters):
    assert parameters.segments(X, BORDERS).tolist() == SUMS
    inner, outer = parameters.differences(np.array([1.0, 3.0, 7.0]))
    assert (inner.tolist(), outer.tolist()) == ([2, 4], [0, 1, 3, 7, 0])
    x = np.arange(24, dtype=np.float32).reshape(2, 12)
    assert np.array_equal(parameters.unfold(x, 2, 3), x.reshape(2, 2, 2, 3))
    y = parameters.fold(np.full(6, 9, np.float32), np.ones(2, np.float32), np.full(3, 2, np.float32))
    assert y.tolist() == [1, 1, 2, 2, 2, 9, 9]
    assert parameters.segments(np.ones((0, 2)), np.zeros(1, np.int64)).shape == (0, 2)


def test_what_a_formula_does_not_give_is_refused(parameters):
    x = np.ones((2, 7), np.float32)
    cases = [
        (
            lambda: parameters.unfold(x, 2, 2),
            r"unfold\(\): argument 'out': its size c/\(h\*w\) is no whole number "
            r"\(c is 7, h is 2, w is 2\)",
        ),
        (lambda: parameters.unfold(x, 0, 2), r"its size c/\(h\*w\) is no whole number \(c is 7, h is 0, w is 2\)"),
        (lambda: parameters.unfold(x, 1 << 62, 2), r"its size c/\(h\*w\) is beyond 64 bits"),
        (lambda: parameters.differences(np.ones(0)), r"argument 'out\[0\]': its size n-1 would be -1 \(n is 0\)"),
        (lambda: parameters.segments(X, np.zeros(0, np.int64)), r"dimension 0 has size 0, expected 1 or more"),
        (
            lambda: parameters.fold(x[0], x[0, :2], x[0, :3]),
            r"fold\(\): argument 'x': expected float32\[h\*w\] on cpu, got float32\[7\] on cpu: "
            r"dimension 0 has size 7, and h\*w is 6 \(h is 2, w is 3\)",
        ),
    ]
    for call, said in cases:
        with pytest.raises(ValueError, match=said):
            call()
    with pytest.raises(ValueError, match=r"argument 'out': expected sizes \(2, 3\), got float64\[3, 3\]"):
        parameters.segments(X, BORDERS, out=np.empty((3, 3)))


def test_a_formula_is_no_core_dimension(parameters):
    with pytest.raises(ValueError, match=r"it is no ufunc: the size n\+1 of 'borders' is a formula"):
        parameters.segments.ufunc  # noqa: B018


def test_torch(parameters, torch_parameters, torch):
    x, borders = torch.from_numpy(X), torch.from_numpy(BORDERS)
    compiled = torch.compile(parameters.segments, fullgraph=True, backend="aot_eager", dynamic=True)
    for f in (parameters.segments, torch_parameters.segments, compiled):
        assert f(x, borders).tolist() == SUMS
    torch.library.opcheck(torch_parameters.segments.default, (x.requires_grad_(), borders))
    torch.library.opcheck(torch_parameters.unfold.default, (torch.rand(2, 12), 2, 3))
    assert torch.autograd.gradcheck(lambda x: parameters.segments(x, borders), (x,))
    mapped = torch.vmap(parameters.unfold, (0, None, None))(torch.rand(5, 2, 12), 2, 3)
    assert mapped.shape == (5, 2, 2, 2, 3)


def test_symbols_of_torch(parameters, torch_parameters, torch):
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    unfold = torch.compile(parameters.unfold, fullgraph=True, backend=counter, dynamic=True)
    differences = torch.compile(parameters.differences, fullgraph=True, backend=counter, dynamic=True)
    for k, c, h, w in ((3, 24, 2, 3), (4, 60, 3, 5), (5, 56, 4, 7)):
        x = torch.rand(k, c)
        assert torch.equal(unfold(x, h, w), x.reshape(k, c // (h * w), h, w))
        assert [y.shape[0] for y in differences(torch.rand(c).double())] == [c - 1, c + 2]
    assert counter.frame_count <= 3
    with pytest.raises(Exception, match=r"its size c/\(h\*w\) is no whole number|c/\(h\*w\)"):
        unfold(torch.rand(2, 7), 2, 3)
    with pytest.raises(Exception, match=r"h\*w is 6"):
        torch.compile(parameters.fold, fullgraph=True, backend="aot_eager", dynamic=True)(
            torch.rand(7), torch.rand(2), torch.rand(3)
        )

    class Module(torch.nn.Module):
        def forward(self, x, borders):
            return parameters.segments(x, borders)

    n = torch.export.Dim("n", min=3)
    exported = torch.export.export(
        Module(), (torch.from_numpy(X), torch.from_numpy(BORDERS)), dynamic_shapes=(None, {0: n})
    )
    assert exported.module()(torch.from_numpy(X), torch.tensor([0, 1, 2, 4])).shape == (3, 3)


def test_jax(parameters, jax):
    with jax.enable_x64(True):
        x, borders = jax.numpy.asarray(X), jax.numpy.asarray(BORDERS)
        for f in (parameters.segments, jax.jit(parameters.segments)):
            assert f(x, borders).tolist() == SUMS
        gradient = jax.jit(jax.grad(lambda x: (parameters.segments(x, borders) ** 2).sum()))(x)
        assert gradient[0].tolist() == [0, 2, 4]
        mapped = jax.vmap(parameters.segments, (0, None))(jax.numpy.stack([x, 2 * x]), borders)
        assert mapped.shape == (2, 2, 3)
    y = jax.jit(parameters.unfold, static_argnums=(1, 2))(jax.numpy.ones((2, 12), "float32"), 2, 3)
    assert y.shape == (2, 2, 2, 3)
    with pytest.raises(ValueError, match=r"its size c/\(h\*w\) is no whole number"):
        jax.jit(parameters.unfold, static_argnums=(1, 2))(jax.numpy.ones((2, 7), "float32"), 2, 3)


def test_symbols_of_jax(parameters, jax):
    n, c = jax.export.symbolic_shape("n, 4*c")
    allowed = [jax.export.DisabledSafetyCheck.custom_call(f"parameters::{name}") for name in ("differences", "unfold")]
    with jax.enable_x64(True):
        spec = jax.ShapeDtypeStruct((n + 1,), jax.numpy.float64)
        exported = jax.export.export(jax.jit(parameters.differences), disabled_checks=allowed)(spec)
        assert [str(aval.shape) for aval in exported.out_avals] == ["(n,)", "(n + 3,)"]
        assert exported.call(jax.numpy.array([1.0, 3.0, 7.0]))[0].tolist() == [2, 4]
    spec = jax.ShapeDtypeStruct((2, c), jax.numpy.float32)
    exported = jax.export.export(jax.jit(lambda x: parameters.unfold(x, 2, 2)), disabled_checks=allowed)(spec)
    assert exported.call(jax.numpy.ones((2, 12), "float32")).shape == (2, 3, 2, 2)
