"""packed: an argument that is not row-major is copied by the library, in every framework."""

from __future__ import annotations

import numpy as np
import pytest

import isthmus

X = np.arange(1, 7, dtype=np.float64).reshape(2, 3)
WEIGHTS = np.array([1.0, 2.0, 3.0])


def expected(x, w=None):
    return np.cumsum(np.asarray(x) * (1 if w is None else np.asarray(w))).reshape(np.shape(x))


def orders(x):
    """The same elements in other orders."""
    wide = np.zeros((4, 9), x.dtype)
    wide[::2, 1::3] = x
    return {"rows": x.copy(), "columns": x.T.copy().T, "apart": wide[::2, 1::3], "back": x[::-1].copy()[::-1]}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", orders(X))
def test_numpy(parameters, order, dtype):
    x = orders(X.astype(dtype))[order]
    y = parameters.running(x)
    assert y.dtype == dtype
    assert y.tolist() == expected(X).tolist()
    weights = np.repeat(WEIGHTS.astype(dtype), 2)[::2]
    out = np.empty((2, 3), dtype)
    assert parameters.running(x, weights, out=out) is out
    assert out.tolist() == expected(X, WEIGHTS).tolist()


def test_a_copy_ends_with_the_call(parameters):
    isthmus.live.enable()
    try:
        kept = parameters.running(X.T)
        assert [str(entry) for entry in isthmus.live() if "converted" in str(entry)] == []
        assert kept.shape == (3, 2)
    finally:
        isthmus.live.disable()


def test_what_no_copy_mends_is_the_usual_error(parameters):
    with pytest.raises(ValueError, match=r"running\(\): argument 'w': .*k is 2 here and 3 in argument 'x'"):
        parameters.running(X.T.copy().T, np.ones(4)[::2])
    with pytest.raises(ValueError, match=r"argument 'x': expected float64\[n, k\] on cpu or float32.*, got int32"):
        parameters.running(np.ones((2, 3), np.int32).T)


def test_leading_dimensions_broadcast(parameters):
    x = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    weights = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    transposed = x.transpose(0, 2, 1)
    want = (transposed.reshape(2, 12) @ weights.ravel()).tolist()
    assert parameters.total(transposed).tolist() == want
    assert parameters.total(np.broadcast_to(transposed[0], (5, 3, 4))).tolist() == want[:1] * 5
    assert parameters.total.ufunc(transposed).tolist() == want
    assert parameters.total.ufunc(x[:, ::2].transpose(1, 2, 0)[:, ::-1]).shape == (2,)


@pytest.mark.parametrize("order", orders(X))
def test_a_ufunc(parameters, order):
    x = orders(X.astype(np.float32))[order]
    flat = float(X.ravel() @ np.arange(1, 7))
    assert parameters.total.ufunc(x) == flat
    assert parameters.total.ufunc(np.stack([x, 2 * x])).tolist() == [flat, 2 * flat]
    assert parameters.total.ufunc(np.stack([x, 2 * x], axis=-1), axes=[(0, 1), ()]).tolist() == [flat, 2 * flat]


@pytest.fixture
def torch(torch_parameters):
    return pytest.importorskip("torch")


@pytest.mark.parametrize("order", orders(X))
def test_torch(parameters, torch_parameters, torch, order):
    x, w = torch.from_numpy(orders(X)[order].copy(order="K")), torch.from_numpy(WEIGHTS)
    if order == "apart":
        x = torch.zeros(4, 9, dtype=torch.float64)[::2, 1::3].copy_(torch.from_numpy(X))
    compiled = torch.compile(parameters.running, fullgraph=True, backend="aot_eager", dynamic=True)
    inductor = torch.compile(lambda x, w: parameters.running(x.T.T, w), fullgraph=True)
    for f in (parameters.running, torch_parameters.running, compiled, inductor):
        assert f(x, w).tolist() == expected(X, WEIGHTS).tolist()
    torch.library.opcheck(torch_parameters.running.default, (x, w))
    leaf = x.detach().requires_grad_()
    assert torch.autograd.gradcheck(parameters.running, (leaf, w.requires_grad_()))
    # The backward pass hands over a gradient in an order of its own.
    (parameters.running(leaf, w).T * torch.rand(3, 2, dtype=torch.float64)).sum().backward()


def test_vmap_of_torch(parameters, torch):
    x = torch.rand(3, 2, 5, dtype=torch.float64)
    want = torch.stack([part.flatten().cumsum(0).reshape(2, 3) for part in x.permute(2, 1, 0)])
    torch.testing.assert_close(torch.vmap(lambda x: parameters.running(x.T), 2)(x), want)
    torch.testing.assert_close(torch.vmap(parameters.total, 2)(x.float()).shape, torch.Size([5]))


def test_torch_before_the_shims(run_script):
    pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    code = """
    import torch, isthmus_operators_parameters_test_ext as ext, isthmus.operators
    isthmus.operators.register("torch")
    x = torch.arange(6.).reshape(3, 2).T
    assert torch.ops.parameters.running(x).tolist() == [[0, 2, 6], [7, 10, 15]]
    assert torch.vmap(ext.running)(torch.stack([x, x])).tolist() == [[[0, 2, 6], [7, 10, 15]]] * 2
    """
    run_script(code, ISTHMUS_NO_TORCH_SHIMS="1")


def test_jax(parameters):
    jax = pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    x, w = jax.numpy.asarray(X, jax.numpy.float32), jax.numpy.asarray(WEIGHTS, jax.numpy.float32)
    for f in (parameters.running, jax.jit(parameters.running)):
        assert f(x.T, None).tolist() == expected(X.T).tolist()
    assert jax.vmap(parameters.running, (2, None))(jax.numpy.stack([x, x], 2), w).shape == (2, 2, 3)
    assert jax.grad(lambda x: parameters.running(x.T, None).sum())(x).tolist() == [[6, 4, 2], [5, 3, 1]]


def test_the_table_says_so(parameters):
    rows = parameters.running._table["inputs"]
    assert [row["packed"] for row in rows] == [True, True]
