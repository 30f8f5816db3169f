"""Arguments that are written, in JAX: its arrays are immutable, so the written one is returned."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("isthmus.operators")
jnp = jax.numpy


def row(n: int = 3) -> jax.Array:
    return jnp.arange(n, dtype=np.float32)


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_what_is_written_is_returned(bare, transform):
    y, x = row(), row() + 1
    made = transform(bare.add_to)(y, x)
    assert isinstance(made, jax.Array)
    assert made.tolist() == [1, 3, 5]
    assert y.tolist() == [0, 1, 2], "an array of JAX does not change"


def test_behind_the_results(parameters):
    x = row()
    total, kept = jax.jit(parameters.add_and_keep)(x, x, x)
    assert total.tolist() == [0, 2, 4]
    assert kept.tolist() == [0, 3, 6]
    assert jax.jit(parameters.add_and_keep)(x, x).tolist() == [0, 2, 4]
    assert parameters.add_and_keep(x, x, x)[1].tolist() == [0, 3, 6]


def test_a_loop_in_one_program(bare):
    def run(y, x):
        return jax.lax.fori_loop(0, 10, lambda _, y: bare.add_to(y, x), y)

    assert jax.jit(run, donate_argnums=0)(row(), row()).tolist() == [0, 11, 22]


def test_the_memory_of_a_donated_array_is_written(bare):
    y = row(4096)
    place = y.unsafe_buffer_pointer()
    made = jax.jit(bare.add_to, donate_argnums=0)(y, row(4096))
    assert made.unsafe_buffer_pointer() == place


def test_a_program_says_that_operand_and_result_are_one(bare):
    lowered = jax.jit(bare.add_to).lower(row(), row()).as_text()
    assert "output_operand_alias" in lowered, "else each step of a loop copies"


def test_batches(bare):
    ys, x = jnp.stack([row(), row() * 2]), row()
    assert jax.jit(jax.vmap(bare.add_to))(ys, ys).tolist() == [[0, 2, 4], [0, 4, 8]]
    assert jax.vmap(bare.add_to, (0, None))(ys, x).tolist() == [[0, 2, 4], [0, 3, 6]]
    assert jax.vmap(bare.add_to, (None, 0))(x, ys).tolist() == [[0, 2, 4], [0, 3, 6]], "each has its copy"
    assert jax.jit(bare.add_rows)(ys, x).tolist() == [[0, 2, 4], [0, 3, 6]]


@pytest.mark.parametrize("transform", [lambda f: f, jax.jit])
def test_a_cache_with_int64_indices(kinds, transform):
    cache, rows = jnp.zeros((4, 2)), jnp.ones((2, 2))
    made = transform(kinds.put_rows)(cache, jnp.array([3, 1]), rows)
    assert made[:, 0].tolist() == [0, 1, 0, 1]
    assert made.dtype == np.float32


def test_an_array_of_numpy_is_written_by_a_plain_call(bare):
    y = np.zeros(3, np.float32)
    assert bare.add_to(y, row()) is None
    assert y.tolist() == [0, 1, 2]


def test_a_result_in_other_memory_is_a_copy(bare):
    bare_add = jax.ffi.ffi_call("geo::add_to", [jax.ShapeDtypeStruct((3,), np.float32)])
    bare.add_to(row(), row())  # registers it
    y = row()
    assert bare_add(y, row(), how="tt", rank=np.int64(1))[0].tolist() == [0, 2, 4]
    assert y.tolist() == [0, 1, 2]
    other = jax.ffi.ffi_call("geo::add_to", [jax.ShapeDtypeStruct((4,), np.float32)])
    with pytest.raises(Exception, match=r"argument 'y': expected a result of sizes \(3,\), got \(4,\)"):
        jax.block_until_ready(other(y, row(), how="tt", rank=np.int64(1)))


def test_exported_with_symbolic_sizes(bare):
    (n,) = jax.export.symbolic_shape("n")
    given = jax.ShapeDtypeStruct((n,), np.float32)
    checks = [jax.export.DisabledSafetyCheck.custom_call("geo::add_to")]
    exported = jax.export.export(jax.jit(bare.add_to), disabled_checks=checks)(given, given)
    assert exported.call(row(5), row(5)).tolist() == [0, 2, 4, 6, 8]
