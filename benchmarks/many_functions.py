# SPDX-License-Identifier: Apache-2.0
"""What a module of many typed functions costs: the compiler's time and the size of its text, through each binder.

The same 60 functions are written once as plain data and spelled for nanobind,
for pybind11 and for Isthmus with nanobind.
"""

from __future__ import annotations

import random
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import build
import footprint

FOLDER = build.OUT / "many_functions"
NOTES = {
    "nanobind": "nb::ndarray; its library is compiled once per project, beside the module",
    "pybind11": "py::array_t, which does not check sizes or ranks before the call",
    "isthmus": "isthmus::View through nanobind; both libraries are compiled once per project, beside the module",
    "isthmus header-only": "isthmus::View through nanobind, with ISTHMUS_IMPLEMENTATION in the module's file",
}
TURNS = 3  # of all candidates, shuffled each time
OWN_TIME = "60 typed functions: compile time of the module's own file"
ALL_TIME = "60 typed functions: compile time with all that is built once"
OWN_TEXT = "60 typed functions: text of the module's own object"
ALL_TEXT = "60 typed functions: text of the linked module"
ROWS = (OWN_TIME, ALL_TIME, OWN_TEXT, ALL_TEXT)


@dataclass(frozen=True)
class Array:
    """An array argument; a size is a number, a name (any size) or ":"."""

    dtype: str
    sizes: str
    writable: bool = False
    contiguous: bool = False
    optional: bool = False

    @property
    def rank(self) -> int:
        return len(self.sizes.split())

    @property
    def fixed(self) -> bool:
        return any(size.isdigit() for size in self.sizes.split())


@dataclass(frozen=True)
class Scalar:
    type: str


@dataclass(frozen=True)
class Function:
    """`result`: the rank of a new float32 array, 0 for a number, None for nothing."""

    name: str
    arguments: tuple[Array | Scalar, ...]
    result: int | None = None


DTYPES = {
    "float32": "float",
    "float64": "double",
    "int32": "std::int32_t",
    "int64": "std::int64_t",
    "uint8": "std::uint8_t",
    "int16": "std::int16_t",
}
DOUBLE, INT = Scalar("double"), Scalar("int")


def functions_of(name: str, t: str) -> list[Function]:
    """What a numerical module has for each of its element types."""
    image_in, image_out = Array(t, "h w 3", contiguous=True), Array(t, "h w 3", writable=True, contiguous=True)
    points, vector = Array(t, "n 3"), Array(t, "n")
    return [
        Function(f"scale_{name}", (Array(t, "n", writable=True), DOUBLE)),
        Function(f"dot_{name}", (vector, vector), 0),
        Function(f"apply_{name}", (Array(t, "n m", contiguous=True), Array(t, "m"), Array(t, "n", writable=True))),
        Function(f"product_{name}", (Array(t, "n k"), Array(t, "k m")), 2),
        Function(f"blur_{name}", (image_in, image_out, INT)),
        Function(f"gather_{name}", (Array(t, "n m"), Array("std::int64_t", "k"), Array(t, "k m", writable=True))),
        Function(f"distances_{name}", (points, points, Array(t, "n", optional=True)), 2),
        Function(f"transform_{name}", (points, Array(t, "4 4", contiguous=True), Array(t, "n 3", writable=True))),
        Function(f"histogram_{name}", (Array(t, ": :", contiguous=True), INT, DOUBLE, DOUBLE), 1),
        Function(f"blend_{name}", (image_in, image_in, Array("bool", "h w", optional=True), DOUBLE), 3),
    ]


def functions() -> list[Function]:
    return [f for name, t in DTYPES.items() for f in functions_of(name, t)]


# What every body does with its arguments, so that nothing is optimised away and nothing but the binding is measured.
USE = """
static const void* volatile used;
[[gnu::noinline]] static void use(const void* data, std::size_t size) { used = static_cast<const char*>(data) + size; }
"""


