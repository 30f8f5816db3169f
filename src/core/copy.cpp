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

#if defined(ISTHMUS_SHUFFLE)
/// 16 bytes of words, which every vector unit has.
template <class Word>
struct VectorOf {
    static constexpr int count = 16 / sizeof(Word);
    using Type ISTHMUS_VECTOR(16) = Word;

    static ISTHMUS_ALWAYS_INLINE Type load(const char* from) noexcept {
        Type words;
        std::memcpy(&words, from, sizeof words);
        return words;
    }
    static ISTHMUS_ALWAYS_INLINE void store(char* to, Type words) noexcept { std::memcpy(to, &words, sizeof words); }

    /// Every other word of two vectors.
    static ISTHMUS_ALWAYS_INLINE Type even(Type a, Type b) noexcept {
        return [&]<int... i>(std::integer_sequence<int, i...>) ISTHMUS_INLINE_LAMBDA {
            return ISTHMUS_SHUFFLE(a, b, (2 * i)...);
        }(std::make_integer_sequence<int, count>());
    }
    static ISTHMUS_ALWAYS_INLINE Type reversed(Type a) noexcept {
        return [&]<int... i>(std::integer_sequence<int, i...>) ISTHMUS_INLINE_LAMBDA {
            return ISTHMUS_SHUFFLE(a, a, (count - 1 - i)...);
        }(std::make_integer_sequence<int, count>());
    }
    /// Words of both in turns, from the word `first` of each on.
    template <int first>
    static ISTHMUS_ALWAYS_INLINE Type in_turns(Type a, Type b) noexcept {
        return [&]<int... i>(std::integer_sequence<int, i...>) ISTHMUS_INLINE_LAMBDA {
            return ISTHMUS_SHUFFLE(a, b, (first + i / 2 + i % 2 * count)...);
        }(std::make_integer_sequence<int, count>());
    }
};

/// Every other word, or words in the opposite order, of which a vector is moved at a time; the rest is left in `m`. Of
/// the words between them none is read behind the last element.
template <class Word>
ISTHMUS_ALWAYS_INLINE void move_vectors(Moved& m) noexcept {
    using V = VectorOf<Word>;
    constexpr std::int64_t width = sizeof(Word);
    if (m.to_step != width) return;
    if (m.from_step == 2 * width)
        for (; m.count > V::count; m.count -= V::count, m.from += 32, m.to += 16)
            V::store(m.to, V::even(V::load(m.from), V::load(m.from + 16)));
    else if (width > 1 && m.from_step == -width)  // a vector unit may have no way to reverse bytes
        for (; m.count >= V::count; m.count -= V::count, m.from -= 16, m.to += 16)
            V::store(m.to, V::reversed(V::load(m.from + width - 16)));
}

/// A square of words, a vector wide, whose rows become columns; so many rows are read, and written, of which each is
/// whole.
template <class Word>
ISTHMUS_ALWAYS_INLINE void transpose_square(const char* from, std::int64_t from_step, int read, char* to,
                                            std::int64_t to_step, int written) noexcept {
    using V = VectorOf<Word>;
    constexpr int n = V::count;
    typename V::Type rows[n], next[n];
    ISTHMUS_UNROLLED for (int i = 0; i < n; ++i) rows[i] = V::load(from + (i < read ? i : 0) * from_step);
    ISTHMUS_UNROLLED for (int stage = 1; stage < n; stage *= 2) {
        ISTHMUS_UNROLLED for (int i = 0; i < n / 2; ++i) {
            next[2 * i] = V::template in_turns<0>(rows[i], rows[i + n / 2]);
            next[2 * i + 1] = V::template in_turns<n / 2>(rows[i], rows[i + n / 2]);
        }
        ISTHMUS_UNROLLED for (int i = 0; i < n; ++i) rows[i] = next[i];
    }
    ISTHMUS_UNROLLED for (int i = 0; i < n; ++i) if (i < written) V::store(to + i * to_step, rows[i]);
}
#endif

