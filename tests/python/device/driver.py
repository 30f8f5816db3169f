"""The driver of a GPU by ctypes: libcuda.so.1 or libamdhip64.so, the real one or the stand-in, in the same words."""

from __future__ import annotations

import contextlib
import ctypes as ct
import threading
from collections.abc import Iterator

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
NOT_READY = 600
HOST_FUNCTION = ct.CFUNCTYPE(None, ct.c_void_p)

# What is asked here, by the name that CUDA gives it and the one of HIP.
NAMES = {
    "init": ("cuInit", "hipInit"),
    "count": ("cuDeviceGetCount", "hipGetDeviceCount"),
    "stream_create": ("cuStreamCreate", "hipStreamCreateWithFlags"),
    "stream_query": ("cuStreamQuery", "hipStreamQuery"),
    "stream_synchronize": ("cuStreamSynchronize", "hipStreamSynchronize"),
    "event_create": ("cuEventCreate", "hipEventCreateWithFlags"),
    "event_record": ("cuEventRecord", "hipEventRecord"),
    "event_destroy": ("cuEventDestroy_v2", "hipEventDestroy"),
    "stream_wait_event": ("cuStreamWaitEvent", "hipStreamWaitEvent"),
    "begin_capture": ("cuStreamBeginCapture_v2", "hipStreamBeginCapture"),
    "end_capture": ("cuStreamEndCapture", "hipStreamEndCapture"),
    "allocate": ("cuMemAlloc_v2", "hipMalloc"),
    "allocate_managed": ("cuMemAllocManaged", "hipMallocManaged"),
    "allocate_pinned": ("cuMemHostAlloc", "hipHostMalloc"),
    "launch_host_function": ("cuLaunchHostFunc", "hipLaunchHostFunc"),
}


class Driver:
    """One process uses one. `kind` is "cuda" or "rocm"; `library` a path, or a name that the loader finds."""

    def __init__(self, kind: str, library: str) -> None:
        self.hip = kind == "rocm"
        self.library = ct.CDLL(library, ct.RTLD_GLOBAL)
        self.is_standin = hasattr(self.library, "standin_log")
        self.type, self.pinned, self.managed = (10, 11, 13) if self.hip else (2, 3, 13)
        self.legacy = 0 if self.hip else 1  # as `__dlpack__(stream=)` numbers it
        self.call("init", 0)
        self.set_device(0)
        if self.is_standin:
            self.library.standin_log.restype = ct.c_char_p

    @property
    def devices(self) -> int:
        count = ct.c_int()
        self.call("count", ct.byref(count))
        return count.value

    def ask(self, name: str, *arguments: object) -> int:
        """The status of a call; integers are passed as pointers are."""
        function = getattr(self.library, NAMES[name][self.hip])
        return function(*(ct.c_void_p(a) if isinstance(a, int) else a for a in arguments))

    def call(self, name: str, *arguments: object) -> None:
        status = self.ask(name, *arguments)
        assert status == 0, f"{NAMES[name][self.hip]} failed with {status}"

    def set_device(self, device: int | None) -> None:
        """Makes it this thread's current one; None leaves the thread without, as a new thread is."""
        if self.hip:
            assert self.library.hipSetDevice(device or 0) == 0
            return
        context = ct.c_void_p()
        if device is not None:
            assert self.library.cuDevicePrimaryCtxRetain(ct.byref(context), device) == 0
        assert self.library.cuCtxSetCurrent(context) == 0

    def stream(self, *, blocking: bool = False) -> int:
        """A new stream on the current device; a blocking one waits for the legacy default stream, and it for that."""
        out = ct.c_void_p()
        self.call("stream_create", ct.byref(out), ct.c_uint(0 if blocking else 1))
        return out.value

    def memory(self, nbytes: int = 64, kind: str = "allocate") -> int:
        out = ct.c_void_p()
        flags = () if kind == "allocate" else (ct.c_uint(1 if kind == "allocate_managed" else 0),)
        self.call(kind, ct.byref(out), ct.c_size_t(nbytes), *flags)
        return out.value

    @contextlib.contextmanager
    def busy(self, stream: int) -> Iterator[None]:
        """Work on the stream that does not end before the block does."""
        if self.is_standin:
            work = self.library.standin_start(ct.c_void_p(stream))
            assert work >= 0
            yield
            self.library.standin_finish(work)
            return
        done = threading.Event()
        function = HOST_FUNCTION(lambda _: done.wait(30) and None)
        self.call("launch_host_function", stream, function, 0)
        try:
            yield
        finally:
            done.set()
            self.call("stream_synchronize", stream)

    def waits(self, stream: int) -> bool:
        """Whether something that was put on the stream, or that it waits for, has not ended."""
        status = self.ask("stream_query", stream)
        assert status in (0, NOT_READY), status
        return status == NOT_READY

    def order(self, before: int, after: int) -> int:
        """Makes a stream wait for what is on another, as a producer does: the first status that is not 0."""
        event = self.event(before)
        status = self.ask("stream_wait_event", after, event, ct.c_uint(0)) if event else 1
        if event:
            self.call("event_destroy", event)
        return status

    def event(self, stream: int) -> int | None:
        """An event recorded on the stream; None where that failed."""
        event = ct.c_void_p()
        self.call("event_create", ct.byref(event), ct.c_uint(2))
        return event.value if self.ask("event_record", event.value, stream) == 0 else None

    @contextlib.contextmanager
    def capture(self, stream: int, mode: int = GLOBAL) -> Iterator[None]:
        """The capture of a graph, which nothing in the block may invalidate."""
        self.call("begin_capture", stream, ct.c_int(mode))
        yield
        graph = ct.c_void_p()
        status = self.ask("end_capture", stream, ct.byref(graph))
        assert status == 0, f"the capture ended with {status}\n{self.log()}"

    # Of the stand-in alone

    def log(self) -> str:
        return self.library.standin_log().decode() if self.is_standin else ""

    def clear(self) -> None:
        if self.is_standin:
            self.library.standin_clear()

    def fail(self, name: str) -> None:
        """The next call of this name (without cu or hip) fails."""
        self.library.standin_fail(name.encode())

    def check(self) -> None:
        """No call went wrong, and every event is gone."""
        if self.is_standin:
            assert self.library.standin_faults() == 0, f"a call failed:\n{self.log()}"
            assert self.library.standin_living_events() == 0, f"an event is left:\n{self.log()}"

    def check_host_never_waited(self) -> None:
        assert "Synchronize" not in self.log(), self.log()
