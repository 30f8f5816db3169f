"""An EagerTensor is asked where it lies before its buffer, which would be a copy on the host. TensorFlow itself is
tested in tests/frameworks; here a class in its place stands for tensors of devices that this machine need not have."""

from __future__ import annotations

import array
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import isthmus_test_ext as ext


def eager(device: object, dtype: object = "float32", memory: object = bytearray(12), **members: object) -> object:
    """12 bytes by the buffer protocol (or a copy of `memory`), float32[5] by `__dlpack__`."""

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
    start = (memory.typecode, memory) if isinstance(memory, array.array) else (memory,)
    return type("EagerTensor", (type(memory),), fields)(*start)


class DType:
    """As TensorFlow's own: one object per dtype."""

    __module__ = "tensorflow.python.framework.dtypes"

    def __init__(self, name: str) -> None:
        self.called = name
        self.asked = 0

    @property
    def name(self) -> str:
        self.asked += 1
        return self.called


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


CPU = "/device:CPU:0"


def test_the_device_is_asked_each_time(take) -> None:
    """A program may add devices at any moment."""
    devices = ["/device:GPU:0", CPU, "/device:GPU:0", CPU]
    x = eager("", backing_device=property(lambda self: devices.pop()))
    assert [take(x)["shape"] for _ in range(4)] == [(12,), (5,), (12,), (5,)]


def test_a_dtype_is_asked_for_its_name_once(take) -> None:
    """TensorFlow has one object per dtype, whose name never changes."""
    dtype, other = DType("int8"), DType("int8")
    for _ in range(3):
        assert take(eager(CPU, dtype))["shape"] == (12,)
        assert take(eager("/device:GPU:0", dtype))["shape"] == (5,)
    assert dtype.asked == 1
    take(eager(CPU, other))
    assert other.asked == 1


@pytest.mark.parametrize("name", ["string", "resource", "variant", "qint8"])
def test_a_dtype_that_is_refused_is_refused_each_time(refused, take, name: str) -> None:
    dtype = DType(name)
    for _ in range(3):
        refused("not_values" if name == "qint8" else "bad_dtype", BufferError, take, eager(CPU, dtype))
    assert dtype.asked == 3


def test_a_dtype_of_another_class_is_asked_each_time(refused, take) -> None:
    dtype = SimpleNamespace(name="int8")
    take(eager(CPU, dtype))
    dtype.name = "qint8"
    refused("not_values", BufferError, take, eager(CPU, dtype))


def test_one_reference_is_kept_to_a_dtype(take) -> None:
    """Its address would be another's otherwise."""
    dtype = DType("int16")
    before = sys.getrefcount(dtype)
    for _ in range(5):
        x = eager(CPU, dtype)
        take(x)
        type(x).dtype = None  # the class, which a cycle keeps, held another
        del x
    assert sys.getrefcount(dtype) == before + 1


def test_more_dtypes_than_are_kept(child) -> None:
    child(
        """
        import sys; sys.path.insert(0, "tests/python/framework")
        import isthmus_test_ext as ext
        from test_import_tensorflow import CPU, DType, eager
        dtypes = [DType(f"int{n}") for n in range(100)]
        for _ in range(3):
            for dtype in dtypes:
                assert ext.own(eager(CPU, dtype))["shape"] == (12,)
        assert [dtype.asked for dtype in dtypes] == [1] * 32 + [3] * 68, [dtype.asked for dtype in dtypes]
        try:
            ext.own(eager(CPU, DType("string")))
        except ext.Error as error:
            assert error.code == "bad_dtype"
        else:
            raise AssertionError("strings were taken")
        """
    )


def test_dtypes_from_threads(child) -> None:
    child(
        """
        import sys, threading; sys.path.insert(0, "tests/python/framework")
        import isthmus_test_ext as ext
        from test_import_tensorflow import CPU, DType, eager
        kinds = [DType(name) for name in ("int8", "qint8", "int16", "string", "int32", "uint8")]
        wrong, start = [], threading.Barrier(6)

        def work(first):
            start.wait()
            for turn in range(300):
                dtype = kinds[(first + turn) % len(kinds)]
                try:
                    taken = ext.own(eager(CPU, dtype))["shape"] == (12,)
                except ext.Error:
                    taken = False
                if taken != (dtype.called not in ("qint8", "string")):
                    wrong.append(dtype.called)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert not wrong, wrong
        """
    )


@pytest.mark.parametrize("letter", "qQfd")
def test_a_format_without_doubt(take, letter: str) -> None:
    """No quantised dtype shows such numbers, so that the dtype need not be asked."""
    x = eager(CPU, memory=array.array(letter, [1, 2, 3]), dtype=property(lambda self: 1 / 0))
    assert take(x)["shape"] == (3,)


@pytest.mark.parametrize("letter", "bBhHiI")
def test_a_format_in_doubt(refused, take, letter: str) -> None:
    """TensorFlow's qint8 to quint16 and qint32 show them."""
    x = eager(CPU, "qint32", memory=array.array(letter, [1, 2, 3]))
    refused("not_values", BufferError, take, x)
