// extents and sizes: the sizes that a view type asks for, by number and by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/requirement.h>

ISTHMUS_BEGIN

/// Sizes by position: `extents<dyn, dyn, 3>`.
template <std::int64_t... sizes_>
struct extents {
    static_assert(((sizes_ >= dyn) && ...), "isthmus: a size is 0 or more, or dyn");
    static constexpr int count = sizeof...(sizes_);  ///< number of dimensions
    static constexpr detail::SizeSpec specs[sizeof...(sizes_) + 1] = {detail::SizeSpec{sizes_, {}, 0}..., {}};
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
/// The end of the name: at the sign of "n+1", else at the end of the word.
constexpr std::size_t name_length(std::string_view word) {
    std::size_t size = 0;
    while (size < word.size() && is_name_char(word[size])) ++size;
    return size;
}
constexpr bool is_number(std::string_view word) {
    for (char c : word)
        if (c < '0' || c > '9') return false;
    return !word.empty() && word.size() <= 18;
}
constexpr std::int64_t read_number(std::string_view word) {
    std::int64_t number = 0;
    for (char c : word) number = 10 * number + (c - '0');
    return number;
}
constexpr bool is_size_word(std::string_view word) {
    if (word == ":") return true;
    if (word[0] >= '0' && word[0] <= '9') return is_number(word);
    const std::string_view rest = word.substr(name_length(word));
    return rest.empty() ||
           (rest.size() != word.size() && (rest[0] == '+' || rest[0] == '-') && is_number(rest.substr(1)));
}
/// "b...": any number of dimensions under one name.
constexpr bool is_run_word(std::string_view word) {
    const std::size_t length = name_length(word);
    return length > 0 && !(word[0] >= '0' && word[0] <= '9') && word.substr(length) == "...";
}
constexpr int count_runs(std::string_view text) {
    int count = 0;
    for (std::string_view word = take_word(text); !word.empty(); word = take_word(text))
        count += is_run_word(word) ? 1 : 0;
    return count;
}
constexpr bool take_formula(std::string_view& text);
constexpr bool take_factor(std::string_view& text) {
    if (!text.empty() && text.front() == '(') {
        text.remove_prefix(1);
        if (!take_formula(text) || text.empty()) return false;
        text.remove_prefix(1);
        return true;
    }
    const std::string_view word = text.substr(0, name_length(text));
    text.remove_prefix(word.size());
    return !word.empty() && (word[0] < '0' || word[0] > '9' || is_number(word));
}
/// Takes names and numbers with + - * / and parentheses off the front, up to the end or a ')'.
constexpr bool take_formula(std::string_view& text) {
    while (take_factor(text)) {
        if (text.empty() || text.front() == ')') return true;
        if (std::string_view("+-*/").find(text.front()) == std::string_view::npos) return false;
        text.remove_prefix(1);
    }
    return false;
}
/// "<=n" is a formula too: the most that a size will be.
constexpr bool is_formula_word(std::string_view word) {
    if (is_size_word(word) || is_run_word(word)) return false;
    if (is_bound(word)) word.remove_prefix(2);
    return take_formula(word) && word.empty();
}
constexpr bool are_size_words(std::string_view text) {
    for (std::string_view word = take_word(text); !word.empty(); word = take_word(text))
        if (!is_size_word(word) && !is_run_word(word) && !is_formula_word(word)) return false;
    return true;
}
constexpr int count_formulas(std::string_view text) {
    int count = 0;
    for (std::string_view word = take_word(text); !word.empty(); word = take_word(text))
        count += is_formula_word(word) ? 1 : 0;
    return count;
}
constexpr SizeSpec read_size(std::string_view word) {
    if (word == ":") return {};
    if (word[0] >= '0' && word[0] <= '9') return {read_number(word), {}, 0};
    const std::size_t length = name_length(word);
    if (is_run_word(word)) return {dyn, TextRef(word.substr(0, length)), a_run};
    const std::int64_t more = length < word.size() ? read_number(word.substr(length + 1)) : 0;
    return {dyn, TextRef(word.substr(0, length)), length < word.size() && word[length] == '-' ? -more : more};
}

}  // namespace detail

/// Sizes in words, one per dimension: a number, a name that stands for one size wherever the call writes it, a name and
/// how many more or fewer ("n+1"), or ":" for any. `sizes<"h w 3">`; between arguments `sizes<"n d">` and `sizes<"m
/// d">` share d. For an operator also a formula of names and numbers, with + - * / and parentheses and without spaces,
/// whose names other arguments give: `sizes<"k c/(h*w) h w">`; and for the first size of an Out the most that it will
/// be: `sizes<"<=n 4">`; and in a view of dynamic_rank a name for any number of dimensions: `sizes<"b... e k...">`.
template <detail::Literal text>
struct sizes {
    static_assert(detail::are_size_words(text.view()),
                  "isthmus: sizes are names, numbers, names and a number (\"n+1\"), ':', runs (\"b...\") and formulas "
                  "(\"c/(h*w)\") between spaces");
    static_assert(detail::count_runs(text.view()) == 0 || detail::count_formulas(text.view()) == 0,
                  "isthmus: sizes with a run of dimensions (\"b...\") have no formulas");
    static constexpr int count = detail::count_words(text.view());  ///< number of dimensions

    /// For layers above: the words, parsed.
    struct Specs {
        detail::SizeSpec of[static_cast<std::size_t>(count + 1 + detail::count_formulas(text.view()))]{};
        constexpr Specs() {
            std::string_view rest = text.view();
            int formula = count;
            for (int i = 0; i < count; ++i) {
                const std::string_view word = detail::take_word(rest);
                if (detail::is_size_word(word) || detail::is_run_word(word)) {
                    of[i] = detail::read_size(word);
                } else {
                    of[++formula].name = detail::TextRef(word);
                    of[i].more = formula - i;
                }
            }
        }
    };
    /// For layers above: the words, parsed.
    static constexpr Specs specs{};
    static constexpr void apply(detail::Requirement& r) {
        constexpr int runs = detail::count_runs(text.view());
        if constexpr (runs > 0)
            r.ask_runs(specs.of, count, count - runs);
        else
            r.ask_sizes(specs.of, count);
    }
};

ISTHMUS_END
