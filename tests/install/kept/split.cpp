// A module of nanobind in split mode as somebody compiled it once: views, handles, overloads, containers, results.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/nanobind.h>  // Python.h must come before any standard header

#include <isthmus/nanobind_stl.h>

namespace nb = nanobind;
using namespace isthmus;

NB_MODULE(split, m) {
    m.def("total", [](View<const double, 1> x) {
        double sum = 0;
        for (const double e : x) sum += e;
        return sum;
    });
    m.def("total", [](View<const float, 1>) { return -1.0; });
    m.def("back", [](Tensor t) { return t; });
    m.def("like", [](Argument<View<const double, 1>, "x"> x) { return x.reply(empty_like(x)); });
    m.def("count", [](const std::vector<View<const double, 1>>& all) { return all.size(); });
}
