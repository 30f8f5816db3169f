"""NumPy, with ml_dtypes where NumPy itself has no word: it keeps everything."""

import sys

import numpy as np
from checks import (
    DTYPES,
    SMALL_FLOATS,
    Skip,
    from_threads,
    gone,
    kept_by_consumer,
    kept_by_isthmus,
    made,
    refuses,
    steps,
    values,
)

import isthmus_test_ext as ext

VERSION = np.__version__


def back(x):
    return ext.hand(x, "numpy")


def ways(t):
    return [back(t), t.to("numpy"), np.from_dlpack(t), np.asarray(t), np.asarray(memoryview(t))]


def check_consumer_every_dtype():
    for dtype in [*DTYPES, "longdouble"]:
        t = ext.tensor_of(np.arange(4).astype(dtype)) if dtype == "longdouble" else made(dtype, (4,))
        found = [back(t), np.asarray(t), np.asarray(memoryview(t))]
        if dtype != "longdouble":
            found += [np.from_dlpack(t), t.to("numpy")]
        for a in found:
            assert a.dtype == dtype
            assert a.ctypes.data == t.data_ptr
            assert a.tolist() == np.arange(4).astype(dtype).tolist()


def check_consumer_ml_dtypes():
    try:
        import ml_dtypes
    except ImportError:
        raise Skip("ml_dtypes is not installed") from None
    names = [
        "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
        "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
    ]  # fmt: skip
    for name in names:
        scalar = getattr(ml_dtypes, name, None)
        if scalar is None:
            continue
        x = np.array([1, 2, 4, 8]).astype(scalar)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.itemsize) == (name, x.itemsize)
        assert back(t) is x
        flat = ext.hand_reshaped(x, "numpy")
        assert flat.dtype == x.dtype
        assert flat.ctypes.data == x.ctypes.data
        assert flat.astype(float).tolist() == [1, 2, 4, 8]
        assert np.asarray(t).dtype == x.dtype
    for name in ("int4", "uint4", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "int2", "uint2"):
        scalar = getattr(ml_dtypes, name, None)
        if scalar is None:
            continue
        x = np.array([0, 1, 1, 0]).astype(scalar)
        t = ext.tensor_of(x)
        assert (t.dtype.name, t.nbytes) == (name, 4), (t.dtype.name, t.nbytes)
        assert ext.hand_reshaped(x, "numpy").astype(float).tolist() == [0, 1, 1, 0]


def check_consumer_no_counterpart():
    assert "nearest" in refuses("bad_dtype", back, ext.pages([4], "float4_e2m1fn"))
    assert "nearest" in refuses("bad_dtype", back, ext.pages([4], "float32x4"))
    ml_dtypes = sys.modules.get("ml_dtypes")
    if not hasattr(ml_dtypes, "complex32"):  # ml_dtypes 0.6 has it
        assert "complex64" in refuses("bad_dtype", back, ext.pages([4], "complex32"))


def check_consumer_without_ml_dtypes():
    hidden = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == "ml_dtypes"}
    sys.modules["ml_dtypes"] = None
    try:
        assert "ml_dtypes" in refuses("bad_dtype", back, made("bfloat16"))
    finally:
        del sys.modules["ml_dtypes"]
        sys.modules.update(hidden)


def check_consumer_layouts():
    grid = np.arange(24.0).reshape(4, 6)
    views = [
        grid, grid.T, grid[:, ::2], grid[1:, 2:], grid[::-1], grid[::-1, ::-2], np.asfortranarray(grid),
        np.broadcast_to(grid[0], (3, 6)), grid[1, 2, ...], grid[:0], grid[:, 3:3], grid[None, :, None],
        np.zeros((1,) * 64),
    ]  # fmt: skip
    for a in views:
        t = ext.tensor_of(ext.tensor_of(a).__dlpack__(max_version=(1, 0)))  # the way back must not be the same object
        for b in ways(t):
            assert b is not a
            assert b.shape == a.shape
            assert b.flags.writeable == a.flags.writeable
            if a.size < 100:
                assert b.tolist() == a.tolist()
            if a.size:
                assert b.ctypes.data == a.ctypes.data
                assert steps(b.strides, b.shape) == steps(a.strides, a.shape)


def check_consumer_nothing_is_allocated_for_size_0():
    for shape in ([0], [3, 0]):
        t = ext.pages(shape)
        for a in ways(t):
            assert a.shape == tuple(shape)
            assert not a.flags.owndata


def check_consumer_read_only():
    for t in (made(read_only=True), made().as_read_only()):
        for a in ways(t):
            assert not a.flags.writeable
            try:
                a.flags.writeable = True
            except ValueError:
                continue
            raise AssertionError("made writable")


def check_consumer_device_memory():
    assert "cuda:0" in refuses("bad_device", back, ext.pages([2], device=(2, 0)))


def check_consumer_the_base_is_the_tensor():
    t = made()
    assert back(t).base is t


def check_consumer_lifetime():
    for take in (back, np.from_dlpack, np.asarray, memoryview):
        kept_by_consumer(take, lambda a: a.tolist())
    kept_by_consumer(lambda t: back(t)[:, :].view(), np.ndarray.tolist)


def check_consumer_copies():
    t = made()
    assert np.from_dlpack(t, copy=True).ctypes.data != t.data_ptr
    assert np.from_dlpack(t, copy=False).ctypes.data == t.data_ptr
    assert np.from_dlpack(t, device="cpu").ctypes.data == t.data_ptr


def check_identity():
    class Sub(np.ndarray):
        pass

    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        mapped = np.memmap(file.name, np.float32, "w+", shape=(4,))
        locked = np.arange(3)
        locked.flags.writeable = False
        for x in (
            np.arange(3),
            np.arange(6)[::2],
            np.arange(3).view(Sub),
            np.float32([[1]]).T,
            np.array(3),
            mapped,
            locked,
            np.ma.masked_array([1, 2]),
        ):
            if isinstance(x, np.ma.MaskedArray):
                continue  # the mask is no part of the exchange
            assert back(x) is x
            assert ext.tensor_of(x).to("numpy") is x
            assert ext.hand_like(x, np.zeros(1)) is x
        del mapped
    a = np.arange(4)
    assert ext.hand_reshaped(a, "numpy") is not a
    assert ext.hand_reshaped(a, "numpy").ctypes.data == a.ctypes.data


def check_producer_lifetime():
    kept_by_isthmus(lambda: np.arange(6.0).reshape(2, 3), [[0, 1, 2], [3, 4, 5]])


def check_producer_writes_are_seen():
    a = np.zeros(3)
    np.from_dlpack(ext.tensor_of(a))[1] = 5
    assert a[1] == 5
    assert values(ext.tensor_of(a)) == [0, 5, 0]


def check_threads():
    t = made()

    def work():
        assert back(t)[1, 2] == 5
        assert np.from_dlpack(t)[0, 1] == 1

    before = gone()
    from_threads(work)
    assert gone() == before
    assert [*SMALL_FLOATS]
