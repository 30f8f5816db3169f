// Match: the arguments of one call, whose named sizes agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

namespace detail {

/// "blur(): argument 'image': "
std::string call_prefix(const char* function, const char* argument);
/// The same as a piece of a message; the names must live as long.
Piece of_call(const char* function, const char* argument) noexcept;

}  // namespace detail

/// The arguments of one call: each is matched with its view type, sizes of the same name agree between them, and an
/// error names the function and the argument. A view that does not fit binds no name: the call may try another one.
///
///     isthmus::Match match("distances");
///     auto a = match.view<View<const float, 2, sizes<"n d">>>("a", tensor_a);
///     auto b = match.view<View<const float, 2, sizes<"m d">>>("b", tensor_b);
class Match {
public:
    explicit Match(const char* function = nullptr) noexcept : function_(function) {}

    /// `source` is a Tensor or a Borrowed, which the view does not outlive.
    template <class V, class Source>
        requires detail::is_view<V>
    Result<V> view(const char* argument, const Source& source) {
        auto good = check_argument(argument, source.descriptor(), source.flags(), V::requirement);
        if (ISTHMUS_UNLIKELY(!good)) return std::move(good).error();
        return detail::view_of<V>(source.descriptor());
    }
    /// Whether a tensor is what `r` wants, and its named sizes those of this call.
    Result<void> check_argument(const char* argument, const DLTensor& t, Flags flags, const detail::Requirement& r);
    template <class V, class Source>
        requires(detail::is_view<V> && !std::is_lvalue_reference_v<Source>)
    Result<V> view(const char* argument, Source&& source) = delete;  // the view would outlive it

    /// For views that were made one by one (by a caster, say): whether their named sizes agree with those seen so far.
    template <class T, int N, class... C>
    Result<void> agree(const char* argument, const View<T, N, C...>& view) {
        if constexpr (View<T, N, C...>::requirement.size_count >= 0)
            return agree(argument, View<T, N, C...>::requirement, view.shape());
        else
            return {};
    }
    /// The size that a name stands for; -1 for a name not seen yet.
    std::int64_t operator[](std::string_view name) const noexcept { return names_.size_of(name); }

    /// How the errors of this call begin: "blur(): argument 'image': ".
    std::string prefix(const char* argument) const;
    /// The same for layers above, as a piece of a message; `argument` must live as long.
    detail::Piece call_of(const char* argument) const noexcept { return detail::of_call(function_, argument); }

private:
    friend struct detail::BackendAccess;
    Result<void> agree(const char* argument, const detail::Requirement& r, std::span<const std::int64_t> shape);

    const char* function_;
    detail::SizeNames names_;
};

ISTHMUS_END
