"""Runs of dimensions under one name, sizes<"b... e k...">: told apart by the ranks of a call's arguments."""

from __future__ import annotations

import numpy as np
import pytest


def of_shape(*shape, dtype="float32"):
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


def index_of(*shape):
    return of_shape(*shape, dtype="int64") % 3


def gathered(x, index):
    """What gather() gives, by NumPy."""
    axis = index.ndim - 1
    spread = np.broadcast_to(
        index.reshape(index.shape + (1,) * (x.ndim - index.ndim)), index.shape + x.shape[index.ndim :]
    )
    return np.take_along_axis(x, spread, axis)


SHAPES = [((3,), (2,)), ((2, 3), (2, 5)), ((3, 4), (1,)), ((2, 2, 3, 2), (2, 2, 4)), ((2, 3, 2, 2), (2, 4))]


@pytest.fixture
def torch(torch_runs):
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    pytest.importorskip("isthmus.operators")
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


@pytest.mark.parametrize(("x", "index"), SHAPES)
def test_plain_calls(runs, x, index):
    x, index = of_shape(*x), index_of(*index)
    y = runs.gather(x, index)
    assert y.dtype == np.float32
    assert np.array_equal(y, gathered(x, index))
    assert np.array_equal(runs.gather(x.astype("float64").T.copy().T, index), y)
    out = np.empty_like(y)
    assert runs.gather(x, index, out=out) is out
    assert np.array_equal(out, y)


def test_runs_beside_each_other_and_twice(runs):
    x, y = of_shape(2, 3), of_shape(4)
    assert np.array_equal(runs.outer(x, y), np.multiply.outer(x, y))
    assert np.array_equal(runs.outer(np.float32(2), y), 2 * y)
    square = of_shape(2, 3, 2, 3)
    assert np.array_equal(runs.diagonal(square), square.reshape(6, 6).diagonal().reshape(2, 3))
    assert runs.diagonal(np.float32(5)).tolist() == 5
    w = of_shape(3, 2)
    for shape in ((3,), (5, 3), (0, 3), (2, 1, 3)):
        x = of_shape(*shape)
        assert np.array_equal(runs.affine(x, w), x @ w)
        assert np.array_equal(runs.affine(x, w, x @ w), 2 * (x @ w))


def test_what_does_not_fit_is_named(runs, torch_runs, torch):
    index = index_of(2, 5)
    words = r"gather\(\): argument 'x': expected .*\[b\.\.\., e, k\.\.\.\] on cpu, got"
    with pytest.raises(ValueError, match=words) as e:
        runs.gather(of_shape(4, 3), index)
    assert "b... is (4,) here and (2,) in argument 'index'" in str(e.value)
    with pytest.raises(ValueError, match=r"argument 'x': .*it has 1 dimensions, expected 2; b\.\.\. has 1 in argument"):
        runs.gather(of_shape(3), index)
    with pytest.raises(ValueError, match=r"argument 'x': .*it has 3 dimensions, expected 2; a\.\.\. has 1 in"):
        runs.diagonal(of_shape(2, 2, 2))
    with pytest.raises(ValueError, match=r"argument 'x': .*a\.\.\. is .*3.* here and .*2.* in argument 'x'"):
        runs.diagonal(of_shape(2, 3))
    with pytest.raises(ValueError, match=r"affine\(\): argument 'x': .*k is 4 here and 3 in argument 'w'"):
        runs.affine(of_shape(2, 4), of_shape(3, 2))
    with pytest.raises(ValueError, match=r"affine\(\): argument 'bias': .*m is 3 here and 2 in argument 'w'"):
        runs.affine(of_shape(2, 3), of_shape(3, 2), of_shape(2, 3))
    with pytest.raises(ValueError, match=r"affine\(\): argument 'x': .*expected float32\[b\.\.\., k\]"):
        runs.affine(np.float32(1), of_shape(3, 2))
    with pytest.raises(ValueError, match=r"gather\(\): argument 'index': expected int64.*got float32"):
        runs.gather(of_shape(4, 3), of_shape(2))
    with pytest.raises(RuntimeError, match=r"gather\(\): argument 'x': .*b\.\.\. is .* in argument 'index'"):
        torch_runs.gather(torch.zeros(4, 3), torch.from_numpy(index))


def test_sizes_beside_runs(runs):
    x = of_shape(2, 4, 3, 5, dtype="float64")
    expected = (x[:, 1:] - x[:, :-1])[:, :, 0, 0]
    assert np.array_equal(runs.neighbours(x, np.ones((2, 3))), expected)
    assert np.array_equal(runs.neighbours(x[:, :, :, 0].copy(), np.ones((2, 3))), expected)
    with pytest.raises(ValueError, match=r"argument 'x': .*dimension 2 has size 2, expected 3"):
        runs.neighbours(x[:, :, :2].copy(), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"argument 'x': .*n is 3 here and 2 in argument 'w'"):
        runs.neighbours(x, np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"argument 'x': .*dimension 1 has size 0, expected 1 or more"):
        runs.neighbours(x[:, :0].copy(), np.ones((2, 3)))
    assert runs.spread(np.float32(7), np.zeros((2, 1))).tolist() == [[7], [7]]
    with pytest.raises(
        ValueError, match=r"spread\(\): the dimensions b\.\.\. of result 'out' are those of an argument"
    ):
        runs.spread(np.float32(7))
    with pytest.raises(ValueError, match=r"argument 'x': its dimensions, .*, cannot be told apart, since an argument"):
        runs.neighbours(x)


