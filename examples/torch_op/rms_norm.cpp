// SPDX-License-Identifier: Apache-2.0
// RMS normalisation as an operator of torch, with its gradient. No header of torch is
// included.
#include <isthmus/op.h>

#include <cmath>

namespace {

using isthmus::Out, isthmus::View, isthmus::sizes;
using Rows = View<const float, 2, sizes<"n d">>;
using Weight = View<const float, 1, sizes<"d">>;

/// 1 / sqrt(mean(x²) + eps) of row i.
double scale_of(Rows x, std::int64_t i, double eps) {
    double sum = 0;
    for (std::int64_t j = 0; j < x.extent(1); ++j) sum += double(x(i, j)) * x(i, j);
    return 1 / std::sqrt(sum / double(x.extent(1)) + eps);
}

/// y[i] = weight * x[i] * scale
void rms_norm(Rows x, Weight weight, double eps, Out<float, 2, sizes<"n d">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        const double scale = scale_of(x, i, eps);
        for (std::int64_t j = 0; j < x.extent(1); ++j)
            y(i, j) = float(weight(j) * x(i, j) * scale);
    }
}

/// The gradient of y comes first, then all inputs; an Out for each tensor that has a
/// gradient, in their order.
void rms_norm_gradient(Rows g, Rows x, Weight weight, double eps,
                       Out<float, 2, sizes<"n d">> dx,
                       Out<float, 1, sizes<"d">> dweight) {
    for (float& d : dweight) d = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) {
        const double scale = scale_of(x, i, eps);
        double dot = 0;
        for (std::int64_t j = 0; j < x.extent(1); ++j)
            dot += double(g(i, j)) * weight(j) * x(i, j);
        for (std::int64_t j = 0; j < x.extent(1); ++j) {
            dx(i, j) =
                float(scale * (g(i, j) * weight(j) -
                               x(i, j) * dot * scale * scale / double(x.extent(1))));
            dweight(j) += float(g(i, j) * x(i, j) * scale);
        }
    }
}

int fill(PyObject* module) {
    auto op = isthmus::op<"example::rms_norm", rms_norm>(
        module, {"x", "weight", isthmus::arg("eps") = 1e-6});
    return op.gradient<rms_norm_gradient>() ? 0 : -1;
}
PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill)}, {0, nullptr}};
PyModuleDef definition{PyModuleDef_HEAD_INIT,
                       "rms_norm",
                       "RMS normalisation.",
                       0,
                       nullptr,
                       slots,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_rms_norm() { return PyModuleDef_Init(&definition); }
