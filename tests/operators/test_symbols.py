"""Sizes are symbols: integers that are sizes, and tensors that are written in place, under torch's and JAX's
tracers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
testing = pytest.importorskip("torch._dynamo.testing")
pytest.importorskip("isthmus.operators")


def test_a_default_compile_takes_every_size(kinds, torch_kinds):
    counter = testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(kinds.one_hot, fullgraph=True, backend=counter)
    index = torch.tensor([2, 0])
    for classes in range(3, 24):
        assert compiled(index, classes).shape == (2, classes)
    assert counter.frame_count <= 2
    for times in range(3, 24):
        assert compiled(index, 3, times)[0].tolist() == [0, 0, times]
    assert counter.frame_count <= 4


def test_a_size_from_the_data(kinds, torch_kinds):
    def run(index, count):
        return kinds.one_hot(index, count.item())

    index, count = torch.tensor([2, 0]), torch.tensor(4)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
        assert compiled(index, count).tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]

    class Module(torch.nn.Module):
        def forward(self, index, count):
            return run(index, count)

    exported = torch.export.export(Module(), (index, count))
    assert exported.module()(index, torch.tensor(3)).shape == (2, 3)


def test_export_with_a_symbol_for_an_integer(kinds, torch_kinds):
    class Module(torch.nn.Module):
        def forward(self, index, x):
            return kinds.one_hot(index, x.shape[0]) @ x

    n = torch.export.Dim("n", min=3)
    index, x = torch.tensor([2, 0]), torch.rand(4, 3)
    exported = torch.export.export(Module(), (index, x), dynamic_shapes=(None, {0: n}))
    other = torch.rand(7, 3)
    torch.testing.assert_close(exported.module()(index, other), other[index])
    torch.library.opcheck(torch_kinds.one_hot.default, (index, 5))


def test_a_negative_size_is_refused(kinds, torch_kinds):
    compiled = torch.compile(kinds.one_hot, fullgraph=True, backend="aot_eager", dynamic=True)
    with pytest.raises(Exception, match=r"one_hot\(\): argument 'classes': found -2; expected the size of a result"):
        compiled(torch.tensor([2, 0]), -2)


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_is_written_may_have_symbols_for_sizes(kinds, torch_kinds, dynamic):
    counter = testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda *a: kinds.put_rows(*a), fullgraph=True, backend=counter, dynamic=dynamic)
    for m, n, k in ((4, 2, 3), (6, 3, 5), (9, 4, 7)):
        cache, index, rows = torch.zeros(m, k), torch.arange(n), torch.rand(n, k)
        compiled(cache, index, rows)
        torch.testing.assert_close(cache[:n], rows)
        assert not cache[n:].any()
    assert counter.frame_count <= 2
    torch.library.opcheck(torch_kinds.put_rows.default, (torch.zeros(4, 3), torch.arange(2), torch.rand(2, 3)))


def test_a_symbol_that_does_not_fit_is_our_sentence(kinds, torch_kinds):
    compiled = torch.compile(lambda *a: kinds.put_rows(*a), fullgraph=True, backend="aot_eager", dynamic=True)
    with pytest.raises(Exception, match=r"argument 'rows': expected .*k is 3 here and 2 in argument 'cache'"):
        compiled(torch.zeros(4, 2), torch.arange(2), torch.rand(2, 3))


def test_jax_exports_a_size_from_a_shape(kinds):
    jax = pytest.importorskip("jax")
    (n,) = jax.export.symbolic_shape("n")
    index = jax.ShapeDtypeStruct((2,), jax.numpy.int64)
    with jax.enable_x64(True):
        exported = jax.export.export(
            jax.jit(lambda index, x: kinds.one_hot(index, x.shape[0])),
            disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("kinds::one_hot")],
        )(index, jax.ShapeDtypeStruct((n,), jax.numpy.float32))
        result = exported.call(jax.numpy.array([2, 0]), jax.numpy.ones(4, jax.numpy.float32))
    assert result.tolist() == [[0, 0, 1, 0], [1, 0, 0, 0]]
