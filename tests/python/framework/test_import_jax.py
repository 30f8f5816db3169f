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


def with_layout(x: np.ndarray, major_to_minor: tuple[int, ...]) -> object:
    """A JAX array whose dimensions lie in memory in this order."""
    layouts = pytest.importorskip("jax.experimental.layout", reason="this JAX has no layouts")
    if not hasattr(layouts, "Format"):
        pytest.skip("this JAX names layouts otherwise; 0.7 and newer have Format")
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.device_put(x, layouts.Format(layouts.Layout(major_to_minor), sharding))


@pytest.mark.parametrize("name", ["bool", "int8", "float32", "complex64", "bfloat16"])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)], ids=str)
def test_other_layouts(take, elements, name: str, order: tuple[int, ...]) -> None:
    """A buffer without strides can show row-major memory alone, and would show every other in the wrong order."""
    wanted = np.arange(24).reshape(2, 3, 4).astype(jnp.dtype(name))
    x = with_layout(wanted, order)
    found = take(x)
    in_order = np.ascontiguousarray(wanted.transpose(order)).transpose(np.argsort(order))
    assert found["strides"] == tuple(n // wanted.itemsize for n in in_order.strides)
    assert (found["shape"], found["data"], found["read_only"]) == ((2, 3, 4), x.unsafe_buffer_pointer(), True)
    assert elements(x) == wanted.tobytes()


def array_impl(x: np.ndarray) -> np.ndarray:
    """NumPy's buffer under the name of JAX's class: what it lends without strides is row-major as well."""
    return x.view(type("ArrayImpl", (np.ndarray,), {"__module__": "jaxlib._jax"}))


@pytest.mark.parametrize("change", [lambda x: x.T, lambda x: x[:, ::2], lambda x: x[::-1], lambda x: x[:, :1]])
def test_memory_that_is_not_row_major_comes_by_dlpack(take, elements, change) -> None:
    x = array_impl(change(np.arange(12, dtype=np.float32).reshape(3, 4)))
    assert take(x)["read_only"]
    assert take(x)["strides"] == tuple(n // 4 for n in x.strides)
    assert elements(x) == x.tobytes()


def test_a_buffer_without_strides_is_checked_like_any_other(take, refused) -> None:
    x = array_impl(np.frombuffer(bytes(41), np.float32, 10, 1))
    assert "not aligned" in str(refused("needs_copy", BufferError, take, x))


def test_a_result_in_another_layout(take, elements) -> None:
    x = with_layout(np.zeros((3, 2), np.float32), (1, 0))
    made = jax.jit(lambda y: y.T * 2, out_shardings=x.format)(jnp.arange(6.0).reshape(2, 3))
    assert take(made)["strides"] == (1, 3)
    assert elements(made) == (np.arange(6, dtype=np.float32).reshape(2, 3).T * 2).tobytes()


@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1), (0, 3), (3, 0)], ids=str)
def test_layouts_of_few_elements(take, elements, shape: tuple[int, ...]) -> None:
    x = with_layout(np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape), (1, 0))
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
