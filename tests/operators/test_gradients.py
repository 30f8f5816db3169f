"""Gradients that say what they take: results instead of arguments, sizes alone, another operator, a second gradient."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest


def test_what_a_gradient_does_not_take_is_not_kept(torch_gradients):
    import torch

    x = torch.rand(4, 5, dtype=torch.float64, requires_grad=True)
    twice = x * 2
    values, where = torch_gradients.row_max(twice)
    ended = weakref.ref(twice)
    expected = torch.zeros(4, 5, dtype=torch.float64)
    expected[torch.arange(4), where] = 2.0
    with torch.no_grad():
        twice.zero_()  # its elements are not read any more
    del twice
    gc.collect()
    assert ended() is None
    values.sum().backward()
    assert torch.equal(x.grad, expected)


def test_a_result_that_is_taken_may_not_change(torch_gradients):
    import torch

    x = torch.rand(4, 5, requires_grad=True)
    values, where = torch_gradients.row_max(x)
    where.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_gradient_everywhere(gradients, torch_gradients, dtype):
    import torch

    data = np.random.default_rng(0).random((3, 4, 5)).astype(dtype)
    expected = (data == data.max(-1, keepdims=True)).astype(dtype)
    x = torch.from_numpy(data)

    def loss(x):
        return gradients.row_max(x)[0].sum()

    assert np.array_equal(torch.func.grad(loss)(x[0]), expected[0])
    assert np.array_equal(torch.func.vmap(torch.func.grad(loss))(x), expected)
    assert np.array_equal(torch.compile(torch.func.grad(loss), fullgraph=True)(x[1]), expected[1])
    jax = pytest.importorskip("jax")
    with jax.enable_x64(dtype == "float64"):
        y = jax.numpy.asarray(data)
        assert np.array_equal(jax.grad(loss)(y[0]), expected[0])
        assert np.array_equal(jax.jit(jax.vmap(jax.grad(loss)))(y), expected)


def test_dynamic_sizes(torch_gradients):
    import torch

    step = torch.compile(torch_gradients.row_max, fullgraph=True, dynamic=True)
    for n, k in ((3, 4), (5, 6), (7, 2)):
        x = torch.rand(n, k, requires_grad=True)
        step(x)[0].sum().backward()
        assert torch.equal(x.grad, (x == x.amax(1, keepdim=True)).float())


def test_only_the_gradients_that_are_wanted(gradients, torch_gradients):
    import torch

    x, w = (torch.rand(3, dtype=torch.float64) for _ in range(2))
    gradients.computed()
    for for_x, for_w in ((True, False), (False, True), (True, True)):
        a, b = x.clone().requires_grad_(for_x), w.clone().requires_grad_(for_w)
        torch_gradients.scaled(a, b).sum().backward()
        assert gradients.computed() == for_x + 2 * for_w
        assert not for_x or torch.equal(a.grad, w)
        assert not for_w or torch.equal(b.grad, x)
    a = x.clone().requires_grad_()
    torch_gradients.scaled(a, None).sum().backward()
    assert gradients.computed() == 1
    assert torch.equal(a.grad, torch.ones(3, dtype=torch.float64))
    b = w.clone().requires_grad_()
    torch.compile(torch_gradients.scaled, fullgraph=True)(x, b).sum().backward()
    assert torch.equal(b.grad, x)
    assert gradients.computed() == 2


def test_only_the_gradients_that_are_wanted_in_jax(gradients):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        x, w = jax.numpy.arange(3.0), jax.numpy.arange(3.0) + 1

        def loss(x, w):
            return gradients.scaled(x, w).sum()

        gradients.computed()
        assert np.array_equal(jax.jit(jax.grad(loss, 1))(x, w), x)
        assert gradients.computed() == 2
        assert np.array_equal(jax.grad(loss)(x, w), w)
        assert gradients.computed() == 1
        both = jax.jit(jax.grad(loss, (0, 1)))(x, w)
        assert np.array_equal(both[0], w)
        assert np.array_equal(both[1], x)
        assert gradients.computed() == 3


def test_a_second_gradient(gradients, torch_gradients):
    import torch

    x = torch.rand(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch_gradients.cube, x)
    assert torch.autograd.gradgradcheck(torch_gradients.cube, x)
    hessian = torch.func.jacrev(torch.func.jacrev(gradients.cube))(x.detach())
    expected = torch.zeros(4, 4, 4, dtype=torch.float64)
    for i in range(4):
        expected[i, i, i] = 6 * x.detach()[i]
    assert torch.allclose(hessian, expected)
    with pytest.raises(RuntimeError, match="gradients::cube_gradient_gradient has no gradient"):
        torch.func.jacrev(torch.func.jacrev(torch.func.jacrev(gradients.cube)))(x.detach())
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        y = jax.numpy.asarray(x.detach().numpy())
        second = jax.jit(jax.jacrev(jax.jacrev(gradients.cube)))(y)
        assert np.allclose(second, expected.numpy())


def test_another_operator_is_the_gradient(gradients, torch_gradients):
    import torch

    x = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([4, 0, 4])
    assert torch.autograd.gradcheck(torch_gradients.gather, (x, index))
    assert torch.autograd.gradgradcheck(torch_gradients.gather, (x, index))
    torch.compile(torch_gradients.gather, fullgraph=True, dynamic=True)(x, index).sum().backward()
    assert torch.equal(x.grad[:, 0], torch.bincount(index, minlength=5).double())
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        y, i = jax.numpy.asarray(x.detach().numpy()), jax.numpy.asarray(index.numpy())
        found = jax.jit(jax.grad(lambda y: (gradients.gather(y, i) ** 2).sum()))(y)
        assert np.allclose(found, np.bincount(index, minlength=5)[:, None] * 2 * np.asarray(y))


def test_another_operator_that_is_not_there(torch_gradients):
    import torch

    x = torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
    y = torch_gradients.lost(x, torch.tensor([1]))
    with pytest.raises(Exception, match="its gradient is the operator 'gradients::nowhere', which no imported module"):
        y.sum().backward()


def test_autocast(gradients, torch_gradients):
    import torch

    x = torch.rand(3).bfloat16()
    with pytest.raises(Exception, match="dtype differs"):
        gradients.doubled(x)
    with torch.autocast("cpu", torch.bfloat16):
        for f in (gradients.doubled, torch_gradients.doubled, torch.compile(gradients.doubled, fullgraph=True)):
            y = f(x)
            assert y.dtype == torch.float32
            assert torch.equal(y, 2 * x.float())


def test_a_recorded_call_does_not_look_at_a_signature(torch_gradients):
    """torch.autograd.Function does so in each call, for most of the time that one took."""
    import torch

    called = []
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    sys.setprofile(lambda frame, event, _arg: called.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        y = torch_gradients.cube(x)
    finally:
        sys.setprofile(None)
    assert y.requires_grad
    assert [file for file in called if "isthmus" in file]
    assert not [file for file in called if file.endswith("inspect.py")]
