// A module of operators as somebody compiled it once: a gradient, a batch, scalars, and what kernels throw.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/op.h>  // Python.h must come before any standard header

#include <stdexcept>

using namespace isthmus;

namespace {

void scaled(View<const float, 1, sizes<"n">> x, double factor, Out<float, 1, sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = static_cast<float>(factor) * x(i);
}
void scaled_back(View<const float, 1, sizes<"n">> grad, View<const float, 1, sizes<"n">>, double factor,
                 Out<float, 1, sizes<"n">> dx) {
    for (std::int64_t i = 0; i < grad.extent(0); ++i) dx(i) = static_cast<float>(factor) * grad(i);
}
void fails(View<const float, 1, sizes<"n">> x, Out<float, 1, sizes<"n">>) {
    if (x(0) == 0) throw Error(ErrorCode::bad_argument, "the kernel says no");
    throw std::out_of_range("far out");
}

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "operators", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_operators() {
    PyObject* m = PyModule_Create(&definition);
    if (m == nullptr) return nullptr;
    auto op = isthmus::op<"kept::scaled", scaled>(m, {"x", arg("factor") = 2.0}, {.batch = true});
    if (!op) return nullptr;
    op.gradient<scaled_back>();
    return isthmus::op<"kept::fails", fails>(m, {"x"}) ? m : nullptr;
}
