"""Arrow's PyCapsule interface of streams: one chunk with elements is taken; what is wrong is refused,
and all is released."""

from __future__ import annotations

import errno
import gc

import arrow
import numpy as np
import pytest
from arrow import Plain
from arrow_stream import Chunks

import isthmus_test_ext as ext


def floats(*values: float, **fields: object) -> Plain:
    return Plain(values, **fields)


def ended(x: Chunks, *, chunks: int) -> bool:
    gc.collect()
    return sorted(x.released) == sorted(["schema", "stream", *(f"chunk {i}" for i in range(chunks))])


def test_one_chunk_is_taken_where_it_lies(take, elements) -> None:
    chunk = floats(1, 2, 3)
    x = Chunks(chunk)
    found = take(x)
    assert (found["data"], found["shape"], found["dtype"], found["read_only"]) == (chunk.address, (3,), "float32", True)
    assert x.taken == 2, "the chunk and the end, after which a stream is not to be asked"
    assert ended(x, chunks=1)
    assert elements(x) == bytes(chunk.data)


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 2])
def test_chunks_without_elements_do_not_count(take, before: int, after: int) -> None:
    chunk = floats(1, 2)
    empty = [floats(length=0) for _ in range(5)]
    x = Chunks(*empty[:before], chunk, *empty[before : before + after])
    assert take(x)["data"] == chunk.address
    assert ended(x, chunks=1 + before + after)


def test_only_empty_chunks(take) -> None:
    assert take(Chunks(floats(length=0), floats(length=0)))["shape"] == (0,)


def test_no_chunk_has_the_shape_and_the_dtype_of_the_schema(take) -> None:
    found = take(Chunks(schema=Plain(range(6), lists=(3, 2)).schema))
    assert (found["shape"], found["dtype"], found["size"]) == ((0, 3, 2), "float32", 0)


def test_lists_of_one_size_are_dimensions(take) -> None:
    assert take(Chunks(Plain(range(12), lists=(3, 2))))["shape"] == (2, 3, 2)


def test_an_owning_import_keeps_the_chunk_alone() -> None:
    x = Chunks(floats(1, 2, 3))
    kept = ext.keep(x)
    gc.collect()
    assert sorted(x.released) == ["schema", "stream"]
    ext.drop_on_thread(kept, True)
    assert ended(x, chunks=1)


def test_several_chunks_are_counted(take, refused) -> None:
    x = Chunks(floats(1), floats(), floats(2, 3), floats(4))
    error = refused("needs_copy", BufferError, take, x)
    assert "Chunks.__arrow_c_stream__() is in 3 chunks; combining them gives one" in str(error)
    assert ended(x, chunks=4)


def test_an_endless_stream_ends(take, refused) -> None:
    for chunk in (floats(1), floats(length=0)):
        assert "in 10000 or more chunks" in str(refused("needs_copy", BufferError, take, Chunks(chunk, endless=True)))


BAD = {
    "columns": (Chunks(floats(1), schema=arrow.Schema(format=b"+s")), "bad_dtype", "'+s'"),
    "strings": (Chunks(floats(1), schema=arrow.Schema(format=b"u")), "bad_dtype", "'u'"),
    "no format": (Chunks(floats(1), schema=arrow.Schema()), "bad_dtype", "no counterpart"),
    "lists of nothing": (Chunks(floats(1), schema=arrow.Schema(format=b"+w:2")), "bad_layout", "0 kinds"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_schema_forbids_is_refused_before_anything_is_taken(take, refused, name: str) -> None:
    x, code, text = BAD[name]
    assert text in str(refused(code, BufferError, take, x))
    assert x.taken == 0


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"valid": b"\x05", "null_count": 1}, "not_values", "nulls"),
        ({"length": -1}, "bad_layout", "length -1"),
        ({"n_buffers": 3}, "bad_layout", "3 buffers"),
        ({"length": 1 << 62}, "overflow", ""),
    ],
)
def test_a_bad_chunk(take, refused, fields: dict, code: str, text: str) -> None:
    x = Chunks(floats(1, 2, 3, **fields))
    assert text in str(refused(code, BufferError, take, x))
    assert ended(x, chunks=1)


def test_writing_is_refused(refused) -> None:
    x = Chunks(floats(1, 2))
    refused("read_only", BufferError, ext.own, x, require_writable=True)
    assert ended(x, chunks=1)


def test_a_status_is_told_with_the_words_of_the_stream(take, refused) -> None:
    schema = Chunks(floats(1), before_schema=lambda: errno.EIO, last_error=b"no schema today")
    assert "gave a stream that failed: no schema today" in str(refused("producer_failed", BufferError, take, schema))
    chunk = Chunks(floats(1), floats(2), before_next=lambda number: number and errno.EIO)
    assert str(refused("producer_failed", BufferError, take, chunk)).endswith("gave a stream that failed")
    assert chunk.released.count("chunk 0") == chunk.released.count("stream") == chunk.released.count("schema") == 1


@pytest.mark.parametrize("raised", [RuntimeError, KeyboardInterrupt])
def test_what_the_method_raises(take, raised: type) -> None:
    class Fails:
        def __arrow_c_stream__(self, requested_schema=None):
            raise raised("now")

    with pytest.raises(ext.Error if raised is RuntimeError else raised) as info:
        take(Fails())
    assert raised is KeyboardInterrupt or isinstance(info.value.__cause__, RuntimeError)


@pytest.mark.parametrize("answer", [None, 3, "array", "spent"])
def test_something_else_than_a_stream(take, refused, answer: object) -> None:
    class Odd:
        def __arrow_c_stream__(self, requested_schema=None):
            if answer == "array":
                self.array = Plain(range(3))
                return self.array.export()[1]
            if answer == "spent":
                self.chunks = Chunks(floats(1))
                capsule = self.chunks.__arrow_c_stream__()
                self.chunks.stream.release = None
                return capsule
            return answer

    x = Odd()
    assert "capsule of Arrow's streams" in str(refused("producer_failed", BufferError, take, x))


def test_an_array_comes_first(take) -> None:
    class Both(Plain):
        def __arrow_c_stream__(self, requested_schema=None):
            raise AssertionError("the stream was asked")

    assert take(Both(range(4)))["shape"] == (4,)


def test_a_column_of_pandas_is_shared() -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    values = np.arange(4.0)
    x = pd.Series(values, copy=False)
    if not hasattr(x, "__arrow_c_stream__"):
        pytest.skip("a pandas before 3.0")
    assert ext.own(x)["data"] == values.ctypes.data


def test_an_exception_that_the_stream_leaves_is_the_cause(take, refused) -> None:
    x = Chunks(floats(1, 2))
    made = x.__arrow_c_stream__

    def with_another_end(requested_schema: object = None) -> object:
        capsule = made()
        x.stream.get_next = ext.get_next_that_raises()
        return capsule

    x.__arrow_c_stream__ = with_another_end
    error = refused("producer_failed", BufferError, take, x)
    assert isinstance(error.__cause__, OSError)
    assert str(error).endswith("Chunks.__arrow_c_stream__() raised OSError: the disk is gone")
    assert ended(x, chunks=0)
