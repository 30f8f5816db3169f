// Match: the arguments of one call, whose named sizes agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

namespace detail {

/// "blur(): argument 'image': "
inline std::string call_prefix(const char* function, const char* argument) {
    const bool named = function != nullptr && *function != '\0';
    return concat({named ? function : "", named ? "(): " : "", argument_prefix(argument)});
}

}  // namespace detail

/// The arguments of one call: each is matched with the view that is wanted, sizes of the same name agree between them, and an
/// error names the function and the argument. What does not fit binds no name: the call may try another view.
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
    Result<void> check_argument(const char* argument, const DLTensor& t, Flags flags, const detail::Requirement& r) {
        const int bound = names_.count;
        if (ISTHMUS_LIKELY(detail::meets(t, flags, r) && (r.size_count < 0 || detail::has_sizes(t, r.sizes, names_, argument))))
            return {};
        names_.count = bound;
        Error error = detail::explain_mismatch(t, flags, r, names_, argument);
        names_.count = bound;
        return error.prefixed(detail::call_prefix(function_, argument));
    }
    template <class V, class Source>
        requires(detail::is_view<V> && !std::is_lvalue_reference_v<Source>)
    Result<V> view(const char* argument, Source&& source) = delete;  // the view would outlive it

    /// For views that were made one by one (by a caster, say): whether their named sizes agree with those seen so far.
    template <class T, int N, class... C>
    Result<void> agree(const char* argument, const View<T, N, C...>& view) {
        constexpr const detail::Requirement& r = View<T, N, C...>::requirement;
        if constexpr (r.size_count >= 0) {
            const int bound = names_.count;
            for (int i = 0; i < view.ndim(); ++i) {
                if (r.sizes[i].name.empty()) continue;
                const std::int64_t named = view.extent(i) - r.sizes[i].more;
                const auto* other = names_.contradiction(r.sizes[i].name, named, argument, i);
                if (other == nullptr) continue;
                Error error = disagreement(argument, r, i, named, *other);
                names_.count = bound;
                return error;
            }
        }
        return {};
    }
    /// The size that a name stands for; -1 for a name not seen yet.
    std::int64_t operator[](std::string_view name) const noexcept { return names_.size_of(name); }

    /// How the errors of this call begin: "blur(): argument 'image': ".
    std::string prefix(const char* argument) const { return detail::call_prefix(function_, argument); }

private:
    ISTHMUS_COLD Error disagreement(const char* argument, const detail::Requirement& r, int dimension, std::int64_t size,
                                    const detail::SizeNames::Entry& other) const {
        const std::string expected = detail::concat({detail::call_prefix(function_, argument), "expected ", r.words, ": "});
        if (other.name != r.sizes[dimension].name)
            return Error(ErrorCode::bad_layout, ErrorKind::value,
                         detail::concat({expected, "this call names more than ", detail::SizeNames::most, " sizes"}));
        return Error(ErrorCode::bad_layout, ErrorKind::value,
                     detail::concat({expected, r.sizes[dimension].name, " is ", size, " here and ", other.size,
                                     " in argument '", (other.argument != nullptr ? other.argument : ""), "'"}));
    }

    const char* function_;
    detail::SizeNames names_;
};

ISTHMUS_END
