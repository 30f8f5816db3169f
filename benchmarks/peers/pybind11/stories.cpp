// The functions of the reliability stories by pybind11 alone, as its documentation shows.
// SPDX-License-Identifier: Apache-2.0
#include <pybind11/complex.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <complex>
#include <utility>

namespace py = pybind11;

static py::array_t<float>& kept() {
    static auto* array = new py::array_t<float>;
    return *array;
}

static py::tuple describe(const py::array_t<float>& x) {
    const std::vector<py::ssize_t> sizes(x.shape(), x.shape() + x.ndim());
    return py::make_tuple(reinterpret_cast<std::uintptr_t>(x.data()), sizes);
}

PYBIND11_MODULE(reliability_pybind11, m) {
    // The default asks NumPy for an array of whatever the object is; noconvert() takes only what is one already.
    m.def("take", [](py::array_t<float, 0> x) { return describe(py::array_t<float>(std::move(x))); });
    m.def("write", [](py::array_t<float> x) { x.mutable_data()[0] = 5; }, py::arg("x").noconvert());
    m.def("keep", [](py::array_t<float> x) { kept() = std::move(x); }, py::arg("x").noconvert());
    m.def("peek", [] { return py::make_tuple(describe(kept()), kept().data()[0]); });
    m.def("give", [] { return kept(); });
    m.def("drop", [] { kept() = py::array_t<float>(); });
    m.def("imaginary", [](py::array_t<std::complex<float>> x) { return x.data()[0].imag(); }, py::arg("x").noconvert());
    m.def("dtype", [](py::array x) { return py::str(x.dtype()); }, py::arg("x").noconvert());
}
