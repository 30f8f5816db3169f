// The library's types in a signature: what type checkers accept, and the constraints in words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// The dtypes of a view as a checker knows them: "[numpy.float32]", "[numpy.integer]", "[numpy.int8 | numpy.uint8]";
/// nothing if any will do, or one that has no class.
class DTypeClasses {
public:
    constexpr DTypeClasses(Words& words, const Requirement& r) : words_(words), r_(r) {}

    constexpr void spell() {
        if (r_.accepts == nullptr) return list();
        const int floats = of(kDLFloat), integers = of(kDLInt) + of(kDLUInt), complex = of(kDLComplex);
        const int others = r_.takes({kDLBool, 8}) + r_.takes({kDLOpaqueHandle, 64});
        if (others + (floats > 0) + (integers > 0) + (complex > 0) != 1) return list();
        if (floats == widths) return words_.add("[numpy.floating]");
        if (integers == 2 * widths) return words_.add("[numpy.integer]");
        if (complex == widths) return words_.add("[numpy.complexfloating]");
        list();
    }

private:
    /// How many widths of a kind: all, if the set names the kind.
    static constexpr int widths = 5;
    constexpr int of(int code) const {
        int count = 0;
        for (int bits = 8; bits < 8 << widths; bits *= 2) count += r_.takes({code, bits});
        return count;
    }
    constexpr void list() {
        if (r_.takes({kDLOpaqueHandle, 64})) return;
        each(kDLBool, {8}, "numpy.bool_");
        each(kDLInt, {8, 16, 32, 64}, "numpy.int");
        each(kDLUInt, {8, 16, 32, 64}, "numpy.uint");
        each(kDLFloat, {16, 32, 64}, "numpy.float");
        each(kDLComplex, {64, 128}, "numpy.complex");
        for (int code = kDLBfloat; code < dtype_code_count; ++code)
            if (const int bits = code == kDLBfloat ? 16 : dtype_codes[code].fixed_bits; r_.takes({code, bits})) {
                next();
                words_.add("isthmus.typing.");
                words_.add(DType(code, bits));
            }
        if (any_) words_.add(']');
    }
    constexpr void each(int code, std::initializer_list<int> sizes, std::string_view name) {
        for (const int bits : sizes) {
            if (!r_.takes({code, bits})) continue;
            next();
            words_.add(name);
            if (code != kDLBool) words_.add(std::int64_t{bits});
        }
    }
    constexpr void next() {
        words_.add(std::string_view(any_ ? " | " : "["));
        any_ = true;
    }

    Words& words_;
    const Requirement& r_;
    bool any_ = false;
};

/// A view in a signature: a type that checkers accept, and the constraints in words.
template <class V>
struct Annotation {
    static constexpr void spell(Words& words) {
        if constexpr (is_view<V>) spell_view(words);
    }
    static constexpr void spell_view(Words& words) {
        words.add("typing.Annotated[isthmus.typing.");
        words.add(std::string_view(V::requirement.converts == Converts::objects ? "ArrayLike" : "TensorLike"));
        if (V::requirement.converts == Converts::nothing || V::requirement.converts == Converts::orders)
            DTypeClasses(words, V::requirement).spell();
        words.add(", '");
        if (V::requirement.writable) words.add("writable ");
        words.add(V::words());
        words.add(conversion_words(V::requirement.converts));
        words.add("']");
    }
    static constexpr ConstexprString<spell> text{};
};

/// A result in one framework, in a signature.
template <Framework framework>
struct ResultAnnotation {
    static constexpr void spell(Words& words) {
        const char* array = array_class(framework);
        words.add(std::string_view(array != nullptr ? array : "typing.Any"));
    }
    static constexpr ConstexprString<spell> text{};
};

}  // namespace detail

ISTHMUS_END
