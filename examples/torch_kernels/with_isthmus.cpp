// SPDX-License-Identifier: Apache-2.0
// The kernels as operators of torch, JAX and NumPy, by their types.
#include <isthmus/module.h>
#include <isthmus/op.h>

#include "kernels.h"

namespace {

using isthmus::c_contiguous, isthmus::InOut, isthmus::Out, isthmus::packed;
using isthmus::sizes, isthmus::View, kernels::Index;

template <class T>
void segment_max(View<const T, 2, sizes<"m k">, packed> x,
                 View<const Index, 1, sizes<"n+1">, packed> starts,
                 Out<T, 2, sizes<"n k">, c_contiguous> largest,
                 Out<Index, 2, sizes<"n k">, c_contiguous> rows) {
    kernels::segment_max(x.data(), x.extent(0), starts.data(), rows.extent(0),
                         rows.extent(1), largest.data(), rows.data());
}
template <class T>
void segment_max_gradient(View<const T, 2, sizes<"n k">, packed> grad,
                          View<const Index, 2, sizes<"n k">, packed> rows,
                          Out<T, 2, sizes<"m k">, c_contiguous> grad_x) {
    kernels::segment_max_gradient(grad.data(), rows.data(), rows.extent(0),
                                  rows.extent(1), grad_x.data(), grad_x.extent(0));
}

void nms(View<const float, 2, sizes<"n 4">, packed> boxes,
         View<const float, 1, sizes<"n">, packed> scores, double threshold,
         Out<Index, 1, sizes<"<=n">, c_contiguous> keep) {
    keep.resize(kernels::nms(boxes.data(), scores.data(), boxes.extent(0), threshold,
                             keep.data()));
}

template <class T>
void put_rows(InOut<T, 2, sizes<"m k">, c_contiguous> cache,
              View<const Index, 1, sizes<"n">, packed> places,
              View<const T, 2, sizes<"n k">, packed> rows) {
    kernels::put_rows(cache.data(), cache.extent(0), places.data(), rows.data(),
                      rows.extent(0), rows.extent(1));
}

}  // namespace

ISTHMUS_MODULE(with_isthmus, m) {
    using isthmus::op;
    op<"ported::segment_max", segment_max<float>, segment_max<double>>(m,
                                                                       {"x", "starts"})
        .gradient<segment_max_gradient<float>, segment_max_gradient<double>>(
            {.takes = {"grad_out", "out[1]"}, .of = {"x"}});
    op<"ported::nms", nms>(m, {"boxes", "scores", "threshold"});
    op<"ported::put_rows", put_rows<float>, put_rows<double>>(
        m, {"cache", "places", "rows"});
}
