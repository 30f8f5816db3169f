"""JAX on the CPU: immutable, 64-byte aligned or it copies, which is an error unless allowed."""

import jax
import jax.numpy as jnp
import numpy as np
from checks import DTYPES, SMALL_FLOATS, from_threads, gone, kept_by_consumer, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

VERSION = jax.__version__
jax.config.update("jax_enable_x64", True)


def back(x, **options):
    return ext.hand(x, "jax", **options)


def address(x):
    return x.unsafe_buffer_pointer()


def check_consumer_every_dtype():
    for dtype in [*DTYPES, *SMALL_FLOATS]:
        t = made(dtype, (4,))
        for x in (back(t), t.to("jax"), jax.dlpack.from_dlpack(t)):
            assert x.dtype.name == dtype
            assert address(x) == t.data_ptr
            assert x.shape == (4,)
            wanted = [1, 2, 3, 4] if dtype in SMALL_FLOATS else np.arange(4).astype(dtype).tolist()
            assert np.asarray(x).astype(np.float64 if dtype in SMALL_FLOATS else dtype).tolist() == wanted


def check_consumer_aligned_by_birth():
    """What C++ makes for itself fits."""
    t = ext.owned("empty")
    assert t.data_ptr % 64 == 0
    assert address(back(t)) == t.data_ptr


def check_consumer_unaligned_is_an_error_unless_allowed():
    for offset in (4, 16, 32):
        t = made(shape=(4,), offset=offset)
        text = refuses("needs_copy", back, t)
        assert "64" in text
        assert "allow_copy" in text
        x = back(t, allow_copy=True)
        assert address(x) != t.data_ptr
        assert x.tolist() == values(t)
    assert address(back(made(shape=(4,), offset=64))) % 4096 == 64


def check_consumer_strides():
    t = ext.pages([3, 2], "float32", strides=[1, 3], data=np.arange(6, dtype=np.float32))
    refuses("needs_copy", back, t)


def check_consumer_scalars_and_nothing():
    for shape in ([], [0], [3, 0, 2]):
        assert back(ext.pages(shape)).shape == tuple(shape)


def check_consumer_read_only_is_no_loss():
    """Its arrays are never written, so that it may have what nobody may write."""
    t = made(read_only=True)
    assert address(back(t)) == t.data_ptr
    assert address(back(made().as_read_only())) % 64 == 0


def check_consumer_lifetime():
    for take in (back, jax.dlpack.from_dlpack):
        kept_by_consumer(take, lambda x: x.tolist())


def check_consumer_computes():
    assert float(jnp.sum(back(made()))) == 15


def check_consumer_no_counterpart():
    assert "nearest" in refuses("consumer_failed", back, ext.pages([4], "float6_e2m3fn", padded=True))


def check_consumer_padded_elements():
    """A legacy capsule, which JAX before 0.11 asks for, would call them packed."""
    t = ext.pages([4], "int4", padded=True, data=bytes([1, 2, 3, 4]))
    try:
        x = back(t)
    except ext.Error:
        return
    assert x.astype(int).tolist() == [1, 2, 3, 4]


def check_producer_every_dtype():
    for dtype in DTYPES:
        x = jnp.arange(4).astype(dtype)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.shape, t.data_ptr) == (dtype, (4,), address(x))
        assert t.read_only, "JAX arrays are immutable"
        assert values(t) == x.tolist()
    for dtype in SMALL_FLOATS:
        x = jnp.arange(4).astype(dtype)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.data_ptr) == (dtype, address(x))
        assert t.read_only


def check_producer_is_read_only_for_all():
    x = jnp.arange(3.0)
    assert not np.from_dlpack(ext.tensor_of(x)).flags.writeable
    assert not ext.hand(x, "numpy").flags.writeable
    refuses("read_only", ext.own, x, require_writable=True)


def check_producer_scalars_and_nothing():
    for x in (jnp.float32(3), jnp.zeros((0,)), jnp.zeros((2, 0))):
        t = ext.tensor_of(x)
        assert t.shape == x.shape
        assert len(t.strides) == x.ndim


def check_producer_lifetime():
    kept_by_isthmus(lambda: jnp.arange(6.0).reshape(2, 3), [[0, 1, 2], [3, 4, 5]])


def check_producer_deleted():
    x = jnp.arange(3.0)
    x.delete()
    try:
        ext.tensor_of(x)
    except ext.Error:
        return
    raise AssertionError("a deleted array was taken")


def check_identity():
    for x in (jnp.arange(3.0), jnp.ones((2, 2), jnp.bfloat16), jnp.float32(1), jnp.zeros(0)):
        assert back(x) is x
        assert ext.tensor_of(x).to("jax") is x
        assert ext.hand_like(x, jnp.zeros(1)) is x


def check_threads():
    t = made()
    before = gone()

    def work():
        assert back(t)[1, 2] == 5

    from_threads(work, rounds=5)
    assert gone() == before
