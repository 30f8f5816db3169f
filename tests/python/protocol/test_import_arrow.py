"""Arrow's PyCapsule interface, where a type has nothing better: numbers and lists of one size of them,
without nulls."""

from __future__ import annotations

import ctypes as ct
import gc

import arrow
import pytest
from arrow import OnDevice, Plain

import isthmus_test_ext as ext

KINDS = {
    b"c": (ct.c_int8, "int8"), b"C": (ct.c_uint8, "uint8"), b"s": (ct.c_int16, "int16"), b"S": (ct.c_uint16, "uint16"),
    b"i": (ct.c_int32, "int32"), b"I": (ct.c_uint32, "uint32"), b"l": (ct.c_int64, "int64"),
    b"L": (ct.c_uint64, "uint64"), b"e": (ct.c_uint16, "float16"), b"f": (ct.c_float, "float32"),
    b"g": (ct.c_double, "float64"),
}  # fmt: skip

both = pytest.mark.parametrize("producer", [Plain, OnDevice])


@both
@pytest.mark.parametrize("form", KINDS)
def test_numbers(take, elements, producer: type, form: bytes) -> None:
    kind, name = KINDS[form]
    x = producer(range(5), kind, form)
    found = take(x)
    assert (found["data"], found["shape"], found["strides"], found["dtype"]) == (x.address, (5,), (1,), name)
    assert found["device"] == "cpu"
    assert found["read_only"]
    assert elements(x) == bytes(x.data)


def test_a_slice(take, elements) -> None:
    x = Plain(range(8), offset=2, length=5)
    assert take(x)["data"] == x.address + 2 * 4
    assert elements(x) == bytes(x.data)[8:28]


def test_lists_of_one_size_are_dimensions(take, elements) -> None:
    x = Plain(range(24), ct.c_double, b"g", lists=(3, 2))
    found = take(x)
    assert (found["shape"], found["strides"]) == ((4, 3, 2), (6, 2, 1))
    assert elements(x) == bytes(x.data)
    x = Plain(range(24), ct.c_double, b"g", lists=(3, 2), offset=1, length=2)
    x.inner.offset, x.inner.length = 4, 20
    assert take(x)["data"] == x.address + 8 * (1 * 6 + 4)
    assert take(Plain(range(6), lists=(3,), length=0))["shape"] == (0, 3)


def test_no_elements(take) -> None:
    assert take(Plain())["shape"] == (0,)


@pytest.mark.parametrize("count", [-1, 1])
@pytest.mark.parametrize("offset", [0, 3, 8])
def test_a_bitmap_without_nulls(take, count: int, offset: int) -> None:
    valid = [True] * 40
    valid[:offset] = [False] * offset
    valid[offset + 30 :] = [False] * (10 - offset)
    packed = bytes(sum(valid[8 * i + j] << j for j in range(8)) for i in range(5))
    x = Plain(range(40), valid=packed, null_count=count, offset=offset, length=30)
    assert take(x)["shape"] == (30,)


def test_read_only(take, refused) -> None:
    x = Plain(range(3))
    refused("read_only", BufferError, take, x, require_writable=True)
    assert sorted(x.released) == ["array", "schema"]


@both
def test_released_once_and_kept_till_then(producer: type) -> None:
    """The second question, whether the memory is the object's own, is ended within the import."""
    x = producer(range(3))
    kept = ext.keep(x)
    gc.collect()
    assert sorted(x.released) == ["array", "schema", "schema"]
    ext.drop_on_thread(kept, True)
    assert x.released[3:] == ["array"]
    ext.borrow(x)
    assert sorted(x.released[4:]) == 2 * ["array"] + 2 * ["schema"]


def test_the_way_back_is_the_same_object() -> None:
    x = Plain(range(3))
    assert ext.hand(x, "tensor").owner is x


def with_null_in_a_list(values: object, **fields: object) -> Plain:
    made = Plain(values, valid=b"\x05", **fields)
    made.inner.null_count = 1
    return made


