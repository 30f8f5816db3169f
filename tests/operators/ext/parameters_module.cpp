// Operators with every kind of parameter: packed views, dtypes, optional scalars, lists.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/op.h>

#include <string_view>

namespace {

using isthmus::dynamic_rank;
using isthmus::on_cuda;
using isthmus::op;
using isthmus::Out;
using isthmus::packed;
using isthmus::sizes;
using isthmus::Stream;
using isthmus::View;

/// Running sums over the elements in row-major order, by span(): right only if the view is row-major.
template <class T>
void running(View<const T, 2, sizes<"n k">, packed> x, std::optional<View<const T, 1, sizes<"k">, packed>> w,
             Out<T, 2, sizes<"n k">> y) {
    T sum = 0;
    for (std::size_t i = 0; i < x.span().size(); ++i) {
        sum += x.span()[i] * (w ? w->span()[i % w->span().size()] : T{1});
        y.span()[i] = sum;
    }
}
template <class T>
void running_gradient(View<const T, 2, sizes<"n k">, packed> g, View<const T, 2, sizes<"n k">, packed> x,
                      std::optional<View<const T, 1, sizes<"k">, packed>> w, Out<T, 2, sizes<"n k">> dx, Out<T, 1> dw) {
    for (T& element : dw.span()) element = 0;
    T sum = 0;
    for (std::size_t i = g.span().size(); i-- > 0;) {
        sum += g.span()[i];
        const std::size_t k = w ? i % w->span().size() : 0;
        dx.span()[i] = sum * (w ? w->span()[k] : T{1});
        if (w) dw.span()[k] += sum * x.span()[i];
    }
}
/// The memory of a stand-in for a GPU is the host's.
void running_on_cuda(View<const float, 2, sizes<"n k">, packed, on_cuda> x,
                     std::optional<View<const float, 1, sizes<"k">, packed, on_cuda>>,
                     Out<float, 2, sizes<"n k">, on_cuda> y, Stream) {
    for (std::int64_t i = 0; i < x.extent(0) * x.extent(1); ++i) y.data()[i] = x.data()[i];
}
void total(View<const float, 2, sizes<"n k">, packed> x, Out<float, 0> y) {
    y() = 0;
    for (std::size_t i = 0; i < x.span().size(); ++i) y() += static_cast<float>(i + 1) * x.span()[i];
}

bool bind_packed(PyObject* m) {
    return op<"parameters::running", running<double>, running<float>>(m, {"x", "w"})
               .gradient<running_gradient<double>, running_gradient<float>>()
               .cuda<running_on_cuda>() &&
           op<"parameters::total", total>(m, {"x"}, {.batch = true});
}

int fill(PyObject* module) { return bind_packed(module) ? 0 : -1; }
PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(fill)},
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};
PyModuleDef definition{PyModuleDef_HEAD_INIT, "isthmus_operators_parameters_test_ext", nullptr, 0, nullptr, slots};

}  // namespace

PyMODINIT_FUNC PyInit_isthmus_operators_parameters_test_ext() { return PyModuleDef_Init(&definition); }
