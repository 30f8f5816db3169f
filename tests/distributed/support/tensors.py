"""Tensors of every framework to send, small and large, and all that must be the same where they arrive."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch

import isthmus

LARGE = 256  # rows of a size that no engine sends within its message


def torch_of(dtype: torch.dtype, rows: int) -> torch.Tensor:
    """Any dtype, over bytes that are good values of it: no byte is a NaN of the small floats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's complex32 says that it is experimental
        item = torch.empty(0, dtype=dtype).element_size()
    bytes_ = torch.arange(rows * 256 * item, dtype=torch.int64) % (2 if dtype is torch.bool else 61)
    return bytes_.to(torch.uint8).view(dtype).reshape(rows, 256)


_DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"),
)


def dtypes_of_torch() -> list[torch.dtype]:
    return [getattr(torch, name) for name in _DTYPES if hasattr(torch, name)]


def _ramp(rows: int) -> torch.Tensor:
    return torch.arange(rows * 256, dtype=torch.float32).reshape(rows, 256)


def _jax(rows: int, dtype: str) -> Any:
    import jax.numpy as jnp

    return jnp.arange(rows * 256).reshape(rows, 256).astype(dtype)


KINDS: dict[str, Callable[[int], Any]] = {
    **{f"torch {str(dtype)[6:]}": lambda rows, dtype=dtype: torch_of(dtype, rows) for dtype in dtypes_of_torch()},
    "torch requires_grad": lambda rows: _ramp(rows).requires_grad_(),
    "torch Parameter": lambda rows: torch.nn.Parameter(_ramp(rows)),
    "torch frozen Parameter": lambda rows: torch.nn.Parameter(_ramp(rows), requires_grad=False),
    "torch transposed": lambda rows: _ramp(rows).t(),
    "torch permuted": lambda rows: _ramp(rows).reshape(rows, 16, 16).permute(2, 0, 1),
    "torch slice": lambda rows: _ramp(4 * rows)[rows : 2 * rows],
    "torch expanded": lambda rows: _ramp(rows)[:, None, :].expand(rows, 3, 256),
    "torch channels_last": lambda rows: _ramp(rows).reshape(1, rows, 16, 16).to(memory_format=torch.channels_last),
    "torch empty": lambda rows: torch.empty(0, rows),
    "torch 0-d": lambda rows: torch.tensor(float(rows)),
    "numpy": lambda rows: _ramp(rows).numpy(),
    "numpy permuted": lambda rows: _ramp(rows).numpy().reshape(rows, 16, 16).transpose(2, 0, 1),
    "numpy reversed": lambda rows: _ramp(rows).numpy()[::-1, ::-1],
    "numpy bfloat16": lambda rows: _ramp(rows).numpy().astype(ml_dtypes.bfloat16),
    "numpy float8_e5m2": lambda rows: _ramp(rows).numpy().astype(ml_dtypes.float8_e5m2),
    "numpy int4": lambda rows: (_ramp(rows).numpy() % 7).astype(ml_dtypes.int4),
    "numpy datetime64": lambda rows: np.arange(rows * 256).reshape(rows, 256).astype("datetime64[s]"),
    "numpy record": lambda rows: np.zeros((rows, 256), dtype=[("a", "i4"), ("b", "f8")]),
    "numpy big-endian": lambda rows: np.arange(rows * 256).reshape(rows, 256).astype(">f4"),
    "jax float32": lambda rows: _jax(rows, "float32"),
    "jax bfloat16": lambda rows: _jax(rows, "bfloat16"),
    "jax bool": lambda rows: _jax(rows, "bool"),
    "isthmus": lambda rows: isthmus.from_dlpack(_ramp(rows).numpy()),
    "isthmus transposed": lambda rows: isthmus.from_dlpack(_ramp(rows).t()),
    "isthmus bfloat16": lambda rows: isthmus.from_dlpack(torch_of(torch.bfloat16, rows)),
}


def facts(x: Any) -> tuple[Any, ...]:
    """What a tensor is: type, dtype, shape, strides, whether it requires grad, and a digest of its elements."""
    strides: Any = None
    if isinstance(x, torch.Tensor):
        strides = x.stride()
        plain = x.detach().contiguous()
        data = plain.reshape(-1).view(torch.uint8).numpy() if plain.numel() else np.empty(0)
    elif isinstance(x, isthmus.Tensor):
        strides = x.strides
        data = (
            np.asarray(memoryview(isthmus.from_dlpack(x, copy=True)).cast("B"))
            if x.dtype != "bfloat16"
            else bytes_of(x)
        )
    else:
        strides = x.strides if isinstance(x, np.ndarray) else None
        data = np.ascontiguousarray(np.asarray(x)).reshape(-1).view(np.uint8)
    digest = hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()[:16]
    grad = getattr(x, "requires_grad", None)
    return type(x).__name__, str(x.dtype), tuple(x.shape), strides, grad, digest


def bytes_of(x: isthmus.Tensor) -> np.ndarray:
    return x.to("torch", allow_read_only_loss=True).contiguous().view(torch.uint8).numpy()


def may_write(x: Any) -> bool:
    """Whether the framework lets its user write."""
    if isinstance(x, isthmus.Tensor):
        return not x.read_only
    return bool(x.flags.writeable) if isinstance(x, np.ndarray) else isinstance(x, torch.Tensor)


def copied() -> int:
    return isthmus.distributed.stats()["copied"]


def private_kib() -> int:
    """Memory of this process alone, in KiB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