class Dialect(ABC):
    """How one library writes the module: its headers, its types, and how it makes a result."""

    head = ""
    entry = ""

    @abstractmethod
    def array(self, a: Array) -> str:
        """The type of that argument."""

    @abstractmethod
    def result(self, rank: int) -> tuple[str, str]:
        """The type of a new float32 array of that rank, and the expression that makes one of `n` elements a side."""

    def argument(self, a: Array | Scalar) -> str:
        if isinstance(a, Scalar):
            return a.type
        return f"std::optional<{self.array(a)}>" if a.optional else self.array(a)

    def use(self, a: Array, x: str) -> str:
        return f"use({x}.data(), {x}.size());"

    def definition(self, f: Function) -> str:
        names = [f"a{i}" for i in range(len(f.arguments))]
        body = []
        for a, x in zip(f.arguments, names, strict=True):
            if isinstance(a, Scalar):
                body.append(f"use(&{x}, 1);")
            elif a.optional:
                body.append(f"if ({x}) {{ {self.use(a, '(*' + x + ')')} }}")
            else:
                body.append(self.use(a, x))
        result = "void"
        if f.result == 0:
            result = "double"
            body.append("return 1.0;")
        elif f.result is not None:
            result, made = self.result(f.result)
            body.append(f"const std::size_t n = 4; {made}")
        parameters = ", ".join(f"{self.argument(a)} {x}" for a, x in zip(f.arguments, names, strict=True))
        return f"static {result} {f.name}({parameters}) {{ {' '.join(body)} }}\n"

    def module(self, all_functions: list[Function]) -> str:
        bindings = "".join(f'    m.def("{f.name}", {f.name});\n' for f in all_functions)
        return "".join([self.head, USE, *map(self.definition, all_functions), self.entry, bindings, "}\n"])


class Nanobind(Dialect):
    head = (
        "#include <nanobind/nanobind.h>\n#include <nanobind/ndarray.h>\n#include <nanobind/stl/optional.h>\n"
        "#include <cstdint>\nnamespace nb = nanobind;\n"
    )
    entry = "NB_MODULE(many, m) {\n"

    def array(self, a: Array) -> str:
        shape = ", ".join(size if size.isdigit() else "-1" for size in a.sizes.split())
        wanted = f"nb::shape<{shape}>" if a.fixed else f"nb::ndim<{a.rank}>"
        const = "" if a.writable else "const "
        order = ", nb::c_contig" if a.contiguous else ""
        return f"nb::ndarray<{const}{a.dtype}, {wanted}, nb::device::cpu{order}>"

    def result(self, rank: int) -> tuple[str, str]:
        made = f"nb::ndarray<nb::numpy, float, nb::ndim<{rank}>>"
        count, sizes = " * ".join("n" * rank), ", ".join("n" * rank)
        return made, (
            f"float* data = new float[{count}]; "
            f"nb::capsule owner(data, [](void* p) noexcept {{ delete[] static_cast<float*>(p); }}); "
            f"return {made}(data, {{{sizes}}}, owner);"
        )


class Pybind11(Dialect):
    head = (
        "#include <pybind11/numpy.h>\n#include <pybind11/pybind11.h>\n#include <pybind11/stl.h>\n"
        "#include <cstdint>\n#include <optional>\nnamespace py = pybind11;\n"
    )
    entry = "PYBIND11_MODULE(many, m) {\n"

    def array(self, a: Array) -> str:
        return f"py::array_t<{a.dtype}, {'py::array::c_style' if a.contiguous else '0'}>"

    def use(self, a: Array, x: str) -> str:
        return f"use({x}.{'mutable_data' if a.writable else 'data'}(), static_cast<std::size_t>({x}.size()));"

    def result(self, rank: int) -> tuple[str, str]:
        return "py::array_t<float>", f"return py::array_t<float>(std::vector<std::size_t>({rank}, n));"


class Isthmus(Dialect):
    head = "#include <isthmus/nanobind.h>\n#include <cstdint>\n#include <optional>\nnamespace im = isthmus;\n"
    entry = "NB_MODULE(many, m) {\n"

    def array(self, a: Array) -> str:
        const = "" if a.writable else "const "
        sizes = f', im::sizes<"{a.sizes}">' if a.fixed else ""
        order = ", im::c_contiguous" if a.contiguous else ""
        return f"im::View<{const}{a.dtype}, {a.rank}{sizes}{order}>"

    def use(self, a: Array, x: str) -> str:
        return f"use({x}.data(), static_cast<std::size_t>({x}.size()));"

    def result(self, rank: int) -> tuple[str, str]:
        sizes = ", ".join("n" * rank)
        return "im::As<im::Framework::numpy>", f"return im::Tensor::empty({{{sizes}}}, im::float32);"


