// ArrayLike: a view that takes whatever numpy.asarray() takes, lists and tuples of numbers among it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <isthmus/converted.h>

ISTHMUS_BEGIN

namespace detail {

/// As convert_tensor(), also for an object that is not a tensor.
Result<Tensor> convert_array_like(const DLTensor& t, const Requirement& r);

}  // namespace detail

/// An argument may be whatever numpy.asarray() makes an array of numbers of, and NumPy need not be there: a tensor of
/// any framework, borrowed if it fits and converted if it does not (isthmus/converted.h); a list, a tuple or another
/// sequence of numbers, of sequences of one length, or of tensors of one shape; a number, for a view of no dimensions;
/// an object with `__array__`. A converted argument is a copy in memory of C++, for the length of the call.
///
/// Numbers of Python are converted within NumPy's "same_kind", each of them checked: no float becomes an integer, and
/// an integer that the dtype cannot hold is an Error. Strings, None, ragged sequences and other objects are refused; an
/// error names the place: "argument 'points', element [3][1]: expected a number, got str". A sequence without elements
/// is of any dtype. A view of a set of dtypes gets the one that NumPy would choose, or the nearest of the set.
/// Overloads are tried without conversions first, and nb::arg().noconvert() or py::arg().noconvert() forbids them.
struct array_like {
    static constexpr void apply(detail::Requirement& r) {
        r.convert = detail::convert_array_like;
        r.converts = detail::Converts::objects;
    }
};

/// The view that also takes lists and the like: ArrayLike<View<const float, 2>>. Its elements are const.
template <class V>
using ArrayLike = typename detail::Constrained<V, array_like>::type;

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_ARRAY_LIKE)
#endif

#include <isthmus/python.h>  // last: with ISTHMUS_IMPLEMENTATION it brings the sources, which need the above
