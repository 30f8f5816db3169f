// The value of a size that other sizes give by a formula, "c/(h*w)".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/view/sizes.h>

ISTHMUS_BEGIN

namespace detail {

/// A formula is worth something only if every name is known, every division leaves no rest, and 64 bits hold it.
enum class FormulaState : std::uint8_t { known, unknown_name, fraction, overflow };
struct FormulaValue {
    FormulaState state = FormulaState::known;
    std::int64_t value = 0;
};

/// Reads a formula, whose form the compiler has checked. `SizeOf` gives the size of a name, or -1.
template <class SizeOf>
class FormulaReader {
public:
    FormulaReader(std::string_view text, SizeOf& size_of) noexcept : rest_(text), size_of_(size_of) {}

    FormulaValue sum() {
        FormulaValue total = product();
        while (is_next('+') || is_next('-')) {
            const char sign = take();
            total = joined(total, product(), sign);
        }
        return total;
    }

private:
    bool is_next(char c) const noexcept { return !rest_.empty() && rest_.front() == c; }
    char take() noexcept {
        const char c = rest_.front();
        rest_.remove_prefix(1);
        return c;
    }
    FormulaValue product() {
        FormulaValue total = factor();
        while (is_next('*') || is_next('/')) {
            const char sign = take();
            total = joined(total, factor(), sign);
        }
        return total;
    }
    FormulaValue factor() {
        if (is_next('(')) {
            (void)take();
            const FormulaValue inner = sum();
            (void)take();
            return inner;
        }
        const std::string_view word = rest_.substr(0, name_length(rest_));
        rest_.remove_prefix(word.size());
        if (is_number(word)) return {FormulaState::known, read_number(word)};
        const std::int64_t size = size_of_(word);
        return {size < 0 ? FormulaState::unknown_name : FormulaState::known, size};
    }
    static FormulaValue joined(const FormulaValue& a, const FormulaValue& b, char sign) noexcept {
        if (a.state != FormulaState::known) return a;
        if (b.state != FormulaState::known) return b;
        FormulaValue made;
        bool too_large = false;
        if (sign == '/') {
            if (b.value == 0 || b.value == -1 || a.value % b.value != 0) return {FormulaState::fraction, 0};
            made.value = a.value / b.value;
        } else {
            constexpr std::int64_t least = INT64_MIN;
            if (sign == '*')
                too_large = ISTHMUS_MULTIPLY_OVERFLOWS(a.value, b.value, made.value);
            else if (sign == '-' && b.value == least)
                too_large = true;
            else
                too_large = ISTHMUS_ADD_OVERFLOWS(a.value, (sign == '-' ? -b.value : b.value), made.value);
        }
        if (too_large) made.state = FormulaState::overflow;
        return made;
    }

    std::string_view rest_;
    SizeOf& size_of_;
};

/// The value of a formula; `size_of(name)` gives the size of a name, or -1 for a name that is not known.
template <class SizeOf>
FormulaValue value_of_formula(std::string_view formula, SizeOf&& size_of) {
    return FormulaReader<std::remove_reference_t<SizeOf>>(formula, size_of).sum();
}
/// Calls `look(name)` for each name of a formula, until it says false; what it said last.
template <class Look>
bool each_name(std::string_view formula, Look&& look) {
    while (!formula.empty()) {
        const std::string_view word = formula.substr(0, name_length(formula));
        if (!word.empty() && !is_number(word) && !look(word)) return false;
        formula.remove_prefix(word.empty() ? 1 : word.size());
    }
    return true;
}

}  // namespace detail

ISTHMUS_END