/// Eight bytes of words that lie `step` bytes apart, in one store: stores are what such a loop waits for.
template <class Word>
ISTHMUS_ALWAYS_INLINE void pack_words(const char* from, std::int64_t step, char* to) noexcept {
    constexpr unsigned count = 8 / sizeof(Word), bits = 8 * sizeof(Word);
    std::uint64_t packed = 0;
    ISTHMUS_UNROLLED for (unsigned i = 0; i < count; ++i, from += step) {
        Word word;
        std::memcpy(&word, from, sizeof word);
        packed |= std::uint64_t{word} << bits * (std::endian::native == std::endian::little ? i : count - 1 - i);
    }
    std::memcpy(to, &packed, sizeof packed);
}
template <class Word>
ISTHMUS_ALWAYS_INLINE void move_words(Moved m) noexcept {
#if defined(ISTHMUS_SHUFFLE)
    if constexpr (sizeof(Word) <= 8) move_vectors<Word>(m);
#endif
    const char* from = m.from;
    char* to = m.to;
    std::int64_t left = m.count;
    if constexpr (constexpr std::int64_t count = 8 / sizeof(Word); count >= 4)
        if (m.to_step == sizeof(Word))
            for (; left >= count; left -= count, from += count * m.from_step, to += 8)
                pack_words<Word>(from, m.from_step, to);
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

#if defined(ISTHMUS_SHUFFLE)
/// How much of two dimensions is copied.
struct Squares {
    std::int64_t read, written;
};
/// Whole squares of two dimensions, of which `read` is compact in the source and `written` in the copy.
template <class Word>
static Squares transpose_squares(const char* from, char* to, CopiedDim read, CopiedDim written) noexcept {
    constexpr std::int64_t n = VectorOf<Word>::count, width = sizeof(Word), block = 32;
    // Three of four words, the channels of a pixel: the fourth is the next pixel's, so that the last one is left.
    const bool reads_three = n == 4 && read.size == 3 && written.from >= 3 * width;
    const bool writes_three = n == 4 && !reads_three && written.size == 3 && read.to == 3 * width;
    const Squares done{reads_three ? 3 : (read.size - writes_three) / n * n,
                       writes_three ? 3 : (written.size - reads_three) / n * n};
    const int rows_from = writes_three ? 3 : n, rows_to = reads_three ? 3 : n;
    // In blocks whose lines stay in the cache until they are full.
    for (std::int64_t first = 0; first < done.read; first += block)
        for (std::int64_t w = 0; w < done.written; w += n)
            for (std::int64_t r = first; r < (std::min)(first + block, done.read); r += n)
                transpose_square<Word>(from + r * width + w * written.from, written.from, rows_from,
                                       to + r * read.to + w * width, read.to, rows_to);
    return done.read > 0 && done.written > 0 ? done : Squares{0, 0};
}
#endif

/// Two dimensions, of which `b` is the longer one, or that of a row. Where the lines of the cache that one of them
/// begins are gone on with by the next, it comes in blocks that leave them there.
static void copy_rows(const char* from, char* to, CopiedDim a, CopiedDim b, std::int64_t width) noexcept {
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

/// Two dimensions: first the squares of words that are compact in one of them here and in the other there.
static void copy_plane(const char* from, char* to, CopiedDim a, CopiedDim b, std::int64_t width) noexcept {
#if defined(ISTHMUS_SHUFFLE)
    const bool in_order = a.from == width && b.to == width, crossed = b.from == width && a.to == width;
    if ((in_order || crossed) && (width == 1 || width == 2 || width == 4)) {
        CopiedDim &read = in_order ? a : b, &written = in_order ? b : a;
        const Squares done = width == 1   ? transpose_squares<std::uint8_t>(from, to, read, written)
                             : width == 2 ? transpose_squares<std::uint16_t>(from, to, read, written)
                                          : transpose_squares<std::uint32_t>(from, to, read, written);
        // Beside the squares as far as they reach, and behind them.
        const CopiedDim within{done.read, read.from, read.to};
        const CopiedDim beside{written.size - done.written, written.from, written.to};
        copy_rows(from + done.written * written.from, to + done.written * written.to, in_order ? within : beside,
                  in_order ? beside : within, width);
        from += done.read * read.from;
        to += done.read * read.to;
        read.size -= done.read;
    }
#endif
    copy_rows(from, to, a, b, width);
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
