// SPDX-License-Identifier: Apache-2.0
// Functions whose output must not share memory with their inputs.
#pragma once

#include <isthmus/python/agreeing.h>

#include <optional>
#include <vector>

namespace casters {

using namespace isthmus;

using Row = View<const float, 1>;
using Apart = View<float, 1, distinct>;

/// Reads all of x after it has written to out.
inline void reversed_into(const Row& x, const Apart& out) {
    for (std::int64_t i = 0; i < out.size(); ++i) out(i) = x(x.size() - 1 - i);
}
inline std::int64_t any_rank(const View<const double, dynamic_rank>& x,
                             const View<double, dynamic_rank, distinct>& out) {
    return x.size() + out.size();
}
inline std::int64_t beside_all(const Tensor& kept, const std::vector<Row>& rows, const std::optional<Apart>& out,
                               const Argument<Row, "named">& named) {
    return kept.numel() + static_cast<std::int64_t>(rows.size()) + (out ? out->size() : -1) + named->size();
}

template <class Def>
void bind_distinct(Def def) {
    def("reversed_into", with_checked_sizes<"reversed_into", "x", "out">(reversed_into));
    def("any_rank", with_checked_sizes<"any_rank", "x", "out">(any_rank));
    def("beside_all", with_checked_sizes<"beside_all", "kept", "rows", "out", "named">(beside_all));
}

}  // namespace casters
