#!/usr/bin/env python3
"""Fuzz the checks of what comes from outside: descriptors, Arrow's structs, the texts that name a dtype;
and moves of borrows.

Usage:
    tests/fuzz/run.py [--seconds N | --runs N] [--build DIR] [--include DIR ...] [TARGET ...]

Needs a clang with libFuzzer; says so and ends well (with status 0) where there is none. What makes a target fail is
left in DIR/<target>-*: put it into tests/fuzz/cases/<target>/, where every test run repeats it.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "python" / "support"))

import embedding  # noqa: E402
from compiling import library_objects  # noqa: E402

TARGETS = {
    "descriptor": 1100,
    "arrow": 400,
    "formats": 24,
    "moves": 300,
    "safetensors": 400,
}  # and the longest input that makes sense
MINUS_ONE = 2**64 - 1


def descriptor(
    *, versioned=1, real=0, parts=3, major=1, flags=0, data=1 << 40, offset=0, device=(1, 0), ndim=None,
    dtype=(2, 32, 1), shape=(3, 4), strides=(4, 1),
) -> bytes:  # fmt: skip
    """An input of fuzz_descriptor.cpp, in the order in which it reads."""
    ndim = len(shape) if ndim is None else ndim
    head = struct.pack("<BBBBQQQiiiBBH", versioned, real, parts, major, flags, data, offset, *device, ndim, *dtype)
    return head + struct.pack(f"<{len(shape)}q{len(strides)}q", *shape, *strides)


def arrow(*levels: bytes, device: int = 0) -> bytes:
    """An input of fuzz_arrow.cpp."""
    return bytes([len(levels) - 1 | device << 4]) + b"".join(levels)


def level(form: bytes = b"f", length=4, *, offset=0, nulls=0, buffers=2, children=0, what=0, rest=b"") -> bytes:
    return bytes([what, len(form)]) + form + struct.pack("<qqbbb", length, offset, nulls, buffers, children) + rest


SEEDS: dict[str, list[bytes]] = {
    "descriptor": [
        descriptor(),
        descriptor(versioned=0),
        descriptor(real=1),
        descriptor(real=1, strides=(1, 3)),
        descriptor(real=1, strides=(-4, -1)),
        descriptor(real=1, strides=(0, 0)),
        descriptor(real=1, offset=8),
        descriptor(real=1, dtype=(17, 4, 1), shape=(5,), strides=(1,)),
        descriptor(real=1, dtype=(17, 4, 1), flags=4, shape=(5,), strides=(2,)),
        descriptor(real=1, dtype=(5, 128, 1), shape=(), strides=()),
        descriptor(real=1, dtype=(1, 8, 3), shape=(2, 2, 2), strides=(4, 2, 1)),
        descriptor(parts=1),
        descriptor(parts=0),
        descriptor(ndim=-1),
        descriptor(ndim=65),
        descriptor(shape=(0, 1 << 62), strides=(1, 1)),
        descriptor(shape=(1 << 32, 1 << 32), strides=(1, 1)),
        descriptor(shape=(2, 2), strides=(1 << 62, 1 << 62)),
        descriptor(shape=(2,), strides=(-(1 << 63),)),
        descriptor(data=0),
        descriptor(data=MINUS_ONE - 63),
        descriptor(data=MINUS_ONE - 4095 - 48),
        descriptor(offset=MINUS_ONE),
        descriptor(flags=7),
        descriptor(flags=8),
        descriptor(major=2),
        descriptor(device=(2, 1)),
        descriptor(device=(4, 0), offset=12),
        descriptor(device=(99, 0)),
        descriptor(dtype=(18, 32, 1)),
        descriptor(dtype=(2, 32, 0)),
    ],
    "arrow": [
        arrow(level()),
        arrow(level(b"g", 0)),
        arrow(level(b"l", offset=2)),
        arrow(level(b"l", length=-1)),
        arrow(level(b"l", offset=1 << 62)),
        arrow(level(b"g", length=1 << 61)),
        arrow(level(what=8, nulls=-1, rest=b"\xff\x01")),
        arrow(level(what=8, nulls=1, rest=b"\x0b\x00")),
        arrow(level(what=8, nulls=1, rest=b"\x0b\x00"), device=1),
        arrow(level(what=32, rest=b"\x01\x01\x00\x00")),
        arrow(level(what=64)),
        arrow(level(what=128)),
        arrow(level(b"b")),
        arrow(level(b"tdD")),
        arrow(level(b"+s", buffers=1)),
        arrow(level(b"+w:3", 2, buffers=1, children=1), level(b"e", 6)),
        arrow(level(b"+w:3", 2, offset=1, buffers=1, children=1), level(b"e", 9, offset=1)),
        arrow(level(b"+w:3", 3, buffers=1, children=1), level(b"e", 6)),
        arrow(level(b"+w:0", 2, buffers=1, children=1), level(b"c", 0)),
        arrow(level(b"+w:9999999999", 2, buffers=1, children=1), level(b"c", 0)),
        arrow(level(b"+w:2", 2, buffers=1, children=1), level(b"+w:2", 4, buffers=1, children=1), level(b"i", 8)),
        arrow(level(b"+w:2", 2, buffers=1, children=1, what=8, nulls=-1, rest=b"\x03\x00"), level(b"i", 4)),
    ],
    "formats": [
        bytes([size]) + text.encode()
        for size, text in [
            (4, "f"), (8, "<d"), (4, ">f"), (8, "l"), (4, "<l"), (2, "e"), (8, "Zf"), (16, "Zd"), (16, "g"), (1, "?"),
            (8, "T{f:x:}"), (8, "2f"), (4, ""), (4, "<f4"), (1, "|b1"), (8, ">f8"), (16, "<c16"), (0, "cuda:0"),
            (0, "opencl:2147483647"), (0, "float8_e4m3fn"), (0, "bfloat16x4"), (0, "complex64"), (0, "uint1x65535"),
        ]
    ],
    "safetensors": [
        bytes([4]) + header
        for header in [
            b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', b"{}", b'{"__metadata__":{"a":"b"}}',
            (b'{"b":{"shape":[1],"data_offsets":[3,4],"dtype":"U8"}, '
             b'"a":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}} '),
            rb'{"\u0000e9":{"dtype":"xI16"',
            rb'{"\u00e9\ud83d\ude00\n":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}',
            b'{"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,4]}}',
            b'{"a":{"dtype":"U8","shape":[0,9223372036854775807],"data_offsets":[0,0]},"b":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}',
        ]
    ],
    "moves": [random.Random(number).randbytes(3 * number) for number in range(1, 100)],
}  # fmt: skip


def include_flags(extra: list[Path]) -> list[str]:
    # The targets look at internals: "src/load/safetensors.h".
    folders = [ROOT / "include", ROOT, *extra, Path(sysconfig.get_path("include"))]
    try:
        import tvm_ffi

        folders.append(Path(tvm_ffi.__file__).parent / "include")
    except ImportError:
        pass
    return [flag for folder in folders for flag in ("-I", str(folder))]


def link_flags(target: str) -> list[str] | None:
    """What a target is linked with; None where it cannot be."""
    return embedding.link_flags() if target == "moves" else []


def library_of(target: str, command: list[str]) -> list[Path]:
    """The units of the library that a target is linked with: without an interpreter, those that need none."""
    return library_objects(command, ROOT / "include", *(() if target == "moves" else ("bridge",)))


def environment(target: str) -> dict[str, str]:
    """The interpreter's pools would hide what is used after its end, and it leaves memory to the system at its own."""
    python = {"PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0"} if target == "moves" else {}
    return {**os.environ, **python}


