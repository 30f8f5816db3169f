"""What real libraries have that looks like an owner and is none: it does not compile, and the right way does."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from compiling import CXX, package_folder

import isthmus

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
    found = package_folder("torch")
    if found is None:
        pytest.skip("torch is not installed")
    return [f"-isystem{found / 'include'}"]


def nanobind() -> list[str]:
    return [f"-isystem{Path(next(iter(pytest.importorskip('nanobind').__path__)), 'include')}"]


EIGEN = "#include <isthmus/eigen.h>\n"
PYBIND11 = (
    "#include <isthmus/pybind11.h>\n#include <pybind11/numpy.h>\n#include <pybind11/stl.h>\nnamespace py = pybind11;\n"
)
C10 = "#include <c10/util/ArrayRef.h>\n"
NANOBIND = "#include <isthmus/nanobind_stl.h>\nnamespace nb = nanobind;\n"
BARE = "#include <isthmus/python.h>\n"
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

WRAP = (
    "isthmus::Tensor f({parameter}, float* x) {{\n    return isthmus::Tensor::wrap(x, {{4}}, {{}}, isthmus::float32, "
)
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

# The compiler tells of what it instantiates once: what is wrong in two programs of the same headers has two types.
ROW = "using Row = isthmus::View<const float, 1>;\n"
# In place of ours, which is what is wrong.
NANOBIND_STL = "#include <isthmus/nanobind.h>\nnamespace nb = nanobind;\n#include <nanobind/stl/map.h>\n"
NANOBIND_STL += (
    "#include <nanobind/stl/string.h>\n#include <nanobind/stl/variant.h>\n#include <nanobind/stl/vector.h>\n"
)
BIND_NANOBIND = 'NB_MODULE({module}, m) {{ m.def("f", []({parameter}) {{ {body} }}); }}\n'
BIND_PYBIND11 = BIND_NANOBIND.replace("NB_", "PYBIND11_")
BEFORE_USE = "what is borrowed would end before it is used"
WITH_THE_CALL = "what is borrowed ends with the call; return a Tensor, a Reply or an As<Framework>"
SUM = "return x.size();"

# (library, its headers, the text around, the wrong parameter and body, the right ones, what is said of the wrong ones)
BORROWS = {
    "nb::cast": (
        nanobind,
        NANOBIND,
        ROW + BIND_NANOBIND,
        ("nb::object x", "return nb::cast<Row>(x)(0);"),
        ("nb::object x", "auto t = nb::cast<isthmus::Tensor>(x); return t.view<Row>().value()(0);"),
        BEFORE_USE,
    ),
    "nb::cast of a container": (
        nanobind,
        NANOBIND,
        ROW + BIND_NANOBIND,
        ("nb::object x", "return nb::cast<std::vector<Row>>(x).size();"),
        ("std::vector<Row> x", SUM),
        BEFORE_USE,
    ),
    "nanobind's vector": (
        nanobind,
        NANOBIND_STL,
        ROW + BIND_NANOBIND,
        ("std::vector<Row> x", SUM),
        ("std::vector<isthmus::Tensor> x", SUM),
        "include <isthmus/nanobind_stl.h>",
    ),
    "nanobind's map": (
        nanobind,
        NANOBIND_STL,
        ROW + BIND_NANOBIND,
        ("std::map<std::string, isthmus::Argument<Row>> x", SUM),
        ("std::map<std::string, isthmus::Tensor> x", SUM),
        "include <isthmus/nanobind_stl.h>",
    ),
    "nanobind's variant": (
        nanobind,
        NANOBIND_STL,
        ROW + BIND_NANOBIND,
        ("std::variant<double, isthmus::View<double, 1>> x", "return x.index();"),
        ("std::variant<double, isthmus::Tensor> x", "return x.index();"),
        "include <isthmus/nanobind_stl.h>",
    ),
    "a nanobind result": (
        nanobind,
        NANOBIND,
        ROW + BIND_NANOBIND,
        ("std::vector<Row> x", "return x;"),
        ("std::vector<Row> x", SUM),
        WITH_THE_CALL,
    ),
    "py::cast": (
        pybind11,
        PYBIND11,
        ROW + BIND_PYBIND11,
        ("py::object x", "return py::cast<Row>(x)(0);"),
        ("py::object x", "auto t = x.cast<isthmus::Tensor>(); return t.view<Row>().value()(0);"),
        BEFORE_USE,
    ),
    "py::object::cast": (
        pybind11,
        PYBIND11,
        ROW + BIND_PYBIND11,
        ("py::object x", "return std::move(x).cast<isthmus::Argument<Row>>()->extent(0);"),
        ("isthmus::Argument<Row> x", "return x->extent(0);"),
        BEFORE_USE,
    ),
    "py::cast of a container": (
        pybind11,
        PYBIND11,
        ROW + BIND_PYBIND11,
        ("py::object x", "return x.cast<std::vector<Row>>().size();"),
        ("std::vector<Row> x", SUM),
        BEFORE_USE,
    ),
    "a pybind11 result": (
        pybind11,
        PYBIND11,
        ROW + BIND_PYBIND11,
        ("std::map<std::string, Row> x", "return x;"),
        ("std::map<std::string, Row> x", SUM),
        WITH_THE_CALL,
    ),
}


@dataclass(frozen=True)
class Program:
    """What does not compile, and what is said of it; the right way does."""

    library: Callable[[], list[str]]
    headers: str
    wrong: str
    right: str
    said: str


def programs() -> dict[str, Program]:
    found = {}
    for name, (library, headers, parameter, owner, view) in CASES.items():
        wrong, right = (OWN.format(parameter=parameter, argument=argument) for argument in (view, owner))
        found[name] = Program(library, headers, wrong, right, "own")
    for name, (library, headers, parameter, owner) in REFERENCES.items():
        wrong, right = (
            WRAP.format(parameter=parameter, argument=argument) for argument in (owner, "isthmus::PyOwner(o)")
        )
        found[name] = Program(library, headers, wrong, right, "write isthmus::PyOwner(object)")
    for name, (library, headers, bind, *words, said) in BORROWS.items():
        module = re.sub(r"\W", "_", name)
        wrong, right = (bind.format(module=module, parameter=parameter, body=body) for parameter, body in words)
        found[name] = Program(library, headers, wrong, right, said)
    return found


PROGRAMS = programs()


@functools.cache
def python_includes() -> list[str]:
    return subprocess.run(
        [sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True
    ).stdout.split()


@functools.cache
def compile_(library: Callable[[], list[str]], headers: str, which: str) -> subprocess.CompletedProcess[str]:
    """What the compiler says of all that these headers are for, the `wrong` or the `right`:
    the headers are what takes time."""
    text = f"{headers}#include <vector>\n#include <isthmus/isthmus.h>\n"
    for number, (name, program) in enumerate(PROGRAMS.items()):
        if (program.library, program.headers) == (library, headers):
            text += f'#line 1 "{name}"\nnamespace program_{number} {{\n{getattr(program, which)}\n}}\n'
    command = [CXX, "-std=c++20", "-fsyntax-only", f"-I{INCLUDE}", *python_includes(), *library(), "-x", "c++", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True)


def said_of(name: str, said: str) -> list[str]:
    """The messages of what a compiler said that tell this name as their place or as that of what led to them."""
    start = r"(?m)^(?=.*: In )" if re.search(r"(?m): In .*:$", said) else r"(?m)^(?=.*: error: )"  # GCC, Clang
    return [message for message in re.split(start, said) if re.search(rf"(?m)^{re.escape(name)}:\d+:", message)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_does_not_compile_and_the_right_way_does(name: str) -> None:
    program = PROGRAMS[name]
    right = compile_(program.library, program.headers, "right")
    assert right.returncode == 0, right.stderr
    wrong = compile_(program.library, program.headers, "wrong")
    assert wrong.returncode != 0
    messages = [message for message in said_of(name, wrong.stderr) if "error: " in message]
    assert messages, f"{program.wrong} compiles"
    assert any(program.said in message for message in messages), messages
