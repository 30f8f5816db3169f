// Match: the arguments of one call, whose named sizes agree.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/view/match.h>

ISTHMUS_BEGIN

namespace detail {

static ISTHMUS_COLD void append_call(TextBuffer& out, const void* name, Piece::Number of) noexcept {
    const auto* text = static_cast<const char*>(name);
    if (text != nullptr && *text != '\0') (out += text) += "(): ";
    of_argument(reinterpret_cast<const char*>(static_cast<std::uintptr_t>(of))).append_to(out);
}
Piece of_call(const char* function, const char* argument) noexcept {
    return {append_call, function, reinterpret_cast<std::uintptr_t>(argument)};
}
std::string call_prefix(const char* function, const char* argument) { return concat({of_call(function, argument)}); }

static ISTHMUS_COLD Error disagreement(Piece prefix, const Requirement& r, int dimension, std::int64_t size,
                                       const SizeNames::Entry& other) {
    const TextBuffer expected = compose({prefix, "expected ", r.words, ": "});
    if (other.name != r.sizes[dimension].name)
        return make_error(ErrorCode::bad_layout, ErrorKind::value,
                          {expected, "this call names more than ", SizeNames::most, " sizes"});
    return make_error(ErrorCode::bad_layout, ErrorKind::value,
                      {expected, r.sizes[dimension].name, " is ", size, " here and ", other.size, " in ",
                       named_argument(other.argument != nullptr ? other.argument : "")});
}

}  // namespace detail

Result<void> Match::check_argument(const char* argument, const DLTensor& t, Flags flags, const detail::Requirement& r) {
    const int bound = names_.count;
    if (ISTHMUS_LIKELY(detail::meets(t, flags, r) &&
                       (r.size_count < 0 || detail::has_sizes(t, r.sizes, names_, argument))))
        return {};
    names_.count = bound;
    Error error = detail::explain_mismatch(t, flags, r, names_, argument);
    names_.count = bound;
    return detail::prefixed(error, {detail::of_call(function_, argument)});
}

Result<void> Match::agree(const char* argument, const detail::Requirement& r, std::span<const std::int64_t> shape) {
    const int bound = names_.count;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const detail::SizeSpec& wanted = r.sizes[i];
        if (wanted.name.empty()) continue;
        const int dimension = static_cast<int>(i);
        const std::int64_t named = shape[i] - wanted.more;
        const auto* other = names_.contradiction(wanted.name, named, argument, dimension);
        if (other == nullptr) continue;
        Error error = detail::disagreement(detail::of_call(function_, argument), r, dimension, named, *other);
        names_.count = bound;
        return error;
    }
    return {};
}

std::string Match::prefix(const char* argument) const { return detail::call_prefix(function_, argument); }

ISTHMUS_END
