// Arithmetic on shapes and strides that does not overflow silently, and the flags of a descriptor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

/// The bits of DLManagedTensorVersioned::flags, and those that only Isthmus uses (above the low 32).
using Flags = std::uint64_t;
namespace flag {
inline constexpr Flags read_only = DLPACK_FLAG_BITMASK_READ_ONLY;
inline constexpr Flags copied = DLPACK_FLAG_BITMASK_IS_COPIED;
inline constexpr Flags padded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
inline constexpr Flags dlpack_known = read_only | copied | padded;
}  // namespace flag

/// Arithmetic on shapes and strides. Strides count elements; nothing here overflows silently.
namespace layout {

/// Multiplies into `product`; false when the result does not fit.
[[nodiscard]] inline bool multiply(std::int64_t& product, std::int64_t factor) noexcept {
    return !ISTHMUS_MULTIPLY_OVERFLOWS(product, factor, product);
}

/// The number of elements; false on a negative size, or when the sizes other than 0 multiply past int64.
[[nodiscard]] inline bool numel(const std::int64_t* shape, int ndim, std::int64_t& out) noexcept {
    std::int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < ndim; ++i) {
        if (shape[i] > 0) {
            if (!multiply(product, shape[i])) return false;
        } else if (shape[i] < 0) {
            return false;
        } else {
            empty = true;
        }
    }
    out = empty ? 0 : product;
    return true;
}

/// Bytes of `numel` elements: sub-byte elements are packed unless `padded` gives each one its own byte.
[[nodiscard]] inline bool nbytes(std::int64_t numel, DType dtype, bool padded, std::int64_t& out) noexcept {
    if (dtype.is_subbyte() && !padded) {
        std::int64_t bits = numel;
        if (!multiply(bits, dtype.element_bits()) || bits > INT64_MAX - 7) return false;
        out = (bits + 7) / 8;
        return true;
    }
    out = numel;
    return multiply(out, dtype.itemsize());
}

/// The number of elements, and their bytes when compact, of a descriptor that was found sound.
inline std::int64_t numel(const DLTensor& t) noexcept {
    std::int64_t n = 1;
    for (int i = 0; i < t.ndim; ++i) n *= t.shape[i];
    return n;
}
inline std::int64_t nbytes(const DLTensor& t, bool padded) noexcept {
    std::int64_t bytes = 0;
    (void)nbytes(numel(t), t.dtype, padded, bytes);
    return bytes;
}

/// Writes the strides of a compact row-major ("C") tensor; false on overflow.
[[nodiscard]] inline bool row_major(const std::int64_t* shape, int ndim, std::int64_t* strides) noexcept {
    std::int64_t step = 1;
    for (int i = ndim - 1; i >= 0; --i) {
        strides[i] = step;
        if (!multiply(step, shape[i] > 0 ? shape[i] : 1)) return false;
    }
    return true;
}

/// Row-major and compact. The stride of a dimension of size 1 is never used, and a tensor without elements always is.
[[nodiscard]] inline bool is_contiguous(const std::int64_t* shape, const std::int64_t* strides, int ndim) noexcept {
    std::int64_t step = 1;
    bool result = true;
    for (int i = ndim - 1; i >= 0; --i) {
        if (shape[i] == 0) return true;
        if (shape[i] != 1) {
            result = result && strides[i] == step;
            if (!multiply(step, shape[i])) result = false;
        }
    }
    return result;
}

/// Column-major ("Fortran") and compact.
[[nodiscard]] inline bool is_f_contiguous(const std::int64_t* shape, const std::int64_t* strides, int ndim) noexcept {
    std::int64_t step = 1;
    bool result = true;
    for (int i = 0; i < ndim; ++i) {
        if (shape[i] == 0) return true;
        if (shape[i] != 1) {
            result = result && strides[i] == step;
            if (!multiply(step, shape[i])) result = false;
        }
    }
    return result;
}

/// The step of dimension `i` in bytes, of a descriptor that was found sound. A stride that is never stepped along may
/// be any number, even one that overflows when counted in bytes; the size of an element is given for it then.
inline std::int64_t byte_stride(const DLTensor& t, int i) noexcept {
    const std::int64_t itemsize = DType(t.dtype).itemsize();
    std::int64_t step = t.strides[i];
    return multiply(step, itemsize) ? step : itemsize;
}

