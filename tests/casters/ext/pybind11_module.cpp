// SPDX-License-Identifier: Apache-2.0
#include <isthmus/pybind11_overloads.h>

#include <pybind11/stl.h>

#include "array_like.h"
#include "casters.h"
#include "containers.h"
#include "converted.h"
#include "distinct.h"
#include "fields.h"
#include "grid.h"
#include "overloads.h"
#include "owned.h"
#include "records.h"
#include "values.h"

namespace {
/// As one of the arguments of a call.
template <class X>
struct Held {
    pybind11::detail::argument_loader<X> arguments;
    Held() noexcept {}
};
}  // namespace

PYBIND11_MODULE(ISTHMUS_CASTER_MODULE, m, pybind11::mod_gil_not_used()) {
    casters::bind<pybind11::object>([&m](const char* name, auto function) { m.def(name, function); });
    m.def("fill_without_gil", casters::fill, pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("twice_there_without_gil", casters::twice_there, pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("errors_without_gil", casters::errors_of, pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("copy_rows_without_gil", isthmus::agreeing<"copy_rows", "out", "x">(casters::copy_rows),
          pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("cast_later", [](const pybind11::object& x) { return x.cast<isthmus::Tensor>(); });
    m.def("twice_after", casters::twice_after<pybind11::function>);
    m.def("positional", casters::sum, pybind11::arg("x"));
    casters::bind_containers<pybind11::function>([&m](const char* name, auto function) { m.def(name, function); });
    casters::bind_written<Held>([&m](const char* name, auto function) { m.def(name, function); });
    casters::bind_fields([&m](const char* name, auto function) { m.def(name, function); });
    m.def("leaves_of", casters::leaves_of<pybind11::object>);
    m.def("copied_tree", [](const pybind11::object& tree, bool fewer) {
        return casters::copied_tree(tree, fewer,
                                    [](PyObject* made) { return pybind11::reinterpret_steal<pybind11::object>(made); });
    });
    casters::bind_converted([&m](const char* name, auto function) { m.def(name, function); });
    casters::bind_records([&m](const char* name, auto function) { m.def(name, function); });
    casters::bind_distinct([&m](const char* name, auto function) { m.def(name, function); });
    casters::bind_values([&m](const char* name, auto function) { m.def(name, function); });
    casters::bind_array_like([&m](const char* name, auto function) { m.def(name, function); });
    casters::bind_owned([&m](const char* name, auto function) { m.def(name, function); });
    m.def("own_strict", casters::own_total_float, pybind11::arg("x").noconvert());
    m.def("own_cast", [](const pybind11::object& x) { return x.cast<casters::OwnRow>(); });
    m.def(
        "own_without_gil", [](const isthmus::Owned<isthmus::View<float, 1>>& x) { return x; },
        pybind11::call_guard<pybind11::gil_scoped_release>());
    m.def("numbers_strict", casters::numbers<double>, pybind11::arg("x").noconvert());
    m.def("numbers_then", casters::numbers_then<pybind11::function>);
    m.def("signal_then", casters::signal_then<pybind11::function>);
    m.def("signal_strict", casters::signal_sum, pybind11::arg("x").noconvert());
    casters::bind_overloads<pybind11::arg>(m);
    // Of this module: another one of the same sources is in the process.
    pybind11::class_<casters::Scale> scale(m, "Scale", pybind11::module_local());
    casters::bind_scale<pybind11::arg>(scale.def(pybind11::init<>()));
    namespace py = pybind11;
    using casters::Grid;
    py::class_<Grid>(m, "Grid", py::module_local())
        .def(py::init<>())
        .def("tensor", &Grid::tensor, py::return_value_policy::reference_internal)
        .def("numpy", &Grid::numpy, py::return_value_policy::reference_internal)
        .def("torch", &Grid::torch, py::return_value_policy::reference_internal)
        .def("like", &Grid::like, py::return_value_policy::reference_internal)
        .def("counted", &Grid::counted, py::return_value_policy::reference_internal)
        .def("copied", &Grid::copied, py::return_value_policy::reference_internal)
        .def("kept_alive", &Grid::tensor, py::keep_alive<0, 1>())
        .def("part_kept_alive", &Grid::part, py::keep_alive<0, 1>())
        .def("numpy_kept_alive", &Grid::numpy, py::keep_alive<0, 1>())
        .def("owned", [](const py::object& self) { return self.cast<Grid&>().kept_by(isthmus::PyOwner(self)); })
        .def("owned_elements",
             [](const py::object& self) { return self.cast<Grid&>().owned_by(isthmus::PyOwner(self)); })
        .def_property_readonly("cells", &Grid::tensor)
        .def_property_readonly("member", &Grid::member)
        .def_static("alive", [] { return Grid::alive; })
        .def_static("sum_at_the_end", [] { return Grid::sum_at_the_end; });
    py::class_<casters::Producer> producer(m, "Producer", py::module_local());
    producer.def(py::init<>()).def_static("alive", [] { return Grid::alive; });
    isthmus::tensor_protocol(producer, &casters::Producer::tensor);
    py::class_<casters::Holder> holder(m, "Holder", py::module_local());
    holder.def(py::init<>()).def("drop", &casters::Holder::drop);
    isthmus::tensor_protocol(holder, &casters::Holder::tensor);
    py::class_<casters::Failing> failing(m, "Failing", py::module_local());
    failing.def(py::init<>());
    isthmus::tensor_protocol(failing, casters::fail_to_make);
}
