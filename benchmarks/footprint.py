# SPDX-License-Identifier: Apache-2.0
"""What including a library costs: the compiler's time for one small file, and the size of the module it makes."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build

Result = dict[str, Any]

# The same small module in each: one function of one tensor.
BARE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
{include}
static PyObject* f(PyObject*, PyObject* x) {{ {body} }}
static PyMethodDef methods[] = {{{{"f", f, METH_O, nullptr}}, {{nullptr, nullptr, 0, nullptr}}}};
static PyModuleDef definition{{PyModuleDef_HEAD_INIT, "footprint", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr}};
PyMODINIT_FUNC PyInit_footprint() {{ return PyModule_Create(&definition); }}
"""
ISTHMUS_BODY = (
    "auto t = isthmus::borrow_py(x); if (!t) { isthmus::set_python_error(t.error()); return nullptr; } "
    "return PyLong_FromLongLong(t->numel());"
)
SOURCES: dict[str, tuple[str, Callable[[], build.Recipe] | None]] = {
    "bare Python.h": (BARE.format(include="", body="return PyLong_FromVoidPtr(x);"), None),
    "isthmus": (BARE.format(include="#include <isthmus/python.h>", body=ISTHMUS_BODY), build.isthmus_recipe),
    "isthmus compiled": (
        BARE.format(include="#include <isthmus/python.h>", body=ISTHMUS_BODY),
        build.isthmus_recipe,
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
    "torch/extension.h": (
        "#include <torch/extension.h>\n"
        'PYBIND11_MODULE(footprint, m) { m.def("f", [](const at::Tensor& x) { return x.numel(); }); }\n',
        build.torch_recipe,
    ),
}
NANOBIND_SIZE = ["-Os", "-ffunction-sections", "-fdata-sections"]  # as its own CMake functions build a module
NOTES = {
    "isthmus compiled": "isthmus::python_compiled; the bridge's code is built once per project, beside it",
    "nanobind": "its library is built once per project, beside it",
}


def once_per_project(name: str) -> list[Path]:
    """The sources that belong in every module, but are compiled only once."""
    if name == "nanobind":
        return [p for p in build.nanobind_recipe().sources if p.name == "nb_combined.cpp"]
    if name == "isthmus compiled":
        return [build.ROOT / "src/python/isthmus_python.cpp"]
    return []


def measure(name: str, times: int) -> tuple[float, int]:
    """(seconds to compile the file, bytes of the stripped module)."""
    text, recipe_of = SOURCES[name]
    recipe = recipe_of() if recipe_of is not None else build.Recipe([], ["-std=c++20"])
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "footprint.cpp"), Path(folder, "footprint.o")
        source.write_text(text)
        flags = [
            *build.OPTIMISE,
            *recipe.flags,
            build.python_include(),
            *(["-DISTHMUS_COMPILED"] if "compiled" in name else []),
        ]
        command = [build.compiler(source), *flags, "-c"]
        taken = []
        for _ in range(times):
            start = time.perf_counter()
            build.run([*command, str(source), "-o", str(target)], Path(folder, "log"))
            taken.append(time.perf_counter() - start)
        if name == "nanobind":
            build.run([*command, *NANOBIND_SIZE, str(source), "-o", str(target)], Path(folder, "log"))
            command += NANOBIND_SIZE
        objects = [str(target)]
        for extra in once_per_project(name):
            objects.append(str(Path(folder, extra.stem + ".o")))
            build.run([*command, str(extra), "-o", objects[-1]], Path(folder, "log"))
        module = Path(folder, "footprint.so")
        build.run(
            [command[0], "-shared", "-s", "-Wl,--gc-sections", *objects, "-o", str(module), *recipe.link], Path(folder, "log")
        )
        return min(taken), module.stat().st_size


def all_results(versions: Callable[[str], str], say: Callable[[str], None]) -> list[Result]:
    results: list[Result] = []
    for name in SOURCES:
        say(f"compile time and module size: {name}")
        base: Result = {"group": "footprint", "library": name, "version": versions(name), "ns": None, "ratio_to_floor": None}
        base |= {"note": NOTES[name]} if name in NOTES else {}
        try:
            seconds, size = measure(name, 1 if name == "torch/extension.h" else 3)
        except (build.Unavailable, OSError, subprocess.SubprocessError) as why:
            results.append(base | {"row": "compile time of one small file", "why_not": str(why)})
            continue
        results.append(base | {"row": "compile time of one small file", "value": round(seconds, 3), "unit": "s"})
        results.append(base | {"row": "size of its module, stripped", "value": round(size / 1024), "unit": "kB"})
    for row in {r["row"] for r in results}:
        bare = next((r["value"] for r in results if r["row"] == row and r["library"] == "bare Python.h" and "value" in r), None)
        for r in results:
            if bare and r["row"] == row and "value" in r:
                r["ratio_to_floor"] = round(r["value"] / bare, 2)
    return sorted(results, key=lambda r: r["row"])
