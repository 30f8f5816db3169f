"""The tensors and the metadata of a GGUF file.

Source: docs/gguf.md and gguf.cpp of ggml.

See docs/weights.md.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any, NamedTuple

from ._isthmus import DType, Tensor
from .tensor_file import MappedTensorFile, Part

__all__ = ["GgufFile"]


class Kind(NamedTuple):
    """How the elements of a tensor are stored: blocks of `size` elements in `nbytes` bytes, or one element each."""

    name: str
    size: int
    nbytes: int
    dtype: str = "uint8"


#: By the numbers of enum ggml_type.
KINDS = {
    number: Kind(name, size, nbytes)
    for size, rows in (
        (32, ((2, "Q4_0", 18), (3, "Q4_1", 20), (6, "Q5_0", 22), (7, "Q5_1", 24), (8, "Q8_0", 34))),
        (32, ((20, "IQ4_NL", 18), (39, "MXFP4", 17))),
        (256, ((10, "Q2_K", 84), (11, "Q3_K", 110), (12, "Q4_K", 144), (13, "Q5_K", 176), (14, "Q6_K", 210))),
        (256, ((15, "Q8_K", 292), (16, "IQ2_XXS", 66), (17, "IQ2_XS", 74), (18, "IQ3_XXS", 98), (19, "IQ1_S", 50))),
        (256, ((21, "IQ3_S", 110), (22, "IQ2_S", 82), (23, "IQ4_XS", 136), (29, "IQ1_M", 56))),
        (256, ((34, "TQ1_0", 54), (35, "TQ2_0", 66))),
        *((64, ((40, "NVFP4", 36),)), (128, ((41, "Q1_0", 18),))),
    )
    for number, name, nbytes in rows
} | {
    number: Kind(name, 1, DType(dtype).itemsize, dtype)
    for number, name, dtype in (
        *((0, "F32", "float32"), (1, "F16", "float16"), (28, "F64", "float64"), (30, "BF16", "bfloat16")),
        *((24, "I8", "int8"), (25, "I16", "int16"), (26, "I32", "int32"), (27, "I64", "int64")),
    )
}
#: The numbers of enum gguf_type, as struct reads them.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
#: No file has arrays in arrays in arrays.
_DEEPEST_ARRAY = 4


class _Reader:
    """Reads a file from its beginning on; `fail` raises what says that it is cut short."""

    def __init__(self, data: memoryview, fail: Callable[[str], Any]) -> None:
        self.data = data
        self.at = 0
        self.fail = fail

    def skip(self, nbytes: int) -> int:
        """Goes on by that many bytes; where they begin."""
        begin = self.at
        if nbytes > len(self.data) - begin:
            self.fail(f"the file is cut short: it has {len(self.data)} bytes; expected {nbytes} from {begin} on")
        self.at += nbytes
        return begin

    def numbers(self, form: str, count: int = 1) -> tuple[Any, ...]:
        return struct.unpack_from(f"<{count}{form}", self.data, self.skip(count * struct.calcsize(f"<{form}")))

    def number(self, form: str) -> Any:
        return self.numbers(form)[0]

    def text(self, errors: str = "strict") -> str:
        begin = self.skip(self.number("Q"))
        try:
            return str(self.data[begin : self.at], "utf-8", errors)
        except UnicodeDecodeError:
            return str(self.fail(f"the text at byte {begin} is not UTF-8"))

    def value(self, kind: int, levels: int = _DEEPEST_ARRAY) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _STRING:
            return self.text("surrogateescape")  # of a tokenizer, which may split characters
        if kind != _ARRAY:
            self.fail(f"the value at byte {self.at} is of type {kind}; expected 0 to 12")
        if levels == 0:
            self.fail(f"arrays stand too deep within each other at byte {self.at}")
        kind, count = self.number("I"), self.number("Q")
        if kind in _NUMBERS:
            return [*self.numbers(_NUMBERS[kind], count)]
        return [self.value(kind, levels - 1) for _ in range(count)]


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


class GgufFile(MappedTensorFile):
    """The tensors of a GGUF file; a quantised one is of uint8, with the bytes of a row's blocks as its last size."""

    def _read(self) -> tuple[Iterable[str], dict[str, Any]]:
        if sys.byteorder != "little":
            self._fail("a GGUF file is little-endian, and this machine is not", "unavailable")
        reader = _Reader(self._bytes, self._fail)
        reader.at = 4
        version = reader.number("I")
        if version not in (2, 3):
            self._fail(f"its version of GGUF is {version:#x}; expected 2 or 3, little-endian")
        tensors, keys = reader.numbers("Q", 2)
        metadata: dict[str, Any] = {}
        for _ in range(keys):
            key = reader.text()
            if key in metadata:
                self._fail(f"a second key {key!r}")
            metadata[key] = reader.value(reader.number("I"))
        self._parts: dict[str, Part] = {}
        quantized: dict[str, str] = {}
        for _ in range(tensors):
            name, kind, part = self._read_tensor(reader)
            if name in self._parts:
                self._fail(f"a second tensor {name!r}")
            self._parts[name] = part
            if kind.size > 1:
                quantized[name] = kind.name
        self._quantized = MappingProxyType(quantized)
        self._place(reader.at, metadata.get("general.alignment", 32))
        return self._parts, metadata

    def _read_tensor(self, reader: _Reader) -> tuple[str, Kind, Part]:
        """The next tensor; its bytes are counted from where the first one begins."""
        name = reader.text()
        shape = reader.numbers("Q", reader.number("I"))[::-1]  # the first of a file's sizes is that of its rows
        number, begin = reader.number("I"), reader.number("Q")
        kind = KINDS.get(number)
        if kind is None:
            return self._fail(f"tensor {name!r} is of type {number}, which is none of ggml's that are known here")
        if kind.size > 1:
            row = shape[-1] if shape else 1
            if row % kind.size != 0:
                self._fail(
                    f"tensor {name!r} has rows of {row} elements; expected blocks of {kind.size} for {kind.name}"
                )
            shape = (*shape[:-1], row // kind.size * kind.nbytes)
        part = Part(begin, DType(kind.dtype), shape)
        self._check_sizes(name, part)
        return name, kind, part

    def _place(self, header_end: int, alignment: Any) -> None:
        """Counts the parts from the file's beginning, and refuses holes, overlaps and a file that is too short."""
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            self._fail(f"'general.alignment' is {alignment!r}; expected a power of two")

        begin, end = _aligned(header_end, alignment), 0
        for name, part in self._parts.items():
            if part.begin != end:
                self._fail(f"tensor {name!r} begins at byte {part.begin} of the tensors; expected {end}")
            end = _aligned(part.end, alignment)
            self._parts[name] = Part(begin + part.begin, part.dtype, part.shape)
            self._check_part(name, self._parts[name])

    def __getitem__(self, name: str) -> Tensor:
        self._check(name)
        part = self._parts[name]
        if not part.is_aligned:
            self._fail(
                f"tensor {name!r} begins at byte {part.begin}, which is not aligned to the {part.dtype.alignment} "
                f"bytes of {part.dtype}; copy({name!r}) has it",
                "needs_copy",
            )
        return self._mapped(name, part)

    def copy(self, name: str) -> Tensor:
        self._check(name)
        return self._copied(name, self._parts[name])
