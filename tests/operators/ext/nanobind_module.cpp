// SPDX-License-Identifier: Apache-2.0
#include <isthmus/nanobind.h>

#define ISTHMUS_TEST_SPACE "geo_nanobind"
#include "functions.h"

NB_MODULE(isthmus_operators_nanobind_test_ext, m) {
    isthmus::nanobind_translate_errors();
    functions::bind(m);
    m.def("last_call", [] { return nanobind::steal(functions::last_call()); });
    m.def("refuse", [](nanobind::module_ self) { isthmus::op<"bad::dot", functions::dot>(self, {"x", "x"}); });
}
