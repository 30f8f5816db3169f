// fields: the names of a struct's members, by which it is taken from a Python object and given back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <tuple>

#include <isthmus/core/view/sizes.h>

ISTHMUS_BEGIN

/// The names of a struct's members, in their order; the struct has nothing else (it is an aggregate), and at most 16 of them.
///
///     struct Csr {
///         View<const int, 1, sizes<"rows+1">> indptr;
///         View<const int, 1, sizes<"nnz">> indices;
///         View<const double, 1, sizes<"nnz">> data;
///         using fields = isthmus::fields<"indptr", "indices", "data">;
///     };
template <detail::Literal... name>
struct fields {
    static_assert(sizeof...(name) > 0 && sizeof...(name) <= 16, "isthmus: a struct has from 1 to 16 fields");
    static constexpr int count = sizeof...(name);           ///< how many fields
    static constexpr const char* names[] = {name.text...};  ///< their names in Python
};

namespace detail {

template <class X>
inline constexpr bool is_fields = false;
template <Literal... name>
inline constexpr bool is_fields<fields<name...>> = true;

template <class S>
concept HasFields = requires { typename S::fields; } && is_fields<typename S::fields>;

/// References to the members, in their order.
template <class S>
constexpr auto members_of(S& s) noexcept {
    constexpr int n = std::remove_const_t<S>::fields::count;
    // clang-format off
    if constexpr (n == 1) { auto& [a] = s; return std::tie(a); }
    else if constexpr (n == 2) { auto& [a, b] = s; return std::tie(a, b); }
    else if constexpr (n == 3) { auto& [a, b, c] = s; return std::tie(a, b, c); }
    else if constexpr (n == 4) { auto& [a, b, c, d] = s; return std::tie(a, b, c, d); }
    else if constexpr (n == 5) { auto& [a, b, c, d, e] = s; return std::tie(a, b, c, d, e); }
    else if constexpr (n == 6) { auto& [a, b, c, d, e, f] = s; return std::tie(a, b, c, d, e, f); }
    else if constexpr (n == 7) { auto& [a, b, c, d, e, f, g] = s; return std::tie(a, b, c, d, e, f, g); }
    else if constexpr (n == 8) { auto& [a, b, c, d, e, f, g, h] = s; return std::tie(a, b, c, d, e, f, g, h); }
    else if constexpr (n == 9) { auto& [a, b, c, d, e, f, g, h, i] = s; return std::tie(a, b, c, d, e, f, g, h, i); }
    else if constexpr (n == 10) { auto& [a, b, c, d, e, f, g, h, i, j] = s; return std::tie(a, b, c, d, e, f, g, h, i, j); }
    else if constexpr (n == 11) { auto& [a, b, c, d, e, f, g, h, i, j, k] = s; return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
    else if constexpr (n == 12) { auto& [a, b, c, d, e, f, g, h, i, j, k, l] = s; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l); }
    else if constexpr (n == 13) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = s; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m); }
    else if constexpr (n == 14) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o] = s; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o); }
    else if constexpr (n == 15) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p] = s; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p); }
    else { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q] = s; return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q); }
    // clang-format on
}

template <class S>
using MembersOf = decltype(members_of(std::declval<S&>()));

/// "csr": the format of the struct, where sparse matrices differ only by that; empty if it says none.
template <class S>
constexpr std::string_view sparse_format_of() noexcept {
    if constexpr (requires { S::sparse_format; })
        return S::sparse_format;
    else
        return {};
}

}  // namespace detail

/// A struct for the caller: in the form of the object `like`, which is an argument of the call and lives as long; a dict where
/// that is NULL. Tensors are in the framework of the field of that name, numbers and sizes as Python has them.
template <detail::HasFields S>
struct FieldsReply {
    S fields;                  ///< the struct
    PyObject* like = nullptr;  ///< borrowed; NULL for a dict
};

ISTHMUS_END
