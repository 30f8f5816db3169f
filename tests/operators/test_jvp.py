"""Forward mode: Jacobian-vector products of operators, with gradients beside them and without."""

from __future__ import annotations

import numpy as np
import pytest

X = np.array([1.0, 2.0, -0.5])
W = np.array([0.5, -1.0, 3.0])
TX, TW = np.array([1.0, 0.0, 2.0]), np.array([-1.0, 1.0, 0.5])
EXPECTED = TX * 2 * X * W + TW * X**2
ROWS = np.array([[1.0, 3.0, 2.0], [5.0, 4.0, 6.0]])


@pytest.fixture
def torch(torch_jvp):
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    pytest.importorskip("isthmus.operators")
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


def test_dual_tensors(jvp, torch_jvp, torch):
    forward_ad = torch.autograd.forward_ad
    x, w, tx, tw = map(torch.from_numpy, (X, W, TX, TW))
    for f in (jvp.scaled, torch_jvp.scaled):
        with forward_ad.dual_level():
            made = forward_ad.unpack_dual(f(forward_ad.make_dual(x, tx), forward_ad.make_dual(w, tw)))
            assert np.allclose(made.primal, X**2 * W)
            assert np.allclose(made.tangent, EXPECTED)
            made = forward_ad.unpack_dual(f(x, forward_ad.make_dual(w, tw), 3))
            assert np.allclose(made.tangent, TW * X**3)
            made = forward_ad.unpack_dual(f(forward_ad.make_dual(x, tx)))
            assert np.allclose(made.tangent, TX * 2 * X)
            with torch.no_grad():
                assert forward_ad.unpack_dual(f(forward_ad.make_dual(x, tx))).tangent is not None
            assert forward_ad.unpack_dual(f(x, w)).tangent is None


def test_absent_tangents(jvp, torch):
    x, w = torch.from_numpy(X), torch.from_numpy(W)
    jvp.absent()
    torch.func.jvp(lambda x: jvp.scaled(x, w), (x,), (x,))
    assert jvp.absent() == 1
    torch.func.jvp(jvp.scaled, (x, w), (x, w))
    assert jvp.absent() == 0


def test_transforms_of_torch(jvp, torch_jvp, torch):
    x, w, tx, tw = map(torch.from_numpy, (X, W, TX, TW))
    for f in (jvp.scaled, torch_jvp.scaled):
        y, ty = torch.func.jvp(f, (x, w), (tx, tw))
        assert np.allclose(y, X**2 * W)
        assert np.allclose(ty, EXPECTED)
        assert np.allclose(torch.func.jacfwd(f)(x, w), np.diag(2 * X * W))
        assert torch.allclose(torch.func.jacfwd(f)(x, w), torch.func.jacrev(f)(x, w))
        rows = torch.stack([x, x + 1])
        mapped = torch.func.vmap(lambda x, t, f=f: torch.func.jvp(lambda x: f(x, w), (x,), (t,))[1])
        assert np.allclose(mapped(rows, torch.ones_like(rows)), 2 * rows * w)
    torch.autograd.gradcheck(
        jvp.scaled, (x.clone().requires_grad_(), w.clone().requires_grad_()), check_forward_ad=True
    )


def test_results_without_tangents(jvp, torch):
    x = torch.from_numpy(ROWS)
    (where, values), (t_where, t_values) = torch.func.jvp(jvp.row_max, (x,), (10 * x,))
    assert where.tolist() == [1, 2]
    assert values.tolist() == [3, 6]
    assert t_values.tolist() == [30, 60]
    assert t_where is None or not t_where.any()


def test_without_a_gradient(jvp, torch):
    x = torch.from_numpy(X)
    _, ty = torch.func.jvp(jvp.sine, (x,), (torch.ones_like(x),))
    assert torch.allclose(ty, x.cos())
    assert torch.allclose(torch.func.jacfwd(jvp.sine)(x), torch.diag(x.cos()))
    with pytest.raises(Exception, match="has no gradient"):
        jvp.sine(x.requires_grad_()).sum().backward()


def test_complex_numbers(jvp, torch, jax):
    z, t = np.array([1 + 2j, -3j]), np.array([1j, 2 - 1j])
    _, tangent = torch.func.jvp(jvp.square, (torch.from_numpy(z),), (torch.from_numpy(t),))
    assert np.allclose(tangent, 2 * z * t)
    _, tangent = jax.jvp(jvp.square, (jax.numpy.asarray(z),), (jax.numpy.asarray(t),))
    assert np.allclose(tangent, 2 * z * t)
    given = jax.numpy.asarray(z)
    assert np.allclose(
        jax.grad(lambda z: jvp.square(z).real.sum())(given), jax.grad(lambda z: (z * z).real.sum())(given)
    )


