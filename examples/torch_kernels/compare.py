"""Builds both bindings, compares their results, and prints lines, seconds, kB and ns of each.

python compare.py [--quick]: --quick measures a hundredth as often, and compiles without optimisation.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
BUILD = HERE / "build"
QUICK = "--quick" in sys.argv
OPTIMISE = ["-O0"] if QUICK else ["-O2", "-DNDEBUG"]


def compile_module(
    source: str, module: str, flags: list[str], link: list[str]
) -> float:
    """Seconds of the compiler and the linker."""
    command = [
        os.environ.get("CXX", "c++"),
        "-std=c++20",
        "-shared",
        "-fPIC",
        *OPTIMISE,
    ]
    start = time.perf_counter()
    subprocess.run(
        [*command, *flags, HERE / source, *link, "-o", BUILD / module], check=True
    )
    return time.perf_counter() - start


def build() -> list[tuple[float, int]]:
    """Of both, with Isthmus and by hand: seconds, and bytes of the stripped module."""
    BUILD.mkdir(exist_ok=True)
    told = [sys.executable, "-m", "isthmus", "--cflags", "--abi3"]
    ours = shlex.split(subprocess.run(told, capture_output=True, text=True).stdout)
    folder = Path(torch.__file__).parent
    theirs = [f"-isystem{folder / 'include'}"]
    theirs += [f"-isystem{folder / 'include/torch/csrc/api/include'}"]
    libraries = [f"-L{folder / 'lib'}", "-ltorch_cpu", "-lc10"]
    python = f"-I{sysconfig.get_path('include')}"
    seconds = [
        compile_module("with_isthmus.cpp", "with_isthmus.abi3.so", [*ours, python], []),
        compile_module("by_hand.cpp", "libby_hand.so", theirs, libraries),
    ]
    sizes = []
    for module in ("with_isthmus.abi3.so", "libby_hand.so"):
        stripped = BUILD / f"{module}.stripped"
        subprocess.run(["strip", BUILD / module, "-o", stripped], check=True)
        sizes.append(stripped.stat().st_size)
    return list(zip(seconds, sizes, strict=True))


def lines_of_code(*files: str) -> int:
    text = "\n".join((HERE / file).read_text() for file in files)
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith(("//", "#", '"""')))


