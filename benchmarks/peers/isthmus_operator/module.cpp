// One function as an operator of Isthmus.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/op.h>

namespace {

using isthmus::c_contiguous;
using isthmus::sizes;
using In = isthmus::View<const float, 1, sizes<"n">, c_contiguous>;
using Out = isthmus::Out<float, 1, sizes<"n">, c_contiguous>;

void add(In x, In y, Out sum) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum(i) = x(i) + y(i);
}

PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "bench_isthmus_operator", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_bench_isthmus_operator() {
    PyObject* module = PyModule_Create(&definition);
    if (module != nullptr && !isthmus::op<"bench::add", add>(module, {"x", "y"})) Py_CLEAR(module);
    return module;
}
