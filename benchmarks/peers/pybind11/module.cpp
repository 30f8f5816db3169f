// SPDX-License-Identifier: Apache-2.0
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdlib>
#include <cstring>

namespace py = pybind11;

static const void* volatile sink;
static float* data;
static py::ssize_t size;
static long owners;

PYBIND11_MODULE(bench_pybind11, m) {
    m.def("own", [](py::array x) { sink = x.data(); });
    m.def("own_typed", [](py::array_t<float> x) { sink = x.data(); });
    m.def("kernel", [](py::array x, py::array y, py::array out) {
        sink = x.data();
        sink = y.data();
        sink = out.data();
    });
    m.def("round_trip", [](py::array x) { return x; });
    m.def("to_numpy", [](py::handle) {
        ++owners;
        py::capsule owner(data, [](void*) { --owners; });
        return py::array_t<float>(size, data, owner);
    });
    m.def("set_size", [](py::ssize_t n) {
        std::free(data);
        data =
            static_cast<float*>(std::aligned_alloc(64, (static_cast<std::size_t>(n) * sizeof(float) + 63) / 64 * 64));
        size = n;
        if (n <= 1 << 20) std::memset(data, 0, static_cast<std::size_t>(n) * sizeof(float));
    });
}
