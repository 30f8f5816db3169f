"""The arrays of a .npz file, as numpy.savez() and numpy.savez_compressed() write it, without NumPy.

See docs/weights.md.
"""

from __future__ import annotations

import errno
import io
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO, Any, NoReturn

from ._isthmus import DType, Error, Tensor, empty
from .blob import bytes_of
from .tensor_file import MappedTensorFile, Part

__all__ = ["NpzFile"]

_END = ".npy"
_CHUNK = 1 << 20
_MAGIC = b"\x93NUMPY"
#: As numpy.lib.format has it.
_LONGEST_HEADER = 10_000
#: A dict as Python writes it. Not read by ast.literal_eval(), which ends with a MemoryError for what is too deep.
_HEADER = re.compile(
    r"""\s*\{\s*(?:(?:
    ['"]descr['"]\s*:\s*['"](?P<descr>[^'"]+)['"]
    | ['"]fortran_order['"]\s*:\s*(?P<order>True|False)
    | ['"]shape['"]\s*:\s*\((?P<shape>[0-9,L\ ]*)\)  # Python 2 wrote long integers with an L
    )\s*(?:,\s*|(?=\})))*\}\s*""",
    re.VERBOSE,
)
_RECORDS = re.compile(r"[^[]*['\"]descr['\"]\s*:\s*(\[.*\])", re.DOTALL)
#: The fixed part of a member's local header: a signature, and in the end the lengths of its name and extra field.
_LOCAL = struct.Struct("<4s22xHH")
#: The dtypes that a file may have, by NumPy's names for them.
_DTYPES = {
    "b1": "bool",
    **{f"{kind[0]}{size}": f"{kind}{8 * size}" for kind in ("int", "uint") for size in (1, 2, 4, 8)},
    **{f"f{size}": f"float{8 * size}" for size in (2, 4, 8)},
    **{f"c{size}": f"complex{8 * size}" for size in (8, 16)},
}
_NATIVE = "<" if sys.byteorder == "little" else ">"
_OTHER_KINDS = {
    "O": "Python objects, which are a pickle and would run code",
    "S": "byte strings",
    "U": "strings",
    "M": "dates",
    "m": "time differences",
    "V": "raw bytes of a dtype that NumPy does not know",
}
#: How zlib says Z_MEM_ERROR.
_NO_MEMORY = "Error -4 "
#: What the standard library raises for archives that are not sound.
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, struct.error),
    *(ArithmeticError, EOFError, LookupError, OSError, RuntimeError, ValueError),
)


