// SPDX-License-Identifier: Apache-2.0
// One declaration that makes the search an operator of torch, a foreign function of XLA
// and a NumPy ufunc.
#include <isthmus/op.h>

#include "nearest.h"

namespace {

using isthmus::c_contiguous, isthmus::Out, isthmus::sizes, isthmus::View;
using Points = View<const float, 2, sizes<"n d">, c_contiguous>;
using Queries = View<const float, 2, sizes<"m d">, c_contiguous>;

void find(Points points, Queries queries,
          Out<float, 1, sizes<"m">, c_contiguous> distances,
          Out<nearest::Index, 1, sizes<"m">, c_contiguous> indices) {
    nearest::search(points.data(), queries.data(), points.extent(0), queries.extent(0),
                    points.extent(1), distances.data(), indices.data());
}
void find_gradient(View<const float, 1, sizes<"m">, c_contiguous> grad,
                   View<const nearest::Index, 1, sizes<"m">>, Points points,
                   Queries queries,
                   Out<float, 2, sizes<"n d">, c_contiguous> grad_points,
                   Out<float, 2, sizes<"m d">, c_contiguous> grad_queries) {
    nearest::search_gradient(grad.data(), points.data(), queries.data(),
                             points.extent(0), queries.extent(0), points.extent(1),
                             grad_points.data(), grad_queries.data());
}

int fill(PyObject* module) {
    return isthmus::op<"example::nearest", find>(module, {"points", "queries"})
                   .gradient<find_gradient>()
               ? 0
               : -1;
}
PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(fill)}, {0, nullptr}};
PyModuleDef definition{PyModuleDef_HEAD_INIT,
                       "nearest",
                       "Nearest points, by nanoflann.",
                       0,
                       nullptr,
                       slots};

}  // namespace

PyMODINIT_FUNC PyInit_nearest() { return PyModuleDef_Init(&definition); }
