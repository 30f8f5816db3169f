"""Programs that together include every public header and use something of each, for tests that compile all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

import test_platforms as platforms  # noqa: E402

CORE = """
#include <isthmus/isthmus.h>
#include <isthmus/c/isthmus.h>
#include <isthmus/c/shared.h>
#include <isthmus/converted.h>
#include <isthmus/core/live.h>
#include <isthmus/load.h>
#include <isthmus/shared.h>
#include <isthmus/small_floats.h>
#include <isthmus/visit.h>
using isthmus::View, isthmus::sizes;
template class isthmus::View<float, 3, sizes<"h w 3">, isthmus::c_contiguous>;
template class isthmus::View<const isthmus::one_of<float, isthmus::bfloat16_t>, isthmus::dynamic_rank>;
float element(View<float, 2> x, View<const float, 1> bias) {
    isthmus::for_each([](float& out, float b) { out += b; }, x, bias.broadcast_to({x.extent(0), x.extent(1)}));
    for (auto row : x.transpose().slice(0, 1, -1, 2).reshape({-1, 1}).rows())
        for (float& value : row) value = 0;
    return x(0, 1) + x.contiguous().span()[0] + static_cast<float>(isthmus::bfloat16_t(1.0f));
}
void visited(View<isthmus::any_dtype, isthmus::dynamic_rank> x) { x.visit([](auto view) { (void)view.size(); }); }
isthmus::Result<isthmus::Tensor> loaded(const char* path) {
    auto file = isthmus::load(path);
    if (!file) return file.error();
    const auto own = isthmus::Tensor::own(std::vector<float>(6), {2, 3});
    return isthmus::from_blob(isthmus::to_blob(isthmus::copy_of(own).value()));
}
"""
BRIDGE = """
#include <isthmus/python.h>
#include <isthmus/array_like.h>
#include <isthmus/fields.h>
#include <isthmus/module.h>
#include <isthmus/op.h>
#include <isthmus/owned.h>
#include <isthmus/python/arguments.h>
#include <isthmus/python/container_arguments.h>
#include <isthmus/python/containers.h>
#include <isthmus/tensor_protocol.h>
#include <isthmus/records.h>
#include <isthmus/tree.h>
using isthmus::View, isthmus::sizes;
struct Point {
    float x, y;
    double z;
};
ISTHMUS_RECORD(Point, x, y, z);
isthmus::Records<Point> highest(const View<const Point, 1>& points) { return std::vector<Point>{points(0)}; }
void scale(View<const float, 1, sizes<"n">> x, double k, isthmus::Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = static_cast<float>(k) * x(i);
}
PyObject* call(PyObject*, PyObject* const* values, Py_ssize_t count) {
    isthmus::Arguments<View<const float, 3, sizes<"h w 3">, isthmus::c_contiguous>> arguments("f", {"image"});
    if (!arguments.parse(values, count)) return nullptr;
    auto tensor = isthmus::from_py(values[0]);
    auto object = tensor ? isthmus::to_py(*tensor, isthmus::Framework::numpy)
                         : isthmus::Result<PyObject*>(tensor.error());
    return object ? *object : (isthmus::set_python_error(object.error()), nullptr);
}
isthmus::Owned<View<const float, 1>> kept(isthmus::Owned<View<const float, 1>> x) { return x; }
std::pair<isthmus::Tensor, std::int64_t> both(const View<const float, 1>& x, isthmus::Tensor own) {
    return {std::move(own), x.extent(0)};
}
void define(PyObject* module) {
    isthmus::def<both>(module, "both", {"x", "own"});
    isthmus::def<highest>(module, "highest", {"points"});
    isthmus::def<kept>(module, "kept", {"x"});
}
int fill(PyObject* module) { return isthmus::op<"crowded::scale", scale>(module, {"x", "k"}) ? 0 : -1; }
"""
BINDER = """
using V = isthmus::View<const float, 2>;
isthmus::Reply twice(const isthmus::Argument<V>& x) { return x.reply(isthmus::empty_like(x)); }
%s {
    m.def("rows", [](V v) { return v.extent(0); });
    m.def("given", [](std::optional<V> v, const std::vector<V>& all) { return v.has_value() && all.empty(); });
    m.def("twice", twice);
    m.def("own", [](isthmus::Tensor x) { return x; });
    m.def("kept", [](isthmus::Owned<V> x) { return x; });
    m.def("all_kept", [](const std::vector<isthmus::Owned<V>>& all) { return all; });
}
"""
NANOBIND = (
    """