@pytest.mark.parametrize(("x", "index"), SHAPES)
def test_torch(runs, torch_runs, torch, x, index):
    x, index = of_shape(*x, dtype="float64"), index_of(*index)
    given = torch.from_numpy(x).requires_grad_(), torch.from_numpy(index)
    for f in (runs.gather, torch_runs.gather):
        assert np.array_equal(f(*given).detach().numpy(), gathered(x, index))
    torch.library.opcheck(torch_runs.gather.default, given)
    torch.autograd.gradcheck(lambda x: runs.gather(x, given[1]), given[:1])


def test_vmap_of_torch(runs, torch):
    x, index = torch.from_numpy(of_shape(4, 2, 3, 2)), torch.from_numpy(index_of(2, 5))
    found = torch.vmap(runs.gather, (0, None))(x, index)
    assert torch.equal(found, torch.stack([runs.gather(row, index) for row in x]))
    w = torch.ones(3, 2)
    assert torch.equal(torch.vmap(runs.affine, (0, None))(torch.ones(4, 3), w), torch.full((4, 2), 3.0))
    assert torch.vmap(torch.vmap(runs.affine, (0, None)), (0, None))(torch.ones(5, 4, 3), w).shape == (5, 4, 2)


def test_symbolic_sizes_of_torch(runs, torch):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()

    @torch.compile(fullgraph=True, backend=counter, dynamic=True)
    def f(x, index, w):
        y = runs.gather(x, index)
        return y.shape[0] * runs.affine(y, w)

    for b, e, n, k in ((2, 3, 4, 5), (3, 4, 5, 6), (7, 3, 2, 9)):
        x, index = of_shape(b, e, k), index_of(b, n)
        found = f(torch.from_numpy(x), torch.from_numpy(index), torch.ones(k, 8))
        assert np.array_equal(found.numpy(), b * (gathered(x, index) @ np.ones((k, 8), "float32")))
    assert counter.frame_count == 1


def test_export_of_torch(runs, torch):
    class Module(torch.nn.Module):
        def forward(self, x, index):
            return runs.gather(x, index)

    b, n, k = (torch.export.Dim(name) for name in "bnk")
    given = torch.from_numpy(of_shape(2, 3, 4)), torch.from_numpy(index_of(2, 5))
    exported = torch.export.export(Module(), given, dynamic_shapes=({0: b, 2: k}, {0: b, 1: n}))
    x, index = of_shape(4, 3, 7), index_of(4, 2)
    assert np.array_equal(exported.module()(torch.from_numpy(x), torch.from_numpy(index)).numpy(), gathered(x, index))


@pytest.mark.parametrize(("x", "index"), SHAPES)
def test_jax(runs, jax, x, index):
    x, index = of_shape(*x), index_of(*index)
    for f in (runs.gather, jax.jit(runs.gather)):
        assert np.array_equal(f(jax.numpy.asarray(x), jax.numpy.asarray(index)), gathered(x, index))
    dx = jax.grad(lambda x: runs.gather(x, index).sum())(jax.numpy.asarray(x))
    assert dx.shape == x.shape
    assert float(dx.sum()) == gathered(x, index).size


def test_vmap_of_jax(runs, jax):
    x, index = of_shape(4, 2, 3, 2), index_of(2, 5)
    found = jax.vmap(runs.gather, (0, None))(jax.numpy.asarray(x), jax.numpy.asarray(index))
    assert np.array_equal(found, np.stack([gathered(row, index) for row in x]))


def test_symbolic_sizes_of_jax(runs, jax):
    b, n, k = jax.export.symbolic_shape("b, n, k")
    exported = jax.export.export(
        jax.jit(runs.gather), disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("runs::gather")]
    )(jax.ShapeDtypeStruct((b, 3, k), "float32"), jax.ShapeDtypeStruct((b, n), "int64"))
    assert exported.out_avals[0].shape == (b, n, k)
    x, index = of_shape(4, 3, 7), index_of(4, 2)
    assert np.array_equal(exported.call(x, index), gathered(x, index))
    with pytest.raises(ValueError, match=r"gather\(\): argument 'x': .*b\.\.\. is"):
        jax.jit(runs.gather)(jax.numpy.zeros((4, 3)), jax.numpy.zeros((2, 5), "int64"))


def test_no_ufunc(runs):
    with pytest.raises(ValueError, match=r"it is no ufunc: .*expected is a fixed rank"):
        runs.gather.ufunc  # noqa: B018
