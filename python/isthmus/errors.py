"""Errors raised by the Python part: the same classes and the same words as those of the compiled part."""

from __future__ import annotations

from ._isthmus import Error, TensorBufferError, TensorTypeError, TensorValueError

_CLASSES: dict[type[Exception], type[Error]] = {
    BufferError: TensorBufferError,
    TypeError: TensorTypeError,
    ValueError: TensorValueError,
}


def refusal(kind: type[Exception], code: str, argument: str, found: object, wanted: str) -> Error:
    """The isthmus.Error that is also a `kind`, with the argument, the value found and the value expected in its text.

    `code` is the name of an isthmus::ErrorCode.
    """
    error = _CLASSES[kind](f"argument '{argument}': found {found!r}; expected {wanted}")
    error.code = code
    return error


def wanted_by(error: Exception, otherwise: str) -> str:
    """The expected value, from the text of an error of the compiled part."""
    return str(error).rpartition("; expected ")[2] if isinstance(error, Error) else otherwise
