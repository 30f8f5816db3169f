"""MLX on the CPU: copies whatever it imports, so copies must be allowed; silently narrows float64."""

import mlx.core as mx
import numpy as np
from checks import from_threads, kept_by_isthmus, made, refuses, values

import isthmus_test_ext as ext

VERSION = mx.__version__
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "complex64",
]


def back(x, **options):
    return ext.hand(x, "mlx", **options)


def check_consumer_copies_only_when_allowed():
    t = made()
    assert "allow_copy" in refuses("needs_copy", back, t)
    x = back(t, allow_copy=True)
    assert x.tolist() == values(t)
    x[1, 2] = 50
    assert values(t)[1][2] == 5


def check_consumer_every_dtype():
    for dtype in DTYPES:
        x = back(made(dtype, (4,)), allow_copy=True)
        assert str(x.dtype).endswith(dtype)
        assert x.tolist() == np.arange(4).astype(dtype).tolist()


def check_consumer_narrowing_is_an_error():
    """mx.array(float64) is float32."""
    for dtype in ("float64", "complex128"):
        try:
            x = back(made(dtype, (4,)), allow_copy=True)
        except ext.Error as error:
            assert error.code in ("bad_dtype", "consumer_failed"), error
        else:
            assert str(x.dtype).endswith(dtype), f"{dtype} became {x.dtype}"


def check_consumer_read_only():
    assert back(made(read_only=True), allow_copy=True).tolist() == [[0, 1, 2], [3, 4, 5]]


def check_producer_every_dtype():
    for dtype in [*DTYPES, "bfloat16"]:
        x = mx.arange(4).astype(getattr(mx, "bool_" if dtype == "bool" else dtype))
        mx.eval(x)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.shape) == (dtype, (4,))
        if dtype != "bfloat16":
            assert values(t) == x.tolist()


def check_producer_slices():
    """The byte offset of their capsules is not 0."""
    x = mx.arange(24).reshape(4, 6)
    for v in (x[1:], x[:, 2:4], x.T, x[::2]):
        mx.eval(v)
        assert np.from_dlpack(ext.tensor_of(v)).tolist() == v.tolist()


def check_producer_layouts():
    """Where DLPack itself says that they are, also of arrays that were not evaluated before."""
    x = mx.arange(12).reshape(3, 4)
    row = mx.broadcast_to(mx.array([1, 2, 3]), (2, 3))
    for v in (mx.ones(3) + 1, x[::-1], x[:, ::-2], row, mx.array(3.5), mx.zeros((0,)), mx.zeros((2, 0, 3))):
        t, wanted = ext.tensor_of(v), np.from_dlpack(v)
        assert (t.data_ptr, t.shape, t.read_only) == (wanted.__array_interface__["data"][0], wanted.shape, False)
        assert np.from_dlpack(t).tolist() == v.tolist()
        if v.size:
            assert ext.own(v)["strides"] == tuple(step // wanted.itemsize for step in wanted.strides)


def check_producer_is_written():
    x = mx.zeros(3)
    np.from_dlpack(ext.tensor_of(x))[1] = 5
    assert x.tolist() == [0, 5, 0]


def check_producer_replaced_by_its_own_operation():
    """MLX frees, or writes in place, what only its buffer shows: a tensor must hold the memory itself."""
    for change in (lambda x: x.__imul__(mx.ones((2, 65536), mx.int32)), lambda x: x.__iadd__(1)):
        x = mx.arange(65536).astype(mx.int32)
        mx.eval(x)
        t = ext.tensor_of(x)
        mx.eval(change(x))
        others = [mx.full((65536,), -5, mx.int32) for _ in range(8)]
        mx.eval(others)
        assert values(t) == list(range(65536))


def check_producer_traced():
    def f(x):
        assert "eval" in refuses("producer_failed", ext.tensor_of, x)
        return x

    mx.eval(mx.compile(f)(mx.ones(3)))
    mx.eval(mx.vmap(f)(mx.ones((3, 2))))


def check_threads():
    x = mx.arange(6)
    mx.eval(x)
    from_threads(lambda: values(ext.tensor_of(x)) == [0, 1, 2, 3, 4, 5] or 1 / 0)


def check_producer_lifetime():
    kept_by_isthmus(lambda: mx.arange(6.0).reshape(2, 3), [[0, 1, 2], [3, 4, 5]])


def check_identity():
    x = mx.arange(3)
    assert back(x) is x
    assert ext.tensor_of(x).to("mlx") is x
