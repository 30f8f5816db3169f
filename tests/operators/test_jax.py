"""Operators under JAX's transformations."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("isthmus.operators")
jnp = jax.numpy


@pytest.fixture
def ext(bare):
    """The operators are the same objects in every binder's module; one test goes through all of them."""
    return bare


def array(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(3).random(shape), dtype=np.float32)


def reference(a: jax.Array, b: jax.Array) -> jax.Array:
    return ((a[:, None] - b[None]) ** 2).sum(-1)


def close(a, b) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("module", ["isthmus_operators_nanobind_test_ext", "isthmus_operators_pybind11_test_ext"])
def test_an_operator_of_every_binder(module):
    distance = pytest.importorskip(module).distance
    a, b = array(5, 3), array(4, 3)
    close(jax.jit(distance)(a, b), reference(a, b))


def test_jit_reads_the_operand_where_it_lies(ext):
    a, b = array(5, 3), array(4, 3)
    close(jax.jit(lambda x, y: ext.distance(x, b=y) + 1)(a, b), reference(a, b) + 1)
    jax.jit(ext.distance)(a, b).block_until_ready()
    assert ext.last_call()[:2] == (a.unsafe_buffer_pointer(), 0), "in place, without the GIL"


def test_every_kind_of_scalar_static_and_traced(ext):
    x = array(3, 4)
    close(jax.jit(lambda x: ext.scale(x, 3.0, mode="square"))(x), (3 * x) ** 2)
    close(jax.jit(lambda x, k, t, n: ext.scale(x, k, t, n))(x, 3.0, 2, True), -9 * x)
    close(jax.jit(lambda x, k: ext.scale(x, k))(x, 3), 3 * x)
    assert jax.jit(ext.first, static_argnames="k")(x[0], k=2).shape == (2,)


def test_no_rows_with_a_scalar_for_each(ext):
    before = ext.last_call()[2]
    assert jax.vmap(lambda x, k: ext.scale(x, k))(array(0, 3), array(0)).shape == (0, 3)
    assert ext.last_call()[2] == before, "there is nothing to call the function with"


def test_options_overloads_and_tuples(ext):
    assert jax.jit(ext.twice)(jnp.arange(3, dtype=np.int32)).tolist() == [0, 2, 4]
    with jax.enable_x64(True):
        x = jnp.arange(3.0)
        total, parts = jax.jit(ext.weighted)(x)
        assert (total.shape, parts.tolist()) == ((), [0, 1, 2])
        assert jax.jit(ext.weighted)(x, None)[0] == 3
        assert jax.jit(ext.weighted)(x, 2 * jnp.ones(3))[0] == 6
        assert jax.jit(ext.distance)(jnp.ones((1, 2)), jnp.zeros((1, 2))).dtype == np.float64


def test_grad(ext):
    a, b = array(5, 3), array(4, 3)

    def loss(f):
        return lambda x, y: jnp.sin(f(x, y)).sum()

    for place in (0, 1):
        close(jax.grad(loss(ext.distance), place)(a, b), jax.grad(loss(reference), place)(a, b))
        close(jax.jit(jax.grad(loss(ext.distance), place))(a, b), jax.grad(loss(reference), place)(a, b))
    value, (da, db) = jax.value_and_grad(loss(ext.distance), (0, 1))(a, b)
    assert np.isfinite(value) and da.shape == a.shape and db.shape == b.shape  # noqa: PT018
    close(jax.grad(lambda x: ext.scale(x, 3.0, 2).sum())(a), np.full(a.shape, 9.0))


