"""What is different on the two sides of a framework's border: conventions, dtypes, other frameworks' tensors, names."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest


def test_a_complex_gradient_is_that_of_each_framework(kinds):
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    jnp = jax.numpy
    z = np.array([1 + 2j, 3 - 1j], np.complex64)
    for weight in (1.0, 2 - 3j):
        ours = jax.grad(lambda z, w=weight: (w * kinds.square(z)).sum().real)(jnp.asarray(z))
        theirs = jax.grad(lambda z, w=weight: (w * z * z).sum().real)(jnp.asarray(z))
        np.testing.assert_allclose(ours, theirs)
        a, b = (torch.tensor(z, requires_grad=True) for _ in range(2))
        (weight * kinds.square(a)).sum().real.backward()
        (weight * b * b).sum().real.backward()
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("name", ["square", "integers_first"])
def test_integers_first_in_a_set(kinds, name):
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    square = getattr(kinds, name)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    square(x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert square(torch.tensor([3, 4])).tolist() == [9, 16]
    assert jax.grad(lambda x: square(x).sum())(jax.numpy.array([1.0, 2.0])).tolist() == [2, 4]


def test_a_ufunc_has_numpys_order_of_loops(kinds):
    ufunc = kinds.square.ufunc
    assert ufunc.types == ["b->b", "l->l", "f->f", "F->F"]
    for dtype, result in ((np.int8, np.int8), (np.int16, np.int64), (np.float16, np.float32), (np.int64, np.int64)):
        assert ufunc(np.array([2, 3], dtype)).dtype == result


def test_jax_has_32_bits_by_default(kinds):
    jax = pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    jnp = jax.numpy
    index, x = jnp.array([2, 0]), jnp.arange(6.0).reshape(3, 2)
    assert index.dtype == jnp.int32
    for take in (kinds.take, jax.jit(kinds.take)):
        assert take(index, x).tolist() == x[index].tolist()
        assert take(np.array([2, 0]), x).tolist() == x[index].tolist()
    many = jnp.array([[2, 0], [1, 1]])
    assert jax.jit(jax.vmap(kinds.take, (0, None)))(many, x).tolist() == x[many].tolist()
    for rows in (kinds.arange_like, jax.jit(kinds.arange_like)):
        assert rows(x).dtype == jnp.int32
        assert rows(x).tolist() == [0, 1, 2]
    mapped = jax.vmap(kinds.arange_like)(jnp.ones((2, 3, 1)))
    assert (mapped.dtype, mapped.tolist()) == (jnp.int32, [[0, 1, 2]] * 2)
    with pytest.raises(ValueError, match=r"take\(\): argument 'index': expected int64\[n\].* got .*int16\[2\]"):
        kinds.take(index.astype(jnp.int16), x)
    with jax.enable_x64(True):
        assert kinds.arange_like(x).dtype == jnp.int64
        assert jax.jit(kinds.arange_like)(x).dtype == jnp.int64


def test_tensors_of_other_frameworks_where_one_makes_the_call(kinds):
    jax = pytest.importorskip("jax")
    torch = pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    x, index = torch.ones(3, 2, requires_grad=True), np.array([2, 0])
    bias = torch.ones(2, requires_grad=True)
    y = kinds.add_bias(np.ones((3, 2), np.float32), bias)
    y.sum().backward()
    assert bias.grad.tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"add_bias\(\): argument 'bias': expected a tensor, got list"):
        kinds.add_bias(x, [1.0, 2.0])
    with pytest.raises(BufferError, match=r"argument 'bias': cannot become a tensor of torch, which makes this call: "):
        kinds.add_bias(x, np.ones(2, np.dtype("f4").newbyteorder()))
    with jax.enable_x64(True):
        odd = torch.arange(3).flip(0)[1:]  # not aligned to the 64 bytes that JAX wants
        assert jax.jit(lambda x: kinds.take(odd, x))(jax.numpy.ones((3, 2))).tolist() == [[1, 1], [1, 1]]
        rows = jax.jit(lambda x: kinds.take(torch.from_numpy(index), x))(jax.numpy.ones((3, 2)))
        assert rows.tolist() == [[1, 1], [1, 1]]
        with pytest.raises(TypeError, match=r"take\(\): argument 'index': expected a tensor, got list"):
            jax.jit(lambda x: kinds.take([0, 1], x))(jax.numpy.ones((3, 2)))


def test_copy_and_pickle_find_an_operator_by_name(kinds):
    for make in (copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))):
        assert make(kinds.take) is kinds.take
        assert make({"f": [kinds.take]})["f"][0] is kinds.take


def test_torch_saves_a_module_with_an_operator(kinds, tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(2, 2)
    module.f = kinds.take
    torch.save(copy.deepcopy(module), tmp_path / "module.pt")
    assert torch.load(tmp_path / "module.pt", weights_only=False).f is kinds.take
