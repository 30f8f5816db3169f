// The functions of the reliability stories by nanobind alone, as its documentation shows.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/complex.h>
#include <nanobind/stl/vector.h>

#include <complex>
#include <thread>
#include <utility>

namespace nb = nanobind;

using Reads = nb::ndarray<const float, nb::device::cpu>;
using Writes = nb::ndarray<float, nb::device::cpu>;

static Reads& kept() {
    static auto* array = new Reads;
    return *array;
}

static nb::object describe(const Reads& x) {
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 0; i < x.ndim(); ++i) sizes.push_back(static_cast<std::int64_t>(x.shape(i)));
    return nb::make_tuple(reinterpret_cast<std::uintptr_t>(x.data()), nb::cast(sizes));
}

NB_MODULE(reliability_nanobind, m) {
    // Without noconvert() a value that does not fit is converted: a copy, and not what is asked here.
    m.def("take", [](Reads x) { return describe(x); }, nb::arg("x").noconvert());
    m.def("write", [](Writes x) { x.data()[0] = 5; }, nb::arg("x").noconvert());
    m.def("pick", [](nb::ndarray<const double, nb::ndim<1>>) { return "double"; }, nb::arg("x").noconvert());
    m.def("pick", [](nb::ndarray<const float, nb::ndim<1>>) { return "float"; }, nb::arg("x").noconvert());
    m.def("keep", [](Reads x) { kept() = std::move(x); }, nb::arg("x").noconvert());
    m.def("peek", [] { return nb::make_tuple(describe(kept()), kept().data()[0]); });
    m.def("give", [] { return nb::ndarray<nb::numpy, const float>(kept()); });
    m.def("drop", [] { kept() = Reads(); });
    m.def("drop_without_gil", [] {
        Reads x = std::move(kept());
        const nb::gil_scoped_release released;
        x = Reads();
    });
    m.def("drop_on_thread", [] { std::thread([x = std::move(kept())]() mutable { x = Reads(); }).detach(); });
    m.def(
        "imaginary", [](nb::ndarray<const std::complex<float>, nb::device::cpu> x) { return x.data()[0].imag(); },
        nb::arg("x").noconvert());
    m.def(
        "dlpack_dtype", [](nb::ndarray<nb::ro> x) { return nb::make_tuple(x.dtype().code, x.dtype().bits); },
        nb::arg("x").noconvert());
}
