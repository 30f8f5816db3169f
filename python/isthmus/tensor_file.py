"""The tensors of a safetensors file over its own pages, by name.

>>> weights = isthmus.load("model.safetensors")  # maps the file and reads only its header
>>> weights["encoder.weight"].to("torch")        # its elements are read by the system when they are used

See docs/weights.md.
"""

from __future__ import annotations

import difflib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

from . import _isthmus
from ._isthmus import Tensor, TensorValueError
from .errors import refusal

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TensorFile", "load"]

FilePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]
FileAccess = Literal["read_only", "copy_on_write"]


class TensorFile(Mapping[str, Tensor]):
    """The tensors of one file, or of the shards that one index names. Made by `load`.

    A tensor is made on access, in constant time; it keeps the mapping of its file, and outlives the TensorFile. A
    pickle of it names the file, which the other process maps. `with` closes it in the end.
    """

    _closed = False

    def __init__(self, path: FilePath, access: FileAccess = "read_only") -> None:
        self._path = os.fsdecode(path)
        self._absolute = os.path.abspath(self._path)  # for later, when the working directory may be another
        self._access = access
        self._metadata: Mapping[str, str]
        self._file: Any
        self._file, names, metadata = _isthmus._load(path, access)
        self._names = dict.fromkeys(names)
        self._metadata = MappingProxyType(metadata)

    @property
    def path(self) -> str:
        """The file's path, or that of the index."""
        return self._path

    @property
    def metadata(self) -> Mapping[str, str]:
        """The texts of the file's `__metadata__`."""
        return self._metadata

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

    def _fail_closed(self) -> NoReturn:
        error = TensorValueError(f"{self._path!r}: it was closed; expected an open TensorFile: load it again")
        error.code = "bad_argument"
        raise error

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


def read_regular_file(path: str) -> bytes:
    """Without waiting, as the opening of a pipe would."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise TensorValueError(f"{path!r}: it is no regular file")
        return file.read()


def is_plain_name(file: str) -> bool:
    return Path(file).name == file != "" and "\0" not in file


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


def load(path: FilePath, *, access: FileAccess = "read_only") -> TensorFile:
    """The tensors of a safetensors file, by name: a lazy mapping to `Tensor`s over the mapped file.

    path: a `.safetensors` file; or the `.safetensors.index.json` of a model in several files; or a folder that has one
        index, or without one, one file.
    access: "read_only": the tensors are read-only. A framework without read-only tensors, like torch, gets private
        pages, whose writes nobody else sees. "copy_on_write": the tensors are writable, and writes stay in this
        process.

    Takes time and memory only for the header, regardless of the size of the file, which never changes. Raises OSError
    if the file cannot be opened, isthmus.Error if it is not valid. The file must not be truncated while its tensors
    live.
    """
    name = os.fsdecode(path)
    if "\0" in name:
        raise refusal(ValueError, "bad_argument", "path", name, "a path without a NUL")
    if os.path.isdir(name):
        path = name = find_model(name)
    if name.endswith(".json"):
        return ShardedTensorFile(path, access)
    return TensorFile(path, access)
