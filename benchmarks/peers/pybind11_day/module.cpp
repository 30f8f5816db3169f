// A user's day through pybind11: isthmus::View beside py::array_t, in one module and so with the same flags.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/pybind11.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "../day.h"

namespace py = pybind11;

namespace {

using Ours = isthmus::View<const float, 1>;
using OursOut = isthmus::View<float, 1>;
using Theirs = py::array_t<float, py::array::c_style>;

void four_ours(Ours x, Ours y, Ours z, OursOut out, double scale, long count) {
    touch(x.data(), y.data(), z.data(), out.data(), scale, count);
}
void four_theirs(const Theirs& x, const Theirs& y, const Theirs& z, Theirs out, double scale, long count) {
    touch(x.data(), y.data(), z.data(), out.mutable_data(), scale, count);
}
py::array_t<float> result_theirs(py::handle) { return py::array_t<float>(static_cast<py::ssize_t>(result_size)); }

}  // namespace

PYBIND11_MODULE(bench_pybind11_day, m) {
    m.def("one_ours", [](Ours x) { sink = x.data(); });
    m.def("one_theirs", [](const Theirs& x) { sink = x.data(); });
    m.def("four_ours", four_ours);
    m.def("four_theirs", four_theirs);
    m.def("batch_ours", batch<Ours>);
    m.def("batch_theirs", batch<Theirs>);
    m.def("state_ours", state<Ours>);
    m.def("state_theirs", state<Theirs>);
    m.def("result_ours", result_ours<py::handle>);
    m.def("result_theirs", result_theirs);
}
