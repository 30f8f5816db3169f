// SPDX-License-Identifier: Apache-2.0
#include <isthmus/nanobind_overloads.h>
#include <isthmus/nanobind_stl.h>

#include <nanobind/stl/array.h>
#include <nanobind/stl/list.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

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

/// As an element of a std::tuple, in which nanobind's own casters hold others.
template <class X>
using Held = isthmus::detail::NanobindBinder::Element<X>;

template <class A>
inline constexpr bool is_optional = false;
template <class X>
inline constexpr bool is_optional<std::optional<X>> = true;

template <class R, class... A>
void define(nanobind::module_& m, const char* name, auto function, R (*)(A...)) {
#if !defined(ISTHMUS_NANOBIND_KNOWS_DEFAULTS)
    // None for an optional: before nanobind 2.11 only where the author of the binding says so.
    if constexpr ((is_optional<std::remove_cvref_t<A>> || ...)) {
        m.def(name, function, nanobind::arg().none(is_optional<std::remove_cvref_t<A>>)...);
        return;
    }
#endif
    m.def(name, function);
}

}  // namespace

NB_MODULE(ISTHMUS_CASTER_MODULE, m) {
    const auto def = [&m](const char* name, auto function) {
        define(m, name, function, typename isthmus::detail::BoundSignature<decltype(function)>::type{});
    };
    casters::bind<nanobind::object>(def);
    m.def("fill_without_gil", casters::fill, nanobind::call_guard<nanobind::gil_scoped_release>());
    m.def("twice_there_without_gil", casters::twice_there, nanobind::call_guard<nanobind::gil_scoped_release>());
    m.def("errors_without_gil", casters::errors_of, nanobind::call_guard<nanobind::gil_scoped_release>());
    m.def("copy_rows_without_gil", isthmus::agreeing<"copy_rows", "out", "x">(casters::copy_rows),
          nanobind::call_guard<nanobind::gil_scoped_release>());
    m.def("cast_later", [](const nanobind::object& x) { return nanobind::cast<isthmus::Tensor>(x); });
    m.def("twice_after", casters::twice_after<nanobind::callable>);
    m.def("positional", casters::sum, nanobind::arg("x"));
    casters::bind_containers<nanobind::callable>(def);
    casters::bind_written<Held>(def);
    casters::bind_fields(def);
    casters::bind_converted(def);
    casters::bind_records(def);
    casters::bind_distinct(def);
    casters::bind_values(def);
    casters::bind_array_like(def);
    casters::bind_owned(def);
    m.def("own_strict", casters::own_total_float, nanobind::arg("x").noconvert());
    m.def("own_cast", [](const nanobind::object& x) { return nanobind::cast<casters::OwnRow>(x); });
    m.def(
        "own_without_gil", [](const isthmus::Owned<isthmus::View<float, 1>>& x) { return x; },
        nanobind::call_guard<nanobind::gil_scoped_release>());
    m.def("numbers_strict", casters::numbers<double>, nanobind::arg("x").noconvert());
    m.def("numbers_then", casters::numbers_then<nanobind::callable>);
    m.def("signal_then", casters::signal_then<nanobind::callable>);
    m.def("signal_strict", casters::signal_sum, nanobind::arg("x").noconvert());
#if defined(ISTHMUS_NANOBIND_KNOWS_DEFAULTS)
    casters::bind_overloads<nanobind::arg>(m);
#else
    casters::bind_overloads<nanobind::arg>(m, nanobind::arg(), nanobind::arg().none());
#endif
    nanobind::class_<casters::Scale> scale(m, "Scale");
    casters::bind_scale<nanobind::arg>(scale.def(nanobind::init<>()));
    m.def("leaves_of", casters::leaves_of<nanobind::object>);
    m.def("copied_tree", [](const nanobind::object& tree, bool fewer) {
        return casters::copied_tree(tree, fewer, [](PyObject* made) { return nanobind::steal(made); });
    });
    namespace nb = nanobind;
    using casters::Grid;
    nb::class_<Grid>(m, "Grid")
        .def(nb::init<>())
        .def("tensor", &Grid::tensor, nb::rv_policy::reference_internal)
        .def("numpy", &Grid::numpy, nb::rv_policy::reference_internal)
        .def("torch", &Grid::torch, nb::rv_policy::reference_internal)
        .def("like", &Grid::like, nb::rv_policy::reference_internal)
        .def("counted", &Grid::counted, nb::rv_policy::reference_internal)
        .def("copied", &Grid::copied, nb::rv_policy::reference_internal)
        .def("kept_alive", &Grid::tensor, nb::keep_alive<0, 1>())
        .def("part_kept_alive", &Grid::part, nb::keep_alive<0, 1>())
        .def("numpy_kept_alive", &Grid::numpy, nb::keep_alive<0, 1>())
        .def("owned", [](const nb::object& self) { return nb::cast<Grid&>(self).kept_by(isthmus::PyOwner(self)); })
        .def("owned_elements",
             [](const nb::object& self) { return nb::cast<Grid&>(self).owned_by(isthmus::PyOwner(self)); })
        .def_prop_ro("cells", &Grid::tensor)
        .def_prop_ro("member", &Grid::member)
        .def_static("alive", [] { return Grid::alive; })
        .def_static("sum_at_the_end", [] { return Grid::sum_at_the_end; });
    nb::class_<casters::Producer> producer(m, "Producer");
    producer.def(nb::init<>()).def_static("alive", [] { return Grid::alive; });
    isthmus::tensor_protocol(producer, &casters::Producer::tensor);
    nb::class_<casters::Holder> holder(m, "Holder");
    holder.def(nb::init<>()).def("drop", &casters::Holder::drop);
    isthmus::tensor_protocol(holder, &casters::Holder::tensor);
    nb::class_<casters::Failing> failing(m, "Failing");
    failing.def(nb::init<>());
    isthmus::tensor_protocol(failing, casters::fail_to_make);
}
