// SPDX-License-Identifier: Apache-2.0
#include <isthmus/nanobind.h>

#include <nanobind/stl/string.h>

#include "casters.h"

NB_MODULE(isthmus_nanobind_test_ext, m) {
    casters::bind([&m](const char* name, auto function) { m.def(name, function); });
    m.def("fill_without_gil", casters::fill, nanobind::call_guard<nanobind::gil_scoped_release>());
    m.def("copy_rows_without_gil", isthmus::agreeing<"copy_rows", "out", "x">(casters::copy_rows),
          nanobind::call_guard<nanobind::gil_scoped_release>());
    m.def("positional", casters::sum, nanobind::arg("x"));
    m.def("cast_later", [](nanobind::handle x) { return casters::sum(nanobind::cast<casters::Rows>(x)); });
}
