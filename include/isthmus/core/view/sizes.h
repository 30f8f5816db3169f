// extents and sizes: the sizes that a view type asks for, by number and by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/requirement.h>

ISTHMUS_BEGIN

/// Sizes by position: `extents<dyn, dyn, 3>`.
template <std::int64_t... sizes_>
struct extents {
    static_assert(((sizes_ >= dyn) && ...), "isthmus: a size is 0 or more, or dyn");
    static constexpr int count = sizeof...(sizes_);
    static constexpr detail::SizeSpec specs[sizeof...(sizes_) + 1] = {detail::SizeSpec{sizes_, {}}..., {}};
    static constexpr void apply(detail::Requirement& r) { r.ask_sizes(specs, count); }
};

namespace detail {

/// A string literal as a template argument.
template <std::size_t n>
struct Literal {
    char text[n]{};
    consteval Literal(const char (&from)[n]) {
        for (std::size_t i = 0; i < n; ++i) text[i] = from[i];
    }
    constexpr std::string_view view() const { return {text, n - 1}; }
};

constexpr bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// Takes the next word off the front; empty at the end.
constexpr std::string_view take_word(std::string_view& text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == ',')) text.remove_prefix(1);
    std::size_t size = 0;
    while (size < text.size() && text[size] != ' ' && text[size] != ',') ++size;
    const std::string_view word = text.substr(0, size);
    text.remove_prefix(size);
    return word;
}
constexpr int count_words(std::string_view text) {
    int count = 0;
    while (!take_word(text).empty()) ++count;
    return count;
}
constexpr bool is_size_word(std::string_view word) {
    if (word == ":") return true;
    const bool number = word[0] >= '0' && word[0] <= '9';
    if (number && word.size() > 18) return false;
    for (char c : word)
        if (!is_name_char(c) || (number && (c < '0' || c > '9'))) return false;
    return true;
}
constexpr bool are_size_words(std::string_view text) {
    for (std::string_view word = take_word(text); !word.empty(); word = take_word(text))
        if (!is_size_word(word)) return false;
    return true;
}
constexpr SizeSpec read_size(std::string_view word) {
    if (word == ":") return {};
    if (word[0] < '0' || word[0] > '9') return {dyn, word};
    std::int64_t size = 0;
    for (char c : word) size = 10 * size + (c - '0');
    return {size, {}};
}

}  // namespace detail

/// Sizes in words, one per dimension: a number, a name that stands for one size wherever the call writes it, or ":" for any.
/// `sizes<"h w 3">`; between arguments `sizes<"n d">` and `sizes<"m d">` share d.
template <detail::Literal text>
struct sizes {
    static_assert(detail::are_size_words(text.view()), "isthmus: sizes are names, numbers and ':' between spaces");
    static constexpr int count = detail::count_words(text.view());

    struct Specs {
        detail::SizeSpec of[static_cast<std::size_t>(count) + 1]{};
        constexpr Specs() {
            std::string_view rest = text.view();
            for (int i = 0; i < count; ++i) of[i] = detail::read_size(detail::take_word(rest));
        }
    };
    static constexpr Specs specs{};
    static constexpr void apply(detail::Requirement& r) { r.ask_sizes(specs.of, count); }
};

ISTHMUS_END
