"""The dtypes of results: found when an operator is registered, or refused then."""

from __future__ import annotations

import numpy as np
import pytest

TAKES = ["take", "take_like"]
BOTH = [np.float32, np.float64]


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", TAKES)
def test_a_result_has_the_dtype_of_the_argument_that_says_it(kinds, name, dtype):
    take, x, index = getattr(kinds, name), np.arange(6, dtype=dtype).reshape(3, 2), np.array([2, 0, 2])
    rows = take(index, x)
    assert rows.dtype == dtype
    assert rows.tolist() == x[index].tolist()
    out = np.empty((3, 2), dtype)
    assert take(index, x, out=out) is out
    other = np.float64 if dtype == np.float32 else np.float32
    with pytest.raises(ValueError, match=r"argument 'out': expected .*got float"):
        take(index, x, out=np.empty((3, 2), other))


@pytest.mark.parametrize("dtype", BOTH)
@pytest.mark.parametrize("name", TAKES)
def test_a_ufunc_has_the_loops_of_that_argument(kinds, name, dtype):
    ufunc = getattr(kinds, name).ufunc
    assert sorted(ufunc.types) == ["ld->d", "lf->f"]
    x = np.arange(12, dtype=dtype).reshape(2, 3, 2)
    rows = ufunc(np.array([1, 0]), x)
    assert rows.dtype == dtype
    assert rows.tolist() == x[:, [1, 0]].tolist()


@pytest.mark.parametrize("name", TAKES)
def test_torch_has_the_same_rule(kinds, torch_kinds, name):
    torch = pytest.importorskip("torch")
    take, index = getattr(kinds, name), torch.tensor([2, 0])
    for dtype in (torch.float32, torch.float64):
        x = torch.rand(3, 2, dtype=dtype)
        compiled = torch.compile(take, fullgraph=True, backend="aot_eager", dynamic=True)
        for f in (take, getattr(torch_kinds, name), compiled):
            torch.testing.assert_close(f(index, x), x[index])
    torch.library.opcheck(getattr(torch_kinds, name).default, (index, x))


@pytest.mark.parametrize("name", TAKES)
def test_jax_has_the_same_rule(kinds, name):
    jax = pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    with jax.enable_x64(True):
        index = jax.numpy.array([2, 0])
        for dtype in BOTH:
            x = jax.numpy.arange(6, dtype=dtype).reshape(3, 2)
            rows = jax.jit(getattr(kinds, name))(index, x)
            assert rows.dtype == dtype
            assert rows.tolist() == x[index].tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_an_argument_that_is_none(kinds, dtype):
    torch = pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    x = torch.rand(3, 2, dtype=getattr(torch, dtype), requires_grad=True)
    kinds.add_bias(x).sum().backward()
    assert x.grad.tolist() == [[1, 1]] * 3
    bias = torch.rand(2, dtype=x.dtype, requires_grad=True)
    compiled = torch.compile(kinds.add_bias, fullgraph=True, backend="aot_eager")
    for f in (kinds.add_bias, compiled):
        bias.grad = None
        f(x, bias).sum().backward()
        assert bias.grad.tolist() == [3, 3]
        assert bias.grad.dtype == x.dtype
    compiled(x).sum().backward()


def test_the_gradient_of_an_argument_that_is_none_in_jax(kinds):
    jax = pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    x, bias = jax.numpy.ones((3, 2)), jax.numpy.ones(2)
    assert jax.grad(lambda x: kinds.add_bias(x, None).sum())(x).tolist() == [[1, 1]] * 3
    assert jax.jit(jax.grad(lambda x, b: kinds.add_bias(x, b).sum(), 1))(x, bias).tolist() == [3, 3]