def test_opcheck_and_compiled(jvp, torch_jvp, torch):
    x, w = torch.from_numpy(X).requires_grad_(), torch.from_numpy(W)
    torch.library.opcheck(torch_jvp.scaled.default, (x, w))
    torch._dynamo.reset()
    compiled = torch.compile(jvp.scaled, fullgraph=True, backend="aot_eager")
    compiled(x, w).sum().backward()
    assert np.allclose(x.grad, 2 * X * W)


def test_jvp_of_jax(jvp, jax):
    x, w, tx, tw = map(jax.numpy.asarray, (X, W, TX, TW))
    for f in (jvp.scaled, jax.jit(jvp.scaled), lambda x, w: jvp.scaled(x, w, 2)):
        y, ty = jax.jvp(f, (x, w), (tx, tw))
        assert np.allclose(y, X**2 * W)
        assert np.allclose(ty, EXPECTED)
    jvp.absent()
    _, ty = jax.jit(lambda x: jax.jvp(lambda x: jvp.scaled(x, w), (x,), (tx,)))(x)
    assert np.allclose(ty, TX * 2 * X * W)
    assert jvp.absent() == 1
    assert np.allclose(jax.jvp(jvp.scaled, (x,), (tx,))[1], TX * 2 * X)
    assert np.allclose(jax.jacfwd(jvp.scaled)(x, w), np.diag(2 * X * W))
    _, linear = jax.linearize(lambda x: jvp.scaled(x, w), x)
    assert np.allclose(linear(tx), TX * 2 * X * W)
    assert np.allclose(jax.jvp(jvp.sine, (x,), (tx,))[1], np.cos(X) * TX)


def test_gradients_of_jax_beside_a_jvp(jvp, jax):
    x, w = map(jax.numpy.asarray, (X, W))

    def loss(x, w):
        return (jvp.scaled(x, w) * jax.numpy.arange(1.0, 4.0)).sum()

    for grad in (jax.grad(loss, (0, 1)), jax.jit(jax.grad(loss, (0, 1)))):
        dx, dw = grad(x, w)
        assert np.allclose(dx, 2 * X * W * [1, 2, 3])
        assert np.allclose(dw, X**2 * [1, 2, 3])
    assert np.allclose(jax.jacrev(jvp.scaled)(x, w), np.diag(2 * X * W))
    rows = jax.numpy.stack([x, x + 1])
    assert np.allclose(jax.vmap(jax.grad(loss), (0, None))(rows, w), 2 * rows * w * np.array([1.0, 2, 3]))
    total = jax.grad(lambda w: jax.vmap(loss, (0, None))(rows, w).sum())(w)
    assert np.allclose(total, (rows**2).sum(0) * np.array([1.0, 2, 3]))
    mapped = jax.vmap(lambda x, t: jax.jvp(lambda x: jvp.scaled(x, w), (x,), (t,))[1])(rows, jax.numpy.ones((2, 3)))
    assert np.allclose(mapped, 2 * rows * w)
    found = jax.grad(lambda x: jvp.row_max(x)[1].sum())(jax.numpy.asarray(ROWS))
    assert found.tolist() == [[0, 1, 0], [0, 0, 1]]
    where, values = jax.jvp(jvp.row_max, (jax.numpy.asarray(ROWS),), (jax.numpy.asarray(10 * ROWS),))[1]
    assert values.tolist() == [30, 60]
    assert where.dtype == jax.dtypes.float0


def test_what_jax_cannot_differentiate(jvp, jax):
    x, w = map(jax.numpy.asarray, (X, W))
    with pytest.raises(NotImplementedError, match=r"jvp::sine has no gradient; register it in C\+\+ with .gradient<g>"):
        jax.grad(lambda x: jvp.sine(x).sum())(x)
    with pytest.raises(NotImplementedError, match="cannot be differentiated by the operator's arguments"):
        jax.jvp(lambda x: jax.jvp(lambda x: jvp.scaled(x, w), (x,), (x,))[1], (x,), (x,))


def test_through_python(run_script):
    """Without torch's shims."""
    pytest.importorskip("torch")
    code = """
        import torch
        import isthmus_operators_jvp_test_ext as jvp
        x = torch.tensor([1.0, 2.0], dtype=torch.float64)
        print(torch.func.jvp(torch.ops.jvp.scaled, (x,), (x,))[1].tolist())
    """
    assert run_script(code, ISTHMUS_NO_TORCH_SHIMS="1").strip() == "[2.0, 8.0]"