def segments(count: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows, four to a segment, and where the segments begin."""
    torch.manual_seed(0)
    return torch.rand(4 * count, columns), torch.arange(0, 4 * count + 1, 4)


def boxes(count: int) -> tuple[torch.Tensor, torch.Tensor, float]:
    torch.manual_seed(0)
    corners = torch.rand(count, 2)
    return torch.cat([corners, corners + 0.1], 1), torch.rand(count), 0.5


def rows(count: int, columns: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    places = torch.randperm(4 * count)[:count]
    return torch.zeros(4 * count, columns), places, torch.rand(count, columns)


def forward_and_backward(segment_max: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: torch.Tensor, starts: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(segment_max(x, starts)[0], x, grad)[0]

    return run


def check(ours: Any, by_hand: Any) -> None:
    """The same numbers from both, eagerly, from a gradient and in a graph."""
    x, starts = segments(50, 3)
    starts[7] = starts[8]  # a segment without rows
    grad = torch.rand(50, 3)

    def all_of(ops: Any) -> list[torch.Tensor]:
        leaf = x.clone().requires_grad_()
        dx = forward_and_backward(ops.segment_max)(leaf, starts, grad)
        torch.manual_seed(1)
        cache, places, new = rows(8, 3)
        ops.put_rows(cache, places, new)
        return [*ops.segment_max(x, starts), dx, ops.nms(*boxes(100)), cache]

    expected = all_of(by_hand)
    for ops in (ours, torch.ops.ported):
        for made, other in zip(all_of(ops), expected, strict=True):
            assert torch.equal(made, other)
    double = x.double().requires_grad_()
    for ops in (ours, torch.ops.ported, by_hand):
        assert torch.autograd.gradcheck(ops.segment_max, (double, starts))
        check_graphs(ops, (x.requires_grad_(), starts, grad), expected)


def check_graphs(ops: Any, arguments: tuple[Any, ...], expected: list[Any]) -> None:
    x, starts, grad = arguments
    settings = {"fullgraph": True, "dynamic": True, "backend": "aot_eager"}
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        largest, where = torch.compile(lambda *a: ops.segment_max(*a), **settings)(
            x, starts
        )
        (dx,) = torch.autograd.grad(largest, x, grad)
        kept = torch.compile(lambda *a: ops.nms(*a), **settings)(*boxes(100))
    for made, other in zip((largest.detach(), where, dx, kept), expected, strict=False):
        assert torch.equal(made, other)


def fastest(
    functions: list[Callable[..., Any]], arguments: tuple[Any, ...]
) -> list[float]:
    """ns of each, the least of many runs by turns."""
    start = time.perf_counter_ns()
    functions[-1](*arguments)
    once = time.perf_counter_ns() - start
    number = max(1, min(300, 3_000_000 // once))
    best = [float("inf")] * len(functions)
    for _ in range(2 if QUICK else 200):
        for i, function in enumerate(functions):
            start = time.perf_counter_ns()
            for _ in range(number):
                function(*arguments)
            best[i] = min(best[i], (time.perf_counter_ns() - start) / number)
    return best


def measure(ours: Any, by_hand: Any) -> None:
    def print_row(
        title: str, name: str, arguments: tuple[Any, ...], wrap: Any = None
    ) -> None:
        functions = [getattr(ops, name) for ops in (ours, torch.ops.ported, by_hand)]
        if wrap is not None:
            functions = [wrap(function) for function in functions]
        plain, listed, theirs = fastest(functions, arguments)
        cells = f"{plain:,.0f} ({plain / theirs:.2f}) | {listed:,.0f} ({listed / theirs:.2f})"
        print(f"| {title} | {cells} | {theirs:,.0f} |")

    print("\n| ns of a call (of the call by hand) | plain | `torch.ops` | by hand |")
    print("|---|---|---|---|")
    for count, columns in ((2, 4), (1000, 64)):
        x, starts = segments(count, columns)
        sizes = f"{4 * count} by {columns}"
        print_row(f"`segment_max`, {sizes}", "segment_max", (x, starts))
        leaf = x.clone().requires_grad_()
        arguments = (leaf, starts, torch.rand(count, columns))
        wrap = forward_and_backward
        print_row("… forward and backward", "segment_max", arguments, wrap)
    for count in (4, 1000):
        print_row(f"`nms`, {count} boxes", "nms", boxes(count))
    for count, columns in ((2, 4), (1000, 64)):
        print_row(f"`put_rows`, {count} by {columns}", "put_rows", rows(count, columns))


def main() -> None:
    torch.set_num_threads(1)
    (seconds, size), (seconds_by_hand, size_by_hand) = build()
    sys.path[:0] = [str(BUILD), str(HERE)]
    import by_hand  # noqa: F401
    import with_isthmus

    import isthmus.operators

    isthmus.operators.register("torch")
    check(with_isthmus, torch.ops.by_hand)
    print("both bindings agree\n")
    lines, lines_by_hand = (
        lines_of_code("with_isthmus.cpp"),
        lines_of_code("by_hand.cpp", "by_hand.py"),
    )
    print("| | with Isthmus | by hand |\n|---|---|---|")
    print(f"| lines of code | {lines} | {lines_by_hand} |")
    print(f"| seconds to compile | {seconds:.1f} | {seconds_by_hand:.1f} |")
    print(f"| kB of the module | {size / 1000:.0f} | {size_by_hand / 1000:.0f} |")
    measure(with_isthmus, torch.ops.by_hand)


if __name__ == "__main__":
    main()
