#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The bridge to torch, with and without libtorch, beside hand-written functions and torch's own caster, in one process.

Usage:
    benchmarks/torch_bridge/run.py [--rounds N] [--compile-times]

Nanoseconds per call from Python, the empty call subtracted; the contenders of a row take turns,
and the fastest turn counts.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import build  # noqa: E402
import harness  # noqa: E402

# (row, [(who, statement)], [(ours, other, at most this ratio)])
ROWS = [
    ("import, borrowed", [("by hand", "F.borrow_shims(x)"), ("isthmus", "I.borrow(x)")], [("isthmus", "by hand", 1.2)]),
    ("import, owned", [("by hand", "F.own_shims(x)"), ("isthmus", "I.own(x)")], [("isthmus", "by hand", 1.2)]),
    (
        "there and back",
        [("by hand", "F.round_trip_shims(x)"), ("isthmus", "I.round_trip(x)")],
        [("isthmus", "by hand", 1.15)],
    ),
    (
        "C++ to torch",
        [("by hand", "F.to_torch_shims(x)"), ("isthmus", "I.to_torch(x)"), ("torch's caster", "T.to_torch(x)"),
         ("libtorch", "B.out(x)"), ("isthmus/torch.h", "L.out(x)")],
        [("isthmus", "torch's caster", 1.0), ("isthmus/torch.h", "torch's caster", 1.0)],
    ),
    (
        "libtorch: borrowed",
        [("Unpack", "B.borrow(x)"), ("isthmus/torch.h", "L.borrow(x)")],
        [("isthmus/torch.h", "Unpack", 1.2)],
    ),
    (
        "libtorch: owned",
        [("Unpack, copied", "B.own(x)"), ("isthmus/torch.h", "L.own(x)"), ("torch's caster", "T.own(x)"),
         ("as isthmus::Tensor", "L.checked(x)")],
        [("isthmus/torch.h", "Unpack, copied", 1.15), ("isthmus/torch.h", "torch's caster", 1.0)],
    ),
    (
        "libtorch: there and back",
        [("Unpack and Wrap", "B.there_and_back(x)"), ("isthmus/torch.h", "L.there_and_back(x)"),
         ("torch's caster", "T.round_trip(x)")],
        [("isthmus/torch.h", "Unpack and Wrap", 1.15), ("isthmus/torch.h", "torch's caster", 1.0)],
    ),
]  # fmt: skip
HEADERS = [
    "Python.h",
    "isthmus/python.h",
    "ATen/ops/from_blob.h",
    "isthmus/torch.h",
    "torch/csrc/autograd/python_variable.h",
    "torch/extension.h",
]


def linked_recipe(source: str) -> build.Recipe:
    torch = build.torch_recipe()
    flags = [flag for flag in torch.flags if not flag.startswith("-DTORCH_EXTENSION_NAME")]
    flags += build.isthmus_flags()
    library = build.isthmus_library()
    bridge = build.Library([build.ROOT / "src" / "torch.cpp"], flags, library.depends)
    return build.Recipe([HERE / source], flags, [*torch.link, "-ldl"], build.headers(), libraries=[library, bridge])


def build_modules() -> dict[str, object]:
    build.MODULES.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(build.MODULES))
    wanted = {peer.module: peer for peer in build.PEER_LIST if peer.name in ("floor", "isthmus", "torch/extension.h")}
    for source in ("bare", "linked"):
        name = f"bench_bridge_{source}"
        wanted[name] = build.Peer(
            name, name, lambda source=source: linked_recipe(f"{source}.cpp"), lambda: build.package_version("torch")
        )
    for peer in wanted.values():
        built = build.build(peer)
        if built.why_not:
            sys.exit(f"{peer.name}: {built.why_not}")
    names = ("bench_floor", "bench_isthmus", "bench_torch_extension", "bench_bridge_bare", "bench_bridge_linked")
    return {letter: __import__(name) for letter, name in zip("FITBL", names, strict=True)}


def compile_times() -> None:
    print("\nseconds of the processor to compile a file that only includes it, -O2:")
    recipe = linked_recipe("linked.cpp")
    for header in HEADERS:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "file.cpp"
            file.write_text(f"#include <Python.h>\n#include <{header}>\n")
            command = [
                "c++",
                "-O2",
                "-fPIC",
                *recipe.flags,
                build.python_include(),
                "-c",
                str(file),
                "-o",
                str(file) + ".o",
            ]
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            subprocess.run(command, check=True)
            print(f"  {header:<40}{resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before:6.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--compile-times", action="store_true")
    options = parser.parse_args()

    import torch

    modules = build_modules()
    if not modules["F"].load_shims():
        sys.exit("this torch has no stable shims")
    x = torch.zeros(1000)
    modules["I"].set_size(1000), modules["T"].set_size(1000), modules["F"].set_size(1000)
    scope = {**modules, "x": x, "empty": modules["F"].empty}
    missed = 0
    for row, statements, targets in ROWS:
        contenders = [harness.Contender(who, statement, scope) for who, statement in statements]
        with harness.pinned():
            measured = {m.library: m for m in harness.compare(contenders, options.rounds)}
        print(row)
        for who, m in measured.items():
            print(f"  {who:<22}{m.ns:8.1f} ns" if m.turns else f"  {who:<22}{m.why_not}")
        for ours, other, limit in targets:
            ratio = measured[ours].ns / measured[other].ns
            missed += ratio > limit
            print(f"    {ours} / {other}: {ratio:.2f} (at most {limit:g}){'' if ratio <= limit else '  MISSED'}")
    if options.compile_times:
        compile_times()
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
