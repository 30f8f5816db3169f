// copy_of: a row-major copy of host memory.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/copy.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "strided_copy.h"
#include "validate.h"

ISTHMUS_BEGIN

namespace detail {

/// Eight bytes that lie `step` bytes apart, in one store: stores are what such a loop waits for.
ISTHMUS_ALWAYS_INLINE void pack_bytes(const char* from, std::int64_t step, char* to) noexcept {
    std::uint64_t word = 0;
    ISTHMUS_UNROLLED for (unsigned i = 0; i < 8; ++i, from += step) word |=
        std::uint64_t{static_cast<unsigned char>(*from)}
        << 8 * (std::endian::native == std::endian::little ? i : 7 - i);
    std::memcpy(to, &word, sizeof word);
}
template <class Word>
ISTHMUS_ALWAYS_INLINE void move_words(const Moved& m) noexcept {
    const char* from = m.from;
    char* to = m.to;
    std::int64_t left = m.count;
    if constexpr (sizeof(Word) == 1)
        if (m.to_step == 1)
            for (; left >= 8; left -= 8, from += 8 * m.from_step, to += 8) pack_bytes(from, m.from_step, to);
    if constexpr (sizeof(Word) >= 4 && sizeof(Word) <= 8)
        for (; left >= 2; left -= 2) {
            Word two[2];
            std::memcpy(&two[0], from, sizeof(Word));
            std::memcpy(&two[1], from + m.from_step, sizeof(Word));
            std::memcpy(to, &two[0], sizeof(Word));
            std::memcpy(to + m.to_step, &two[1], sizeof(Word));
            from += 2 * m.from_step;
            to += 2 * m.to_step;
        }
    for (; left > 0; --left, from += m.from_step, to += m.to_step) std::memcpy(to, from, sizeof(Word));
}

void move_elements(const Moved& m, int log2_width) noexcept {
    struct Two {
        std::uint64_t words[2];
    };
    switch (log2_width) {
        case 0:
            return move_words<std::uint8_t>(m);
        case 1:
            return move_words<std::uint16_t>(m);
        case 2:
            return move_words<std::uint32_t>(m);
        case 3:
            return move_words<std::uint64_t>(m);
        default:
            return move_words<Two>(m);
    }
}

/// A dimension of a copy, with the steps of both sides in bytes.
struct CopiedDim {
    std::int64_t size, from, to;
};

/// Two dimensions, of which `b` is the longer one, or that of a row. Where the lines of the cache that one of them
/// begins are gone on with by the next, it comes in blocks that leave them there.
static void copy_plane(const char* from, char* to, CopiedDim a, CopiedDim b, std::int64_t width) noexcept {
    const std::int64_t block = a.from == width || a.to == width ? 128 : b.size;
    const bool has_loop = width <= 16 && (width & (width - 1)) == 0;
    for (; b.size > 0; b.size -= block, from += block * b.from, to += block * b.to)
        for (std::int64_t i = 0; i < a.size; ++i) {
            Moved m{from + i * a.from, b.from, to + i * a.to, b.to, (std::min)(block, b.size)};
            if (has_loop) {
                move_elements(m, log2_of(width));
                continue;
            }
            for (; m.count > 0; --m.count, m.from += m.from_step, m.to += m.to_step)
                std::memcpy(m.to, m.from, static_cast<std::size_t>(width));
        }
}

/// The loops around move_elements(), optimised for size.
ISTHMUS_RARE void copy_elements(const DLTensor& t, char* to) noexcept {
    std::int64_t width = DType(t.dtype).itemsize(), step = width;
    CopiedDim dims[max_ndim + 2];  // from the innermost on: no dimension of size 1, and those that lie as one together
    std::int64_t index[max_ndim + 2] = {};
    int n = 0;
    if (layout::numel(t) == 0) return;
    for (int d = t.ndim - 1; d >= 0; --d) {
        if (t.shape[d] == 1) continue;  // its stride may be anything
        const CopiedDim next{t.shape[d], t.strides[d] * width, step};
        step *= next.size;
        if (n > 0 && next.from == dims[n - 1].from * dims[n - 1].size)
            dims[n - 1].size *= next.size;
        else
            dims[n++] = next;
    }
    CopiedDim* inner = dims;
    // A compact row is one element: the two parts of a complex number, the four channels of a pixel, or a long row.
    const std::int64_t row = n > 0 ? inner->size * width : 0;
    if (n > 0 && inner->from == width && (n == 1 || row > 64 || (row <= 16 && (row & (row - 1)) == 0))) {
        width = row;
        ++inner;
        --n;
    }
    while (n < 2) inner[n++] = {1, 0, 0};
    // Beside it the dimension that is compact in the source, if there is one.
    for (int d = 2; d < n; ++d)
        if (inner[d].from == width) std::swap(inner[1], inner[d]);
    const bool is_short = inner->size < 16 && inner[1].size > inner->size;
    const char* from = static_cast<const char*>(t.data) + t.byte_offset;
    for (;;) {
        copy_plane(from, to, inner[!is_short], inner[is_short], width);
        int d = 2;
        // Steps only if there is a next element: the stride of a dimension of size 1 may be anything.
        for (; d < n; ++d) {
            if (++index[d] < inner[d].size) break;
            from -= inner[d].from * (inner[d].size - 1);
            to -= inner[d].to * (inner[d].size - 1);
            index[d] = 0;
        }
        if (d == n) return;
        from += inner[d].from;
        to += inner[d].to;
    }
}

}  // namespace detail

ISTHMUS_RARE Result<Tensor> copy_of(const DLTensor& t, Flags flags) {
    if (!detail::is_sound(t, flags)) {
        Error error = detail::explain_unsound(t, flags, nullptr);
        if (error.code() != ErrorCode::needs_copy) return error;  // what is merely not aligned is copied byte by byte
    }
    if (!Device(t.device).is_host())
        return detail::make_error(ErrorCode::bad_device, {"the tensor is on ", Device(t.device),
                                                          "; only its framework can copy that: expected host memory"});
    const DType dtype = t.dtype;
    const bool packed = dtype.is_subbyte() && !(flags & flag::padded);
    // A padded sub-byte element takes the bytes that itemsize() rounds up to: copied as bytes, and called what it is
    // afterwards.
    const DType stored = dtype.is_subbyte() ? DType(kDLUInt, 8, static_cast<int>(dtype.itemsize())) : dtype;
    try {
        const std::int64_t numel = layout::numel(t), nbytes = layout::nbytes(t, flags & flag::padded);
        const std::span<const std::int64_t> shape{t.shape, static_cast<std::size_t>(t.ndim)};
        Tensor copy = packed ? Tensor::empty(shape, dtype) : Tensor::empty(shape, stored);
        copy.block()->dl.dtype = dtype;
        copy.block()->flags |= flag::copied | (flags & flag::padded);
        if (numel == 0) return copy;
        const char* from = static_cast<const char*>(t.data) + t.byte_offset;
        char* to = static_cast<char*>(copy.data());
        if (packed || t.strides == nullptr || layout::is_contiguous(t.shape, t.strides, t.ndim)) {
            std::memcpy(to, from, static_cast<std::size_t>(nbytes));
            return copy;
        }
        detail::copy_elements(t, to);
        return copy;
    } catch (Error& error) {
        return std::move(error);
    }
}

ISTHMUS_END
