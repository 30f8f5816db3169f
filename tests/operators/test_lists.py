"""Lists as arguments of operators: of tensors (torch's Tensor[], also written ones) and of integers (SymInt[])."""

from __future__ import annotations

import os
import weakref

import numpy as np
import pytest

XS = [np.arange(3.0) + 10 * k for k in range(4)]
W = np.array([1.0, 0.5, 2.0, 0.0])
WEIGHTED = sum(w * x for w, x in zip(W, XS, strict=True)).tolist()
CACHE = np.arange(8, dtype="float32").reshape(4, 2)
MAPPING = np.array([[0, 3], [1, 2]])
COPIED = [[0, 1], [2, 3], [2, 3], [0, 1]]


@pytest.fixture
def torch(torch_lists):
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    pytest.importorskip("isthmus.operators")
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


def of_torch(torch, arrays):
    return [torch.from_numpy(np.array(x)) for x in arrays]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_plain_calls(lists, kind, dtype):
    xs, w = kind(x.astype(dtype) for x in XS), W.astype(dtype)
    y = lists.weighted(xs, w)
    assert (y.dtype, y.tolist()) == (np.dtype(dtype), WEIGHTED)
    out = np.empty(3, dtype)
    assert lists.weighted(xs, w=w, out=out) is out
    assert out.tolist() == WEIGHTED
    assert lists.joined(kind([np.arange(2.0), np.arange(3.0)]), 6).tolist() == [0, 1, 0, 1, 2, -1]


def test_plain_calls_of_torch(lists, torch):
    y = lists.joined([torch.arange(2.0, dtype=torch.float64), torch.ones(1, dtype=torch.float64)], 3)
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [0, 1, 1]
    assert lists.joined((torch.zeros(1, dtype=torch.float64), np.ones(2)), 3).tolist() == [0, 1, 1]


def test_an_empty_list(lists, torch_lists, torch):
    x = np.float32([1, 2])
    assert lists.ranked([], np.float32(2)).tolist() == 0
    assert lists.total(x, []).tolist() == [0, 0]
    words = r"joined\(\): found no tensor in its arguments; expected at least one"
    with pytest.raises(ValueError, match=words):
        lists.joined([], 3)
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch_lists.joined([], 3)
    on_cpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    with pytest.raises(RuntimeError, match=words):  # the kernel itself
        torch_lists.joined.default.redispatch(on_cpu, [], 3)
    with pytest.raises(ValueError, match=r"weighted\(\): the size n of result 'out' is that of an argument"):
        lists.weighted([], W)


def test_elements_are_named(lists, torch_lists, torch):
    with pytest.raises(ValueError, match=r"weighted\(\): argument 'xs', element 1: expected .*, got float64\[2\]") as e:
        lists.weighted([np.zeros(3), np.zeros(2)], W)
    assert "n is 2 here and 3 in argument 'xs', element 0" in str(e.value)
    with pytest.raises(ValueError, match=r"argument 'xs', element 2: expected float64\[.*got float32\[3\].*: dtype"):
        lists.weighted([np.zeros(3), np.zeros(3), np.zeros(3, "float32")], W)
    with pytest.raises(TypeError, match=r"weighted\(\): argument 'xs', element 1: .*'str'|element 1: .*str"):
        lists.weighted([np.zeros(3), "x"], W)
    for wrong in (np.zeros((2, 3)), None, iter(XS), {0: XS[0]}):
        with pytest.raises(TypeError, match=r"argument 'xs': expected a list or tuple of tensors, got"):
            lists.weighted(wrong, W)
    words = r"weighted\(\): argument 'xs', element 1: expected .*n is 2 here and 3 in argument 'xs', element 0"
    with pytest.raises(RuntimeError, match=words):
        torch_lists.weighted(of_torch(torch, [np.zeros(3), np.zeros(2)]), torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"weighted\(\): argument 'w': expected float64\[m\] on cpu, got float32\[2\]"):
        lists.weighted([np.zeros(3), np.zeros(3)], np.zeros(2, "float32"))


