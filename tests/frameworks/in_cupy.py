"""CuPy, which can be imported without a device; what it says then must reach the caller."""

import cupy
from checks import Skip, made, refuses

import isthmus_test_ext as ext

VERSION = cupy.__version__


def has_device():
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def back(x, **options):
    return ext.hand(x, "cupy", **options)


def check_consumer_host_memory_is_an_error():
    if has_device():
        raise Skip("CuPy copies host memory to the device that is here")
    text = refuses("consumer_failed", back, made())
    assert "cupy" in text


def check_consumer_read_only_needs_the_callers_word():
    assert "allow_read_only_loss" in refuses("read_only", back, ext.pages([4], device=(2, 0), read_only=True))


def check_there_and_back():
    if not has_device():
        raise Skip("no CUDA device")
    x = cupy.arange(6.0).reshape(2, 3)
    t = ext.tensor_of(x)
    assert t.data_ptr == x.data.ptr
    assert t.device.name == "cuda:0"
    assert back(t) is x
    y = cupy.from_dlpack(t)
    assert y.data.ptr == x.data.ptr
    assert y.tolist() == x.tolist()
