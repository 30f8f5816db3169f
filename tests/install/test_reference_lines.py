"""docs/coming_from.md, line by line: each kind of argument and result of nanobind's and pybind11's reference of arrays
is bound with its spelling here, and called."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import compiling
import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "coming_from.md").read_text()
EIGEN = next((path for path in map(Path, ("/usr/include/eigen3", "/usr/local/include/eigen3")) if path.is_dir()), None)


@dataclass(frozen=True)
class Line:
    """A line of a table: its left cell, what is bound for it in a module `m`, and how Python calls that."""

    there: str
    code: str
    use: str
    types: str = ""
    needs: str = ""  # a library that the line is about
    #: Words of the right cell that the code has no use for.
    unused: tuple[str, ...] = ()


PRELUDE = """
#include <complex>
#include <memory>
#include <isthmus/%(header)s.h>
#include <isthmus/%(header)s_overloads.h>
#include <isthmus/array_like.h>
#include <isthmus/converted.h>
#include <isthmus/fields.h>
#include <isthmus/isthmus.h>
#include <isthmus/op.h>
#include <isthmus/owned.h>
#include <isthmus/records.h>
#include <isthmus/small_floats.h>
#include <isthmus/tensor_protocol.h>
#include <isthmus/visit.h>
%(more)s
using namespace isthmus;
struct Point {
    float x, y;
    double z;
};
ISTHMUS_RECORD(Point, x, y, z);
using Time = std::chrono::sys_time<std::chrono::nanoseconds>;
struct Half { std::uint16_t bits; };
template <>
struct isthmus::dtype_traits<Half> { static constexpr DType value = float16; };
template <int line>  // a binder takes a class once
struct GridOf {
    std::vector<float> cells{1, 2, 3, 4};
    Tensor tensor() { return Tensor::wrap(cells.data(), {2, 2}, {}, float32, Device::cpu(), nullptr); }
};
template <class V>
double total(const V& x) {
    double sum = 0;
    for_each([&](auto v) { sum += static_cast<double>(v); }, x);
    return sum;
}
inline std::vector<float> three() { return {1, 2, 3}; }
"""
# Lines that both binders have, by how each of them calls the thing.
READ = 'm.def("f", [](View<const float, 2, c_contiguous> x) { return total(x); });'
FRAMEWORKS = """
    m.def("numpy", []() -> As<Framework::numpy> { return Tensor::own(three()); });
    m.def("torch", []() -> As<Framework::torch> { return Tensor::own(three()); });
    m.def("jax", []() -> As<Framework::jax> { return Tensor::own(three()); });
    m.def("own", [](Argument<View<const float, 1>> x) -> Reply { return x.reply(Tensor::own(three())); });
    if (false) set_default_result(Reply());"""
SPARSE = """
struct Csr {
    View<const int, 1, sizes<"rows+1">> indptr;
    View<const int, 1, sizes<"nnz">> indices;
    View<const double, 1, sizes<"nnz">> data;
    using fields = isthmus::fields<"indptr", "indices", "data">;
    static constexpr std::string_view sparse_format = "csr";
};"""
READS_SPARSE = 'm.def("f", [](Argument<Csr, "m"> x) { return total(x->data); });'
USES_SPARSE = "sparse = pytest.importorskip('scipy.sparse'); assert ext.f(sparse.csr_array(np.eye(3))) == 3"
RECORDS = """
    m.def("points", [](View<const Point, 1> x) { return x(0).z; });
    m.def("times", [](View<const Time, 1> x) { return x(0).time_since_epoch().count(); });
    m.def("codes", [](View<const std::array<char, 8>, 1> x) { return int(x(0)[1]); });
    m.def("made", []() -> Records<Point> { return std::vector<Point>{{1, 2, 3}}; });"""
USES_RECORDS = """
POINT = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f8")])
assert ext.points(np.array([(1, 2, 3)], POINT)) == 3
assert ext.times(np.array([5], "M8[ns]")) == 5
assert ext.codes(np.array([b"ab"], "S8")) == ord("b")
assert ext.made().tolist() == [(1, 2, 3)] and ext.made().dtype == POINT"""
EIGEN_READ = 'm.def("f", [](View<const float, 2> x) { return to_eigen(x).sum(); });'
EIGEN_WRITE = 'm.def("f", [](View<float, 2> x) { to_eigen(x) *= 2; });'
USES_WRITE = "x = np.ones((4, 4), 'f4')[::2, 1:]; ext.f(x); assert (x == 2).all()"
MATRIX = """
    m.def("made", [] {
        Eigen::MatrixXf matrix(1, 2);
        matrix << 1, 2;
        return Tensor::own(std::move(matrix));
    });"""
EIGEN_TENSOR = """
    m.def("f", [](Tensor t) { return to_eigen_tensor<float, 3>(t).value()(1, 0, 0); });
    m.def("made", [] {
        Eigen::Tensor<float, 3> made(1, 1, 2);
        made.setZero();
        return Tensor::own(std::move(made));
    });"""
USES_EIGEN_TENSOR = "assert ext.f(np.arange(4, dtype='f4').reshape(2, 2, 1)) == 2; assert ext.made().shape == (1, 1, 2)"
CONVERTS = 'm.def("f", [](Converted<View<const float, 1>> x) { return total(x); });'
LISTS = 'm.def("f", [](ArrayLike<View<const float, 1>> x) { return total(x); });'
USES_LISTS = "assert ext.f([1, 2]) == 3 == ext.f((1, 2.0)) == ext.f(np.array([1, 2]))"
ASKED = """
    m.def("f", [](View<const float, 2> x) {
        return x.data() != nullptr && x.ndim() == 2 && x.extent(1) == 3 && x.size() == 6 && x.itemsize() == 4 &&
               x.nbytes() == 24;
    });"""
USES_ASKED = "assert ext.f(np.zeros((2, 3), 'f4'))"
STEP = 'm.def("f", [](View<const float, 1> view) { return view.stride(0); });'
USES_STEP = "assert ext.f(np.zeros(6, 'f4')[::2]) == 2"
SETS = """
    m.def("f", [](View<one_of<float, double>, 2> x) {
        return x.visit([](auto view) { return sizeof(view(0, 0)); });
    });"""
USES_SETS = "assert ext.f(np.zeros((1, 1))) == 8 and ext.f(np.zeros((1, 1), 'f4')) == 4"
SHARED = """
    m.def("f", [] {
        const std::shared_ptr shared = std::make_shared<std::vector<float>>(three());
        const std::span span(*shared);
        const Shape shape{3, 1};
        return std::pair(Tensor::own(shared, span, {3}), Tensor::own(shared, span, shape));
    });"""
ELEMENTS = """
    m.def("f", [](View<const bool, 1> x) { return x(0); });
    m.def("g", [](View<const std::complex<float>, 1> x) { return x(0).imag(); });"""
USES_ELEMENTS = "assert ext.f(np.array([True])) and ext.g(np.array([2j], 'c8')) == 2"
DTYPES = """
    m.def("f", [](DType dtype, Device device) { return dtype == dtype_of<float>() && device == Device::cpu(); });
    m.def("g", [] { return dtype_of<std::int8_t>(); });"""
USES_DTYPES = "assert ext.f(np.dtype('f4'), 'cpu') and ext.f('float32', 'cpu') and ext.g() == 'int8'"
KEEPS = """
    static Owned<View<const float, 1>> kept;
    static Owned<Converted<View<const float, 1>>> converted;
    static Tensor tensor;
    m.def("keep", [](Owned<View<const float, 1>> x, Owned<Converted<View<const float, 1>>> y, Tensor z) {
        kept = x, converted = y, tensor = z;
    });
    m.def("sum", [] { return total(*kept) + total(*converted) + static_cast<double>(tensor.numel()); });"""
USES_KEEPS = "ext.keep(np.ones(2, 'f4'), np.ones(3), np.ones(4)); assert ext.sum() == 9"
ANY_RANK = """
    m.def("f", [](View<const float, dynamic_rank> x) { return total(x) + x.ndim(); });
    m.def("g", [](View<const float, dynamic_rank, rank_between<1, 3>> x) { return x.ndim(); });"""
USES_ANY_RANK = "assert ext.f(np.ones((1, 2, 3), 'f4')) == 9 and ext.g(np.zeros((1, 1), 'f4')) == 2"
COPIES = 'm.def("f", [](View<const float, 1> view) { return copy_of(view).value(); });'
USES_COPIES = "x = np.ones(2, 'f4'); assert not np.shares_memory(np.asarray(ext.f(x)), x)"

NANOBIND = [
    Line("`ndarray<>`",
         'm.def("f", [](Tensor x) { return x; }); m.def("g", [](const Borrowed& x) { return x.ndim(); });',
         "x = np.zeros((2, 3)); assert np.shares_memory(np.asarray(ext.f(x)), x) and ext.g(x) == 2"),
    Line("`ndarray<const T, …>`, `nb::ro`", 'm.def("f", [](View<const float, 1> x) { return total(x); });',
         "x = np.ones(3, 'f4'); x.flags.writeable = False; assert ext.f(x) == 3"),
    Line("`ndarray<T, …>`, which accepts read-only memory", 'm.def("f", [](View<float, 1> x) { x(0) = 7; });',
         "x = np.ones(3, 'f4'); ext.f(x); assert x[0] == 7\nx.flags.writeable = False\n"
         "with pytest.raises(TypeError): ext.f(x)"),
    Line("`nb::ndim<3>`, `nb::shape<-1, -1, 3>`",
         'm.def("f", [](View<const float, 3, sizes<": : 3">> x) { return x.extent(0); });'
         'm.def("g", [](View<const float, 3, sizes<"h w 3">> x) { return x.extent(1); });',
         "assert ext.f(np.zeros((1, 2, 3), 'f4')) == 1 and ext.g(np.zeros((1, 2, 3), 'f4')) == 2\n"
         "with pytest.raises(TypeError): ext.f(np.zeros((1, 2, 4), 'f4'))"),
    Line("any number of dimensions", ANY_RANK, USES_ANY_RANK),
    Line("`nb::c_contig`, `nb::f_contig`, `nb::any_contig`",
         READ + 'm.def("g", [](View<const float, 2, f_contiguous> x) { return total(x); });'
         'm.def("h", [](Tensor t) { return t.reshape({-1}); });',
         "x = np.ones((2, 3), 'f4'); assert ext.f(x) == 6 == ext.g(x.T) and ext.h(x).shape == (6,)\n"
         "with pytest.raises(TypeError): ext.f(x.T)"),
    Line("`nb::device::cpu`, `cuda`, `rocm`, …",
         'm.def("f", [](View<const float, 1, on_cuda> x) { return x.data() != nullptr; });'
         'm.def("g", [](View<const float, 1, on<kDLROCM>> x) { return x.data() != nullptr; });'
         'm.def("h", [](View<const float, 1, on_any_device> x) { return x.device(); });',
         "x = np.ones(3, 'f4'); assert ext.h(x) == 'cpu'\nwith pytest.raises(TypeError): ext.f(x)\n"
         "with pytest.raises(TypeError): ext.g(x)"),
    Line("no device given", 'm.def("f", [](View<const float, 1, on_any_device> x) { return x.device(); });',
         "assert ext.f(np.ones(3, 'f4')) == 'cpu'"),
    Line("`ndarray<>`, then `a.dtype() == nb::dtype<float>()`", SETS, USES_SETS),
    Line("`a.view<float, nb::ndim<2>>()`, unchecked",
         'm.def("f", [](const Tensor& t) { const Result<View<float, 2>> v = t.view<float, 2>(); return v ? 1 : 0; });',
         "assert ext.f(np.zeros((1, 1), 'f4')) == 1 and ext.f(np.zeros((1, 1))) == 0"),
    Line("`a.view()`, then `v(i, j)`",
         'm.def("f", [](View<const float, 2> x, int i, int j) { return x(i, j) + total(x); });',
         "assert ext.f(np.arange(4, dtype='f4').reshape(2, 2), 1, 0) == 8"),
    Line("`a.data()`, `a.ndim()`, `a.shape(i)`, `a.size()`, `a.itemsize()`, `a.nbytes()`", ASKED, USES_ASKED),
    Line("`a.stride(i)`, in elements", STEP, USES_STEP),
    Line("`a.dtype()`, `a.device_type()`, `a.device_id()`",
         'm.def("f", [](const Tensor& t) { return t.dtype() == float32 && t.device().type == kDLCPU && '
         "t.device().id == 0; });", "assert ext.f(np.zeros(1, 'f4'))"),
    Line("`a.is_valid()`", 'm.def("f", [](const Tensor& t) { if (t) return !Tensor(); return false; });',
         "assert ext.f(np.zeros(1))"),
    Line("implicit conversion of dtype and order, unless `.noconvert()`",
         CONVERTS + 'm.def("g", [](Converted<View<const float, 1>> x) { return total(x); }, '
         'nb::arg("x").noconvert());',
         "assert ext.f(np.ones(3)) == 3\nwith pytest.raises(TypeError): ext.g(np.ones(3))", unused=("same_kind",)),
    Line("`std::vector<float>`, for lists", LISTS, USES_LISTS),
    Line("a member of type `ndarray<…>`", KEEPS, USES_KEEPS),
    Line("`nb::cast<nb::ndarray<…>>(object)`",
         'm.def("f", [](nb::object object) { return total(*nb::cast<Owned<View<const float, 1>>>(object)) + '
         "static_cast<double>(nb::cast<Tensor>(object).numel()); });", "assert ext.f(np.ones(3, 'f4')) == 6"),
    Line("`std::optional<ndarray<…>>`, `.none()`",
         'm.def("f", [](std::optional<View<const float, 1>> x) { return x ? 1 : 0; }, nb::arg("x").none());',
         "assert ext.f(None) == 0 and ext.f(np.zeros(1, 'f4')) == 1"),
    Line("`std::vector<ndarray<…>>`, `std::map`, `std::pair`, …",
         'm.def("f", [](const std::vector<View<const float, 1>>& all) { return all.size(); });'
         'm.def("g", [](const std::map<std::string, Owned<View<const float, 1>>>& all) { return all; });'
         'm.def("h", [](const std::pair<Tensor, View<const float, 1>>& both) { return both.first; });',
         "x = np.zeros(2, 'f4'); assert ext.f([x, x]) == 2 and list(ext.g({'a': x})) == ['a']\n"
         "assert ext.h((x, x)).shape == (2,)", unused=("isthmus", "nanobind_stl")),
    Line("overloads by dtype", 'overloads<f, g>(m, "name", nb::arg("x"));',
         "assert ext.name(np.zeros(1, 'f4')) == 4 and ext.name(np.zeros(1)) == 8\n"
         "with pytest.raises(TypeError, match='no overload takes these'): ext.name(np.zeros(1, int))",
         types="inline int f(View<const float, 1>) { return 4; } inline int g(View<const double, 1>) { return 8; }"),
    Line("`ndarray<bool>`, `ndarray<std::complex<float>>`", ELEMENTS, USES_ELEMENTS),
    Line("`nb::detail::dtype_traits<half>`",
         'm.def("f", [](View<const Half, 1> x) { return int(x(0).bits); });'
         'm.def("g", [](View<const float16_t, 1> x) { return float(x(0)); });'
         'm.def("h", [](View<const bfloat16_t, 1> x) { return float(x(0)); });'
         "static_assert(isthmus::dtype_traits<Half>::value == float16);",
         "assert ext.f(np.ones(1, 'f2')) == 0x3c00 and ext.g(np.ones(1, 'f2')) == 1", unused=("half",)),
    Line("`nb::dlpack::dtype`", DTYPES, USES_DTYPES),
    Line("records, dates, fixed strings", RECORDS, USES_RECORDS, unused=("records", "md")),
    Line("`nb::ndarray<nb::numpy, …>`, `nb::pytorch`, `nb::jax`, … as a result", FRAMEWORKS,
         "assert type(ext.numpy()) is np.ndarray and type(ext.own(np.zeros(1, 'f4'))) is np.ndarray\n"
         "torch = pytest.importorskip('torch')\n"
         "assert type(ext.torch()) is torch.Tensor and type(ext.own(torch.zeros(1))) is torch.Tensor"),
    Line("`nb::array_api`, `nb::memview` as a result", 'm.def("f", [] { return Tensor::own(three()); });',
         "t = ext.f(); assert type(t) is isthmus.Tensor and memoryview(t).tolist() == np.from_dlpack(t).tolist()"),
    Line("`ndarray(data, shape, owner)` with an `nb::capsule`",
         'm.def("f", [] { auto vector = three(); return Tensor::own(std::move(vector), {3, 1}); });'
         'm.def("g", [] { auto owner = std::make_shared<std::vector<float>>(three()); float* data = owner->data();'
         " const Shape shape{3}, strides{1}; const DType dtype = float32; const Device device = Device::cpu();"
         " return Tensor::wrap(data, shape, strides, dtype, device, owner); });",
         "assert ext.f().shape == (3, 1) and np.asarray(ext.g()).tolist() == [1, 2, 3]"),
    Line("one `nb::capsule` for several arrays", SHARED, "a, b = ext.f(); assert a.data_ptr == b.data_ptr"),
    Line("the owner is `nb::find(self)`",
         'nb::class_<Grid>(m, "Grid").def(nb::init<>()).def("f", [](nb::object self) {'
         " return Tensor::own(PyOwner(self), std::span(nb::cast<Grid&>(self).cells), {4}); });",
         "grid = ext.Grid(); assert np.asarray(grid.f()).tolist() == [1, 2, 3, 4]\n"
         "assert grid.f().owner is grid"),
    Line("`nb::rv_policy::reference_internal`, `keep_alive`",
         'nb::class_<Grid>(m, "Cells").def(nb::init<>())'
         '.def("f", &Grid::tensor, nb::rv_policy::reference_internal).def("g", &Grid::tensor, nb::keep_alive<0, 1>());',
         "assert np.asarray(ext.Cells().f()).sum() == 10 == np.asarray(ext.Cells().g()).sum()"),
    Line("`nb::rv_policy::copy`", COPIES, USES_COPIES),
    Line("`__dlpack__` of a bound class",
         'nb::class_<Grid> cls(m, "Grid"); cls.def(nb::init<>()); tensor_protocol(cls, &Grid::tensor);',
         "assert np.from_dlpack(ext.Grid()).sum() == 10"),
    Line("`nb::DRef<Eigen::MatrixXf>`, `Eigen::Ref`", EIGEN_WRITE.replace("x)", "view)").replace("(x", "(view"),
         USES_WRITE, needs="eigen"),
    Line("`Eigen::MatrixXf` by value",
         'm.def("f", [](Converted<View<const float, 2>> x) { return to_eigen(x).sum(); });' + MATRIX,
         "assert ext.f(np.ones((2, 3))) == 6 and np.asarray(ext.made()).tolist() == [[1, 2]]", needs="eigen"),
    Line("`Eigen::Tensor`", EIGEN_TENSOR, USES_EIGEN_TENSOR, needs="eigen"),
    Line("Eigen's sparse matrices", READS_SPARSE, USES_SPARSE, types=SPARSE),
]  # fmt: skip

PYBIND11 = [
    Line("`py::array_t<T>`, read", 'm.def("f", [](View<const float, 2> x) { return total(x); });',
         "assert ext.f(np.ones((2, 3), 'f4').T) == 6"),
    Line("`py::array_t<T>`, `mutable_data()`, which throws for read-only arrays",
         'm.def("f", [](View<float, 1> x) { x(0) = 7; });',
         "x = np.ones(3, 'f4'); ext.f(x); assert x[0] == 7\nx.flags.writeable = False\n"
         "with pytest.raises(TypeError): ext.f(x)"),
    Line("`py::array::c_style`, `f_style`",
         READ + 'm.def("g", [](View<const float, 2, f_contiguous> x) { return total(x); });',
         "x = np.ones((2, 3), 'f4'); assert ext.f(x) == 6 == ext.g(x.T)\nwith pytest.raises(TypeError): ext.g(x)"),
    Line("`py::array::forcecast`", CONVERTS, "assert ext.f(np.ones(3)) == 3 == ext.f(np.ones(3, int))"),
    Line("`py::array_t<T>` of a list or a tuple", LISTS, USES_LISTS),
    Line("`py::arg().noconvert()`, `py::array_t<T, 0>`",
         'm.def("f", [](Converted<View<const float, 1>> x) { return total(x); }, py::arg("x").noconvert());'
         'm.def("g", [](View<const float, 1> x) { return total(x); });',
         "assert ext.f(np.ones(3, 'f4')) == 3 == ext.g(np.ones(3, 'f4'))\n"
         "for call in (ext.f, ext.g):\n    with pytest.raises(TypeError): call(np.ones(3))"),
    Line("`unchecked<2>()`, `mutable_unchecked<2>()`",
         'm.def("f", [](View<float, 2> x, int i, int j) { x(i, j) += 1; return x(i, j); });',
         "assert ext.f(np.zeros((2, 2), 'f4'), 1, 1) == 1"),
    Line("`unchecked()`, any number of dimensions", ANY_RANK, USES_ANY_RANK),
    Line("`a.data(i, j)`, `a.at(i, j)`, `mutable_at`",
         'm.def("f", [](View<const float, 2> x, int i, int j) { return x(i, j); });',
         "assert ext.f(np.arange(4, dtype='f4').reshape(2, 2), 1, 0) == 2"),
    Line("`a.ndim()`, `a.shape(i)`, `a.size()`, `a.itemsize()`, `a.nbytes()`", ASKED, USES_ASKED),
    Line("`a.strides(i)`, in bytes", STEP, USES_STEP),
    Line("`py::array`, then `a.dtype().is(py::dtype::of<float>())`", SETS, USES_SETS),
    Line("`py::array`, `py::buffer`, `buffer_info`",
         'm.def("f", [](Tensor x) { return x; }); m.def("g", [](const Borrowed& x) { return x.ndim(); });',
         "assert ext.f(b'abc').shape == (3,) and ext.g(bytearray(4)) == 1"),
    Line("a member of type `py::array_t<T>`", KEEPS, USES_KEEPS),
    Line("`py::array_t<T>::ensure(object)`, `object.cast<py::array_t<T>>()`",
         'm.def("f", [](py::object object) { return total(*object.cast<Owned<View<const float, 1>>>()); });'
         'm.def("g", [](py::object object) { const Result<Tensor> t = from_py(object.ptr()); return t ? 1 : 0; });',
         "assert ext.f(np.ones(3, 'f4')) == 3 and ext.g(np.ones(1)) == 1 and ext.g('text') == 0\n"
         "with pytest.raises(RuntimeError): ext.f(np.ones(3))"),
    Line("`py::dtype` as an argument or a result", DTYPES,
         USES_DTYPES + "\ntorch = pytest.importorskip('torch'); assert ext.f(torch.float32, 'cpu')",
         unused=("numpy", "int8", "torch")),
    Line("`py::numpy_scalar<T>`",
         'm.def("f", [](double x, std::int64_t n) { return x + static_cast<double>(n); });'
         'm.def("g", [](ArrayLike<View<const float, 0>> x) { return x(); });',
         "assert ext.f(np.float32(1.5), np.int8(2)) == 3.5 and ext.g(np.float32(1.5)) == 1.5 == ext.g(1.5)"),
    Line("`py::array_t<bool>`, `py::array_t<std::complex<float>>`", ELEMENTS, USES_ELEMENTS),
    Line("`PYBIND11_NUMPY_DTYPE`, `py::array_t<Point>`", RECORDS, USES_RECORDS,
         unused=("ISTHMUS_RECORD", "records", "md")),
    Line("datetimes, which have no dtype there",
         'm.def("f", [](View<const Time, 1> x) -> Records<Time> {'
         " return std::vector<Time>{x(0) + std::chrono::seconds(1)}; });",
         "assert ext.f(np.array(['2026-01-01'], 'M8[ns]')) == np.array(['2026-01-01T00:00:01'], 'M8[ns]')",
         unused=("std", "chrono")),
    Line("`py::array_t<std::array<char, 8>>`, strings of a width",
         'm.def("f", [](View<const std::array<char, 8>, 1> x) { return std::string(x(0).data()); });',
         "assert ext.f(np.array([b'abc'], 'S8')) == 'abc'"),
    Line("`py::array_t<std::string>`, arrays of objects", 'm.def("f", [](Tensor x) { return x; });',
         "for x in (np.array([object()]), np.array(['a'])):\n    with pytest.raises(TypeError): ext.f(x)"),
    Line("`py::array_t<T>(n)`, filled and returned",
         'm.def("f", [](Argument<View<const float, 1>> x) { const auto n = x->extent(0);'
         " auto y = x.make<View<float, 1>>({n}); y(0) = 5; return y; });"
         'm.def("g", [](std::int64_t n) { const DType dtype = int8; return Tensor::empty({n}, dtype); });',
         "y = ext.f(np.zeros(1, 'f4')); assert type(y) is np.ndarray and y[0] == 5 and ext.g(3).dtype == 'int8'"),
    Line("`py::array_t<T>(shape, data, capsule)`",
         'm.def("f", []() -> As<Framework::numpy> {'
         " auto vector = three(); const Shape shape{3, 1}; return Tensor::own(std::move(vector), shape); });",
         "assert type(ext.f()) is np.ndarray and ext.f().shape == (3, 1)"),
    Line("`py::array(shape, strides, data, base)`",
         'm.def("f", [](py::object base) { static float data[4] = {1, 2, 3, 4}; const Shape shape{2}, strides{2};'
         " const DType dtype = float32; const Device device = Device::cpu();"
         " return Tensor::wrap(data, shape, strides, dtype, device, PyOwner(base)); });",
         "base = object.__new__(type('Base', (), {})); t = ext.f(base)\n"
         "assert np.asarray(t).tolist() == [1, 3] and t.owner is base"),
    Line("`py::memoryview::from_buffer`, `from_memory`",
         'm.def("f", [] { static float data[2] = {1, 2};'
         " Tensor t = Tensor::wrap(data, {2}, {}, float32, Device::cpu(), nullptr); return t; });",
         "assert memoryview(ext.f()).tolist() == [1, 2]"),
    Line("`a.reshape(…)`, `a.squeeze()`, `a[…]`",
         'm.def("f", [](const Tensor& t) { return t.transpose().slice(0, 1).select(1, 0).reshape({2, 1}); });',
         "assert np.asarray(ext.f(np.arange(6).reshape(2, 3))).tolist() == [[1], [2]]", unused=("views", "md")),
    Line("`py::vectorize(f)`", 'isthmus::op<"m::f", f>(m, {"a", "b"});',
         "assert ext.f(np.ones(2, 'f4'), 2.0).tolist() == [3, 3]\n"
         "a = np.ones((3, 2), 'f4'); assert ext.f.ufunc(a, 2.0).shape == (3, 2)",
         types='inline void f(View<const float, 1, sizes<"n">> a, double b, Out<float, 1, sizes<"n">> y) {'
         " for_each([b](float& to, float from) { to = from + static_cast<float>(b); }, y, a); }"),
    Line("`.def_buffer(…)`, `py::buffer_protocol()`",
         'py::class_<Grid> cls(m, "Grid"); cls.def(py::init<>()); '
         "tensor_protocol(cls, &Grid::tensor); cls.def(\"f\", [](py::object self) {"
         " return Tensor::own(PyOwner(self), std::span(self.cast<Grid&>().cells), {4}); });",
         "assert memoryview(ext.Grid()).tolist() == [[1, 2], [3, 4]] and np.asarray(ext.Grid().f()).sum() == 10"),
    Line("a constructor from `py::buffer`",
         'py::class_<Kept>(m, "Kept").def(py::init<Owned<View<const float, 1>>>())'
         '.def(py::init<View<const double, 1>>()).def("sum", &Kept::sum);',
         "assert ext.Kept(np.ones(3, 'f4')).sum() == 3 == ext.Kept(np.ones(3)).sum()",
         types="struct Kept { Owned<View<const float, 1>> x; std::vector<double> copy;"
         " explicit Kept(Owned<View<const float, 1>> y) : x(std::move(y)) {}"
         " explicit Kept(View<const double, 1> y) : copy(y.begin(), y.end()) {}"
         " double sum() const { double s = total(*x); for (double c : copy) s += c; return s; } };"),
    Line("`py::bind_vector<…>(m, \"Floats\", py::buffer_protocol())`",
         'auto cls = py::bind_vector<std::vector<float>>(m, "Floats"); '
         "tensor_protocol(cls, [](std::vector<float>& v) { return Tensor::wrap(v.data(),"
         " {static_cast<std::int64_t>(v.size())}, {}, float32, Device::cpu(), nullptr); });",
         "floats = ext.Floats([1, 2]); np.asarray(memoryview(floats))[0] = 7; assert list(floats) == [7, 2]"),
    Line("`py::return_value_policy::reference_internal`, `py::keep_alive`",
         'py::class_<Grid>(m, "Cells").def(py::init<>())'
         '.def("f", &Grid::tensor, py::return_value_policy::reference_internal)'
         '.def("g", &Grid::tensor, py::keep_alive<0, 1>());',
         "assert np.asarray(ext.Cells().f()).sum() == 10 == np.asarray(ext.Cells().g()).sum()"),
    Line("`py::return_value_policy::copy`", COPIES, USES_COPIES),
    Line("`const Eigen::MatrixXf&`, by value: a copy",
         'm.def("f", [](Argument<Converted<View<const float, 2>>> x) { return to_eigen(*x).sum(); });',
         "assert ext.f(np.ones((2, 3))) == 6", needs="eigen"),
    Line("`Eigen::Ref<const Eigen::MatrixXf>`", EIGEN_READ.replace("x)", "view)"),
         "assert ext.f(np.ones((4, 4), 'f4')[::2, 1:]) == 6", needs="eigen"),
    Line("`Eigen::Ref<Eigen::MatrixXf>`, `py::EigenDRef<…>`, written", EIGEN_WRITE.replace("x)", "view)"), USES_WRITE,
         needs="eigen"),
    Line("`Eigen::VectorXf`", 'm.def("f", [](View<const float, 1> view) { return to_eigen(view).norm(); });',
         "assert ext.f(np.array([3, 4], 'f4')) == 5", needs="eigen"),
    Line("an `Eigen` matrix as a result", MATRIX, "assert np.asarray(ext.made()).tolist() == [[1, 2]]", needs="eigen"),
    Line("`Eigen::Map`, `Eigen::Ref` as a result, of an instance",
         'py::class_<Model>(m, "Model").def(py::init<>()).def("f", [](py::object self) {'
         " auto& weights = self.cast<Model&>().weights; auto part = weights.row(0);"
         " return from_eigen(part, PyOwner(self)); });",
         "t = ext.Model().f(); assert np.asarray(t).ravel().tolist() == [1, 1, 1] and type(t.owner) is ext.Model",
         types="struct Model { Eigen::MatrixXf weights = Eigen::MatrixXf::Ones(2, 3); };", needs="eigen"),
    Line("`Eigen::Tensor`, `Eigen::TensorMap`", EIGEN_TENSOR, USES_EIGEN_TENSOR, needs="eigen", unused=("tensor",)),
    Line("`Eigen::SparseMatrix`", READS_SPARSE, USES_SPARSE, types=SPARSE),
    Line("`std::vector<py::array_t<T>>`, `list`, `deque`, `array`, `map`, `pair`, `tuple`, `variant`",
         'm.def("f", [](const std::vector<View<const float, 1>>& x) { return x.size(); });'
         'm.def("g", [](const std::list<Owned<View<const float, 1>>>& x) { return x; });'
         'm.def("h", [](const std::deque<Tensor>& x) { return x; });'
         'm.def("i", [](const std::array<View<const float, 1>, 2>& x) { return x.size(); });'
         'm.def("j", [](const std::map<std::string, View<const float, 1>>& x) { return x.size(); });'
         'm.def("k", [](const std::pair<Tensor, View<const float, 1>>& x) { return x.first; });'
         'm.def("l", [](const std::tuple<View<const float, 1>, double>& x) { return std::get<1>(x); });'
         'm.def("n", [](const std::variant<View<const float, 1>, View<const double, 1>>& x) { return x.index(); });',
         "x = np.zeros(2, 'f4'); assert ext.f([x, x]) == 2 and len(ext.g([x])) == 1 and len(ext.h((x,))) == 1\n"
         "assert ext.i([x, x]) == 2 and ext.j({'a': x}) == 1 and ext.k((x, x)).shape == (2,) and ext.l((x, 5.0)) == 5\n"
         "assert ext.n(x) == 0 and ext.n(np.zeros(1)) == 1"),
    Line("`std::optional<py::array_t<T>>`",
         'm.def("f", [](std::optional<View<const float, 1>> x) { return x ? 1 : 0; });',
         "assert ext.f(None) == 0 and ext.f(np.zeros(1, 'f4')) == 1"),
    Line("`std::vector<T>`, `std::valarray<T>`: a copy of a list", LISTS, USES_LISTS),
    Line("`std::vector<std::vector<T>>`", 'm.def("f", [](ArrayLike<View<const float, 2>> x) { return total(x); });',
         "assert ext.f([[1, 2], (3, 4)]) == 10"),
    Line("`std::vector<T>` as a result: a list",
         'm.def("f", [] { auto vector = three(); return Tensor::own(std::move(vector)); });',
         "assert np.asarray(ext.f()).tolist() == [1, 2, 3]"),
    Line("`std::vector<std::array<T, 3>>` as a result",
         'm.def("f", [] { return Tensor::own(std::vector<std::array<float, 3>>(2)); });',
         "assert ext.f().shape == (2, 3)"),
]  # fmt: skip

BINDERS = {
    "nanobind": (
        NANOBIND,
        {"header": "nanobind", "more": "#include <isthmus/nanobind_stl.h>\nnamespace nb = nanobind;"},
        ("nb::module_", "NB_MODULE"),
    ),
    "pybind11": (
        PYBIND11,
        {"header": "pybind11", "more": "#include <pybind11/stl_bind.h>\nnamespace py = pybind11;"},
        ("py::module_", "PYBIND11_MODULE"),
    ),
}
LINES = [(binder, line) for binder, (lines, *_) in BINDERS.items() for line in lines]
EIGEN_HEADERS = "#include <isthmus/eigen.h>\n#include <isthmus/eigen_tensor.h>\n"


def table(binder: str) -> list[tuple[str, str]]:
    (section,) = (part for part in GUIDE.split("\n## ") if part.startswith(f"{binder}\n"))
    rows = re.findall(r"(?m)^\| (.+?) \| (.+) \|$", section)
    assert rows[0] == ("there", "here")
    return rows[1:]


def usable(lines: list[Line]) -> list[tuple[int, Line]]:
    return [(n, line) for n, line in enumerate(lines) if line.needs != "eigen" or EIGEN is not None]


@functools.cache
def load(binder: str) -> ModuleType:
    """All lines of one binder, each in a submodule."""
    lines, words, (handle, macro) = BINDERS[binder]
    source, body = (EIGEN_HEADERS if EIGEN else "") + PRELUDE % words, ""
    for n, line in usable(lines):
        inside = f"using Grid = GridOf<{n}>;\n{line.types}\ninline void bind({handle}& m) {{\n{line.code}\n}}"
        source += f"namespace line{n} {{\n{inside}\n}}\n"
        body += f'{{ {handle} part = m.def_submodule("line{n}"); line{n}::bind(part); }}\n'
    name = f"reference_{binder}"
    file = f"{name}{importlib.machinery.EXTENSION_SUFFIXES[-1]}"
    found = compiling.package_folder(binder)
    flags = compiling.nanobind_flags(found) if binder == "nanobind" else [f"-isystem{found / 'include'}"]
    flags += [f"-isystem{EIGEN}"] if EIGEN else []
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "module.cpp"
        unit.write_text(source + f"{macro}({name}, m) {{\n{body}}}\n")
        command = [compiling.CXX, "-shared", "-O0", "-g0", *isthmus.get_cflags(), *flags, unit]
        built = compiling.compiled(file, [*command, *isthmus.get_ldflags()])
    spec = importlib.util.spec_from_file_location(name, built / file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("binder", "line"), LINES, ids=[f"{binder}: {line.there}" for binder, line in LINES])
def test_a_line_is_bound_and_called(binder: str, line: Line) -> None:
    pytest.importorskip(binder)
    if line.needs == "eigen" and EIGEN is None:
        pytest.skip("Eigen is not installed")
    part = getattr(load(binder), f"line{BINDERS[binder][0].index(line)}")
    exec(line.use, {"ext": part, "np": np, "pytest": pytest, "isthmus": isthmus})


@pytest.mark.parametrize("binder", BINDERS)
def test_each_line_of_the_table_is_here(binder: str) -> None:
    assert [left for left, _ in table(binder)] == [line.there for line in BINDERS[binder][0]]


#: Parts of a spelling that stand for something else.
PLACEHOLDERS = {"const", "std", "move", "vector"}


@pytest.mark.parametrize("binder", BINDERS)
def test_a_line_is_spelled_as_the_table_says(binder: str) -> None:
    """Every name in the code of the right cell is one that the line uses."""
    for (left, right), line in zip(table(binder), BINDERS[binder][0], strict=True):
        text = re.sub(r"\]\([^)]*\)", "]", right)
        said = {word for span in re.findall(r"`([^`]+)`", text) for word in re.findall(r"[A-Za-z_]\w{2,}", span)}
        known = set(re.findall(r"\w+", line.code + line.types + line.use))
        known |= {"for_each"} if "total" in known else set()  # which calls it
        assert said - known - PLACEHOLDERS - set(line.unused) == set(), left