def find_clang() -> str | None:
    """A clang++ that can link a fuzzer."""
    names = [os.environ.get("FUZZ_CXX"), "clang++", *(f"clang++-{n}" for n in range(22, 13, -1))]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "empty.cpp"
        source.write_text('extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n')
        for name in names:
            if name and shutil.which(name):
                command = [name, "-fsanitize=fuzzer,address,undefined", source, "-o", Path(folder) / "empty"]
                if subprocess.run(command, capture_output=True).returncode == 0:
                    return name
    return None


def compile_target(compiler: str, target: str, program: Path, flags: list[str], sources: tuple[str, ...] = ()) -> None:
    compile_ = [compiler, "-std=c++20", "-g", "-O1", *flags]
    files = [HERE / f"fuzz_{target}.cpp", *(HERE / source for source in sources), *library_of(target, compile_)]
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [*compile_, *files, *(link_flags(target) or []), "-o", program]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stdout + done.stderr)


def write_seeds(target: str, folder: Path) -> list[Path]:
    """The seeds and the kept cases, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[target]):
        (folder / f"seed-{number:02}").write_bytes(seed)
    cases = HERE / "cases" / target
    return sorted(folder.glob("seed-*")) + (sorted(cases.iterdir()) if cases.is_dir() else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--seconds", type=int, default=60, help="for each target, on inputs that no other search had")
    limit.add_argument("--runs", type=int, help="so many inputs for each target, the same every time")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "fuzz")
    parser.add_argument(
        "--include", type=Path, action="append", default=[], help="where dlpack/dlpack.h is, if not found"
    )
    parser.add_argument("targets", nargs="*", default=list(TARGETS), metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    options = parser.parse_args()

    clang = find_clang()
    if clang is None:
        print("skipped: no clang with libFuzzer (a compiler of that kind may be named by FUZZ_CXX)")
        return 0
    failed = []
    for target in options.targets:
        if link_flags(target) is None:
            print(f"{target}: skipped: this Python has no shared library to embed")
            continue
        program = options.build / f"fuzz_{target}"
        flags = [
            "-fsanitize=fuzzer,address,undefined",
            "-fno-sanitize-recover=undefined",
            *include_flags(options.include),
        ]
        compile_target(clang, target, program, flags)
        corpus = options.build / "corpus" / target
        write_seeds(target, corpus)
        folders = [folder for folder in (corpus, HERE / "cases" / target) if folder.is_dir()]
        span = [f"-runs={options.runs}", "-seed=1"] if options.runs else [f"-max_total_time={options.seconds}"]
        command = [program, *span, f"-max_len={TARGETS[target]}", "-print_final_stats=1",
                   f"-artifact_prefix={options.build}/{target}-", *folders]  # fmt: skip
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment(target))
        telling = ("Done", "stat::number_of", "SUMMARY")
        tail = [line for line in done.stderr.splitlines() if line.startswith(telling) or "not true" in line]
        print(f"{target}: {'failed' if done.returncode else 'good'}: " + "; ".join(tail), flush=True)
        if done.returncode:
            failed.append(target)
            print(done.stderr[-4000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
