"""The tensors of a file over its own pages, by name: safetensors here, .npz and GGUF in the modules beside this one.

>>> weights = isthmus.load("model.safetensors")  # maps the file and reads only its header
>>> weights["encoder.weight"].to("torch")        # its elements are read by the system when they are used

See docs/weights.md.
"""

from __future__ import annotations

import difflib
import itertools
import json
import math
import operator
import os
import stat
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, get_args

from . import _isthmus
from ._isthmus import Device, DType, Tensor, TensorBufferError, TensorValueError, empty
from .blob import bytes_of
from .errors import refusal

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TensorFile", "load"]

FilePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]
FileAccess = Literal["read_only", "copy_on_write"]
#: DLPack's limit here, isthmus::max_ndim.
_MAX_NDIM = 64


class TensorFile(Mapping[str, Tensor]):
    """The tensors of one file, or of the shards that one index names. Made by `load`.

    A tensor is made on access, in constant time; it keeps the mapping of its file, and outlives the TensorFile. A
    pickle of it names the file, which the other process maps. `with` closes it in the end.
    """

    _closed = False
    _quantized: Mapping[str, str] = MappingProxyType({})

    def __init__(self, path: FilePath, access: FileAccess = "read_only") -> None:
        self._path = os.fsdecode(path)
        self._absolute = os.path.abspath(self._path)  # for later, when the working directory may be another
        self._access = access
        self._file: Any
        names, metadata = self._open(path)
        self._names = dict.fromkeys(names)
        self._metadata: Mapping[str, Any] = MappingProxyType(metadata)

    def _open(self, path: FilePath) -> tuple[Iterable[str], dict[str, Any]]:
        """Opens the file as `self._file`; its names and its metadata."""
        self._file, names, metadata = _isthmus._load(path, self._access)
        return names, metadata

    @property
    def path(self) -> str:
        """The file's path, or that of the index."""
        return self._path

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The texts of a safetensors file's `__metadata__`, the values of a GGUF file's keys; empty for a .npz file."""
        return self._metadata

    @property
    def quantized(self) -> Mapping[str, str]:
        """The kind of block, such as "Q4_K", of each quantised tensor of a GGUF file."""
        return self._quantized

    def __getitem__(self, name: str) -> Tensor:
        """The tensor over the file's own pages. Raises KeyError, or isthmus.Error if it is unaligned there."""
        self._check(name)
        return _isthmus._load_at(self._file, name)

    def copy(self, name: str) -> Tensor:
        """A copy of the tensor, aligned to 64 bytes and writable."""
        self._check(name)
        return _isthmus._load_copy(self._file, name)

    def close(self) -> None:
        """Let go of the file: no further tensor is made. Its mapping ends with the last one that was made."""
        self._closed = True
        self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._closed:
            self._fail_closed()
        return type(self), (self._absolute, self._access)

    def _check(self, name: object) -> None:
        if self._closed:
            self._fail_closed()
        if name not in self._names:
            self._fail_missing(name)

    def _fail(self, text: str, code: str = "bad_file") -> NoReturn:
        """Raises the isthmus.Error that names the file."""
        error = (TensorBufferError if code == "needs_copy" else TensorValueError)(f"{self._path!r}: {text}")
        error.code = code
        try:
            raise error
        finally:
            del error  # whose traceback has this frame, which would keep the file until a collection

    def _fail_closed(self) -> NoReturn:
        self._fail("it was closed; expected an open TensorFile: load it again", "bad_argument")

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<isthmus.TensorFile {self._path!r}, {len(self)} tensors, {self._access}>"

    def _fail_missing(self, name: object) -> NoReturn:
        close = difflib.get_close_matches(name, self._names, 3) if isinstance(name, str) else []
        hint = f"; there is {', '.join(map(repr, close))}" if close else ""
        raise KeyError(f"no tensor {name!r} among the {len(self)} of {self._path!r}{hint}")


class Part(NamedTuple):
    """Where a tensor's elements are in a file."""

    begin: int
    dtype: DType
    shape: tuple[int, ...]
    column_major: bool = False

    @property
    def end(self) -> int:
        return self.begin + math.prod(self.shape) * self.dtype.itemsize

    @property
    def is_aligned(self) -> bool:
        return self.begin % self.dtype.alignment == 0 or 0 in self.shape

    def described(self, ptr: int, of: Tensor) -> Tensor:
        """The tensor at `ptr`, in memory that `of` keeps."""
        strides = None
        if self.column_major:
            strides = (*itertools.accumulate(self.shape[:-1], operator.mul, initial=1),)
        return _isthmus._from_fields(ptr, self.shape, strides, self.dtype, Device("cpu"), of.read_only, False, None, of)


class MappedTensorFile(TensorFile):
    """The tensors of a file of another format, which a subclass reads from the bytes of the mapped file."""

    _file: Tensor  # of uint8, the whole file

    def _open(self, path: FilePath) -> tuple[Iterable[str], dict[str, Any]]:
        self._file = _isthmus._load_bytes(path, self._access)
        self._bytes = memoryview(self._file.as_read_only())
        return self._read()

    @abstractmethod
    def _read(self) -> tuple[Iterable[str], dict[str, Any]]:
        """The names and the metadata in `self._bytes`."""

    def close(self) -> None:
        super().close()
        self._bytes = memoryview(b"")

    def _mapped(self, name: str, part: Part) -> Tensor:
        """The tensor over the file's pages."""
        self._check_part(name, part)
        return part.described(self._file.data_ptr + part.begin, self._file)

    def _copied(self, name: str, part: Part) -> Tensor:
        """The tensor in new memory, in the order of the file."""
        self._check_part(name, part)
        flat = empty(part.end - part.begin, "uint8")
        bytes_of(flat)[:] = self._bytes[part.begin : part.end]
        return part.described(flat.data_ptr, flat)

    def _check_part(self, name: str, part: Part) -> None:
        self._check_sizes(name, part)
        if part.end > len(self._bytes):
            self._fail(f"tensor {name!r} ends at byte {part.end} of {len(self._bytes)}: the file is cut short")

    def _check_sizes(self, name: str, part: Part) -> None:
        if len(part.shape) > _MAX_NDIM:
            self._fail(f"tensor {name!r} has {len(part.shape)} dimensions; expected at most {_MAX_NDIM}")
        if math.prod(size or 1 for size in part.shape) * part.dtype.bits >= 2**63:
            self._fail(f"the sizes of tensor {name!r} multiply to more than 2**63 - 1 bits")