BAD = {
    "a null": (
        Plain,
        {"valid": b"\x05", "null_count": 1},
        "not_values",
        "Plain.__arrow_c_array__() has nulls, which DLPack cannot say; fill them first",
    ),
    "an unknown null": (Plain, {"valid": b"\x05", "null_count": -1}, "not_values", "has nulls"),
    "a null in a whole byte": (
        lambda values, **fields: Plain(range(20), **fields),
        {"valid": b"\xff\xf7\xff", "null_count": -1},
        "not_values",
        "has nulls",
    ),
    "metadata of no length": (Plain, {"metadata": b"\1\0\0\0" + b"\xff" * 4}, "bad_dtype", "an extension type"),
    "bits": (Plain, {"form": b"b"}, "bad_dtype", "'b': bits, eight to a byte; cast it to uint8"),
    "dates": (Plain, {"form": b"tdD"}, "bad_dtype", "'tdD': times; cast it to int64 by way of int32"),
    "times": (Plain, {"form": b"ttu"}, "bad_dtype", "'ttu': times; cast it to int64 first (pyarrow: x.cast"),
    "lists of times": (
        Plain,
        {"form": b"ttu", "lists": (2,)},
        "bad_dtype",
        "cast the items of its lists to int64 first (pyarrow: x.flatten(recursive=True).cast",
    ),
    "lists of nulls": (
        with_null_in_a_list,
        {"lists": (2,)},
        "not_values",
        "fill the items of its lists first (pyarrow: x.flatten(recursive=True).fill_null(0)",
    ),
    "strings": (Plain, {"form": b"u", "n_buffers": 3}, "bad_dtype", "'u': no counterpart in DLPack"),
    "a struct": (Plain, {"form": b"+s", "n_buffers": 1}, "bad_dtype", "no counterpart"),
    "no format": (Plain, {"form": None}, "bad_dtype", "no counterpart"),
    "a wrong list size": (Plain, {"form": b"+w:x", "n_buffers": 1}, "bad_dtype", "not a size"),
    "a huge list size": (Plain, {"form": b"+w:99999999999999999999", "n_buffers": 1}, "bad_dtype", "not a size"),
    "a list without items": (Plain, {"form": b"+w:2", "n_buffers": 1}, "bad_layout", "0 kinds of items"),
    "lists beyond their items": (
        Plain,
        {"lists": (2,), "length": 4},
        "bad_layout",
        "lists of 2 that reach beyond its 6 items",
    ),
    "lists that overflow": (Plain, {"lists": (2,), "length": 1 << 62, "offset": 1 << 61}, "bad_layout", "reach beyond"),
    "an extension": (
        Plain,
        {"metadata": arrow.extension("arrow.uuid")},
        "bad_dtype",
        "an extension type; take its storage",
    ),
    "a negative length": (Plain, {"length": -1}, "bad_layout", "length -1"),
    "a negative offset": (Plain, {"offset": -1}, "bad_layout", "offset -1"),
    "a huge offset": (Plain, {"offset": 1 << 62}, "overflow", "starts at element 4611686018427387904"),
    "too long": (Plain, {"length": 1 << 62}, "overflow", ""),
    "too long for its bitmap": (Plain, {"length": 1 << 62, "valid": b"\xff", "null_count": -1}, "overflow", ""),
    "a list without children": (Plain, {"lists": (2,), "children": None}, "bad_layout", "1 kinds of items"),
    "a device number": (OnDevice, {"device": (2, 1 << 40, None)}, "bad_device", "number 1099511627776"),
    "an event of the host": (OnDevice, {"device": (3, 0, None)}, "unavailable", "an event of cuda_host"),
    "three buffers": (Plain, {"n_buffers": 3}, "bad_layout", "3 buffers"),
    "no buffers": (Plain, {"buffers": None}, "bad_layout", "buffers"),
    "an unknown device": (OnDevice, {"device": (99, 0, None)}, "bad_device", "99"),
    "an event": (OnDevice, {"device": (10, 0, None)}, "unavailable", "an event of rocm"),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(take, refused, name: str) -> None:
    producer, fields, code, text = BAD[name]
    if name.startswith("an event"):
        event = ct.c_void_p(1)
        fields = {"device": (*fields["device"][:2], ct.addressof(event))}
    x = producer(range(3 if "lists" not in fields else 6), **fields)
    assert text in str(refused(code, BufferError, take, x))
    gc.collect()
    assert sorted(x.released) == ["array", "schema"]


def test_a_dictionary(take, refused) -> None:
    x = Plain(range(3), ct.c_int32, b"i")
    values = arrow.Array()
    x.array.dictionary = ct.pointer(values)
    assert "decode it first" in str(refused("bad_dtype", BufferError, take, x))


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: None,
        lambda x: (1, 2),
        lambda x: x.export()[::-1],
        lambda x: x.export()[:1],
        lambda x: (x.export()[0], {}),
    ],
    ids=["None", "integers", "reversed", "one", "a dict"],
)
def test_something_else_than_capsules(take, refused, answer) -> None:
    class Odd(Plain):
        def __arrow_c_array__(self, requested_schema=None):
            return answer(self)

    x = Odd(range(3))
    assert "pair of Arrow's capsules" in str(refused("producer_failed", BufferError, take, x))
    gc.collect()
    assert x.released.count("array") <= 1


def test_released_already(take, refused) -> None:
    class Spent(Plain):
        def __arrow_c_array__(self, requested_schema=None):
            self.pair = getattr(self, "pair", None) or self.export()
            return self.pair

    x = Spent(range(3))
    kept = ext.keep(x)
    refused("producer_failed", BufferError, take, x)
    ext.drop_on_thread(kept, False)
    assert x.released == ["array"]


def test_what_the_producer_raises_is_the_cause(take, refused) -> None:
    class Fails(Plain):
        def __arrow_c_array__(self, requested_schema=None):
            raise ValueError("chunked")

    error = refused("producer_failed", BufferError, take, Fails(range(3)))
    assert isinstance(error.__cause__, ValueError)


def test_on_a_device(take) -> None:
    found = take(OnDevice(range(3), device=(2, 1, None)))
    assert found["device"] == "cuda:1"
    maybe = OnDevice(range(3), device=(2, 0, None), valid=b"\xff", null_count=-1)
    with pytest.raises(BufferError, match="may have nulls"):
        take(maybe)


def test_dlpack_comes_first(take) -> None:
    np = pytest.importorskip("numpy")

    class Both(Plain):
        memory = np.zeros(7)

        def __dlpack__(self, **keywords):
            return self.memory.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    assert take(Both(range(3)))["shape"] == (7,)


def test_what_is_unsound_is_told_as_of_any_tensor(take, refused) -> None:
    x = Plain(range(3))
    x.array.buffers[1] = None
    error = refused("null_data", BufferError, take, x)
    said = "data is NULL with 3 elements (shape (3,)); expected the address of the elements"
    assert str(error) == f"argument 'the_argument': {said}"
