// SPDX-License-Identifier: Apache-2.0
#include <isthmus/pybind11.h>

#define ISTHMUS_TEST_SPACE "geo_pybind11"
#include "functions.h"

PYBIND11_MODULE(isthmus_operators_pybind11_test_ext, m, pybind11::mod_gil_not_used()) {
    isthmus::pybind11_translate_errors();
    functions::bind(m);
    m.def("last_call", [] { return pybind11::reinterpret_steal<pybind11::object>(functions::last_call()); });
    m.def("refuse", [](pybind11::module_ self) { isthmus::op<"bad::dot", functions::dot>(self, {"x", "x"}); });
}
