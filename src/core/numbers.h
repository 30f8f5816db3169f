// Numbers of every dtype: how they are converted, with each one checked, and the memory that they go to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>

ISTHMUS_BEGIN

namespace detail {

// Elements are converted in blocks: from one of C++'s own types to another at once, else by way of the widest type of
// their kind, which holds every value of the narrower ones.

/// In the order in which NumPy's "same_kind" casts go: to the same kind, or to one further down.
enum class NumberKind : std::uint8_t { unsigned_integer, signed_integer, real, complex };
inline constexpr int number_kinds = 4;
inline constexpr std::int64_t conversion_block = 256;

union WideBlock {
    std::uint64_t unsigned_integers[conversion_block];
    std::int64_t signed_integers[conversion_block];
    double reals[conversion_block];
    double complexes[2 * conversion_block];
};

/// Writes `count` numbers. The first that has no counterpart, or -1.
using WriteNumbers = std::int64_t (*)(WideBlock&, std::int64_t count, char* to) noexcept;
struct NumberType {
    DType dtype;
    NumberKind kind;
    void (*read)(const char*, std::int64_t step, std::int64_t count, WideBlock&) noexcept;
    WriteNumbers write[number_kinds];  ///< by the kind of what was read; NULL: not of the same kind
};
/// NULL for a dtype that is not converted.
const NumberType* find_number_type(DType dtype) noexcept;

/// Writes the elements of `t`, in row-major order, to `to`. The place of the first that has no counterpart, or -1.
std::int64_t convert_elements(const DLTensor& t, const NumberType& from, const NumberType& wanted, WriteNumbers write,
                              char* to) noexcept;
/// Memory for converted elements, which lie as `made` says: its address is set there. Throws Error.
Tensor new_converted(DLTensor& made, std::size_t alignment);

}  // namespace detail

ISTHMUS_END
