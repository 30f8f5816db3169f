"""isthmus.load of GGUF files: tensors over the file's pages, values of its keys, and one error for each flaw."""

from __future__ import annotations

import gc
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isthmus
from isthmus.gguf_file import KINDS

NUMBERS = {name: number for number, (name, *_) in KINDS.items()}
DTYPES = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: bytes, sizes: Sequence[int], kind: str | int, begin: int) -> bytes:
    number = NUMBERS[kind] if isinstance(kind, str) else kind
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, number, begin)


def gguf(
    tensors: Sequence[bytes] = (),
    keys: Sequence[bytes] = (),
    elements: bytes = b"",
    *,
    alignment: int = 32,
    version: int = 3,
) -> bytes:
    header = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(keys)) + b"".join([*keys, *tensors])
    return header + bytes(-len(header) % alignment) + elements


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def load(path: Path, content: bytes, **how: Any) -> isthmus.TensorFile:
    path.write_bytes(content)
    return isthmus.load(path, **how)


@pytest.mark.parametrize("version", [2, 3])
def test_every_dtype(path: Path, version: int) -> None:
    arrays = {name: np.arange(6).astype(dtype).reshape(2, 3) for name, dtype in DTYPES.items()}
    entries, elements = [], b""
    for name, array in arrays.items():
        entries.append(tensor(name.encode(), (3, 2), name, len(elements)))
        elements += array.tobytes() + bytes(-array.nbytes % 32)
    loaded = load(path, gguf(entries, elements=elements, version=version))
    assert list(loaded) == list(arrays)
    assert dict(loaded.quantized) == {}
    for name, array in arrays.items():
        assert (loaded[name].dtype, loaded[name].shape, loaded[name].read_only) == (array.dtype, (2, 3), True)
        np.testing.assert_array_equal(loaded[name].to("numpy"), array)
        copy = loaded.copy(name)
        assert (copy.data_ptr % 64, copy.read_only, copy.data_ptr != loaded[name].data_ptr) == (0, False, True)
        np.testing.assert_array_equal(copy.to("numpy"), array)


def test_bfloat16_to_torch(path: Path) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6).to(torch.bfloat16)
    loaded = load(path, gguf([tensor(b"x", [6], "BF16", 0)], elements=bytes(x.view(torch.uint8).numpy())))
    y = loaded["x"].to("torch")
    assert torch.equal(x, y)
    y.zero_()  # in pages of torch's own
    assert torch.equal(x, loaded.copy("x").to("torch"))


@pytest.mark.parametrize("name", [kind.name for kind in KINDS.values() if kind.size > 1])
def test_blocks_are_rows_of_bytes(path: Path, name: str) -> None:
    kind = KINDS[NUMBERS[name]]
    blocks = np.random.default_rng(0).integers(0, 256, 6 * kind.nbytes, np.uint8)
    loaded = load(path, gguf([tensor(b"x", [2 * kind.size, 3], name, 0)], elements=blocks.tobytes()))
    assert (loaded["x"].dtype, loaded["x"].shape) == ("uint8", (3, 2 * kind.nbytes))
    assert dict(loaded.quantized) == {"x": name}
    np.testing.assert_array_equal(loaded["x"].to("numpy").ravel(), blocks)
    with pytest.raises(isthmus.TensorValueError, match=f"rows of {kind.size - 1} elements; expected blocks of"):
        load(path, gguf([tensor(b"x", [kind.size - 1, 3], name, 0)], elements=blocks.tobytes()))


VALUES: dict[str, tuple[int, bytes, Any]] = {
    "u8": (0, b"\xff", 255),
    "i8": (1, b"\xff", -1),
    "u16": (2, b"\xff\xff", 65535),
    "i16": (3, b"\xff\xff", -1),
    "u32": (4, b"\xff" * 4, 2**32 - 1),
    "i32": (5, b"\xff" * 4, -1),
    "f32": (6, struct.pack("<f", 0.5), 0.5),
    "bool": (7, b"\1", True),
    "text": (8, text("é".encode()), "é"),
    "half a character": (8, text(b"a\xc3"), "a\udcc3"),
    "u64": (10, b"\xff" * 8, 2**64 - 1),
    "i64": (11, b"\xff" * 8, -1),
    "f64": (12, struct.pack("<d", 0.1), 0.1),
    "numbers": (9, struct.pack("<IQ3i", 5, 3, 1, -2, 3), [1, -2, 3]),
    "booleans": (9, struct.pack("<IQ2?", 7, 2, True, False), [True, False]),
    "texts": (9, struct.pack("<IQ", 8, 2) + text(b"a") + text(b""), ["a", ""]),
    "nothing": (9, struct.pack("<IQ", 8, 0), []),
    "arrays": (9, struct.pack("<IQ", 9, 2) + struct.pack("<IQB", 0, 1, 7) * 2, [[7], [7]]),
}


def test_the_values_of_keys(path: Path) -> None:
    loaded = load(path, gguf(keys=[key(name.encode(), kind, value) for name, (kind, value, _) in VALUES.items()]))
    assert dict(loaded.metadata) == {name: found for name, (*_, found) in VALUES.items()}
    assert dict(loaded) == {}


def test_another_alignment(path: Path) -> None:
    entries = [tensor(b"a", [1], "I8", 0), tensor(b"b", [1], "F32", 4)]
    elements = b"\7\0\0\0" + struct.pack("<f", 0.5)
    loaded = load(path, gguf(entries, [key(b"general.alignment", 4, b"\4\0\0\0")], elements, alignment=4))
    assert (loaded["a"].to("numpy")[0], loaded["b"].to("numpy")[0]) == (7, 0.5)


