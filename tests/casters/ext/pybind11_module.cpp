// SPDX-License-Identifier: Apache-2.0
#include <isthmus/pybind11.h>

#include <pybind11/stl.h>

#include "casters.h"

PYBIND11_MODULE(ISTHMUS_PYBIND11_MODULE, m) {
    casters::bind([&m](const char* name, auto function) { m.def(name, function); });
    m.def("positional", casters::sum, pybind11::arg("x"));
}