#include <isthmus/nanobind.h>
#include <isthmus/nanobind_overloads.h>
#include <isthmus/nanobind_stl.h>
"""
    + BINDER % "NB_MODULE(crowded, m)"
)
PYBIND11 = (
    """
#include <isthmus/pybind11.h>
#include <isthmus/pybind11_overloads.h>
"""
    + BINDER % "PYBIND11_MODULE(crowded, m)"
)
TORCH = """
#include <isthmus/torch.h>
at::Tensor there_and_back(at::Tensor x) { return isthmus::to_torch(isthmus::from_torch(x)).value(); }
"""
#: NVIDIA's mdspan, for compilers whose standard library has none; it comes before the macros, as others' headers do.
CUDA_MDSPAN = """
#include <version>
#if !defined(__cpp_lib_mdspan)
#include <cuda/std/array>
#include <cuda/std/mdspan>
#define ISTHMUS_MDSPAN_NAMESPACE ::cuda::std
#define ISTHMUS_MDSPAN_ARRAY ::cuda::std::array
#endif
"""
MDSPAN = """
#include <isthmus/mdspan.h>
float element(isthmus::View<float, 2> x) { return x.mdspan().data_handle()[1]; }
"""
EIGEN = """
#include <isthmus/eigen.h>
#include <isthmus/eigen_tensor.h>
float element(isthmus::View<const float, 2> x) { return isthmus::to_eigen(x)(0, 1); }
"""
OPENCV = "#include <isthmus/opencv.h>\n"
XTENSOR = "#include <isthmus/xtensor.h>\n"


def package_include(name: str, *below: str) -> list[Path]:
    return [platforms.package(name) / folder for folder in ("include", *below)]


def distribution(name: str, header: str) -> list[Path]:
    """The folder of a library that the distribution has, also where one of a package holds it."""
    for folder in (Path("/usr/include"), Path("/usr/local/include"), Path("/opt/homebrew/include")):
        for place in (folder, folder / name):
            if (place / header).is_file():
                return [place]
    pytest.skip(f"no {name}: {header} is on no include path of the system")


#: Name -> (the program, how the libraries' own headers are found, flags).
PROGRAMS = {
    "core": (CORE, list, []),
    "bridge": (BRIDGE, list, []),
    "nanobind": (NANOBIND, lambda: package_include("nanobind"), []),
    "pybind11": (PYBIND11, lambda: package_include("pybind11"), []),
    "torch": (TORCH, lambda: package_include("torch", "include/torch/csrc/api/include"), []),
    "mdspan": (MDSPAN, lambda: [*platforms.package("nvidia").glob("*/include/cccl")], []),
    "eigen": (EIGEN, lambda: distribution("eigen3", "Eigen/Core"), []),
    "opencv": (OPENCV, lambda: distribution("opencv4", "opencv2/core/mat.hpp"), []),
    "xtensor": (XTENSOR, lambda: distribution("xtensor", "xtensor/xtensor.hpp"), []),
    # The header-only way: the bodies of src/ too.
    "core, header-only": (CORE, list, ["-DISTHMUS_IMPLEMENTATION"]),
    "bridge, header-only": (CORE + BRIDGE, list, ["-DISTHMUS_IMPLEMENTATION"]),
    "torch, header-only": (
        TORCH, lambda: package_include("torch", "include/torch/csrc/api/include"), ["-DISTHMUS_IMPLEMENTATION"],
    ),
}  # fmt: skip


def folders_of(name: str) -> list[Path]:
    """Where the headers of others are that a program includes; skips the test where there are none."""
    try:
        return PROGRAMS[name][1]()
    except platforms.Missing as missing:
        pytest.skip(str(missing))
