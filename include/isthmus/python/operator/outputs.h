// Out and InOut: the parameters of an operator that it writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/sizes.h>
#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

/// A result of an operator: memory that the library makes, in the caller's framework, and that is not zeroed. A size is a
/// number or a name, which an input's sizes or an integer argument gives: Out<float, 2, sizes<"n m">>. Without sizes it has
/// those of the first tensor argument; of a set of dtypes (Out<one_of<float, double>, 1>) it has that argument's dtype. Valid
/// for the length of the call, as a View is.
template <class T, int N, class... C>
class Out : public View<T, N, C...> {
    static_assert(!std::is_const_v<T>, "isthmus: an Out is written, so its elements are not const");

public:
    constexpr Out() noexcept = default;
    /// Over the memory that the view shows.
    Out(const View<T, N, C...>& view) noexcept : View<T, N, C...>(view) {}
};

/// A tensor argument of an operator that is written in place, where it lies.
template <class T, int N, class... C>
class InOut : public View<T, N, C...> {
    static_assert(!std::is_const_v<T>, "isthmus: an InOut is written, so its elements are not const");

public:
    constexpr InOut() noexcept = default;
    /// Over the memory that the view shows.
    InOut(const View<T, N, C...>& view) noexcept : View<T, N, C...>(view) {}
};

ISTHMUS_END