inline bool has_negative_stride(const DLTensor& t) noexcept {
    std::int64_t signs = 0;
    for (int i = 0; i < t.ndim; ++i) signs |= t.strides[i];
    return signs < 0;
}

/// The elements fill their memory without gaps and overlaps, in any order of dimensions and either direction. `numel`
/// must be above 0.
[[nodiscard]] bool is_dense(const std::int64_t* shape, const std::int64_t* strides, int ndim) noexcept;

/// The first and last byte offset that the elements reach from `data`, relative to it; false when they overflow.
/// `numel` must be above 0.
[[nodiscard]] inline bool extent(const std::int64_t* shape, const std::int64_t* strides, int ndim,
                                 std::int64_t itemsize, std::int64_t& first, std::int64_t& last) noexcept {
    std::int64_t low = 0, high = 0;
    for (int i = 0; i < ndim; ++i) {
        std::int64_t reach = strides[i];
        if (!multiply(reach, shape[i] - 1)) return false;
        if (reach < 0 ? ISTHMUS_ADD_OVERFLOWS(low, reach, low) : ISTHMUS_ADD_OVERFLOWS(high, reach, high)) return false;
    }
    if (!multiply(low, itemsize) || !multiply(high, itemsize)) return false;
    if (ISTHMUS_ADD_OVERFLOWS(high, itemsize - 1, high)) return false;
    first = low;
    last = high;
    return true;
}

/// Whether elements share memory. For sound sizes and strides, after the simple case of consecutive elements was ruled
/// out.
bool search_overlap(const std::int64_t* shape, const std::int64_t* strides, int ndim) noexcept;

/// Whether elements share memory, so that a write to one would show in another, as in broadcast tensors and sliding
/// windows. Sizes and strides must be sound.
[[nodiscard]] inline bool overlaps(const DLTensor& t) noexcept {
    return !is_contiguous(t.shape, t.strides, t.ndim) && search_overlap(t.shape, t.strides, t.ndim);
}

/// The addresses of a tensor with strides, from its first byte to one past its last, of a descriptor that was found
/// sound; both are 0 if it has no elements. An element of less than a byte counts as one byte.
struct AddressRange {
    std::uintptr_t begin = 0, end = 0;
};
[[nodiscard]] AddressRange addresses(const DLTensor& t) noexcept;
/// Whether the address ranges of two tensors with strides overlap.
[[nodiscard]] bool may_share(const DLTensor& a, const DLTensor& b) noexcept;
/// Whether two tensors with strides have a byte in common: exact, so that the even and the odd columns of one matrix
/// share nothing, unless the search would take too long, which is taken for yes. The descriptors are sound.
[[nodiscard]] bool share_elements(const DLTensor& a, const DLTensor& b) noexcept;

/// "(480, 640, 3)", "(7,)", "()": a shape or strides as Python writes them.
ISTHMUS_COLD std::string to_string(const std::int64_t* values, int ndim);
ISTHMUS_COLD std::string to_string(std::span<const std::int64_t> values);

}  // namespace layout

namespace detail {
/// The distance of an offset of 0 or less: right for INT64_MIN, which has no positive counterpart.
constexpr std::uint64_t magnitude(std::int64_t offset) noexcept {
    return std::uint64_t{0} - static_cast<std::uint64_t>(offset);
}

/// No system has memory in the last page of the address space: its addresses are the small negative numbers, which C
/// functions return for errors.
inline constexpr std::uintptr_t last_address = UINTPTR_MAX - 4096;

/// Whether memory from `address` on, up to `last` bytes behind it, leaves the address space.
constexpr bool reaches_end(std::uintptr_t address, std::int64_t last) noexcept {
    return address > last_address - static_cast<std::uint64_t>(last);
}

/// is_sound() of row-major elements of the host, whose number was counted without an overflow: with a dtype that the
/// compiler knows, next to nothing is left to ask.
ISTHMUS_ALWAYS_INLINE bool is_sound_row_major(const void* data, std::int64_t numel, DType dtype, bool padded) noexcept {
    std::int64_t bytes = 0;
    if (!dtype.is_valid() || ISTHMUS_UNLIKELY(!layout::nbytes(numel, dtype, padded, bytes))) return false;
    if (numel == 0) return true;
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return data != nullptr && !reaches_end(address, bytes - 1) &&
           (address & static_cast<std::uint64_t>(dtype.alignment() - 1)) == 0;
}
}  // namespace detail

ISTHMUS_END