def test_integers(lists):
    x = np.arange(4, dtype="float32")
    assert lists.picked(x, [0, 2]).tolist() == [0, 0, 2, 0]
    assert lists.picked(x, (np.int64(3),)).tolist() == [0, 0, 0, 3]
    assert lists.picked(x).tolist() == lists.picked(x, None).tolist() == [0, 1, 2, 3]
    assert lists.picked(x, []).tolist() == [0, 0, 0, 0]
    with pytest.raises(TypeError, match=r"picked\(\): argument 'places', element 1: expected an integer, got float"):
        lists.picked(x, [0, 1.5])
    with pytest.raises(OverflowError, match=r"argument 'places', element 0: .*64 bits"):
        lists.picked(x, [2**63])
    with pytest.raises(TypeError, match=r"argument 'by': expected a list or tuple of integers, got int"):
        lists.total(x, 3)
    with pytest.raises(TypeError, match="argument 'by'"):
        lists.total(x)


def test_row_major_elements(lists, torch_lists, torch):
    whole = np.arange(6, dtype="float32").reshape(2, 3)
    expected = float(lists.ranked([whole.T.copy(), whole], np.float32(1)))
    assert float(lists.ranked([whole.T, whole], np.float32(1))) == expected
    given = torch.from_numpy(whole)
    assert torch_lists.ranked([given.T, given], torch.tensor(1.0)).item() == expected


def test_elements_that_are_written(lists, torch_lists, torch):
    caches = [CACHE.copy(), CACHE.copy()]
    assert lists.copy_blocks(caches, MAPPING) is None
    assert [cache.tolist() for cache in caches] == [COPIED] * 2
    given = of_torch(torch, [CACHE, CACHE])
    versions = [t._version for t in given]
    lists.copy_blocks(given, torch.from_numpy(MAPPING))
    torch_lists.copy_blocks(given, torch.from_numpy(MAPPING))
    assert [t._version for t in given] == [version + 2 for version in versions]
    assert given[1].tolist() == COPIED
    frozen = CACHE.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match=r"copy_blocks\(\): argument 'caches', element 1: .*read-only"):
        lists.copy_blocks([CACHE.copy(), frozen], MAPPING)
    given[1].requires_grad_()
    for f in (lists.copy_blocks, torch_lists.copy_blocks):
        with pytest.raises((RuntimeError, ValueError), match=r"argument 'caches', element 1.* requires grad"):
            f(given, torch.from_numpy(MAPPING))
    with torch.no_grad():
        torch_lists.copy_blocks(given, torch.from_numpy(MAPPING))


def test_out_in_the_memory_of_an_element(lists):
    x = np.zeros(3)
    with pytest.raises(ValueError, match=r"argument 'out': shares memory with argument 'xs'"):
        lists.weighted([np.ones(3), x], W[:2], out=x)


def test_a_list_that_changes_during_the_call(lists):
    class Shrinks(float):
        def __index__(self):
            by.clear()
            return 1

    by = [Shrinks(), 5]
    assert lists.total(np.ones(1, "float32"), by).tolist() == [6]


def test_schemas(torch_lists):
    schemas = {
        "weighted": "(Tensor[] xs, Tensor w) -> Tensor",
        "joined": "(Tensor[] xs, SymInt n) -> Tensor",
        "picked": "(Tensor x, SymInt[]? places=None) -> Tensor",
        "total": "(Tensor x, SymInt[] by) -> Tensor",
        "copy_blocks": "(Tensor(a!)[] caches, Tensor mapping) -> ()",
    }
    for name, schema in schemas.items():
        assert str(getattr(torch_lists, name).default._schema) == f"lists::{name}{schema}"


