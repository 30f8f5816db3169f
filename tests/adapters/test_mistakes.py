"""What real libraries have that looks like an owner and is none: it does not compile, and the right way does."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import isthmus

CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or "c++"
INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())


def eigen() -> list[str]:
    places = [os.environ.get("EIGEN_INCLUDE", ""), "/usr/include/eigen3", "/usr/local/include/eigen3"]
    for place in filter(None, places):
        if Path(place, "Eigen", "Core").exists():
            return [f"-isystem{place}"]
    pytest.skip("Eigen is not installed")


def pybind11() -> list[str]:
    return [f"-isystem{pytest.importorskip('pybind11').get_include()}"]


def torch() -> list[str]:
    found = importlib.util.find_spec("torch")
    if found is None or not found.submodule_search_locations:
        pytest.skip("torch is not installed")
    return [f"-isystem{Path(found.submodule_search_locations[0]) / 'include'}"]


def nanobind() -> list[str]:
    return [f"-isystem{Path(next(iter(pytest.importorskip('nanobind').__path__)), 'include')}"]


EIGEN = "#include <isthmus/eigen.h>\n"
PYBIND11 = "#include <isthmus/pybind11.h>\n#include <pybind11/numpy.h>\nnamespace py = pybind11;\n"
C10 = "#include <c10/util/ArrayRef.h>\n"
NANOBIND = "#include <isthmus/nanobind.h>\nnamespace nb = nanobind;\n"
BARE = "#include <isthmus/python.h>\n"
#: What every program of a library includes.
COMMON = {eigen: EIGEN, pybind11: PYBIND11, torch: C10, nanobind: NANOBIND, list: BARE}
OWN = "isthmus::Tensor f({parameter}) {{ return isthmus::Tensor::own({argument}); }}"

# (library, its headers, parameter, what is an owner, what is none)
CASES = {
    "eigen row": (eigen, EIGEN, "Eigen::MatrixXf m", "std::move(m)", "m.row(1)"),
    "eigen column": (eigen, EIGEN, "Eigen::MatrixXf m", "std::move(m)", "m.col(1)"),
    "eigen block": (eigen, EIGEN, "Eigen::MatrixXf m", "std::move(m)", "m.block(0, 0, 2, 2)"),
    "eigen transpose": (eigen, EIGEN, "Eigen::MatrixXf m", "std::move(m)", "m.transpose()"),
    "eigen head": (eigen, EIGEN, "Eigen::VectorXf v", "std::move(v)", "v.head(2)"),
    "eigen map": (eigen, EIGEN, "Eigen::VectorXf v", "std::move(v)", "Eigen::Map<Eigen::VectorXf>(v.data(), 2)"),
    "eigen ref": (eigen, EIGEN, "Eigen::VectorXf v", "std::move(v)", "Eigen::Ref<Eigen::VectorXf>(v)"),
    "eigen sum": (eigen, EIGEN, "Eigen::VectorXf v", "(v + v).eval()", "v + v"),
    "py::array_t": (pybind11, PYBIND11, "py::array_t<float> a, std::vector<float> v", "std::move(v)", "std::move(a)"),
    "c10::ArrayRef": (torch, C10, "std::vector<float> v", "std::move(v)", "c10::ArrayRef<float>(v)"),
    "c10::ArrayRef of two dimensions": (
        torch,
        C10,
        "std::vector<float> v",
        "std::move(v), {2, 2}",
        "c10::ArrayRef<float>(v), {2, 2}",
    ),
}


@pytest.fixture(scope="module")
def precompiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """precompiled(library, command): a header that the command can -include, of what every program of the library includes:
    read once, where each program would take seconds for it."""

    @functools.cache
    def make(library: Callable[[], list[str]], *command: str) -> Path:
        header = tmp_path_factory.mktemp("precompiled") / "common.h"
        header.write_text(f"{COMMON[library]}#include <vector>\n#include <isthmus/isthmus.h>\n")
        done = subprocess.run([*command, "-x", "c++-header", header, "-o", f"{header}.gch"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return header

    return make


@pytest.fixture
def compile_(tmp_path: Path, precompiled: Callable[..., Path]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """compile_(library, text): what the compiler says of a program."""

    def run(library: Callable[[], list[str]], text: str) -> subprocess.CompletedProcess[str]:
        source = tmp_path / "program.cpp"
        source.write_text(text)
        command = [CXX, "-std=c++20", f"-I{INCLUDE}", *python_includes(), *library()]
        common = ["-include", precompiled(library, *command)]
        return subprocess.run([*command, "-fsyntax-only", *common, source], capture_output=True, text=True)

    return run


@functools.cache
def python_includes() -> list[str]:
    return subprocess.run([sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize("case", CASES)
def test_a_view_is_no_owner(case: str, compile_: Callable) -> None:
    library, headers, parameter, owner, view = CASES[case]

    def own(argument: str) -> str:
        text = OWN.format(parameter=parameter, argument=argument)
        return f"{headers}#include <vector>\n#include <isthmus/isthmus.h>\n{text}\n"

    right = compile_(library, own(owner))
    assert right.returncode == 0, right.stderr
    wrong = compile_(library, own(view))
    assert wrong.returncode != 0, f"Tensor::own({view}) compiles"
    assert "own" in wrong.stderr


WRAP = "isthmus::Tensor f({parameter}, float* x) {{\n    return isthmus::Tensor::wrap(x, {{4}}, {{}}, isthmus::float32, "
WRAP += "isthmus::Device::cpu(), {argument});\n}}\n"

# (library, its headers, parameter, what is handed over in place of PyOwner(o))
REFERENCES = {
    "nb::object": (nanobind, NANOBIND, "nb::object o", "o"),
    "nb::handle": (nanobind, NANOBIND, "nb::handle o", "o"),
    "nb::capsule": (nanobind, NANOBIND, "nb::capsule o", "std::move(o)"),
    "py::object": (pybind11, PYBIND11, "py::object o", "o"),
    "py::handle": (pybind11, PYBIND11, "py::handle o", "o"),
    "py::array": (pybind11, PYBIND11, "py::array o", "std::move(o)"),
    "Ref": (list, BARE, "isthmus::Ref o", "std::move(o)"),
    "PyObject*": (list, BARE, "PyObject* o", "o"),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_a_reference_to_a_python_object_is_no_owner(case: str, compile_: Callable) -> None:
    library, headers, parameter, wrong_owner = REFERENCES[case]
    right = compile_(library, headers + WRAP.format(parameter=parameter, argument="isthmus::PyOwner(o)"))
    assert right.returncode == 0, right.stderr
    wrong = compile_(library, headers + WRAP.format(parameter=parameter, argument=wrong_owner))
    assert wrong.returncode != 0, f"wrap(…, {case}) compiles"
    assert "write isthmus::PyOwner(object)" in wrong.stderr


ROW = "using Row = isthmus::View<const float, 1>;\n"
NANOBIND_STL = "#include <nanobind/stl/map.h>\n#include <nanobind/stl/string.h>\n#include <nanobind/stl/variant.h>\n"
NANOBIND_STL += "#include <nanobind/stl/vector.h>\n"
BIND_NANOBIND = 'NB_MODULE(m, m) {{ m.def("f", []({parameter}) {{ {body} }}); }}\n'
BIND_PYBIND11 = BIND_NANOBIND.replace("NB_", "PYBIND11_")
BEFORE_USE = "what is borrowed would end before it is used"
WITH_THE_CALL = "what is borrowed ends with the call; return a Tensor, a Reply or an As<Framework>"
SUM = "return x.size();"

# (library, what comes first, the wrong parameter and body, the right ones, what is said of the wrong ones)
BORROWS = {
    "nb::cast": (
        nanobind,
        NANOBIND + ROW + BIND_NANOBIND,
        ("nb::object x", "return nb::cast<Row>(x)(0);"),
        ("nb::object x", "auto t = nb::cast<isthmus::Tensor>(x); return t.view<Row>().value()(0);"),
        BEFORE_USE,
    ),
    "nb::cast of a container": (
        nanobind,
        "#include <isthmus/nanobind_stl.h>\n" + NANOBIND + ROW + BIND_NANOBIND,
        ("nb::object x", "return nb::cast<std::vector<Row>>(x).size();"),
        ("std::vector<Row> x", SUM),
        BEFORE_USE,
    ),
    "nanobind's vector": (
        nanobind,
        NANOBIND + NANOBIND_STL + ROW + BIND_NANOBIND,
        ("std::vector<Row> x", SUM),
        ("std::vector<isthmus::Tensor> x", SUM),
        "include <isthmus/nanobind_stl.h>",
    ),
    "nanobind's map": (
        nanobind,
        NANOBIND + NANOBIND_STL + ROW + BIND_NANOBIND,
        ("std::map<std::string, isthmus::Argument<Row>> x", SUM),
        ("std::map<std::string, isthmus::Tensor> x", SUM),
        "include <isthmus/nanobind_stl.h>",
    ),
    "nanobind's variant": (
        nanobind,
        NANOBIND + NANOBIND_STL + ROW + BIND_NANOBIND,
        ("std::variant<double, Row> x", "return x.index();"),
        ("std::variant<double, isthmus::Tensor> x", "return x.index();"),
        "include <isthmus/nanobind_stl.h>",
    ),
    "a nanobind result": (
        nanobind,
        "#include <isthmus/nanobind_stl.h>\n" + NANOBIND + ROW + BIND_NANOBIND,
        ("std::vector<Row> x", "return x;"),
        ("std::vector<Row> x", SUM),
        WITH_THE_CALL,
    ),
    "py::cast": (
        pybind11,
        PYBIND11 + ROW + BIND_PYBIND11,
        ("py::object x", "return py::cast<Row>(x)(0);"),
        ("py::object x", "auto t = x.cast<isthmus::Tensor>(); return t.view<Row>().value()(0);"),
        BEFORE_USE,
    ),
    "py::object::cast": (
        pybind11,
        PYBIND11 + ROW + BIND_PYBIND11,
        ("py::object x", "return std::move(x).cast<isthmus::Argument<Row>>()->extent(0);"),
        ("isthmus::Argument<Row> x", "return x->extent(0);"),
        BEFORE_USE,
    ),
    "py::cast of a container": (
        pybind11,
        PYBIND11 + "#include <pybind11/stl.h>\n" + ROW + BIND_PYBIND11,
        ("py::object x", "return x.cast<std::vector<Row>>().size();"),
        ("std::vector<Row> x", SUM),
        BEFORE_USE,
    ),
    "a pybind11 result": (
        pybind11,
        PYBIND11 + "#include <pybind11/stl.h>\n" + ROW + BIND_PYBIND11,
        ("std::map<std::string, Row> x", "return x;"),
        ("std::map<std::string, Row> x", SUM),
        WITH_THE_CALL,
    ),
}


@pytest.mark.parametrize("case", BORROWS)
def test_what_is_borrowed_does_not_outlive_the_call(case: str, compile_: Callable) -> None:
    library, text, wrong_words, right_words, said = BORROWS[case]
    right = compile_(library, text.format(parameter=right_words[0], body=right_words[1]))
    assert right.returncode == 0, right.stderr
    wrong = compile_(library, text.format(parameter=wrong_words[0], body=wrong_words[1]))
    assert wrong.returncode != 0, f"{case} compiles"
    assert said in wrong.stderr
