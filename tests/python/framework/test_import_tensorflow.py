"""An EagerTensor is asked where it lies before its buffer, which would be a copy on the host. TensorFlow itself is tested in
tests/frameworks; here a class in its place stands for tensors of devices that this machine need not have."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import isthmus_test_ext as ext


def eager(device: object, dtype: object = "float32", **members: object) -> object:
    """12 bytes by the buffer protocol, float32[5] by `__dlpack__`."""

    def dlpack(self: object, **keywords: object) -> object:
        return self.memory.__dlpack__(max_version=keywords.get("max_version"))

    def backing_device(self: object) -> str:
        if isinstance(device, BaseException):
            raise device
        return device

    fields = {
        "__module__": "tensorflow.python.framework.ops",
        "__dlpack__": dlpack,
        "__dlpack_device__": lambda self: (1, 0),
        "backing_device": property(backing_device),
        "dtype": SimpleNamespace(name=dtype) if isinstance(dtype, str) else dtype,
        "memory": np.zeros(5, np.float32),
        **members,
    }
    return type("EagerTensor", (bytearray,), fields)(12)


@pytest.mark.parametrize("device", ["/job:localhost/replica:0/task:0/device:CPU:0", "/device:CPU:1", ""])
def test_of_the_host_by_its_buffer(take, device: str) -> None:
    found = take(eager(device))
    assert (found["shape"], found["read_only"]) == ((12,), True)


@pytest.mark.parametrize("device", ["/job:localhost/replica:0/task:0/device:GPU:0", "/device:TPU:3"])
def test_of_a_device_by_dlpack(take, device: str) -> None:
    x = eager(device)
    found = take(x)
    assert (found["data"], found["shape"], found["read_only"]) == (x.memory.ctypes.data, (5,), True)


@pytest.mark.parametrize("raised", [RuntimeError("gone"), AttributeError("no such"), KeyboardInterrupt()], ids=repr)
def test_a_device_that_cannot_be_told(take, raised: BaseException) -> None:
    with pytest.raises(ext.Error if isinstance(raised, Exception) else KeyboardInterrupt) as info:
        take(eager(raised))
    if isinstance(raised, Exception):
        assert (info.value.code, info.value.__cause__) == ("producer_failed", raised)


@pytest.mark.parametrize("device", ["/device:CPU:0", "/device:GPU:0"])
def test_strings_are_refused_on_every_device(take, refused, device: str) -> None:
    def never(self: object, **_: object) -> object:
        raise AssertionError("TensorFlow ends the process here")

    refused("bad_dtype", BufferError, take, eager(device, "string", __dlpack__=never))


@pytest.mark.parametrize("device", ["/device:CPU:0", "/device:GPU:0"])
def test_bytes_that_are_not_the_values_are_refused(take, refused, device: str) -> None:
    assert "tf.quantization.dequantize" in str(refused("not_values", BufferError, take, eager(device, "qint8")))


@pytest.mark.parametrize("device", ["/device:CPU:0", "/device:GPU:0"])
@pytest.mark.parametrize("dtype", [None, SimpleNamespace(), SimpleNamespace(name=3)], ids=str)
def test_a_dtype_that_cannot_be_told(take, refused, device: str, dtype: object) -> None:
    assert "the dtype of this " in str(refused("producer_failed", BufferError, take, eager(device, dtype=dtype)))
