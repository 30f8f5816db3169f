// SPDX-License-Identifier: Apache-2.0
#include <isthmus/nanobind.h>

#include <nanobind/stl/string.h>

#include "casters.h"

NB_MODULE(isthmus_nanobind_test_ext, m) {
    casters::bind([&m](const char* name, auto function) { m.def(name, function); });
    m.def("positional", casters::sum, nanobind::arg("x"));
    m.def("cast_later", [](nanobind::handle x) { return casters::sum(nanobind::cast<casters::Rows>(x)); });
}