def test_elements_that_are_not_aligned(path: Path) -> None:
    entries = [tensor(b"a", [1], "I8", 0), tensor(b"bb", [1], "F32", 1)]
    keys = [key(b"general.alignment", 4, b"\1\0\0\0")]
    assert len(gguf(entries, keys, alignment=1)) % 4 != 3
    loaded = load(path, gguf(entries, keys, b"\7" + struct.pack("<f", 0.5), alignment=1))
    with pytest.raises(
        isthmus.TensorBufferError, match=r"model.gguf': tensor 'bb' begins at byte \d+, which is not"
    ) as failed:
        loaded["bb"]
    assert failed.value.code == "needs_copy"
    assert loaded.copy("bb").to("numpy").tolist() == [0.5]


X = tensor(b"x", [4], "F32", 0)
FLAWS = {
    "version": (gguf(version=1), "version of GGUF is 0x1; expected 2 or 3"),
    "the other byte order": (gguf(version=3 << 24), "version of GGUF is 0x3000000; expected 2 or 3, little-endian"),
    "a header cut short": (gguf([X])[:40], "cut short"),
    "no header": (b"GGUF", "cut short|not a safetensors"),
    "counts": (struct.pack("<4sIQQ", b"GGUF", 3, 2**64 - 1, 2**64 - 1), "cut short"),
    "a text": (gguf(keys=[struct.pack("<Q", 2**64 - 1)]), "expected 18446744073709551615 from 32 on"),
    "not UTF-8": (gguf(keys=[key(b"\xff", 0, b"1")]), "the text at byte 32 is not UTF-8"),
    "a kind of value": (gguf(keys=[key(b"a", 13, b"1")]), "is of type 13; expected 0 to 12"),
    "an array": (gguf(keys=[key(b"a", 9, struct.pack("<IQ", 10, 2**61))]), "cut short"),
    "an array of texts": (gguf(keys=[key(b"a", 9, struct.pack("<IQ", 8, 2**64 - 1))]), "cut short"),
    "deep": (gguf(keys=[key(b"a", 9, struct.pack("<IQ", 9, 1) * 9)]), "too deep"),
    "keys twice": (gguf(keys=[key(b"a", 0, b"1")] * 2), "a second key 'a'"),
    "names twice": (gguf([X, X], elements=bytes(64)), "a second tensor 'x'"),
    "elements cut short": (gguf([X], elements=bytes(15)), r"tensor 'x' ends at byte \d+ of \d+: the file is cut short"),
    "a hole": (
        gguf([tensor(b"x", [4], "F32", 32)], elements=bytes(64)),
        "byte 32 of the tensors; expected 0",
    ),
    "an overlap": (gguf([X, tensor(b"y", [4], "F32", 0)], elements=bytes(64)), "tensor 'y' begins at byte 0"),
    "a type": (gguf([tensor(b"x", [4], 4, 0)], elements=bytes(64)), "'x' is of type 4, which is none of ggml's"),
    "an overflow": (gguf([tensor(b"x", [2**62, 2**62], 0, 0)]), "multiply to more than 2"),
    "an overflow of none": (gguf([tensor(b"x", [2**62, 2**62, 0], 0, 0)]), "multiply to more than 2"),
    "dimensions": (gguf([tensor(b"x", [1] * 65, 0, 0)], elements=bytes(64)), "65 dimensions; expected at most 64"),
    "dimensions that are not there": (gguf([text(b"x") + b"\xff" * 4]), "cut short"),
    **{
        f"an alignment of {value!r}": (gguf(keys=[key(b"general.alignment", kind, value)]), "expected a power of two")
        for kind, value in ((4, bytes(4)), (4, b"\3\0\0\0"), (8, text(b"32")), (6, bytes(4)), (7, b"\1"))
    },
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_files_that_are_not_sound(path: Path, flaw: str) -> None:
    content, words = FLAWS[flaw]
    with pytest.raises(isthmus.TensorValueError, match=f"model.gguf': .*({words})") as failed:
        load(path, content)
    assert failed.value.code == "bad_file"


def test_a_hostile_count_takes_no_time(path: Path) -> None:
    """An array of arrays that have nothing takes 12 bytes for each."""
    empty = struct.pack("<IQ", 0, 0)
    loaded = load(path, gguf(keys=[key(b"a", 9, struct.pack("<IQ", 9, 1000) + empty * 1000)]))
    assert loaded.metadata["a"] == [[]] * 1000


def test_the_interface_is_that_of_every_file(path: Path) -> None:
    loaded = load(path, gguf([X], elements=np.arange(4, dtype="f4").tobytes()), access="copy_on_write")
    assert not loaded["x"].read_only
    loaded["x"].to("numpy")[0] = 7
    assert (loaded["x"].to("numpy")[0], isthmus.load(path)["x"].to("numpy")[0]) == (7, 0)
    with pytest.raises(KeyError, match=r"no tensor 'y' among the 1 of .*model.gguf"):
        loaded["y"]
    assert loaded.get("y") is None
    assert repr(loaded) == f"<isthmus.TensorFile {str(path)!r}, 1 tensors, copy_on_write>"
    assert pickle.loads(pickle.dumps(loaded))["x"].to("numpy").tolist() == [0, 1, 2, 3]
    with loaded:
        array = loaded["x"].to("numpy")
    with pytest.raises(isthmus.TensorValueError, match="it was closed"):
        loaded["x"]
    assert array[0] == 7
    del array
    assert str(path) not in Path("/proc/self/maps").read_text()


def test_a_file_that_is_refused_is_let_go_at_once(path: Path) -> None:
    path.write_bytes(gguf([X])[:60])
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(isthmus.TensorValueError):
            isthmus.load(path)
        assert str(path) not in Path("/proc/self/maps").read_text()
    finally:
        gc.enable()