def test_torch_checks_them(torch_lists, torch):
    xs, w = of_torch(torch, XS), torch.from_numpy(W).requires_grad_()
    torch.library.opcheck(torch_lists.weighted.default, (xs, w))
    torch.library.opcheck(torch_lists.joined.default, (xs, 5))
    torch.library.opcheck(torch_lists.picked.default, (torch.arange(4.0, requires_grad=True), [0, 2]))
    torch.library.opcheck(torch_lists.copy_blocks.default, (of_torch(torch, [CACHE, CACHE]), torch.from_numpy(MAPPING)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled(lists, torch, backend):
    torch._dynamo.reset()

    def f(xs, w, x):
        return lists.weighted(xs, w), lists.joined(xs, x.shape[0]), lists.picked(x, [0, x.shape[0] - 1])

    compiled = torch.compile(f, fullgraph=True, backend=backend, dynamic=True)
    for n in (3, 5):
        xs, x = [torch.arange(float(n), dtype=torch.float64) + k for k in range(2)], torch.arange(float(n))
        w = torch.tensor([1.0, 2.0], dtype=torch.float64)
        for found, expected in zip(compiled(xs, w, x), f(xs, w, x), strict=True):
            assert torch.equal(found, expected)

    def write(caches, mapping):
        lists.copy_blocks(caches, mapping)
        return caches[0].sum()

    caches = of_torch(torch, [CACHE, CACHE])
    torch.compile(write, fullgraph=True, backend=backend)(caches, torch.from_numpy(MAPPING))
    assert [cache.tolist() for cache in caches] == [COPIED] * 2


def test_export(lists, torch):
    class Module(torch.nn.Module):
        def forward(self, a, b):
            return lists.joined([a, b], a.shape[0] + b.shape[0])

    n = torch.export.Dim("n")
    given = [torch.arange(4.0, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
    exported = torch.export.export(Module(), tuple(given), dynamic_shapes=({0: n}, None))
    longer = [torch.arange(6.0, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
    assert exported.module()(*longer).tolist() == [0, 1, 2, 3, 4, 5, 1, 1, 1]


def test_torch_has_to_see_an_element(lists, torch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        xs = [torch.empty(3, dtype=torch.float64), torch.empty(3, dtype=torch.float64)]
        assert lists.weighted(xs, torch.empty(2, dtype=torch.float64)).shape == (3,)
    negative = torch.full((3,), 1 + 2j, dtype=torch.complex128).conj().imag
    assert negative.is_neg()
    assert lists.joined([negative], 3).tolist() == negative.tolist()


def test_gradients_beside_a_list(lists, torch_lists, torch):
    xs, w = of_torch(torch, XS), torch.from_numpy(W).requires_grad_()
    for f in (lists.weighted, torch_lists.weighted):
        (dw,) = torch.autograd.grad(f(xs, w).sum(), w)
        assert dw.tolist() == [x.sum() for x in XS]
    torch.autograd.gradcheck(lambda w: lists.weighted(xs, w), (w,))
    x = torch.arange(4.0, requires_grad=True)
    assert torch.autograd.grad(lists.picked(x, [1, 3]).sum(), x)[0].tolist() == [0, 1, 0, 1]
    y = lists.weighted(xs, w)
    xs[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_gradient_of_an_element_is_refused(lists, torch_lists, torch):
    xs, w = of_torch(torch, XS), torch.from_numpy(W)
    xs[2].requires_grad_()
    for f in (lists.weighted, torch_lists.weighted):
        with pytest.raises(RuntimeError, match=r"weighted\(\): argument 'xs', element 2: it requires grad"):
            f(xs, w)
        with torch.no_grad():
            assert f(xs, w).tolist() == WEIGHTED
    one = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(Exception, match=r"joined\(\): argument 'xs', element 0: it requires grad"):
        lists.joined([one], 1)
    with pytest.raises(RuntimeError, match=r"joined\(\): argument 'xs', element 0: it requires grad"):
        torch_lists.joined([one], 1)


def test_vmap_of_torch(lists, torch_lists, torch):
    a, b = torch.randn(5, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    w = torch.randn(2, 5, dtype=torch.float64)
    for f in (lists.weighted, torch_lists.weighted):
        found = torch.vmap(lambda a, w, f=f: f([a, b], w), (0, 1))(a, w)
        assert torch.allclose(found, a * w[0][:, None] + b * w[1][:, None])
    nested = torch.vmap(torch.vmap(lambda a: lists.joined([a, b], 6)))(a.reshape(1, 5, 3))
    assert torch.equal(nested[0, 2], torch.cat([a[2], b]))
    grads = torch.func.vmap(torch.func.grad(lambda w, a: lists.weighted([a, b], w).sum()), (1, 0))(w, a)
    assert torch.allclose(grads, torch.stack([a.sum(1), b.sum().expand(5)], 1))
    caches = of_torch(torch, [np.stack([CACHE] * 2)])
    torch.vmap(lambda cache: lists.copy_blocks([cache], torch.from_numpy(MAPPING)), out_dims=None)(caches[0])
    assert caches[0].tolist() == [COPIED] * 2
    with pytest.raises(Exception, match=r"copy_blocks\(\): argument 'caches': vmap does not map it"):
        torch.vmap(lambda m: lists.copy_blocks(of_torch(torch, [CACHE]), m))(torch.from_numpy(np.stack([MAPPING] * 2)))


def test_jit(lists, jax):
    jnp = jax.numpy
    xs, w = list(map(jnp.asarray, XS)), jnp.asarray(W)
    for f in (lists.weighted, jax.jit(lists.weighted)):
        assert f(xs, w).tolist() == WEIGHTED
    assert jax.jit(lambda xs: lists.joined(xs, 13))(xs).tolist() == [*np.concatenate(XS).tolist(), -1]
    x = jnp.arange(4, dtype=jnp.float32)
    assert jax.jit(lambda x: lists.picked(x, [0, 2]))(x).tolist() == [0, 0, 2, 0]
    assert jax.jit(lambda x: lists.picked(x, []))(x).tolist() == [0, 0, 0, 0]
    assert jax.jit(lists.picked)(x).tolist() == [0, 1, 2, 3]
    mixed = jax.jit(lambda x: lists.weighted([x, np.ones(3)], w[:2]))(xs[0])
    assert mixed.tolist() == (XS[0] + 0.5).tolist()
    with pytest.raises(TypeError, match=r"picked\(\): argument 'places', element 1: found a traced value; expected an"):
        jax.jit(lambda x, k: lists.picked(x, [0, k]))(x, 1)
    with pytest.raises(ValueError, match=r"argument 'xs', element 1: expected .*n is 2 here and 3 in"):
        jax.jit(lists.weighted)([xs[0], xs[1][:2]], w)
    with pytest.raises(TypeError, match=r"argument 'xs': expected a list or tuple of tensors"):
        jax.jit(lists.weighted)(xs[0], w)


def test_gradients_and_vmap_of_jax(lists, jax):
    jnp = jax.numpy
    xs, w = tuple(map(jnp.asarray, XS)), jnp.asarray(W)
    assert jax.grad(lambda w: lists.weighted(xs, w).sum())(w).tolist() == [x.sum() for x in XS]
    with pytest.raises(NotImplementedError, match=r"weighted\(\): argument 'xs': it is differentiated"):
        jax.grad(lambda xs: lists.weighted(xs, w).sum())(xs)
    x = jnp.arange(4, dtype=jnp.float32)
    assert jax.grad(lambda x: lists.picked(x, [1, 3]).sum())(x).tolist() == [0, 1, 0, 1]
    a = jnp.asarray(np.arange(15.0).reshape(5, 3))
    found = jax.vmap(lambda a, w: lists.weighted([a, xs[1]], w), (0, 1))(a, jnp.ones((2, 5)))
    assert np.allclose(found, a + xs[1])
    rows = jnp.stack([x, x + 1])
    assert jax.vmap(lambda x: lists.picked(x, [1]))(rows).tolist() == [[0, 1, 0, 0], [0, 2, 0, 0]]


def test_elements_that_are_written_in_jax(lists, jax):
    given = jax.numpy.asarray(CACHE)
    for f in (lists.copy_blocks, jax.jit(lists.copy_blocks)):
        written = f((given, given + 1), jax.numpy.asarray(MAPPING))
        assert isinstance(written, tuple)
        assert written[0].tolist() == COPIED
        assert (written[1] - 1).tolist() == COPIED
    assert given.tolist() == CACHE.tolist()
    with pytest.raises(ValueError, match=r"argument 'caches', element 1: JAX makes this call.*expected a jax.Array"):
        lists.copy_blocks([given, CACHE.copy()], MAPPING)


def resident() -> int:
    """The bytes of this process in memory."""
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the memory of a process is told by Linux")
def test_a_call_of_torch_frees_its_lists(torch_lists, torch):
    x, by = torch.ones(1), list(range(100_000))
    one = [torch.ones(1, dtype=torch.float64)] * 20_000
    given = of_torch(torch, XS)
    ended = [weakref.ref(t) for t in given]
    torch_lists.joined(given, 3)
    torch_lists.copy_blocks([cache := torch.from_numpy(CACHE.copy())], torch.from_numpy(MAPPING))
    ended.append(weakref.ref(cache))
    with pytest.raises(RuntimeError, match="argument 'xs', element 1"):  # freed after an error, too
        torch_lists.weighted([wrong := torch.ones(3), torch.ones(2)], torch.ones(2))
    ended.append(weakref.ref(wrong))
    del given, cache, wrong
    assert [end() for end in ended] == [None] * len(ended)
    for rounds in (3, 100):  # the first ones warm up
        before = resident()
        for _ in range(rounds):
            torch_lists.total(x, by)
            torch_lists.joined(one, 1)
    assert resident() - before < 20_000_000  # one of the lists alone would be 16 or 80 MB more


def test_no_integers_are_not_none(torch_lists, torch):
    x = torch.arange(4.0)
    assert torch_lists.picked(x, []).tolist() == [0, 0, 0, 0]
    assert torch_lists.picked(x, None).tolist() == torch_lists.picked(x).tolist() == [0, 1, 2, 3]


def test_a_call_that_xla_was_told_wrong_is_refused(lists, jax):
    x = jax.numpy.ones(2)
    jax.eval_shape(lambda x: (lists.joined([x], 3), lists.total(x.astype("float32"), [1])), x)  # registers them
    lists.copy_blocks([jax.numpy.asarray(CACHE)], jax.numpy.asarray(MAPPING))
    made, length, count = jax.ShapeDtypeStruct((3,), "float64"), np.int64(1), np.int64(3)

    def said(name, shapes, operands, **attributes):
        with pytest.raises(Exception, match=rf"{name}\(\): ") as caught:
            jax.block_until_ready(jax.ffi.ffi_call(f"lists::{name}", shapes)(*operands, **attributes))
        return str(caught.value)

    assert jax.ffi.ffi_call("lists::joined", made)(x, how="la", p0=length, p1=count).tolist() == [1, 1, -1]
    for wrong in (0, 2, 2**62):
        told = said("joined", made, (x,), how="la", p0=np.int64(wrong), p1=count)
        assert "XLA's operands and results are not those of this operator" in told
    told = said("joined", made, (x,), how="la", p0=np.int64(-1), p1=count)
    assert "argument 'xs': the attribute 'how' has 'l', which is not for an argument of its kind" in told
    assert "argument 'xs': its length is not an int64" in said(
        "joined", made, (x,), how="la", p0=np.float32(1.5), p1=count
    )
    for letter in "tsan":
        assert f"argument 'xs': the attribute 'how' has '{letter}'" in said("joined", made, (x,), how=f"{letter}a")
    y, total = x.astype("float32"), jax.ShapeDtypeStruct((2,), "float64")
    for by, words in ((np.array([1.5]), "argument 'by': the attribute is not of int64"), (count, "'p1' is not a list")):
        assert words in said("total", total, (y,), how="ta", rank=length, p1=by)
    assert "argument 'by': the attribute 'how' has 's'" in said("total", total, (y, x[0]), how="ts", rank=length)
    cache, mapping = jax.numpy.asarray(CACHE), jax.numpy.asarray(MAPPING)
    written = [jax.ShapeDtypeStruct((3, 2), "float32")]
    told = said("copy_blocks", written, (cache, mapping), how="lt", p0=length)
    assert "argument 'caches': expected a result of sizes (4, 2), got (3, 2)" in told
    assert "are not those of this operator" in said("copy_blocks", 2 * written, (cache, mapping), how="lt", p0=length)


def test_no_results(lists, torch_lists, torch, jax):
    before = lists.noted()
    lists.note([np.ones(2, "float32"), np.ones(1, "float32")])
    torch_lists.note([torch.ones(4)])
    torch.compile(lists.note, fullgraph=True, backend="aot_eager")([torch.ones(1)])
    jax.block_until_ready(jax.jit(lists.note)([jax.numpy.ones(2, jax.numpy.float32)]))
    jax.effects_barrier()
    assert lists.noted() - before == 10


def test_ufuncs(lists):
    for f, name in ((lists.weighted, "xs"), (lists.total, "by")):
        with pytest.raises(ValueError, match=f"argument '{name}' is a list"):
            f.ufunc  # noqa: B018


def test_through_python(run_script):
    """Without torch's shims."""
    pytest.importorskip("torch")
    code = """
        import numpy as np, torch
        import isthmus_operators_lists_test_ext as lists
        xs = [torch.arange(3.0), torch.ones(3)]
        w = torch.tensor([2.0, 1.0], requires_grad=True)
        y = torch.ops.lists.weighted(xs, w)
        y.sum().backward()
        cache = torch.arange(8.0).reshape(4, 2)
        torch.ops.lists.copy_blocks([cache], torch.tensor([[0, 3]]))
        print(y.tolist(), w.grad.tolist(), cache[3].tolist(), torch.ops.lists.total(torch.ones(1), [2, 3]).item())
    """
    assert run_script(code, ISTHMUS_NO_TORCH_SHIMS="1").strip() == "[1.0, 3.0, 5.0] [3.0, 3.0] [0.0, 1.0] 5.0"
