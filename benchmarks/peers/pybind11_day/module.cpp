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
template <class In>
std::size_t batch(const std::vector<In>& tensors) {
    for (const In& x : tensors) sink = x.data();
    return tensors.size();
}
template <class In>
std::size_t state(const std::map<std::string, In>& tensors) {
    for (const auto& [name, x] : tensors) sink = x.data();
    return tensors.size();
}
isthmus::As<isthmus::Framework::numpy> result_ours(py::handle) {
    return isthmus::Tensor::empty({static_cast<std::int64_t>(result_size)}, isthmus::float32);
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
    m.def("result_ours", result_ours);
    m.def("result_theirs", result_theirs);
}