def test_vmap_nested_and_of_grad(ext):
    a, b = array(2, 5, 3), array(7, 4, 3)
    for transform in (lambda f: f, jax.jit):
        close(transform(jax.vmap(ext.distance, (0, None)))(a, b[0]), jax.vmap(reference, (0, None))(a, b[0]))
        close(
            transform(jax.vmap(ext.distance, (2, None), 1))(a.transpose(1, 2, 0), b[0]),
            jax.vmap(reference, (0, None), 1)(a, b[0]),
        )

        def both(f):
            return jax.vmap(jax.vmap(f, (None, 0)), (0, None))

        close(transform(both(ext.distance))(a, b), both(reference)(a, b))

    def loss(f):
        return lambda x, y: jnp.sin(f(x, y)).sum()

    close(
        jax.vmap(jax.grad(loss(ext.distance)), (0, None))(a, b[0]),
        jax.vmap(jax.grad(loss(reference)), (0, None))(a, b[0]),
    )
    close(
        jax.grad(lambda y: loss(jax.vmap(ext.distance, (0, None)))(a, y))(b[0]),
        jax.grad(lambda y: loss(jax.vmap(reference, (0, None)))(a, y))(b[0]),
    )


def test_vmap_of_scalars_and_of_free_ranks(ext):
    x, k = array(2, 3, 4), jnp.array([2.0, 3.0])
    close(jax.vmap(ext.scale)(x, k), x * k[:, None, None])
    close(jax.vmap(lambda k: ext.scale(x, k))(k), x * k[:, None, None, None])
    close(jax.vmap(jax.vmap(ext.scale, (0, None)), (None, 0))(x, k), x * k[:, None, None, None])
    close(jax.vmap(ext.twice)(x), 2 * x)


def test_leading_dimensions_broadcast_where_asked(ext):
    with jax.enable_x64(True):
        a, b = jnp.asarray(np.random.rand(4, 1, 3)), jnp.asarray(np.random.rand(2, 3))
        close(jax.jit(ext.dot)(a, b), (a * b).sum(-1))
        close(jax.vmap(ext.dot, (0, None))(a, b), (a * b).sum(-1))
        close(jax.jit(ext.dot)(a[0, 0], b[0]), (a[0, 0] * b[0]).sum())


