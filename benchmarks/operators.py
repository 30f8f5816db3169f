# SPDX-License-Identifier: Apache-2.0
"""The rows of operators: one function as an operator of Isthmus, beside the same function bound by hand to each
framework."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build
import footprint
from calls import NANOBIND, OURS, TVM_FFI, Call, Row
from peers import Peers
from targets import HEADER_ONLY

Result = dict[str, Any]
OPERATOR, XLA_FFI = "isthmus operator", "xla ffi"  # as build.py calls the modules
CUSTOM_OP = "torch.library.custom_op"
GROUP = "operators"
TWO = ("x", "y")
COMPILE_ROW = "compile time of one operator"
NOTES = {
    CUSTOM_OP: "around the function that tvm-ffi binds",
    TVM_FFI: "the result by torch's allocator",
    NANOBIND: "the result in memory of the module",
}


def rows(torch: Any, np: Any, jax: Any, peers: Peers) -> list[Row]:
    """x + y of 16 floats into a new result: nearly all of it is the call."""
    listed = [
        Row(
            "operator: f(x, y) of numpy",
            GROUP,
            {
                OURS: Call(OPERATOR, "add", TWO),
                NANOBIND: Call(NANOBIND, "add_numpy", TWO),
            },  # tvm-ffi makes none for NumPy
            {"x": np.ones(16, np.float32), "y": np.ones(16, np.float32)},
            NOTES,
            floor=OURS,
        )
    ]
    if peers.get(OPERATOR) is None or peers.get(TVM_FFI) is None:
        return listed
    listed += torch_rows(torch, peers)
    return listed + (jax_rows(jax, peers) if jax is not None else [])


def torch_rows(torch: Any, peers: Peers) -> list[Row]:
    by_hand = peers.get(TVM_FFI)["add"]
    ours = peers.get(OPERATOR).add

    def add(x, y):  # type: ignore[no-untyped-def]  # its schema is given
        return by_hand(x, y)

    custom = torch.library.custom_op(
        "bench_by_hand::add", add, mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor"
    )
    custom.register_fake(lambda x, _y: torch.empty_like(x))
    scope = {"x": torch.ones(16), "y": torch.ones(16), "custom": custom}
    scope |= {
        "compiled": torch.compile(lambda x, y: ours(x, y), fullgraph=True),
        "compiled_custom": torch.compile(lambda x, y: custom(x, y), fullgraph=True),
    }
    eager = {
        OURS: Call(OPERATOR, "add", TWO),
        NANOBIND: Call(NANOBIND, "add_torch", TWO),
        TVM_FFI: Call(TVM_FFI, "add", TWO),
        CUSTOM_OP: Call(None, "custom", TWO),
    }
    compiled = {OURS: Call(None, "compiled", TWO), CUSTOM_OP: Call(None, "compiled_custom", TWO)}
    return [
        Row("operator: f(x, y) of torch", GROUP, eager, scope, NOTES, floor=OURS),
        Row("operator: f(x, y) in torch.compile", GROUP, compiled, scope, NOTES, floor=OURS),
    ]


def jax_rows(jax: Any, peers: Peers) -> list[Row]:
    ours = peers.get(OPERATOR).add
    x = jax.numpy.ones(16)
    scope = {"x": x, "y": x, "jitted": jax.jit(lambda x, y: ours(x, y))}
    if peers.get(XLA_FFI) is not None:
        jax.ffi.register_ffi_target("bench_by_hand_add", peers.get(XLA_FFI).target(), platform="cpu")
        foreign = jax.ffi.ffi_call("bench_by_hand_add", jax.ShapeDtypeStruct(x.shape, x.dtype))
        scope["jitted_by_hand"] = jax.jit(lambda x, y: foreign(x, y))
    contenders = {OURS: Call(None, "jitted", TWO)}
    if "jitted_by_hand" in scope:
        contenders["jax.ffi by hand"] = Call(None, "jitted_by_hand", TWO)
    notes = {"jax.ffi by hand": "a handler written with XLA's headers"}
    return [Row("operator: f(x, y) in jax.jit", GROUP, contenders, scope, notes, floor=OURS)]


def compile_times(versions: Callable[[str], str], say: Callable[[str], None], turns: int = 5) -> list[Result]:
    """Seconds of the processor for the file of one operator, linked with the library and header-only."""
    results: list[Result] = []
    recipe = build.operator_recipe()
    with tempfile.TemporaryDirectory() as folder:
        for library, extra in ((OURS, []), (HEADER_ONLY, ["-DISTHMUS_IMPLEMENTATION"])):
            say(f"{COMPILE_ROW}: {library}")
            source = recipe.sources[0]
            flags = [*build.OPTIMISE, *recipe.flags, build.python_include(), *extra]
            command = [build.compiler(source), *flags, "-c"]
            seconds = min(footprint.compile_one(command, source, Path(folder, "operator.o")) for _ in range(turns))
            result: Result = {
                "row": COMPILE_ROW,
                "group": "footprint",
                "library": library,
                "version": versions(library),
            }
            results.append(result | {"ns": None, "ratio_to_floor": None, "value": round(seconds, 3), "unit": "s"})
    return results
