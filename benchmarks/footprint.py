# SPDX-License-Identifier: Apache-2.0
"""What including a library costs: the compiler's time for one small file, and the size of the module it makes."""

from __future__ import annotations

import random
import resource
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import build

Result = dict[str, Any]

# The same small module in each: one function of one tensor.
BARE = """
#define PY_SSIZE_T_CLEAN
{include}
#include <Python.h>
static PyObject* f(PyObject*, PyObject* x) {{ {body} }}
static PyMethodDef methods[] = {{{{"f", f, METH_O, nullptr}}, {{nullptr, nullptr, 0, nullptr}}}};
static PyModuleDef definition{{
    PyModuleDef_HEAD_INIT, "footprint", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr}};
PyMODINIT_FUNC PyInit_footprint() {{ return PyModule_Create(&definition); }}
"""
ISTHMUS_BODY = (
    "auto t = isthmus::borrow_py(x); if (!t) { isthmus::set_python_error(t.error()); return nullptr; } "
    "return PyLong_FromLongLong(t->numel());"
)
SOURCES: dict[str, tuple[str, Callable[[], build.Recipe] | None]] = {
    "bare Python.h": (BARE.format(include="", body="return PyLong_FromVoidPtr(x);"), None),
    "isthmus": (BARE.format(include="#include <isthmus/python.h>", body=ISTHMUS_BODY), build.isthmus_recipe),
    "isthmus, stable ABI": (BARE.format(include="#include <isthmus/python.h>", body=ISTHMUS_BODY), build.abi3_recipe),
    "isthmus header-only": (
        BARE.format(include="#include <isthmus/python.h>", body=ISTHMUS_BODY),
        build.header_only_recipe,
    ),
    "isthmus with nanobind": (
        "#include <isthmus/nanobind.h>\n"
        'NB_MODULE(footprint, m) { m.def("f", [](isthmus::View<const float, 1> x) { return x.size(); }); }\n',
        build.isthmus_with_nanobind_recipe,
    ),
    "isthmus with nanobind, stable ABI": (
        "#include <isthmus/nanobind.h>\n"
        'NB_MODULE(footprint, m) { m.def("f", [](isthmus::View<const float, 1> x) { return x.size(); }); }\n',
        build.abi3_with_nanobind_recipe,
    ),
    "nanobind, split": (
        "#include <nanobind/nanobind.h>\n#include <nanobind/ndarray.h>\n"
        'NB_MODULE(footprint, m) { m.def("f", [](nanobind::ndarray<> x) { return x.size(); }); }\n',
        build.nanobind_split_recipe,
    ),
    "nanobind": (
        "#include <nanobind/nanobind.h>\n#include <nanobind/ndarray.h>\n"
        'NB_MODULE(footprint, m) { m.def("f", [](nanobind::ndarray<> x) { return x.size(); }); }\n',
        build.nanobind_recipe,
    ),
    "pybind11": (
        "#include <pybind11/numpy.h>\n#include <pybind11/pybind11.h>\n"
        'PYBIND11_MODULE(footprint, m) { m.def("f", [](pybind11::array x) { return x.size(); }); }\n',
        build.pybind11_recipe,
    ),
    "tvm-ffi": (
        "#include <tvm/ffi/container/tensor.h>\n#include <tvm/ffi/function.h>\n"
        "TVM_FFI_DLL_EXPORT_TYPED_FUNC(f, [](tvm::ffi::TensorView x) { return x.ndim(); });\n",
        build.tvm_ffi_recipe,
    ),
    "torch, stable ABI": (
        "#include <torch/csrc/stable/library.h>\n#include <torch/csrc/stable/tensor.h>\n"
        "std::int64_t f(torch::stable::Tensor x) { return x.numel(); }\n"
        'STABLE_TORCH_LIBRARY(footprint, m) { m.def("f(Tensor x) -> int"); }\n'
        'STABLE_TORCH_LIBRARY_IMPL(footprint, CPU, m) { m.impl("f", TORCH_BOX(&f)); }\n',
        build.torch_stable_recipe,
    ),
    "torch/extension.h": (
        "#include <torch/extension.h>\n"
        'PYBIND11_MODULE(footprint, m) { m.def("f", [](const at::Tensor& x) { return x.numel(); }); }\n',
        build.torch_recipe,
    ),
}
TIME_ROW = "compile time of one small file"
SIZE_ROW = "size of its module at {}, stripped"
#: CPython 3.10 to 3.15 with the GIL. nanobind's stable ABI, without a backend, begins with 3.12.
FILES_ROW = "files for CPython 3.10 to 3.15"
FILES = {
    "isthmus": 6,
    "isthmus, stable ABI": 1,
    "isthmus header-only": 6,
    "isthmus with nanobind": 6,
    "isthmus with nanobind, stable ABI": 1,
    "nanobind": 3,
    "nanobind, split": 1,
    "pybind11": 6,
    "tvm-ffi": 1,
    "torch, stable ABI": 1,
    "torch/extension.h": 6,
}
TURNS = 5  # of all libraries, shuffled each time, so that what the machine does meets them alike
SIZES = ("-O2", "-Os")  # nanobind's CMake functions choose -Os
NOTES = {
    "isthmus": "links isthmus::python, which is built once per project",
    "isthmus header-only": "ISTHMUS_IMPLEMENTATION in the module's one file",
    "isthmus with nanobind": "isthmus::View through nanobind; both libraries are built once per project",
    "isthmus, stable ABI": "calls the installed package",
    "isthmus with nanobind, stable ABI": "calls the installed packages of both",
    "nanobind": "its library is built once per project",
    "nanobind, split": "calls the installed package nanobind-backend",
    "torch, stable ABI": "an operator: torch.ops.footprint.f",
}


