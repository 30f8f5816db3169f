// A user's day through nanobind: isthmus::View beside nb::ndarray, in one module and so with the same flags.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/nanobind.h>
#include <isthmus/nanobind_stl.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "../day.h"

namespace nb = nanobind;

namespace {

using Ours = isthmus::View<const float, 1>;
using OursOut = isthmus::View<float, 1>;
using Theirs = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TheirsOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class In, class Out>
void four(In x, In y, In z, Out out, double scale, long count) {
    touch(x.data(), y.data(), z.data(), out.data(), scale, count);
}
nb::ndarray<nb::numpy, float> result_theirs(nb::handle) {
    auto* data = new float[result_size];
    nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<float*>(p); });
    return nb::ndarray<nb::numpy, float>(data, {result_size}, owner);
}

}  // namespace

NB_MODULE(bench_nanobind_day, m) {
    m.def("one_ours", [](Ours x) { sink = x.data(); });
    m.def("one_theirs", [](Theirs x) { sink = x.data(); });
    m.def("four_ours", four<Ours, OursOut>);
    m.def("four_theirs", four<Theirs, TheirsOut>);
    m.def("batch_ours", batch<Ours>);
    m.def("batch_theirs", batch<Theirs>);
    m.def("state_ours", state<Ours>);
    m.def("state_theirs", state<Theirs>);
    m.def("result_ours", result_ours<nb::handle>);
    m.def("result_theirs", result_theirs);
}
