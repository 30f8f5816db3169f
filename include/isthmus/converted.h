// converted and packed: views that take an argument of another dtype or layout as a copy, for the length of the call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

namespace detail {

/// A copy of `t` that is what `r` wants, if dtype, layout or alignment is all that differs. `t` has no packed elements.
Result<Tensor> convert_tensor(const DLTensor& t, const Requirement& r);

}  // namespace detail

/// An argument that does not fit the view arrives as a copy that does, if dtype, layout or alignment is all that
/// differs: for the length of the call, in memory of C++ that isthmus.live() lists. dtypes are converted within NumPy's
/// "same_kind" (numpy.can_cast): integers to integers, floats and complex numbers, floats to floats and complex
/// numbers, booleans to all of these; floats are rounded, and a number that the dtype cannot hold is an Error that says
/// which. What fits is borrowed as usual. Overloads are tried without conversions first, and nb::arg().noconvert() or
/// py::arg().noconvert() forbids them. Only arguments are converted: Tensor::view() and Match find what is there.
struct converted {
    static constexpr void apply(detail::Requirement& r) {
        r.convert = detail::convert_tensor;
        r.converts = detail::Converts::tensors;
    }
};

/// Row-major without gaps, as c_contiguous, but an argument of another order arrives as a row-major copy: for the
/// length of the call, in memory of C++ that isthmus.live() lists. Its dtype is not converted; the elements of such a
/// view are const. Overloads are tried without copies first. An operator's tensor on a GPU is copied by torch, if it is
/// torch's.
struct packed {
    static constexpr void apply(detail::Requirement& r) {
        r.ask_order(detail::Order::c);
        r.convert = detail::convert_tensor;
        r.converts = detail::Converts::orders;
    }
};

namespace detail {
/// The view V with one constraint more.
template <class V, class Constraint>
struct Constrained;
template <class T, int N, class... C, class Constraint>
struct Constrained<View<T, N, C...>, Constraint> {
    using type = View<T, N, C..., Constraint>;
};
}  // namespace detail

/// The view that also takes a converted copy.
template <class V>
using Converted = typename detail::Constrained<V, converted>::type;

ISTHMUS_END

#include <isthmus/core/sources.h>