@dataclass
class Candidate:
    """One library's module, what it is compiled with, and what was measured of it, by row."""

    name: str
    dialect: Dialect
    recipe: Callable[[], build.Recipe]

    def prepare(self) -> None:
        self.folder = FOLDER / self.name.replace(" ", "_").replace(",", "")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.source = self.folder / "many.cpp"
        self.source.write_text(self.dialect.module(functions()))
        self.made = self.recipe()
        own = build.Library([self.source], self.made.flags)
        self.parts = [(part, library.flags) for library in (own, *self.made.libraries) for part in library.sources]
        self.seconds: dict[Path, float] = {}

    def time(self) -> None:
        for part, flags in self.parts:
            command = [build.compiler(part), *build.OPTIMISE, *build.SECTIONS, *flags, build.python_include(), "-c"]
            seconds = footprint.compile_one(command, part, self.object_of(part))
            self.seconds[part] = min(seconds, self.seconds.get(part, seconds))

    def object_of(self, part: Path) -> Path:
        return self.folder / f"{part.stem}.o"

    def rows(self) -> Iterator[tuple[str, float, str]]:
        objects = [self.object_of(part) for part, _ in self.parts]
        module = self.folder / "many.so"
        compiler = build.compiler(self.source)
        linker = [compiler, "-shared", build.DROP_UNUSED, *map(str, objects), "-o", str(module), *self.made.link]
        build.run(linker, self.folder / "link.log")
        seconds = self.seconds[self.source], sum(self.seconds.values())
        sizes = text_size(objects[0]), text_size(module)
        values = [(round(s, 2), "s") for s in seconds] + [(round(size / 1024), "kB") for size in sizes]
        for row, (value, unit) in zip(ROWS, values, strict=True):
            yield row, value, unit


def text_size(file: Path) -> int:
    """Code and constants, as binutils' `size` counts them."""
    done = subprocess.run(["size", str(file)], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[1].split()[0])


def header_only_with_nanobind() -> build.Recipe:
    return build.with_binder(build.header_only_recipe(), build.nanobind_recipe())


def candidates() -> list[Candidate]:
    return [
        Candidate("nanobind", Nanobind(), build.nanobind_recipe),
        Candidate("pybind11", Pybind11(), build.pybind11_recipe),
        Candidate("isthmus", Isthmus(), build.isthmus_with_nanobind_recipe),
        Candidate("isthmus header-only", Isthmus(), header_only_with_nanobind),
    ]


def all_results(versions: Callable[[str], str], say: Callable[[str], None]) -> list[footprint.Result]:
    why_not: dict[str, Exception] = {}

    def attempt(candidate: Candidate, step: Callable[[], None]) -> bool:
        try:
            step()
        except (build.Unavailable, OSError, subprocess.SubprocessError) as why:
            why_not[candidate.name] = why
        return candidate.name not in why_not

    everyone = candidates()
    ready = [c for c in everyone if attempt(c, c.prepare)]
    for turn in range(TURNS):
        say(f"60 typed functions: turn {turn + 1} of {TURNS}")
        for candidate in random.sample(ready, len(ready)):
            if candidate.name not in why_not:
                attempt(candidate, candidate.time)
    results: list[footprint.Result] = []
    for c in everyone:
        base: footprint.Result = {
            "group": "footprint",
            "library": c.name,
            "version": versions(c.name),
            "ns": None,
            "ratio_to_floor": None,
            "note": NOTES[c.name],
        }
        rows: list[tuple[str, float, str]] = []
        if c.name not in why_not and attempt(c, lambda: rows.extend(c.rows())):  # noqa: B023
            results += [base | {"row": row, "value": value, "unit": unit} for row, value, unit in rows]
        else:
            results.append(base | {"row": OWN_TIME, "why_not": str(why_not[c.name])})
    return sorted(results, key=lambda r: r["row"])
