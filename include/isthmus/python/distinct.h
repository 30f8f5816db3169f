// The arguments of one call that are to share no element with the others (isthmus::distinct): found and compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

// Of isthmus/fields.h, which every struct with fields comes from.
template <class S>
constexpr auto members_of(S& s) noexcept;  // NOLINT(readability-redundant-declaration)

template <class X>
inline constexpr bool is_argument = false;
template <class V, Literal... names>
inline constexpr bool is_argument<Argument<V, names...>> = true;

/// Calls `f(name, tensor)` for each View, Tensor and Borrowed of an argument of a call: the argument itself, or those
/// in a container (std::optional, a sequence, a mapping, a pair or tuple, std::variant, and those within one another)
/// or in a struct, but not those of a struct in a struct, whose named sizes are its own.
template <class F, class X>
void each_tensor(const char* name, const X& argument, F& f) {
    const auto each = [&]([[maybe_unused]] const auto&... part) { (each_tensor(name, part, f), ...); };
    if constexpr (is_view<X> || is_handle<X>) {
        f(name, argument);
    } else if constexpr (is_owned<X>) {
        f(name, *argument);
    } else if constexpr (!holds_view<X, Borrowed, Tensor>) {
        return;
    } else if constexpr (is_argument<X>) {
        each_tensor(X::raises ? X::argument_name : name, *argument, f);
    } else if constexpr (HasFields<X>) {
        const auto of_struct = [&]<class M>(const M& member) {
            if constexpr (!HasFields<M>) each_tensor(name, member, f);
        };
        apply([&](const auto&... member) { (of_struct(member), ...); }, members_of(argument));
    } else if constexpr (requires { argument.has_value(); }) {
        if (argument) each(*argument);
    } else if constexpr (requires { argument.begin(); }) {
        for (const auto& part : argument) each(part);
    } else if constexpr (requires { argument.valueless_by_exception(); }) {
        visit(each, argument);
    } else {
        apply(each, argument);
    }
}

/// Whether an argument of a call is to be compared with the others.
template <class X>
inline constexpr bool is_distinct = false;
template <class T, int N, class... C>
inline constexpr bool is_distinct<View<T, N, C...>> = (std::is_same_v<C, distinct> || ...);
template <class V, Literal... names>
inline constexpr bool is_distinct<Argument<V, names...>> = is_distinct<V>;
template <class V>
inline constexpr bool is_distinct<Owned<V>> = is_distinct<V>;
template <class X>
inline constexpr bool is_distinct<std::optional<X>> = is_distinct<X>;

/// An Error if two arguments of a call share an element.
Result<void> check_distinct(const char* function, const char* argument, const DLTensor& t, const char* other,
                            const DLTensor& u) noexcept;

/// Where the elements of an argument lie. Their type does not matter: the dtype is that of so many bytes.
template <class V>
DLTensor memory_of(const V& tensor) noexcept {
    if constexpr (is_handle<V>) {
        return tensor.descriptor();
    } else {
        DLTensor t{const_cast<void*>(static_cast<const void*>(tensor.data())),
                   Device::cpu(),
                   tensor.ndim(),
                   DType(kDLUInt, 8, static_cast<std::uint16_t>(tensor.itemsize())),
                   const_cast<std::int64_t*>(tensor.shape().data()),
                   const_cast<std::int64_t*>(tensor.strides().data()),
                   0};
        if constexpr (requires { tensor.byte_offset(); }) {
            t.device = tensor.device();
            t.byte_offset = tensor.byte_offset();
        }
        return t;
    }
}

/// Compares each distinct argument with all others of the call. The names are in the order of the arguments.
template <class... A>
Result<void> check_distinct(const char* function, const char* const* names, const A&... arguments) noexcept {
    Result<void> good;
    int place = 0;
    const auto check_one = [&]<class X>(const X& argument) {
        auto compare_with_others = [&](const char* name, const auto& tensor) {
            int other = 0;
            auto compare = [&](const char* other_name, const auto& one) {
                if (good && other != place)
                    good = check_distinct(function, name, memory_of(tensor), other_name, memory_of(one));
            };
            ((each_tensor(names[other], arguments, compare), ++other), ...);
        };
        if constexpr (is_distinct<X>) each_tensor(names[place], argument, compare_with_others);
        ++place;
    };
    (check_one(arguments), ...);
    return good;
}

}  // namespace detail

ISTHMUS_END

/// Where an argument is loaded without knowledge of the others.
#define ISTHMUS_NOT_COMPARED                                                                             \
    "isthmus: a distinct view is compared with the other arguments of the call: bind the function with " \
    "isthmus::with_checked_sizes<\"f\", \"a\", …>(f) or isthmus::def<f>, as an argument itself, not in a container"

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_DISTINCT)
#endif
