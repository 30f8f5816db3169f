"""Python hosts a Java virtual machine, and the two hand each other tensors in messages of integers and strings.

Usage: exchange.py LIBRARY CLASSES, the native library and the folder of classes that run.sh made.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading
import time
import weakref
from ctypes import c_void_p
from typing import Any

import numpy as np

RELEASE = ctypes.CFUNCTYPE(None, c_void_p)


class Java:
    def __init__(self, library: str, classes: str) -> None:
        self.native = ctypes.CDLL(library)
        self.native.jvm_call.restype = c_void_p
        self.native.jvm_free.argtypes = [c_void_p]
        status = self.native.jvm_start(classes.encode(), library.encode())
        assert status == 0, f"JNI_CreateJavaVM returned {status}"

    def stop(self) -> None:
        status = self.native.jvm_stop()
        assert status == 0, f"DestroyJavaVM returned {status}"

    def call(self, verb: str, message: str = "") -> dict[str, str]:
        pointer = self.native.jvm_call(verb.encode(), message.encode())
        assert pointer, "no answer"
        answer = ctypes.string_at(pointer).decode()
        self.native.jvm_free(pointer)
        # A text, in which a semicolon separates nothing.
        if answer.startswith("error="):
            return {"error": answer.removeprefix("error=")}
        return dict(field.split("=", 1) for field in answer.split(";"))


# Our objects that Java holds. An owner is a number, and its release function another: both fit in a message.
owned: dict[int, Any] = {}
released: list[int] = []
numbers = itertools.count(1)


@RELEASE
def release(owner: int) -> None:
    released.append(owner)
    del owned[owner]


def blob_message(array: np.ndarray) -> tuple[str, int]:
    owner = next(numbers)
    owned[owner] = array
    fields = {
        "ptr": array.ctypes.data,
        "shape": ",".join(map(str, array.shape)),
        "strides": ",".join(str(step // array.itemsize) for step in array.strides),
        "dtype": array.dtype.name,
        "device": "cpu",
        "element_size": array.itemsize,
        "read_only": int(not array.flags.writeable),
        "owner": owner,
        "release": ctypes.cast(release, c_void_p).value,
    }
    return ";".join(f"{name}={value}" for name, value in fields.items()), owner


class Foreign:
    """Memory of another runtime, as NumPy's array interface describes it; gives the owner back when it is gone."""

    def __init__(self, blob: dict[str, str]) -> None:
        itemsize = int(blob["element_size"])
        self.__array_interface__ = {
            "version": 3,
            "data": (int(blob["ptr"]), blob["read_only"] == "1"),
            "shape": tuple(map(int, blob["shape"].split(","))),
            "strides": tuple(
                int(step) * itemsize for step in blob["strides"].split(",")
            ),
            "typestr": np.dtype(blob["dtype"]).str,
        }
        weakref.finalize(self, RELEASE(int(blob["release"])), int(blob["owner"]))


def wait_for_release(java: Java, owner: int) -> None:
    """Java's buffers keep the memory until its garbage collector has found them."""
    end = time.monotonic() + 60
    while owner not in released and time.monotonic() < end:
        java.call("collect")
        time.sleep(0.01)


def python_to_java(java: Java) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    message, owner = blob_message(array)
    answer = java.call("double", message)
    assert int(answer["address"]) == array.ctypes.data, answer
    assert float(answer["sum"]) == 30.0
    assert array.tolist() == [[0, 2, 4], [6, 8, 10]]
    wait_for_release(java, owner)
    assert released.count(owner) == 1
    print("python -> java: same memory, written in place, array released once")


def java_keeps_python_alive(java: Java) -> None:
    array = np.full(4, 7, np.float32)
    message, owner = blob_message(array)
    gone = weakref.ref(array)
    assert java.call("keep", message) == {"first": "7.0"}
    del array
    gc.collect()
    assert gone() is not None
    assert owner not in released
    java.call("drop")
    wait_for_release(java, owner)
    assert released.count(owner) == 1
    assert gone() is None
    print("python -> java: the array lived as long as Java held it")


def java_to_python(java: Java) -> None:
    blob = java.call("make", "shape=2,3")
    array = np.asarray(Foreign(blob))
    assert array.ctypes.data == int(blob["ptr"]) == int(blob["address"])
    assert array.dtype == np.float32
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    views = [array[:, 1]]
    del array
    gc.collect()
    assert java.call("released") == {"count": "0"}
    assert views[0].tolist() == [1, 4]
    last = threading.Thread(target=views.clear)  # on a thread that Java has never seen
    last.start()
    last.join()
    gc.collect()
    assert java.call("released") == {"count": "1"}
    print("java -> python: same memory, buffer released once, with its last view")


def refused(java: Java) -> None:
    array = np.ones(2, np.float32)
    array.flags.writeable = False
    message, owner = blob_message(array)
    assert java.call("double", message) == {"error": "ReadOnlyBufferException"}
    assert array.tolist() == [1, 1]
    wait_for_release(java, owner)
    assert released.count(owner) == 1

    for spoil, wanted in [
        (("dtype=float32", "dtype=float31"), "bad_dtype: "),
        (("shape=2", "shape=-2"), "bad_layout: "),
        (("element_size=4", "element_size=8"), "bad_dtype: "),
        (("device=cpu", "device=gpu"), "bad_device: "),
        (("strides=1", "strides=1,1"), "strides and shape differ"),
    ]:
        message, owner = blob_message(np.ones(2, np.float32))
        assert spoil[0] in message
        answer = java.call("double", message.replace(*spoil))
        assert answer.get("error", "").startswith(wanted), answer
        assert released.count(owner) == 1, wanted
    print(
        "refused: a write to read-only memory, messages that contradict themselves; each owner released once"
    )


if __name__ == "__main__":
    machine = Java(*sys.argv[1:3])
    python_to_java(machine)
    java_keeps_python_alive(machine)
    java_to_python(machine)
    refused(machine)
    assert not owned
    machine.stop()
    print("ok")
