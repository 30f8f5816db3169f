"""Writes a safetensors file straight from the memory of the tensors, of any framework.

See docs/weights.md.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO

from ._isthmus import Error, Tensor, TensorValueError, from_dlpack
from .blob import bytes_of
from .errors import refusal
from .tensor_file import checked_path

__all__ = ["save"]

#: The format's name of each dtype; of float4 in pairs, as torch has it, the two elements count.
_FORMAT_NAMES = {
    **{f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
    **{f"float8_{kind}": f"F8_{kind.upper()}" for kind in ("e5m2", "e4m3fnuz", "e5m2fnuz")},
    **{f"float6_{kind}fn": f"F6_{kind.upper()}" for kind in ("e2m3", "e3m2")},
    "bool": "BOOL",
    "bfloat16": "BF16",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float4_e2m1fn": "F4",
    "float4_e2m1fnx2": "F4",
}
#: How from_dlpack() names its own argument.
_OF_IMPORT = "argument 'x': "
#: So that tensors of a multiple of 64 bytes are aligned as JAX asks for, from the first one on.
_ALIGNMENT = 64
#: As in the format's own library, and in load().
_LONGEST_HEADER = 100_000_000


def save(
    path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    tensors: Mapping[str, object],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a safetensors file of these tensors, from their own memory.

    path: of the file. One that is there is replaced in one step once all is written, so that who has loaded it keeps
        what was in it, and a failure leaves it as it was.
    tensors: a mapping of names to arrays of any framework, a state dict for one. Memory of a GPU is copied to the
        host, and what is not row-major is made so, one tensor at a time; all else is written where it lies. Wide
        elements come first in the file, so that each is aligned to its size.
    metadata: texts for the file's `__metadata__`; transformers expects {"format": "pt"}.

    Raises OSError if the file cannot be written, isthmus.Error, which names the tensor, if one cannot be taken or its
    dtype is none of the format's.
    """
    if sys.byteorder != "little":
        raise NotImplementedError("a safetensors file is little-endian, and this machine is not")
    taken = dict(_ordered({name: _described(name, tensor) for name, tensor in _checked(tensors).items()}))
    header = _header_of(taken, _checked_texts(metadata))
    with _replacing(path) as file:
        _write(file, len(header).to_bytes(8, "little") + header)
        for name in taken:
            _write_elements(file, name, taken[name])


def _checked(tensors: Mapping[str, object]) -> Mapping[str, object]:
    if not isinstance(tensors, Mapping):
        raise refusal(TypeError, "bad_argument", "tensors", type(tensors).__name__, "a mapping of names to tensors")
    for name in tensors:
        if not isinstance(name, str):
            raise refusal(TypeError, "bad_argument", "tensors", name, "names that are texts")
        if name == "__metadata__":
            raise refusal(ValueError, "bad_argument", "tensors", name, "another name, which the format leaves free")
        _check_text("tensors", name)
    return tensors


def _checked_texts(metadata: Mapping[str, str] | None) -> dict[str, str]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping) or not all(isinstance(x, str) for pair in metadata.items() for x in pair):
        raise refusal(TypeError, "bad_argument", "metadata", metadata, "a mapping of texts to texts")
    for text in (text for pair in metadata.items() for text in pair):
        _check_text("metadata", text)
    return dict(metadata)


def _check_text(argument: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refusal(ValueError, "bad_argument", argument, text, "texts that UTF-8 can hold") from None


def _taken(name: str, x: object, **how: object) -> Tensor:
    """`x` as a Tensor; errors name it."""
    try:
        return from_dlpack(x, **how)  # type: ignore[arg-type]
    except Error as error:
        named = type(error)(f"argument 'tensors': tensor {name!r}: {str(error).removeprefix(_OF_IMPORT)}")
        named.code = error.code
        raise named from error


def _described(name: str, x: object) -> Tensor:
    tensor = _taken(name, x)
    found = f"{tensor.dtype}, one element a byte" if tensor.is_padded else str(tensor.dtype)
    if tensor.is_padded or str(tensor.dtype) not in _FORMAT_NAMES:
        raise refusal(
            ValueError, "bad_dtype", "tensors", f"{name!r} of {found}"[:200], f"one of {', '.join(_FORMAT_NAMES)}"
        )
    whole = tensor.size * tensor.dtype.bits * tensor.dtype.lanes % 8 == 0
    if not whole or (tensor.dtype.lanes > 1 and not tensor.shape):
        expected = "a dimension, and as many elements as fill whole bytes"
        raise refusal(ValueError, "bad_layout", "tensors", f"{name!r}, {tensor.dtype}{[*tensor.shape]}", expected)
    return tensor


def _ordered(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The widest elements first, so that no tensor begins within an element."""
    yield from sorted(tensors.items(), key=lambda pair: -pair[1].itemsize)


def _header_of(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        pair = tensor.dtype.lanes
        shape = (*tensor.shape[:-1], tensor.shape[-1] * pair) if tensor.shape and pair > 1 else tensor.shape
        entries[name] = {"dtype": _FORMAT_NAMES[str(tensor.dtype)], "shape": shape, "data_offsets": (begin, end)}
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    header += b" " * (-(len(header) + 8) % _ALIGNMENT)
    if len(header) > _LONGEST_HEADER:
        wanted = f"at most {_LONGEST_HEADER}, which is all that is loaded again"
        error = TensorValueError(f"found a header of {len(header)} bytes; expected {wanted}")
        error.code = "bad_argument"
        raise error
    return header


def _write_elements(file: FileIO, name: str, tensor: Tensor) -> None:
    if tensor.nbytes == 0:
        return
    if str(tensor.device) != "cpu":
        tensor = _taken(name, tensor, device="cpu")
    if not tensor.is_contiguous:
        tensor = _taken(name, tensor, copy=True)
    _write(file, bytes_of(tensor))


def _write(file: FileIO, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def _target_of(path: str) -> str:
    """The file behind the links of a path."""
    target = os.path.realpath(path)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(target).st_mode):
            raise refusal(ValueError, "bad_file", "path", path, "the path of a regular file, or a new one")
    return target


def _new_file_beside(target: str, path: str) -> str:
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name[:200]}.{os.urandom(6).hex()}")
    try:
        FileIO(beside, "x").close()
    except OSError as error:  # of the folder, since this name is nobody's
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from None
    return beside


def _keep_mode(of: str, beside: str) -> None:
    with suppress(FileNotFoundError):
        os.chmod(beside, stat.S_IMODE(os.stat(of).st_mode))


# In functions of less than 257 instructions: where a `with` or `except` of a longer one ends, CPython makes an integer,
# and tries without an end if no memory is left for it.
@contextmanager
def _replacing(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> Iterator[FileIO]:
    """A file that takes the place of the one at `path` in the end, or is removed."""
    name = checked_path(path)
    target = _target_of(name)
    beside = _new_file_beside(target, name)
    try:
        # Without a buffer, which would have nothing to gather, and for whose lock there may be no memory.
        with FileIO(beside, "w") as file:
            yield file
        _keep_mode(target, beside)
        os.replace(beside, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
