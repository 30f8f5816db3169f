"""Calls of the sweep that need what is mostly not here, frameworks and a GPU: stand-ins have their functions."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from making import Make, as_is

SUPPORT = Path(__file__).resolve().parents[1] / "python" / "support"
DEVICE = SUPPORT.parent / "device"
CUDA = (2, 0)


class Array:
    """What the stand-ins make: it knows where its elements are, and nothing else."""

    def __init__(self, address: int) -> None:
        self.address = address

    def data_ptr(self) -> int:
        return self.address


class Halved(Array):
    """In elements of another size: it is asked for what they have become."""

    nbytes = 12
    dtype = "float16"


def module(name: str, **content: Any) -> None:
    made = sys.modules[name] = types.ModuleType(name)
    made.__dict__.update(content)


def stand_ins() -> dict[str, Make]:
    ext: Any = importlib.import_module("isthmus_test_ext")
    x = ext.pages([2, 3])
    return frameworks(ext, x) | device(ext) | {"allocate": as_is(functools.partial(ext.allocate, type(x)))}


def frameworks(ext: Any, x: Any) -> dict[str, Make]:
    frozen = ext.pages([2, 3], read_only=True)

    def handing(framework: str, given: Any, made: Callable[[], Any], of_package: Any = None, **options: Any) -> Make:
        """The stand-in is made in the forked process: that of another call is another one."""

        def from_dlpack(*_: Any) -> Any:
            return made()

        def ready() -> Callable[[], Any]:
            if framework == "cupy":
                module("cupy", from_dlpack=from_dlpack)
            elif framework == "paddle":
                module("paddle", Tensor=of_package)
                module("paddle.utils")
                module("paddle.utils.dlpack", from_dlpack=from_dlpack)
            return lambda: type(ext.hand(given, framework, **options)).__name__

        return ready

    address = x.data_ptr
    return {
        "cupy": handing("cupy", x, lambda: Array(address)),
        "cupy_read_only": handing("cupy", frozen, lambda: Array(address), allow_read_only_loss=True),
        "paddle": handing("paddle", x, lambda: Array(address)),
        "paddle_copies": handing("paddle", x, lambda: Array(address + 64)),
        "paddle_halves": handing("paddle", x, lambda: Halved(address + 64), allow_copy=True),
        "paddle_exchange": handing("paddle", x, lambda: None, type(x)),
    }


def device(ext: Any) -> dict[str, Make]:
    """Memory of a GPU, whose driver is the stand-in that tests/python/device has too."""
    from compiling import compiled

    sys.path.append(str(DEVICE))
    from driver import Driver

    name = "libcuda.so.1"
    flags = ["-O1", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-pthread"]
    folder = compiled(name, ["cc", *flags, SUPPORT / "driver_standin.c"])
    driver = Driver("cuda", str(folder / name))
    theirs, ours = driver.stream(), driver.stream()
    memory = ext.pages([2, 3], device=CUDA, stream=theirs)

    class Producer:
        """Which alone knows its stream."""

        def __dlpack_device__(self) -> tuple[int, int]:
            return CUDA

        def __dlpack__(
            self, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
        ) -> Any:
            return memory.__dlpack__(stream=-1, max_version=max_version)

    def ordering(call: Callable[[], Any]) -> Make:
        """Of which the driver is told that the one stream waits for the other."""

        def ordered() -> str:
            driver.clear()
            call()
            return "ordered" if "StreamWaitEvent" in driver.log() else "not ordered"

        return as_is(ordered)

    def of_producer() -> Any:
        return ext.tensor_of(Producer()).__dlpack__(stream=ours, max_version=(1, 3))

    return {
        "on_stream": ordering(lambda: ext.own(memory, stream=ours)),
        "dlpack_on_stream": ordering(lambda: memory.__dlpack__(stream=ours, max_version=(1, 3))),
        "ordered_by_producer": ordering(of_producer),
    }
