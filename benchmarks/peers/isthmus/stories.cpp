// The functions of the reliability stories by Isthmus, bound as docs/casters.md shows.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <isthmus/nanobind.h>

#include <complex>
#include <thread>

namespace nb = nanobind;
namespace im = isthmus;

using Reads = im::View<const float, im::dynamic_rank>;
using Writes = im::View<float, im::dynamic_rank>;

static im::Tensor& kept() {
    static auto* tensor = new im::Tensor;
    return *tensor;
}

template <class V>
static nb::object describe(const V& x) {
    const auto shape = x.shape();
    const std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    return nb::make_tuple(reinterpret_cast<std::uintptr_t>(x.data()), nb::cast(sizes));
}

NB_MODULE(reliability_isthmus, m) {
    m.def("take", [](Reads x) { return describe(x); });
    m.def("write", [](Writes x) { x.data()[0] = 5; });
    m.def("pick", [](im::View<const double, 1>) { return "double"; });
    m.def("pick", [](im::View<const float, 1>) { return "float"; });
    m.def("keep", [](im::Tensor x) { kept() = std::move(x); });
    m.def("peek", [] {
        const auto view = kept().view<Reads>().value();
        return nb::make_tuple(describe(view), view.data()[0]);
    });
    m.def("give", [] { return kept(); });
    m.def("drop", [] { kept() = {}; });
    m.def("drop_without_gil", [] {
        im::Tensor x = std::move(kept());
        const nb::gil_scoped_release released;
        x = {};
    });
    m.def("drop_on_thread", [] { std::thread([x = std::move(kept())]() mutable { x = {}; }).detach(); });
    m.def("imaginary", [](im::View<const std::complex<float>, 1> x) { return x[0].imag(); });
    m.def("dtype", [](const im::Tensor& x) { return nb::str(x.dtype().name().c_str()); });
}
