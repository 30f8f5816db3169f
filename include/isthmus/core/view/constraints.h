// The constraints after the rank in View<T, N, …>, and the sets of dtypes in place of T.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/requirement.h>

ISTHMUS_BEGIN

// The constraints after the rank in View<T, N, …>. Each constraint adds itself to the Requirement of the view type; two
// that contradict each other do not compile.

/// Row-major without gaps. Without a constraint on the order any strides will do.
struct c_contiguous {
    static constexpr void apply(detail::Requirement& r) { r.ask_order(detail::Order::c); }
};
/// Column-major without gaps.
struct f_contiguous {
    static constexpr void apply(detail::Requirement& r) { r.ask_order(detail::Order::f); }
};
/// The last dimension without gaps; the others as they are.
struct inner_contiguous {
    static constexpr void apply(detail::Requirement& r) { r.ask_order(detail::Order::inner); }
};

/// Memory of one DLPack device type (`on<kDLROCM>`), instead of memory that the host may touch.
template <int device_type>
struct on {
    static_assert(Device(device_type, 0).is_valid(), "isthmus: DLPack defines no such device type");
    static constexpr void apply(detail::Requirement& r) { r.ask_device(device_type); }
};
/// Memory of a CUDA device.
using on_cuda = on<kDLCUDA>;
/// Memory of any device: the view then gives addresses, and no elements.
struct on_any_device {
    static constexpr void apply(detail::Requirement& r) { r.ask_device(detail::any_memory); }
};

/// The first element is at a multiple of this many bytes.
template <std::size_t bytes>
struct aligned {
    static_assert(bytes != 0 && (bytes & (bytes - 1)) == 0, "isthmus: an alignment is a power of two");
    static constexpr void apply(detail::Requirement& r) {
        if (bytes > r.alignment) r.alignment = bytes;
    }
};

/// A tensor that automatic differentiation watches will do: one of torch that requires grad, or has a tangent. The
/// function then reads and writes the elements as if autograd did not track it, and its results have no gradient.
/// Without this such a tensor is refused while grad mode is on.
struct allow_grad {
    static constexpr void apply(detail::Requirement& r) { r.ask_grad(true); }
};
/// The same refusal made explicit: while grad mode is on, an argument of a function that has no gradient refuses such a
/// tensor with torch's own advice. (An operator's arguments are recorded if it has a gradient, in any case.)
struct no_grad {
    static constexpr void apply(detail::Requirement& r) { r.ask_grad(false); }
};

/// Shares no element with another argument of the call, such as an output that the function writes while it reads the
/// inputs: an Error names the two. The views of a call are compared by def(), Arguments and with_checked_sizes(); a
/// binder alone loads each argument for itself, and does not compile a function that asks for this.
struct distinct {
    static constexpr void apply(detail::Requirement& r) { r.distinct = true; }
};

struct converted;   // in isthmus/converted.h, which nothing of the core needs
struct packed;      // the same
struct array_like;  // in isthmus/array_like.h

/// Between so many and so many dimensions: View<float, dynamic_rank, rank_between<1, 3>>.
template <int least, int most = max_ndim>
struct rank_between {
    static_assert(0 <= least && least <= most && most <= max_ndim, "isthmus: ranks go from 0 to max_ndim");
    static constexpr void apply(detail::Requirement& r) { r.ask_ranks(least, most); }
};

// In the place of T: a set of dtypes. `const` before it means what it means before a type.

/// One of several C++ types: View<one_of<float, double>, 2>, whose visit() calls with the view of the type found.
template <class... T>
struct one_of {
    static_assert(sizeof...(T) > 0 && (!std::is_const_v<T> && ...), "isthmus: write the const before one_of");
    /// Whether an element may be of this dtype.
    static constexpr bool accepts(DType dtype) noexcept { return ((dtype == dtype_of<T>()) || ...); }
    static constexpr void describe(detail::Words& words) {
        const DType dtypes[] = {dtype_of<T>()...};
        for (std::size_t i = 0; i < sizeof...(T); ++i) {
            if (i != 0) words.add('|');
            words.add(dtypes[i]);
        }
    }
};
/// Any floating-point type, of whatever width.
struct floating {
    /// Whether an element may be of this dtype.
    static constexpr bool accepts(DType d) noexcept {
        return d.lanes() == 1 && d.code < detail::dtype_code_count && detail::dtype_codes[d.code].is_floating;
    }
    static constexpr void describe(detail::Words& words) { words.add("floating"); }
};
/// Any integer, signed or not; no bool.
struct integral {
    /// Whether an element may be of this dtype.
    static constexpr bool accepts(DType d) noexcept {
        return d.lanes() == 1 && (d.code == kDLInt || d.code == kDLUInt);
    }
    static constexpr void describe(detail::Words& words) { words.add("integral"); }
};
/// Any complex type, of whatever width.
struct complex_valued {
    /// Whether an element may be of this dtype.
    static constexpr bool accepts(DType d) noexcept { return d.lanes() == 1 && d.code == kDLComplex; }
    static constexpr void describe(detail::Words& words) { words.add("complex"); }
};
/// Any dtype: the view gives addresses, and no elements until visit() finds their type.
struct any_dtype {
    /// Whether an element may be of this dtype: always.
    static constexpr bool accepts(DType) noexcept { return true; }
    static constexpr void describe(detail::Words& words) { words.add("any dtype"); }
};

namespace detail {
template <class C>
concept Constraint = requires(Requirement& r) { C::apply(r); };
template <class S>
concept DTypeSet = requires(Words& words) {
    { S::accepts(DType{}) } -> std::same_as<bool>;
    S::describe(words);
};
}  // namespace detail

ISTHMUS_END
