"""JAX arrays on the CPU: by the buffer protocol where it knows the dtype, and always read-only."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import isthmus_test_ext as ext

jax = pytest.importorskip("jax")
jnp = jax.numpy

BUFFER_DTYPES = ["bool", "int8", "int16", "int32", "uint8", "uint16", "uint32", "float16", "float32", "complex64"]
OTHER_DTYPES = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
WIDE_DTYPES = ["int64", "uint64", "float64", "complex128"]


@pytest.mark.parametrize("name", BUFFER_DTYPES + OTHER_DTYPES)
def test_dtypes(take, elements, name: str) -> None:
    x = jnp.arange(6).astype(name).reshape(2, 3)
    try:
        jax.dlpack.from_dlpack(x)
    except Exception:
        pytest.skip(f"this JAX does not export {name}")
    found = take(x)
    assert found["dtype"] == name
    assert found["shape"] == (2, 3)
    assert found["data"] == x.unsafe_buffer_pointer()
    assert found["read_only"]
    assert elements(x) == np.asarray(x).tobytes()


@pytest.mark.parametrize("name", WIDE_DTYPES)
def test_wide_dtypes(take, name: str) -> None:
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        x = jnp.arange(6).astype(name)
    found = take(x)
    assert (found["dtype"], found["data"]) == (name, x.unsafe_buffer_pointer())


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 3, 4)])
def test_shapes(take, elements, shape: tuple[int, ...]) -> None:
    x = jnp.zeros(shape, jnp.float32)
    assert take(x)["shape"] == shape
    assert elements(x) == np.asarray(x).tobytes()


def test_immutable_memory_is_read_only(take, refused) -> None:
    for name in ("float32", "bfloat16"):
        x = jnp.ones(3, name)
        assert take(x)["read_only"]
        refused("read_only", BufferError, take, x, require_writable=True)


def test_a_copy_may_be_written(take) -> None:
    for name in ("float32", "bfloat16"):
        x = jnp.ones(3, name)
        found = take(x, copy="always", require_writable=True)
        assert found["data"] != x.unsafe_buffer_pointer()
        assert not found["read_only"]


def test_stream_and_device_go_through_the_method(take) -> None:
    x = jnp.ones(3)
    assert take(x, device=(1, 0))["data"] == x.unsafe_buffer_pointer()


def test_deleted(take) -> None:
    for name in ("float32", "bfloat16"):
        x = jnp.ones(3, name)
        x.delete()
        with pytest.raises(ext.Error) as info:
            take(x)
        assert info.value.code == "producer_failed"
        assert "deleted" in str(info.value)


def test_donated(take) -> None:
    x = jnp.ones(1024)
    jax.jit(lambda y: y + 1, donate_argnums=0)(x).block_until_ready()
    if not x.is_deleted():
        pytest.skip("this backend donates nothing")
    with pytest.raises(ext.Error):
        take(x)


def test_tracer_inside_jit(take, refused) -> None:
    seen = []

    def body(x):
        seen.append(refused("not_values", BufferError, take, x))
        return x

    jax.jit(body)(jnp.ones(3))
    assert len(seen) == 1
    assert "jit" in str(seen[0])


@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp", "scan", "make_jaxpr"])
def test_tracers_of_every_transform(take, transform: str) -> None:
    codes = []

    def body(x):
        try:
            take(x)
        except ext.Error as error:
            codes.append(error.code)
        return (x * x).sum()

    x = jnp.ones(3)
    if transform == "jvp":
        jax.jvp(body, (x,), (x,))
    elif transform == "scan":
        jax.lax.scan(lambda carry, y: (carry, body(y)), 0.0, x)
    else:
        getattr(jax, transform)(body)(x)
    assert codes
    assert set(codes) <= {"not_values", "producer_failed", "not_a_tensor"}


def test_key_array(take) -> None:
    with pytest.raises(ext.Error):
        take(jax.random.key(0))


def test_shape_struct_is_no_tensor(take, refused) -> None:
    refused("not_a_tensor", TypeError, take, jax.ShapeDtypeStruct((3,), "float32"))


def test_small_ints(take) -> None:
    for name in ("int4", "uint4", "int2"):
        if not hasattr(jnp, name):
            continue
        x = jnp.ones(4, name)
        try:
            found = take(x)
        except ext.Error as error:
            assert error.code in ("producer_failed", "bad_dtype")
        else:
            assert found["dtype"] == name


def test_several_devices(child) -> None:
    """A sharded array has no single memory; one that lives on another CPU device, or is replicated, may have."""
    child(
        """
        import jax, numpy as np, isthmus_test_ext as ext
        from jax.sharding import NamedSharding, PartitionSpec as P
        jnp = jax.numpy
        assert len(jax.devices()) == 2
        mesh = jax.make_mesh((2,), ("x",))
        for name in ("float32", "bfloat16"):
            sharded = jax.device_put(jnp.arange(8).astype(name), NamedSharding(mesh, P("x")))
            for call in (ext.borrow, ext.own):
                try:
                    found = call(sharded)
                except ext.Error as error:
                    print(error.code, error)
                else:
                    raise AssertionError(f"a sharded array was taken: {found}")
            for shard in sharded.addressable_shards:
                assert ext.own_elements(shard.data) == np.asarray(shard.data).tobytes()
            second = jax.device_put(jnp.arange(8).astype(name), jax.devices()[1])
            assert ext.own_elements(second) == np.asarray(second).tobytes()
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )


def test_references_are_exact() -> None:
    for name in ("float32", "bfloat16"):
        x = jnp.ones(3, name)
        ext.own(x)  # the first asks JAX for things that it keeps
        before = sys.getrefcount(x)
        for _ in range(50):
            ext.borrow(x)
            ext.own(x)
        assert sys.getrefcount(x) == before


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
@pytest.mark.parametrize("gil", [True, False])
def test_the_memory_lives_as_long_as_the_handle(name: str, gil: bool) -> None:
    x = jnp.arange(1000).astype(name)
    wanted = np.asarray(x).tobytes()
    number = ext.keep(x)
    del x
    jnp.zeros(1000, name).block_until_ready()
    assert ext.kept_elements(number) == wanted
    ext.drop_on_thread(number, gil)


def test_a_kept_array_cannot_be_donated_away() -> None:
    """While C++ holds the memory, JAX must not give it to a result: what was imported stays as it was."""
    x = jnp.arange(1024, dtype=jnp.float32)
    wanted = np.asarray(x).tobytes()
    number = ext.keep(x)
    jax.jit(lambda y: y * 0 - 1, donate_argnums=0)(x).block_until_ready()
    assert ext.kept_elements(number) == wanted
    ext.drop(number)
