// The order in which for_each() walks over its views.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <isthmus/core/view/for_each.h>

ISTHMUS_BEGIN

namespace detail {

IterationPlan::IterationPlan(int ndim_given, const std::int64_t* shape, int views_given,
                             const std::int64_t* const* given) noexcept
    : views(views_given) {
    for (int d = 0; d < ndim_given; ++d)
        if (shape[d] != 1) insert(d, shape[d], given);
    if (ndim > 0) merge();
}

/// Whether steps of `a` are longer than those of `b`: the first view that steps along both decides.
bool IterationPlan::is_outside(const std::int64_t* a, const std::int64_t* b) const noexcept {
    for (int v = 0; v < views; ++v)
        if (a[v] != 0 && b[v] != 0 && a[v] != b[v]) return a[v] > b[v];
    return true;
}
void IterationPlan::insert(int dimension, std::int64_t size, const std::int64_t* const* given) noexcept {
    std::int64_t steps[max_views];
    std::int64_t sign = 0;
    for (int v = 0; v < views; ++v) {
        steps[v] = given[v][dimension];
        if (sign == 0) sign = steps[v] < 0 ? -1 : steps[v] > 0;
    }
    for (int v = 0; v < views && sign < 0; ++v) {  // the same elements from the other end
        starts[v] += steps[v] * (size - 1);
        steps[v] = -steps[v];
    }
    int at = ndim++;
    for (; at > 0 && !is_outside(strides[at - 1], steps); --at) {
        sizes[at] = sizes[at - 1];
        set_strides(at, strides[at - 1]);
    }
    sizes[at] = size;
    set_strides(at, steps);
}
void IterationPlan::set_strides(int dimension, const std::int64_t* steps) noexcept {
    for (int v = 0; v < views; ++v) strides[dimension][v] = steps[v];
}
bool IterationPlan::follow(int outer, int inner) const noexcept {
    for (int v = 0; v < views; ++v)
        if (strides[outer][v] != strides[inner][v] * sizes[inner]) return false;
    return true;
}
void IterationPlan::merge() noexcept {
    int last = 0;
    for (int d = 1; d < ndim; ++d) {
        if (follow(last, d)) {
            sizes[last] *= sizes[d];
        } else if (++last != d) {
            sizes[last] = sizes[d];
        }
        set_strides(last, strides[d]);
    }
    ndim = last + 1;
}

void check_same_sizes(const std::span<const std::int64_t>* shapes, int count) {
    for (int i = 1; i < count; ++i)
        if (shapes[i].size() != shapes[0].size() ||
            (!shapes[i].empty() && std::memcmp(shapes[i].data(), shapes[0].data(), shapes[i].size_bytes()) != 0))
            throw rearrange_error("for_each", concat({"found shapes ", layout::to_string(shapes[0]), " and ",
                                                      layout::to_string(shapes[i]), "; expected the same sizes"}));
}

}  // namespace detail

ISTHMUS_END
