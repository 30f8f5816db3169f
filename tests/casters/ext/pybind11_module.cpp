// SPDX-License-Identifier: Apache-2.0
#include <isthmus/pybind11.h>

#include <pybind11/stl.h>

#include "casters.h"

PYBIND11_MODULE(ISTHMUS_PYBIND11_MODULE, m) {
    casters::bind([&m](const char* name, auto function) { m.def(name, function); });
    m.def("fill_without_gil", casters::fill, pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("copy_rows_without_gil", isthmus::agreeing<"copy_rows", "out", "x">(casters::copy_rows),
          pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("positional", casters::sum, pybind11::arg("x"));
}