MISTAKES = {
    "size": (lambda e, a, b: e.distance(a, b[:, :2]), ValueError, "d is 2 here and 3 in argument 'a'"),
    "dtype": (
        lambda e, a, b: e.distance(a, b.astype(int)),
        ValueError,
        "argument 'b': expected float32[m, d]",
    ),
    "numpy's dtype": (
        lambda e, a, b: e.distance(a, np.ones((4, 3))),
        ValueError,
        "argument 'b': expected float32[m, d] on cpu",
    ),
    "rank": (
        lambda e, a, b: e.distance(a[0], b),
        ValueError,
        "argument 'a': expected float32[n, d] on cpu, got float32[3]",
    ),
    "missing": (lambda e, a, b: e.distance(a), TypeError, "distance() missing required argument 'b'"),
    "list": (lambda e, a, b: e.distance(a, [1.0]), TypeError, "argument 'b': expected a tensor, got list"),
    "number": (lambda e, a, b: e.scale(a, "x"), TypeError, "scale(): argument 'factor': expected a number, got str"),
    "integer": (
        lambda e, a, b: e.scale(a, times=1.5),
        TypeError,
        "scale(): argument 'times': expected an integer, got float",
    ),
    "bool": (
        lambda e, a, b: e.scale(a, negate=1),
        TypeError,
        "scale(): argument 'negate': expected True or False, got int",
    ),
    "text": (lambda e, a, b: e.scale(a, mode=1), TypeError, "scale(): argument 'mode': expected a string, got int"),
    "writes": (
        lambda e, a, b: e.add_to(np.zeros(3, np.float32), b[0]),
        ValueError,
        "add_to(): argument 'y': JAX makes this call, and what it writes is a new array; expected a jax.Array, got "
        "ndarray",
    ),
    "traced size": (lambda e, a, b: e.first(a[0], jnp.int32(2) + 0), TypeError, "argument 'k': found a traced value"),
    "out": (lambda e, a, b: e.distance(a, b, out=np.ones((5, 4))), ValueError, "argument 'out'"),
    "thrown": (lambda e, a, b: e.fail(a[0], "runtime"), Exception, "fail(): it broke"),
    "error": (lambda e, a, b: e.fail(a[0], "error"), Exception, "INVALID_ARGUMENT: only a copy would do"),
    "memory": (lambda e, a, b: e.fail(a[0], "memory"), Exception, "RESOURCE_EXHAUSTED: fail(): no memory"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_our_sentence(ext, mistake):
    call, error, text = MISTAKES[mistake]
    if mistake == "traced size":
        function = jax.jit(lambda a, k: ext.first(a[0], k))
        arguments = (array(5, 3), 2)
    else:
        function, arguments = jax.jit(lambda a, b: call(ext, a, b)), (array(5, 3), array(4, 3))
    with pytest.raises(error) as caught:
        jax.block_until_ready(function(*arguments))
    assert text in str(caught.value)


def said_by_xla(name, shapes, operands, **attributes):
    """What the handler says of a call that isthmus.operators would not make."""
    with pytest.raises(Exception, match=r"\(\): ") as caught:
        jax.block_until_ready(jax.ffi.ffi_call(f"geo::{name}", shapes)(*operands, **attributes))
    return str(caught.value)


def test_a_call_that_xla_was_told_wrong_is_refused(ext):
    a, b = array(2, 5, 3), array(2, 4, 3)
    jax.block_until_ready(jax.jit(ext.distance)(a[0], b[0]))
    jax.block_until_ready(jax.jit(ext.scale)(a))
    out = jax.ShapeDtypeStruct((2, 5, 4), np.float32)
    rank = np.int64(2)
    good = {"how": "tt", "rank": rank}
    assert jax.ffi.ffi_call("geo::distance", out)(a, b, **good).shape == (2, 5, 4)
    assert "argument 'b': expected the leading sizes (2,), got sizes" in said_by_xla(
        "distance", out, (a, array(3, 4, 3)), **good
    )
    low = jax.ShapeDtypeStruct((2, 5, 3), np.float32)
    assert "argument 'factor': expected a scalar, got an array of sizes (1,)" in said_by_xla(
        "scale", low, (a, array(2, 1)), how="tsaaa", rank=np.int64(2), p2=np.int64(1), p3=np.bool_(False), p4="plain"
    )
    wide = jax.ShapeDtypeStruct((1, 5, 3), np.float32)
    assert "argument 'out': expected the leading sizes (2,), got sizes (1, 5, 3)" in said_by_xla(
        "scale", wide, (a, array(2)), how="tsaaa", rank=np.int64(2), p2=np.int64(1), p3=np.bool_(False), p4="plain"
    )
    assert "argument 'b': the attribute 'how' has 'n'" in said_by_xla("distance", out, (a,), how="tn", rank=rank)
    assert "argument 'b': the attribute 'how' has 's'" in said_by_xla("distance", out, (a, b), how="ts", rank=rank)
    assert "'rank' is not an int64" in said_by_xla("distance", out, (a, b), how="tt", rank=np.float32(2.5))
    assert "'rank' is not that of" in said_by_xla("distance", out, (a, b), how="tt", rank=np.int64(-(2**63)))


def test_a_call_of_xla_without_operands_has_no_leading_dimensions(bare):
    close(jax.jit(bare.times_count)(array(3), 2.0), 6)
    alone = jax.ffi.ffi_call("geo::times_count", jax.ShapeDtypeStruct((), np.float32))(how="na", p1=np.float64(2))
    close(alone, 2)


@pytest.mark.parametrize(
    ("names", "value", "said"),
    [
        ("factor", np.ones(3, np.float32), "'factor': expected a number, got a traced float32[3]"),
        ("factor", np.float16(2), "'factor': expected a number, got a traced float16[]"),
        ("times", np.float32(2), "'times': expected an integer, got a traced float32[]"),
        ("times", np.ones(1, np.int32), "'times': expected an integer, got a traced int32[1]"),
        ("negate", np.int32(1), "'negate': expected True or False, got a traced int32[]"),
    ],
)
def test_a_traced_array_is_no_scalar(ext, names, value, said):
    with pytest.raises(TypeError) as caught:
        jax.jit(lambda x, v: ext.scale(x, **{names: v}))(array(3), value)
    assert f"scale(): argument {said}" in str(caught.value)


def test_a_differentiated_scalar_is_refused_by_name(ext):
    x = array(3)

    def loss(x, factor):
        return ext.scale(x, factor).sum()

    for transform in (lambda f: f, jax.jit):
        for places in (1, (0, 1)):
            with pytest.raises(NotImplementedError, match=r"scale\(\): argument 'factor': it is differentiated"):
                transform(jax.grad(loss, places))(x, 3.0)
        close(transform(jax.grad(loss))(x, 3.0), np.full(3, 3.0))
        stopped = jax.grad(lambda x, k: loss(x, jax.lax.stop_gradient(k)), (0, 1))
        close(transform(stopped)(x, 3.0)[0], np.full(3, 3.0))
        close(transform(jax.vmap(jax.grad(loss), (None, 0)))(x, jnp.array([2.0, 3.0])), [[2.0] * 3, [3.0] * 3])


def test_a_result_that_is_not_used_has_no_gradient_to_give(ext):
    close(
        jax.jit(jax.grad(lambda a, b: 0 * ext.distance(a, b).sum() + a.sum()))(array(5, 3), array(4, 3)),
        np.ones((5, 3)),
    )


def test_exported_with_symbolic_sizes(ext):
    checks = [jax.export.DisabledSafetyCheck.custom_call("geo::distance")]
    (n,) = jax.export.symbolic_shape("n")
    shapes = jax.ShapeDtypeStruct((n, 3), np.float32), jax.ShapeDtypeStruct((4, 3), np.float32)
    exported = jax.export.export(jax.jit(ext.distance), disabled_checks=checks)(*shapes)
    for size in (2, 5):
        a, b = array(size, 3), array(4, 3)
        close(exported.call(a, b), reference(a, b))


def test_over_several_devices(run_script):
    said = run_script(
        """
        import jax, jax.numpy as jnp, numpy as np, isthmus_operators_test_ext as ext
        from jax.sharding import Mesh, PartitionSpec as P
        a, b = jnp.asarray(np.random.rand(8, 3), dtype="float32"), jnp.asarray(np.random.rand(4, 3), dtype="float32")
        expected = ((a[:, None] - b[None]) ** 2).sum(-1)
        mesh = Mesh(np.array(jax.devices()), ("i",))
        spread = jax.jit(jax.shard_map(ext.distance, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i")))
        assert np.allclose(spread(a, b), expected, rtol=1e-4)
        mapped = jax.pmap(ext.distance, in_axes=(0, None))(a.reshape(4, 2, 3), b)
        assert np.allclose(mapped.reshape(8, 4), expected, rtol=1e-4)
        print(len(jax.devices()), ext.last_call()[2])
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=4",
    )
    assert said == "4 8\n"


def test_jax_is_not_imported_before_it_is_needed(run_script):
    assert (
        run_script(
            """
        import sys, numpy as np, isthmus, isthmus_operators_test_ext as ext
        ext.distance(np.ones((1, 2)), np.ones((1, 2)))
        print("jax" in sys.modules, "torch" in sys.modules)
        import jax
        isthmus.operators.register("jax")
        print(jax.jit(ext.distance)(np.ones((1, 2), "f4"), np.zeros((1, 2), "f4")))
        """
        )
        == "False False\n[[2.]]\n"
    )


def test_a_module_imported_again_goes_by_the_same_target(run_script):
    assert (
        run_script(
            """
        import sys, jax, numpy as np, isthmus_operators_test_ext as first
        x = np.ones((1, 2), "f4")
        print(jax.jit(first.distance)(x, x))
        del sys.modules["isthmus_operators_test_ext"]
        import isthmus_operators_test_ext as again
        print(jax.jit(again.distance)(x, 2 * x), jax.jit(first.distance)(x, 3 * x))
        """
        )
        == "[[0.]]\n[[2.]] [[8.]]\n"
    )