def compile_one(command: list[str], source: Path, target: Path) -> float:
    """Seconds of the processor, which a busy machine changes less than the clock's."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    start = spent()
    build.run([*command, str(source), "-o", str(target)], target.with_suffix(".log"))
    return spent() - start


class Candidate:
    """One library's small file, its command line and what was measured of it, by row."""

    def __init__(self, name: str, folder: Path) -> None:
        text, recipe_of = SOURCES[name]
        self.name, self.folder = name, folder
        self.source = folder / "footprint.cpp"
        folder.mkdir()
        self.source.write_text(text)
        self.recipe = recipe_of() if recipe_of is not None else build.Recipe([], ["-std=c++20"])
        self.command = [build.compiler(self.source), *build.OPTIMISE, *self.recipe.flags, build.python_include(), "-c"]
        self.slow = name == "torch/extension.h"  # half a minute each time
        self.rows: dict[str, float] = {}

    def time(self) -> None:
        if not (self.slow and self.rows):
            seconds = compile_one(self.command, self.source, self.folder / "footprint.o")
            self.rows[TIME_ROW] = min(seconds, self.rows.get(TIME_ROW, seconds))

    def weigh(self) -> None:
        for level in SIZES[:1] if self.slow else SIZES:
            own = self.folder / "footprint.o"
            if not self.slow:
                compile_one([*self.command, *build.SECTIONS, level], self.source, own)
            libraries = [replace(library, flags=[level, *library.flags]) for library in self.recipe.libraries]
            objects = [own, *build.library_objects(replace(self.recipe, libraries=libraries))]
            module = self.folder / "footprint.so"
            linker = [self.command[0], "-shared", "-s", build.DROP_UNUSED, *map(str, objects), "-o", str(module)]
            build.run([*linker, *self.recipe.link], self.folder / "log")
            self.rows[SIZE_ROW.format(level)] = module.stat().st_size


def all_results(versions: Callable[[str], str], say: Callable[[str], None]) -> list[Result]:
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        candidates: dict[str, Candidate] = {}
        why_not: dict[str, Exception] = {}

        def attempt(name: str, step: Callable[[], None]) -> None:
            try:
                step()
            except (build.Unavailable, OSError, subprocess.SubprocessError) as why:
                candidates.pop(name, None)
                why_not[name] = why

        for i, name in enumerate(SOURCES):
            attempt(name, lambda: candidates.__setitem__(name, Candidate(name, Path(folder, str(i)))))  # noqa: B023
        for turn in range(TURNS):
            say(f"compile time: turn {turn + 1} of {TURNS}")
            for name, candidate in random.sample(list(candidates.items()), len(candidates)):
                attempt(name, candidate.time)
        for name, candidate in list(candidates.items()):
            say(f"module size: {name}")
            attempt(name, candidate.weigh)
        for name in SOURCES:
            base: Result = {
                "group": "footprint",
                "library": name,
                "version": versions(name),
                "ns": None,
                "ratio_to_floor": None,
            }
            base |= {"note": NOTES[name]} if name in NOTES else {}
            if name in why_not:
                results.append(base | {"row": TIME_ROW, "why_not": str(why_not[name])})
                continue
            for row, value in candidates[name].rows.items():
                amount = (
                    {"value": round(value, 3), "unit": "s"}
                    if row == TIME_ROW
                    else {"value": round(value / 1024), "unit": "kB"}
                )
                results.append(base | {"row": row} | amount)
            if name in FILES:
                results.append(base | {"row": FILES_ROW, "value": FILES[name], "unit": ""})
    for row in {r["row"] for r in results}:
        bare = next(
            (r["value"] for r in results if r["row"] == row and r["library"] == "bare Python.h" and "value" in r), None
        )
        for r in results:
            if bare and r["row"] == row and "value" in r:
                r["ratio_to_floor"] = round(r["value"] / bare, 2)
    return sorted(results, key=lambda r: r["row"])
