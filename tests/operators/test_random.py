"""Sources of random numbers: torch's generators, NumPy's, JAX's keys and seeds, in plain calls and in graphs."""

from __future__ import annotations

import numpy as np
import pytest

X = np.ones(1000, "float32")


def seed_of(words) -> int:
    return int(np.asarray(words).view(np.uint64)[0])


def test_a_seed(gradients):
    for seed in (0, 7, 2**40 + 3, 2**64 - 1):
        assert seed_of(gradients.drawn(X, seed)) == seed
    assert seed_of(gradients.drawn(X, -1)) == 2**64 - 1
    assert np.asarray(gradients.drawn(X, np.int64(7)))[2:].tolist() == [0, 0]


def test_generators_of_numpy(gradients):
    for make in (np.random.default_rng, np.random.RandomState):
        first, again = (gradients.drawn(X, make(3)).tolist() for _ in range(2))
        assert first == again
        generator = make(3)
        assert gradients.drawn(X, generator).tolist() != gradients.drawn(X, generator).tolist()
    np.random.seed(3)
    first, second = gradients.drawn(X).tolist(), gradients.drawn(X).tolist()
    np.random.seed(3)
    assert gradients.drawn(X).tolist() == first != second
    assert any(first[2:])


def test_generators_of_torch(gradients, torch_gradients):
    import torch

    x = torch.from_numpy(X)
    generator = torch.Generator().manual_seed(3)
    first, second = (gradients.dropout(generator, x, 0.5) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(gradients.dropout(torch.Generator().manual_seed(3), x, 0.5), first)
    torch.manual_seed(5)
    first = gradients.drawn(x)
    torch.manual_seed(5)
    assert torch.equal(gradients.drawn(x), first)
    assert torch.equal(torch_gradients.drawn(x, first), first)


def test_the_gradient_has_the_same_numbers(gradients, torch_gradients):
    import torch

    x = torch.from_numpy(X).clone().requires_grad_()
    y = gradients.dropout(None, x, 0.5)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert 400 < y.sum() < 600
    jax = pytest.importorskip("jax")

    def loss(x, key):
        y = gradients.dropout(key, x, 0.5)
        return y.sum(), y

    for key in (jax.random.key(3), jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")):
        grad, y = jax.jit(jax.grad(loss, has_aux=True))(X, key)
        assert np.array_equal(grad, y)
        assert 400 < y.sum() < 600
        assert np.array_equal(gradients.dropout(key, jax.numpy.asarray(X), 0.5), y), "eager as in a program"


def test_a_graph_draws_anew(gradients, torch_gradients):
    import torch

    x = torch.from_numpy(X)
    compiled = torch.compile(lambda x: gradients.dropout(None, x, 0.5), fullgraph=True)
    torch.manual_seed(1)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    assert 400 < first.sum() < 600
    torch.manual_seed(1)
    assert torch.equal(compiled(x), first)
    exported = torch.export.export(Dropout(gradients), (x,)).module()
    assert not torch.equal(exported(x), exported(x))
    torch.library.opcheck(torch_gradients.drawn.default, (x, torch.zeros(4, dtype=torch.int32)))


def Dropout(gradients):  # noqa: N802
    import torch

    class Module(torch.nn.Module):
        def forward(self, x):
            return gradients.dropout(None, x, 0.5)

    return Module()


def test_batches(gradients, torch_gradients):
    import torch

    xs = torch.ones(3, 100)
    different = torch.func.vmap(lambda x: gradients.dropout(None, x, 0.5), randomness="different")(xs)
    assert not torch.equal(different[0], different[1])
    same = torch.func.vmap(lambda x: gradients.dropout(None, x, 0.5), randomness="same")(xs)
    assert torch.equal(same[0], same[1])
    jax = pytest.importorskip("jax")
    keys = jax.random.split(jax.random.key(3), 3)
    each = jax.jit(jax.vmap(lambda key, x: gradients.dropout(key, x, 0.5)))(keys, np.ones((3, 100), "float32"))
    for key, row in zip(keys, each, strict=True):
        assert np.array_equal(gradients.dropout(key, jax.numpy.ones(100), 0.5), row)


def test_what_is_no_source(gradients):
    with pytest.raises(TypeError, match=r"drawn\(\): argument 'random': expected None, an integer, .*, got str"):
        gradients.drawn(X, "3")
    with pytest.raises(ValueError, match=r"argument 'random': found 18446744073709551616; expected a seed of 64 bits"):
        gradients.drawn(X, 2**64)
    with pytest.raises(ValueError, match="argument 'random' is a source of random numbers"):
        _ = gradients.drawn.ufunc
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    for call in (gradients.drawn, jax.jit(gradients.drawn)):
        with pytest.raises(ValueError, match=r"argument 'random': JAX has no generator of its own; expected a key"):
            call(x)
        with pytest.raises(TypeError, match=r"argument 'random': expected a key of JAX, got float32\[3\]"):
            call(x, jax.numpy.ones(3))
