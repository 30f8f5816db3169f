"""A user's own strict flags: no warning comes from the headers, and what cannot be compiled is told in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

isthmus = pytest.importorskip("isthmus")

GXX = shutil.which("g++") or shutil.which("c++") or "c++"
CXX = os.environ.get("CXX") or GXX
COMPILERS = list(dict.fromkeys(filter(None, [CXX, shutil.which("clang++")])))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wsign-conversion", "-Wold-style-cast", "-Werror"]

CORE = """
#include <isthmus/isthmus.h>
#include <isthmus/shared.h>

using isthmus::View, isthmus::sizes, isthmus::one_of, isthmus::c_contiguous;

float sum(View<const float, 3, sizes<"h w 3">, c_contiguous> image) {
    float all = 0;
    for (const float x : image.span()) all += x;
    return all + image(0, 0, 0);
}
void twice(View<one_of<float, double>, isthmus::dynamic_rank> x) {
    x.visit([](auto view) { view.data()[0] *= 2; });
}
void parts(View<float, 2> x, View<const float, 1> bias, View<double, 3, isthmus::on_cuda> far) {
    isthmus::for_each([](float& out, float b) { out += b; }, x, bias.broadcast_to({x.extent(0), x.extent(1)}));
    for (auto row : x.transpose().slice(0, 1, -1, 2).reshape({-1, 1}).rows())
        for (float& element : row) element = 0;
    (void)far.select(0).select(1, 2).transpose({0}).contiguous().nbytes();
    (void)isthmus::copy_of(x).value().select(0, 1).broadcast_to({2, 3}).transpose().contiguous().reshape({6}).slice(0, 1);
}
isthmus::Tensor made() { return isthmus::Tensor::own(std::vector<float>(6), {2, 3}); }
isthmus::Result<isthmus::Tensor> described() { return isthmus::from_blob(isthmus::to_blob(made())); }
"""
BRIDGE = (
    """
#include <isthmus/python.h>
#include <isthmus/op.h>
#include <isthmus/python/arguments.h>
"""
    + CORE
    + """
void scale(View<const float, 1, sizes<"n">> x, double k, isthmus::Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = static_cast<float>(k) * x(i);
}
PyObject* call(PyObject*, PyObject* const* values, Py_ssize_t count) {
    isthmus::Arguments<View<const float, 3, sizes<"h w 3">, c_contiguous>> arguments("f", {"image"});
    if (!arguments.parse(values, count)) return nullptr;
    return PyFloat_FromDouble(static_cast<double>(sum(arguments.get<0>())));
}
PyObject* back(PyObject* x) {
    auto tensor = isthmus::from_py(x);
    auto object = tensor ? isthmus::to_py(*tensor, isthmus::Framework::numpy) : isthmus::Result<PyObject*>(tensor.error());
    return object ? *object : (isthmus::set_python_error(object.error()), nullptr);
}
int fill(PyObject* module) { return isthmus::op<"strict::scale", scale>(module, {"x", "k"}) ? 0 : -1; }
"""
)
PROGRAMS = {
    "core": CORE,
    "bridge": BRIDGE,
    "nanobind": "#include <isthmus/nanobind.h>\n" + CORE,
    "pybind11": "#include <isthmus/pybind11.h>\n" + CORE,
}


def compile_(source: str, *flags: str, compiler: str = CXX) -> subprocess.CompletedProcess[str]:
    folders = [f"-isystem{sysconfig.get_path('include')}"]
    for library in ("nanobind", "pybind11"):
        if f"isthmus/{library}.h" in source:
            folders.append(f"-isystem{Path(pytest.importorskip(library).__file__).parent / 'include'}")
    # Isthmus's own by -I: warnings of system folders are not shown.
    command = [compiler, "-fsyntax-only", f"-I{isthmus.get_include()}", *folders, *flags, "-x", "c++", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("flags", ["-std=c++20", "-std=c++23 -DNDEBUG -O2", "-std=c++20 -DISTHMUS_COMPILED -fno-rtti"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_warning(program: str, flags: str, compiler: str) -> None:
    if "-fno-rtti" in flags and program in ("nanobind", "pybind11"):
        pytest.skip("the library itself needs it")
    done = compile_(PROGRAMS[program], *STRICT, *flags.split(), compiler=compiler)
    assert done.returncode == 0, done.stderr


def test_torch_where_the_bridge_is_compiled_apart() -> None:
    include = Path(pytest.importorskip("torch").__file__).parent / "include"
    folders = [f"-isystem{folder}" for folder in (include, include / "torch/csrc/api/include")]
    done = compile_("#include <isthmus/torch.h>\n", "-std=c++20", "-DISTHMUS_COMPILED", *folders)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("-std=c++17", "Isthmus needs C++20"),
        ("-std=c++20 -fno-exceptions", "Isthmus needs exceptions"),
        ("-std=c++20 -UUINTPTR_MAX -include stdint.h -include narrow.h", "Isthmus needs a 64-bit system"),
        ("-std=c++20 -DPYPY_VERSION", "Isthmus needs CPython: PyPy"),
    ],
    ids=["C++17", "no exceptions", "32 bit", "PyPy"],
)
def test_the_first_error_tells_what_is_needed(flags: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "narrow.h").write_text("#undef UINTPTR_MAX\n#define UINTPTR_MAX UINT32_MAX\n")
    done = compile_("#include <isthmus/python.h>\n", *flags.split(), f"-I{tmp_path}")
    assert done.returncode != 0
    first = next(line for line in done.stderr.splitlines() if "error" in line)
    assert said in first
