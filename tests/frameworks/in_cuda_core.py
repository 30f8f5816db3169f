"""cuda.core's StridedMemoryView, which needs no device for memory of the host."""

import cuda.core
import numpy as np
from checks import DTYPES, Skip, gone, made, values
from cuda.core.utils import StridedMemoryView

import isthmus_test_ext as ext

VERSION = cuda.core.__version__


def view(t):
    return StridedMemoryView.from_dlpack(t, stream_ptr=-1)


def check_consumer_every_dtype():
    for dtype in DTYPES:
        t = made(dtype, (4,))
        v = view(t)
        assert v.ptr == t.data_ptr
        assert v.dtype == dtype
        assert v.shape == (4,)
        assert not v.is_device_accessible


def check_consumer_strides():
    v = view(ext.pages([3, 2], strides=[1, 3]))
    assert v.strides == (1, 3)
    assert view(made()).strides in (None, (3, 1))


def check_consumer_read_only_is_kept():
    assert view(made(read_only=True)).readonly
    assert not view(made()).readonly


def check_consumer_lifetime():
    before = gone()
    v = view(made())
    assert gone() == before
    del v
    assert gone() == before + 1


def check_consumer_cuda_tensors_are_described():
    t = ext.pages([4], device=(2, 0))
    v = view(t)
    assert v.is_device_accessible
    assert v.ptr == t.data_ptr


def check_consumer_cuda_array_interface():
    t = ext.pages([4], device=(2, 0))
    try:
        v = StridedMemoryView.from_cuda_array_interface(t, stream_ptr=-1)
    except Exception as error:
        raise Skip(f"no CUDA driver: {type(error).__name__}") from None
    assert (v.ptr, v.shape) == (t.data_ptr, (4,))


def check_producer():
    a = np.arange(6.0).reshape(2, 3)
    v = StridedMemoryView.from_dlpack(a, stream_ptr=-1)
    if not hasattr(v, "__dlpack__"):
        return
    t = ext.tensor_of(v)
    assert t.data_ptr == a.ctypes.data
    assert values(t) == a.tolist()