class _BytesFile(io.RawIOBase):
    """Bytes in memory as a file, without a copy of them, as io.BytesIO makes one."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (0, self._at, len(self._data))[whence]
        if at < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        found = self._data[self._at : self._at + len(buffer)]
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


class NpzFile(MappedTensorFile):
    """The arrays of a .npz file.

    One that is stored as it is and aligned to its elements is a view of the file's pages; any other is a new copy on
    each access, writable and the caller's own.
    """

    def _read(self) -> tuple[Iterable[str], dict[str, Any]]:
        try:
            self._archive = zipfile.ZipFile(_BytesFile(self._bytes))
        except _BROKEN as error:
            self._fail_with(error, "not a sound .npz file")
        members = {info.filename: info for info in self._archive.infolist()}
        self._members = {name[: -len(_END)]: info for name, info in members.items() if name.endswith(_END)}
        if members and not self._members:
            self._fail("a zip archive, as torch.save() writes; expected .npy files in it, as numpy.savez() writes")
        return self._members, {}

    def close(self) -> None:
        super().close()
        self._archive.close()

    def __getitem__(self, name: str) -> Tensor:
        self._check(name)
        member = self._members[name]
        if member.compress_type != zipfile.ZIP_STORED:
            return self._decompressed(name, member)
        part = self._stored(name, member)
        return self._mapped(name, part) if part.is_aligned else self._copied(name, part)

    def copy(self, name: str) -> Tensor:
        self._check(name)
        member = self._members[name]
        if member.compress_type != zipfile.ZIP_STORED:
            return self._decompressed(name, member)
        return self._copied(name, self._stored(name, member))

    def _stored(self, name: str, member: zipfile.ZipInfo) -> Part:
        """Where the elements of a member that is not compressed are in the file."""
        end, encrypted = member.header_offset + _LOCAL.size, member.flag_bits & 1
        local = self._bytes[member.header_offset : end]
        if len(local) < _LOCAL.size or encrypted:
            self._fail(f"tensor {name!r} {'is encrypted' if encrypted else 'has no header: the file is cut short'}")
        signature, name_length, extra_length = _LOCAL.unpack(local)
        if signature != b"PK\3\4":
            self._fail(f"tensor {name!r} has no header at byte {member.header_offset}")
        begin = end + name_length + extra_length
        return self._part_of(name, _BytesFile(self._bytes[begin : begin + member.file_size]), member, begin)

    def _decompressed(self, name: str, member: zipfile.ZipInfo) -> Tensor:
        if member.compress_type != zipfile.ZIP_DEFLATED:
            self._fail(f"tensor {name!r} is compressed by method {member.compress_type}; expected 0 or 8, deflate")
        try:
            with self._archive.open(member) as file:
                return self._inflated(name, member, file)
        except Error:
            raise
        except _BROKEN as error:
            self._fail_with(error, f"tensor {name!r}")

    def _inflated(self, name: str, member: zipfile.ZipInfo, file: IO[bytes]) -> Tensor:
        part = self._part_of(name, file, member, 0)
        self._check_sizes(name, part)
        # Deflate makes at most some thousand bytes of one, and a hostile file shall not take memory for more.
        if part.end > 1100 * (member.compress_size + 64):
            self._fail(f"tensor {name!r} would have {part.end} bytes in {member.compress_size} compressed ones")
        flat = empty(part.end - part.begin, "uint8")
        fill(bytes_of(flat), file)
        return part.described(flat.data_ptr, flat)

    def _part_of(self, name: str, file: IO[bytes] | io.RawIOBase, member: zipfile.ZipInfo, begin: int) -> Part:
        """What the header of the .npy file says, whose first byte is `begin`."""
        try:
            descr, column_major, shape = read_header(file)
        except _BROKEN as error:
            self._fail_with(error, f"tensor {name!r}: not a sound .npy file")
        part = Part(begin + file.tell(), self._dtype(name, descr), shape, column_major and len(shape) > 1)
        found, wanted = member.file_size - part.begin + begin, part.end - part.begin
        if found != wanted:
            self._fail(f"tensor {name!r} has {found} bytes; expected {wanted} for {[*shape]} of {part.dtype}")
        return part

    def _dtype(self, name: str, descr: str) -> DType:
        kind = descr[1:]
        if kind in _DTYPES and (descr[0] == _NATIVE or kind.endswith("1")):
            return DType(_DTYPES[kind])
        what = "records" if descr.startswith("[") else _OTHER_KINDS.get(kind[:1], "which is none of these here")
        wanted = "expected booleans, integers, float16 to float64 or complex numbers in this machine's byte order"
        return self._fail(f"tensor {name!r} has the dtype {descr[:200]!r}, {what}; {wanted}", "bad_dtype")

    def _fail_with(self, error: Exception, what: str) -> NoReturn:
        if isinstance(error, zlib.error) and str(error).startswith(_NO_MEMORY):
            raise MemoryError(str(error)) from None
        try:
            self._fail(f"{what}: {error or type(error).__name__}")
        except Error as said:
            raise said from error


def read_header(file: IO[bytes] | io.RawIOBase) -> tuple[str, bool, tuple[int, ...]]:
    """The dtype, whether the order is column-major, and the sizes. Source: numpy.lib.format."""
    begin = file.read(8) or b""
    if not begin.startswith(_MAGIC) or len(begin) < 8:
        raise ValueError("it does not begin as one")
    if begin[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise ValueError(f"its version is {begin[6]}.{begin[7]}; expected 1.0 to 3.0")
    length = int.from_bytes(file.read(2 if begin[6] == 1 else 4) or b"", "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"its header would have {length} bytes; expected at most {_LONGEST_HEADER}")
    return parse_header((file.read(length) or b"").decode("utf-8" if begin[6] == 3 else "latin-1"))


def parse_header(text: str) -> tuple[str, bool, tuple[int, ...]]:
    records = _RECORDS.match(text)
    if records is not None:
        return records[1], False, ()
    header = _HEADER.fullmatch(text)
    if header is None or None in header.groups():
        raise ValueError(
            f"its header is {text.strip()[:80]!r}; expected the dtype, the order and the sizes of an array"
        )
    sizes = [size.strip().removesuffix("L") for size in header["shape"].split(",")]
    if sizes[-1] == "":
        del sizes[-1]
    elif len(sizes) == 1:
        raise ValueError(f"its shape is ({header['shape']}); expected a tuple")
    return header["descr"], header["order"] == "True", tuple(map(int, sizes))


def fill(memory: memoryview, file: IO[bytes]) -> None:
    """Reads as many bytes as the memory takes. EOFError if there are fewer."""
    at = 0
    while at < len(memory):
        chunk = file.read(min(_CHUNK, len(memory) - at))
        if not chunk:
            raise EOFError(f"it ends after {at} of {len(memory)} bytes")
        memory[at : at + len(chunk)] = chunk
        at += len(chunk)