class ShardedTensorFile(TensorFile):
    """The tensors of the files that an index names; each file is mapped on first access to one of its tensors."""

    def __init__(self, path: FilePath, access: FileAccess = "read_only") -> None:
        self._path = os.fsdecode(path)
        self._absolute = os.path.abspath(self._path)
        self._access = access
        if access not in get_args(FileAccess):
            wanted = " or ".join(map(repr, get_args(FileAccess)))
            raise TensorValueError(f"argument 'access': found {access!r}; expected {wanted}")
        self._shards, metadata = read_index(self._path)
        self._names = dict.fromkeys(self._shards)
        self._metadata = MappingProxyType(metadata)
        self._opened: dict[str, TensorFile] = {}

    def close(self) -> None:
        super().close()
        self._opened.clear()

    def _shard_of(self, name: str) -> TensorFile:
        self._check(name)
        shard = self._shards[name]
        if shard not in self._opened:
            self._opened[shard] = TensorFile(Path(self._absolute).parent / shard, self._access)
        if name not in self._opened[shard]:  # no KeyError: it is among the names, and get() would hide it
            raise TensorValueError(f"{self._path!r}: the index names {name!r} in {shard!r}, which has no such tensor")
        return self._opened[shard]

    def __getitem__(self, name: str) -> Tensor:
        return self._shard_of(name)[name]

    def copy(self, name: str) -> Tensor:
        return self._shard_of(name).copy(name)


def _open_at_once(path: str, flags: int) -> int:
    """Without waiting, as the opening of a pipe would."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_regular_file(path: str) -> bytes:
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise TensorValueError(f"{path!r}: it is no regular file")
        return file.read()


def is_plain_name(file: str) -> bool:
    try:
        encoded = os.fsencode(file)
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return Path(file).name == file != "" and b"\0" not in encoded


def find_model(folder: str) -> str:
    """The path of the folder's index, or of its one file."""
    names = sorted(os.listdir(folder))
    for end in (".safetensors.index.json", ".safetensors"):
        found = [name for name in names if name.endswith(end)]
        if len(found) == 1:
            return os.path.join(folder, found[0])
        if found:
            raise refusal(ValueError, "bad_argument", "path", folder, f"one of {', '.join(found)} in it"[:500])
    raise refusal(ValueError, "bad_argument", "path", folder, "a folder with a .safetensors file or its index")


def read_index(path: str) -> tuple[dict[str, str], dict[str, str]]:
    """The "weight_map" (name -> file beside the index) and the "metadata" of an index of shards, checked."""
    text = read_regular_file(path)
    try:
        index = json.loads(text)
        shards, metadata = index["weight_map"], index.get("metadata") or {}
        texts = {str(key): str(value) for key, value in metadata.items()}
        outside = next((file for file in shards.values() if not is_plain_name(file)), None)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        wanted = "expected an object with a 'weight_map' of names and files"
        raise TensorValueError(f"{path!r}: not an index of safetensors files: {wanted}") from error
    if outside is not None:
        raise TensorValueError(
            f"{path!r}: the file {outside!r} is not beside the index; expected the name of one that is"
        )
    return shards, texts


def checked_path(path: FilePath) -> str:
    name = os.fsdecode(path)
    if "\0" in name:
        raise refusal(ValueError, "bad_argument", "path", name, "a path without a NUL")
    return name


def first_bytes(path: FilePath) -> bytes:
    """What a regular file begins with; nothing of one that the loading will refuse."""
    try:
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            return file.read(8) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def class_for(begin: bytes) -> type[TensorFile]:
    """The class for a file that begins so. None of these is the length of a header that safetensors allows."""
    if begin.startswith(b"GGUF"):
        from .gguf_file import GgufFile

        return GgufFile
    if begin.startswith(b"PK\5\6") or (begin.startswith(b"PK\3\4") and any(begin[4:])):
        from .npz_file import NpzFile

        return NpzFile
    return TensorFile


def load(path: FilePath, *, access: FileAccess = "read_only") -> TensorFile:
    """The tensors of a safetensors, GGUF or .npz file, by name: a lazy mapping to `Tensor`s over the mapped file.

    path: the file, whose first bytes tell its format; or the `.safetensors.index.json` of a model in several files; or
        a folder that has one index, or without one, one `.safetensors` file.
    access: "read_only": the tensors are read-only. A framework without read-only tensors, like torch, gets private
        pages, whose writes nobody else sees. "copy_on_write": the tensors are writable, and writes stay in this
        process.

    Takes time and memory only for the header, regardless of the size of the file, which never changes. Raises OSError
    if the file cannot be opened, isthmus.Error if it is not valid. The file must not be truncated while its tensors
    live.
    """
    name = checked_path(path)
    if os.path.isdir(name):
        path = name = find_model(name)
    if name.endswith(".json"):
        return ShardedTensorFile(path, access)
    return class_for(first_bytes(path))(path, access)
