"""Arrow's C stream as ctypes sees it, and an object that hands one out; every release is counted."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable

import arrow


class Stream(ct.Structure):
    pass


GET_SCHEMA = ct.PYFUNCTYPE(ct.c_int, ct.POINTER(Stream), ct.POINTER(arrow.Schema))
GET_NEXT = ct.PYFUNCTYPE(ct.c_int, ct.POINTER(Stream), ct.POINTER(arrow.Array))
GET_LAST_ERROR = ct.PYFUNCTYPE(ct.c_void_p, ct.POINTER(Stream))
RELEASE_STREAM = ct.PYFUNCTYPE(None, ct.POINTER(Stream))
Stream._fields_ = [
    ("get_schema", ct.c_void_p), ("get_next", ct.c_void_p), ("get_last_error", ct.c_void_p),
    ("release", ct.c_void_p), ("private_data", ct.c_void_p),
]  # fmt: skip


class Chunks:
    """`chunks`: an arrow.Plain for each. `before_schema` and `before_next` may raise or return an errno."""

    def __init__(
        self,
        *chunks: arrow.Plain,
        schema: arrow.Schema | None = None,
        before_schema: Callable[[], int | None] = lambda: 0,
        before_next: Callable[[int], int | None] = lambda number: 0,
        last_error: bytes | None = None,
        endless: bool = False,
    ) -> None:
        self.chunks, self.endless = chunks, endless
        self.schema = schema if schema is not None else chunks[0].schema
        self.before_schema, self.before_next, self.last_error = before_schema, before_next, last_error
        self.taken = 0
        self.released: list[str] = []

    def function(self, kind: type, call: Callable) -> int:
        function = kind(call)
        arrow.for_good.append(function)
        return ct.cast(function, ct.c_void_p).value

    def release_of(self, what: str, kind: type) -> int:
        def release(pointer: object) -> None:
            self.released.append(what)
            pointer.contents.release = None

        return self.function(kind, release)

    def get_schema(self, _: object, out: object) -> int:
        status = self.before_schema()
        if status == 0:
            ct.memmove(out, ct.byref(self.schema), ct.sizeof(arrow.Schema))
            out.contents.release = self.release_of("schema", arrow.RELEASE_SCHEMA)
        return status

    def get_next(self, _: object, out: object) -> int:
        status = self.before_next(self.taken)
        if status == 0:
            if self.endless or self.taken < len(self.chunks):
                chunk = self.chunks[self.taken % len(self.chunks)]
                ct.memmove(out, ct.byref(chunk.array), ct.sizeof(arrow.Array))
                out.contents.release = self.release_of(f"chunk {self.taken}", arrow.RELEASE_ARRAY)
            else:
                out.contents.release = None
            self.taken += 1
        return status

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self.taken = 0
        text = None if self.last_error is None else ct.create_string_buffer(self.last_error)
        self.stream = stream = Stream(
            get_schema=self.function(GET_SCHEMA, self.get_schema),
            get_next=self.function(GET_NEXT, self.get_next),
            get_last_error=self.function(GET_LAST_ERROR, lambda _: text and ct.addressof(text)),
            release=self.release_of("stream", RELEASE_STREAM),
        )
        arrow.for_good.extend([stream, text])

        def destroy(capsule: int) -> None:
            if stream.release:
                RELEASE_STREAM(stream.release)(ct.pointer(stream))

        destructor = arrow.DESTRUCTOR(destroy)
        arrow.for_good.append(destructor)
        return arrow._new(ct.addressof(stream), b"arrow_array_stream", ct.cast(destructor, ct.c_void_p))
