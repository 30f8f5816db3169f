"""Every public type of the library as an argument and as a result: a binder takes it, or the compiler says in one
sentence why not."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import compiling
import pytest
from header_programs import ROOT, platforms

BINDERS = ("nanobind", "pybind11")
INCLUDES = ["array_like", "converted", "core/blob", "core/live", "fields", "load", "op", "owned", "records", "shared"]
INCLUDES += ["tree"]
V = "View<const float, 2>"
#: Type -> how a function takes it.
ARGUMENTS = {
    "Argument": f"Argument<{V}>",
    "Borrowed": "const Borrowed&",
    "DType": "DType",
    "Device": "const Device&",
    "Owned": f"Owned<{V}>",
    "Tensor": "Tensor",
    "View": V,
}
#: Type -> how a function returns it.
RESULTS = {
    "As": "As<Framework::numpy>",
    "DType": "DType",
    "Device": "Device",
    "FieldsReply": "FieldsReply<Csr>",
    "Made": "Made<View<float, 1>>",
    "Owned": f"Owned<{V}>",
    "Records": "Records<Point>",
    "Reply": "Reply",
    "Result": "Result<Tensor>",
    "Tensor": "Tensor",
}
#: Type -> how it is spelled, if that is not the name alone. Neither an argument nor a result.
IN_CPP = {
    "AddressRange": "layout::AddressRange",
    "Arguments": "Arguments<Tensor>",
    "Blob": "Blob",
    "ByteBool": "ByteBool",
    "Error": "Error",
    "ExportOptions": "ExportOptions",
    "GradientOptions": "GradientOptions",
    "ImportOptions": "ImportOptions",
    "InOut": "InOut<float, 1>",
    "LiveTensor": "LiveTensor",
    "Match": "Match",
    "OperatorOptions": "OperatorOptions",
    "Out": "Out<float, 1>",
    "Pool": "shared::Pool",
    "PoolOptions": "shared::PoolOptions",
    "PoolStats": "shared::PoolStats",
    "PyOwner": "PyOwner",
    "Random": "Random",
    "Ref": "Ref",
    "Segment": "shared::Segment",
    "Shape": "Shape",
    "Stream": "Stream",
    "TensorEntry": "TensorEntry",
    "TensorFile": "TensorFile",
    "TensorSpec": "TensorSpec",
    "Tree": "Tree",
    "Wait": "shared::Wait",
}
#: Bound like any other enumeration, by nb::enum_ and py::enum_.
ENUMS = {"Access", "Copy", "ErrorCode", "ErrorKind", "Framework", "Undefined"}
#: What stands in another type's angle brackets, or is made by the library and used on the spot.
NO_VALUES = {
    "Allocator", "Channels", "FreeThreaded", "ReadMat", "RegisteredOperator", "Rows", "SizesList", "SmallFloat",
    "aligned", "allow_grad", "any_dtype", "arg", "array_like", "c_contiguous", "complex_valued", "converted",
    "distinct", "dtype_like", "dtype_traits", "extents", "f_contiguous", "fields", "floating", "inner_contiguous",
    "integral", "no_grad", "on", "on_any_device", "one_of", "packed", "rank_between", "sizes", "tensor_traits",
}  # fmt: skip
PRELUDE = """
namespace tested {{
using namespace isthmus;
struct Point {{ double x; float y; }};
ISTHMUS_RECORD(Point, x, y);
struct Csr {{
    Tensor indptr, data;
    using fields = isthmus::fields<"indptr", "data">;
}};
}}
using namespace tested;
{function}
"""
BINDING = {
    "nanobind": 'inline nanobind::module_& module();\n#define DEF(f) module().def("f", f)\n',
    "pybind11": 'inline pybind11::module_& module();\n#define DEF(f) module().def("f", f)\n',
}


def public_types() -> set[str]:
    """The classes and enumerations of namespaces isthmus and isthmus::shared that have a body."""
    opened = re.compile(r"namespace (detail|impl)\b.*\{$")
    a_type = re.compile(r"(?:struct|class|enum class) (?:ISTHMUS_\w+ )*(\w+)(?: final)?(?: :.*)?(?:,| \{.*)$")
    folder, found = ROOT / "include" / "isthmus", set()
    for path in folder.rglob("*.h"):
        inside = str(path.relative_to(folder))
        if inside.startswith(("c/", "backend/", "bind/", "nanobind", "pybind11")):
            continue
        hidden = None
        for line in path.read_text().splitlines():
            if hidden is None and (begin := opened.match(line)):
                hidden = begin[1]
            elif hidden and line.startswith(f"}}  // namespace {hidden}"):
                hidden = None
            elif hidden is None and (one := a_type.match(line)):
                found.add(one[1])
    return found - {"Py_buffer", "_object"}


def test_the_list_is_whole() -> None:
    known = set(ARGUMENTS) | set(RESULTS) | set(IN_CPP) | ENUMS | NO_VALUES
    assert public_types() - known == set(), "a public type that is on none of the lists above"
    assert known - public_types() == set()


def compiled(binder: str, lines: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    library = Path(pytest.importorskip(binder).__file__).parent / "include"
    head = "".join(f"#include <isthmus/{name}.h>\n" for name in (binder, *INCLUDES))
    source = tmp_path / "program.cpp"
    source.write_text(head + PRELUDE.format(function=BINDING[binder]) + "#line 1\n" + "\n".join(lines) + "\n")
    system = [platforms.dlpack(), sysconfig.get_path("include"), library]
    folders = [f"-I{ROOT / 'include'}", *(f"-isystem{folder}" for folder in system)]
    command = [compiling.CXX, "-std=c++20", "-fsyntax-only", *folders, source]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def function(n: int, result: str, arguments: str) -> str:
    return f"{result} f{n}({arguments}); inline void def{n}() {{ DEF(f{n}); }}"


@pytest.mark.parametrize("binder", BINDERS)
def test_a_binder_takes_and_returns_them(binder: str, tmp_path: Path) -> None:
    taken = [("void", spelled) for spelled in ARGUMENTS.values()]
    returned = [(spelled, "") for spelled in RESULTS.values()]
    done = compiled(binder, [function(n, *both) for n, both in enumerate(taken + returned)], tmp_path)
    assert done.returncode == 0, done.stderr[:4000]


def errors(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if "error:" in line]


def lines_of(stderr: str) -> set[int]:
    """The lines of the program that led to an error."""
    return {int(line) for line in re.findall(r"program\.cpp:(\d+):\d+: +required from here", stderr)}


@pytest.mark.slow
@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("how", ["argument", "result"])
def test_or_the_compiler_says_why_not(binder: str, how: str, tmp_path: Path) -> None:
    if how == "argument":
        wrong = [f"const {spelled}&" for spelled in IN_CPP.values()]
        wrong += [f"const {spelled}&" for name, spelled in RESULTS.items() if name not in ARGUMENTS]
        lines = [function(n, "void", spelled) for n, spelled in enumerate(wrong)]
    else:
        wrong = [f"{spelled}&" for spelled in IN_CPP.values()]
        wrong += [spelled.replace("const Borrowed&", "Borrowed") for name, spelled in ARGUMENTS.items()
                  if name not in RESULTS]  # fmt: skip
        lines = [function(n, spelled, "") for n, spelled in enumerate(wrong)]
    done = compiled(binder, lines, tmp_path)
    said = errors(done.stderr)
    assert [line for line in said if "isthmus: " not in line] == [], "\n".join(said)
    assert len(said) == len(wrong), "\n".join(said)
    assert lines_of(done.stderr) == set(range(1, len(lines) + 1)), done.stderr[:4000]
