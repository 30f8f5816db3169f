# SPDX-License-Identifier: Apache-2.0
"""The bindings that nearest.cpp gets from one declaration, written by hand with torch.library,
jax.ffi and NumPy's C API."""

from __future__ import annotations

import ctypes

import jax
import nearest_by_hand_ext as ext
import torch

ufunc = ext.ufunc
_library = ctypes.CDLL(ext.__file__)
for _function in (_library.nearest_find, _library.nearest_find_gradient):
    _function.restype = ctypes.c_char_p

# torch


def _run(
    function, ins: list[torch.Tensor], sizes: list[int], outs: list[torch.Tensor]
) -> None:
    addresses = [ctypes.c_void_p(t.data_ptr()) for t in (*ins, *outs)]
    said = function(
        *addresses[: len(ins)], *map(ctypes.c_size_t, sizes), *addresses[len(ins) :]
    )
    if said is not None:
        raise RuntimeError(said.decode())


def _check(points: torch.Tensor, queries: torch.Tensor) -> None:
    for name, t in (("points", points), ("queries", queries)):
        if t.dtype != torch.float32 or t.dim() != 2 or t.device.type != "cpu":
            found = f"{t.dtype} {tuple(t.shape)}"
            raise ValueError(
                f"nearest(): argument {name!r}: expected float32[n, d] on cpu, got {found}"
            )
    if points.shape[1] != queries.shape[1]:
        d, found = points.shape[1], queries.shape[1]
        raise ValueError(
            f"nearest(): argument 'queries': expected {d} coordinates, got {found}"
        )


@torch.library.custom_op("by_hand::nearest", mutates_args=())
def find(
    points: torch.Tensor, queries: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    _check(points, queries)
    points, queries = points.contiguous(), queries.contiguous()
    outs = [
        queries.new_empty(len(queries)),
        queries.new_empty(len(queries), dtype=torch.int32),
    ]
    _run(
        _library.nearest_find,
        [points, queries],
        [len(points), len(queries), points.shape[1]],
        outs,
    )
    return outs[0], outs[1]


@find.register_fake
def _(points, queries):
    return queries.new_empty(queries.shape[0]), queries.new_empty(
        queries.shape[0], dtype=torch.int32
    )


@torch.library.custom_op("by_hand::nearest_gradient", mutates_args=())
def find_gradient(
    grad: torch.Tensor, points: torch.Tensor, queries: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    _check(points, queries)
    ins = [t.contiguous() for t in (grad, points, queries)]
    outs = [torch.empty_like(ins[1]), torch.empty_like(ins[2])]
    _run(
        _library.nearest_find_gradient,
        ins,
        [len(points), len(queries), points.shape[1]],
        outs,
    )
    return outs[0], outs[1]


@find_gradient.register_fake
def _(grad, points, queries):
    return torch.empty_like(points), torch.empty_like(queries)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx, grad, _):
    return find_gradient(grad, *ctx.saved_tensors)


find.register_autograd(_backward, setup_context=_keep)


def _map(function):
    def rule(info, in_dims, *args):
        rows = [
            function(
                *(
                    a if d is None else a.select(d, i)
                    for a, d in zip(args, in_dims, strict=True)
                )
            )
            for i in range(info.batch_size)
        ]
        return tuple(map(torch.stack, zip(*rows, strict=True))), (0, 0)

    return rule


find.register_vmap(_map(find))
find_gradient.register_vmap(_map(find_gradient))

# JAX

jax.ffi.register_ffi_target("by_hand_nearest", ext.find, platform="cpu")
jax.ffi.register_ffi_target(
    "by_hand_nearest_gradient", ext.find_gradient, platform="cpu"
)


@jax.custom_vjp
def find_jax(points, queries):
    shapes = (
        jax.ShapeDtypeStruct(queries.shape[:1], "float32"),
        jax.ShapeDtypeStruct(queries.shape[:1], "int32"),
    )
    return jax.ffi.ffi_call("by_hand_nearest", shapes, vmap_method="sequential")(
        points, queries
    )


def _forward(points, queries):
    return find_jax(points, queries), (points, queries)


def _reverse(kept, grads):
    points, queries = kept
    shapes = (
        jax.ShapeDtypeStruct(points.shape, points.dtype),
        jax.ShapeDtypeStruct(queries.shape, queries.dtype),
    )
    return jax.ffi.ffi_call(
        "by_hand_nearest_gradient", shapes, vmap_method="sequential"
    )(grads[0], points, queries)


find_jax.defvjp(_forward, _reverse)
