// The copy of an argument that a converted view takes: its elements, one kind of number at a time.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/converted.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include <isthmus/core/copy.h>
#include <isthmus/small_floats.h>

#include "memory.h"
#include "numbers.h"
#include "strided_copy.h"
#include "walk_rows.h"

ISTHMUS_BEGIN

namespace detail {

/// Whether a number became the one that stands for it: rounded, not another.
template <class To, class From>
bool is_rounded(From from, To to) noexcept {
    if constexpr (std::is_integral_v<From>) return std::isfinite(static_cast<double>(to));
    const auto made = static_cast<double>(to);
    return std::isnan(from) ? std::isnan(made) : std::isinf(from) ? std::isinf(made) : std::isfinite(made);
}
template <class To, class From>
bool convert_number(From from, To& to) noexcept {
    if constexpr (std::is_integral_v<To>) {
        to = static_cast<To>(from);
        return std::in_range<To>(from);
    } else {
        to = To(from);
        return is_rounded(from, to);
    }
}

template <class T>
struct NumberOf {
    using Part = T;
    static constexpr NumberKind kind = !std::is_integral_v<T> ? NumberKind::real
                                       : std::is_signed_v<T>  ? NumberKind::signed_integer
                                                              : NumberKind::unsigned_integer;
    static constexpr int parts = 1;
};
/// A boolean is a small integer: any byte but 0 is true.
template <>
struct NumberOf<ByteBool> {
    using Part = ByteBool;
    static constexpr NumberKind kind = NumberKind::unsigned_integer;
    static constexpr int parts = 1;
};
template <class R>
struct NumberOf<std::complex<R>> {
    using Part = R;
    static constexpr NumberKind kind = NumberKind::complex;
    static constexpr int parts = 2;
};

template <NumberKind kind>
auto* wide_numbers(WideBlock& block) noexcept {
    if constexpr (kind == NumberKind::unsigned_integer)
        return block.unsigned_integers;
    else if constexpr (kind == NumberKind::signed_integer)
        return block.signed_integers;
    else if constexpr (kind == NumberKind::real)
        return block.reals;
    else
        return block.complexes;
}

/// `count` elements that are `step` bytes apart.
template <class T>
void read_numbers(const char* from, std::int64_t step, std::int64_t count, WideBlock& block) noexcept {
    using N = NumberOf<T>;
    auto* wide = wide_numbers<N::kind>(block);
    using Wide = std::remove_pointer_t<decltype(wide)>;
    for (std::int64_t i = 0; i < count; ++i) {
        typename N::Part parts[N::parts];
        std::memcpy(parts, from + i * step, sizeof(parts));
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 is a number here
        for (int p = 0; p < N::parts; ++p) wide[N::parts * i + p] = static_cast<Wide>(parts[p]);
    }
}
/// The first of `count` elements that has no counterpart, or -1.
template <class T, NumberKind kind>
std::int64_t write_numbers(WideBlock& block, std::int64_t count, char* to) noexcept {
    using N = NumberOf<T>;
    constexpr int given = kind == NumberKind::complex ? 2 : 1;
    const auto* wide = wide_numbers<kind>(block);
    std::int64_t refused = -1;
    for (std::int64_t i = count - 1; i >= 0; --i) {
        typename N::Part parts[N::parts]{};
        bool fits = true;
        for (int p = 0; p < given; ++p) fits &= convert_number(wide[given * i + p], parts[p]);
        std::memcpy(to + i * static_cast<std::int64_t>(sizeof(parts)), parts, sizeof(parts));
        if (!fits) refused = i;
    }
    return refused;
}

template <class T, NumberKind from>
constexpr WriteNumbers writer_of() {
    if constexpr (std::is_same_v<T, ByteBool> || from > NumberOf<T>::kind)
        return nullptr;
    else
        return write_numbers<T, from>;
}
template <class T>
constexpr NumberType number_type() {
    return {dtype_of<T>(),
            NumberOf<T>::kind,
            read_numbers<T>,
            {writer_of<T, NumberKind::unsigned_integer>(), writer_of<T, NumberKind::signed_integer>(),
             writer_of<T, NumberKind::real>(), writer_of<T, NumberKind::complex>()}};
}
inline constexpr NumberType number_types[] = {
    number_type<ByteBool>(),
    number_type<std::uint8_t>(),
    number_type<std::uint16_t>(),
    number_type<std::uint32_t>(),
    number_type<std::uint64_t>(),
    number_type<std::int8_t>(),
    number_type<std::int16_t>(),
    number_type<std::int32_t>(),
    number_type<std::int64_t>(),
    number_type<float8_e3m4_t>(),
    number_type<float8_e4m3_t>(),
    number_type<float8_e4m3b11fnuz_t>(),
    number_type<float8_e4m3fn_t>(),
    number_type<float8_e4m3fnuz_t>(),
    number_type<float8_e5m2_t>(),
    number_type<float8_e5m2fnuz_t>(),
    number_type<float16_t>(),
    number_type<bfloat16_t>(),
    number_type<float>(),
    number_type<double>(),
    number_type<std::complex<float>>(),
    number_type<std::complex<double>>(),
};
const NumberType* find_number_type(DType dtype) noexcept {
    for (const NumberType& type : number_types)
        if (type.dtype == dtype) return &type;
    return nullptr;
}

/// Whether the upper half of an integer is not what the lower half, as a To, extends to: not 0 then. Of words of one
/// size, so that every processor has vectors for it.
template <class To, class From>
ISTHMUS_ALWAYS_INLINE auto upper_half_lost(From x) noexcept {
    using Half = std::make_unsigned_t<To>;
    constexpr int bits = 8 * sizeof(To);
    const auto whole = static_cast<std::make_unsigned_t<From>>(x);
    const auto low = static_cast<Half>(whole), high = static_cast<Half>(whole >> bits);
    if constexpr (std::is_signed_v<To> && std::is_signed_v<From>)
        return static_cast<Half>(high ^ static_cast<Half>(static_cast<To>(low) >> (bits - 1)));
    else if constexpr (std::is_signed_v<To>)
        return static_cast<Half>(high | static_cast<Half>(low >> (bits - 1)));
    else
        return high;
}
/// Converts one element; not 0 if it has no counterpart, or may have none (NaN). Without a branch, so that the compiler
/// uses vectors.
template <class To, class From>
ISTHMUS_ALWAYS_INLINE auto convert_directly(const char* from, char* to) noexcept {
    From x;
    std::memcpy(&x, from, sizeof x);
    const To y = static_cast<To>(x);  // NOLINT(bugprone-signed-char-misuse): numbers of 8 bits, not characters
    std::memcpy(to, &y, sizeof y);
    if constexpr (std::is_integral_v<To> && std::is_integral_v<From> && sizeof(From) == 2 * sizeof(To)) {
        return upper_half_lost<To>(x);
    } else if constexpr (std::is_integral_v<To> && !std::is_same_v<From, ByteBool>) {
        const bool may_be_negative = std::is_signed_v<To> && !std::is_signed_v<From>;
        // As wide as the wider of the two, so that it stays in the same vectors.
        using Wider = std::make_unsigned_t<std::conditional_t<(sizeof(From) > sizeof(To)), From, To>>;
        return static_cast<Wider>((static_cast<From>(y) != x) | (may_be_negative & (y < 0)));
    } else if constexpr (sizeof(To) < sizeof(From) && !std::is_integral_v<From>) {
        static_assert(sizeof(To) == sizeof(std::uint32_t));
        std::uint32_t bits;
        std::memcpy(&bits, &y, sizeof bits);
        return static_cast<std::uint32_t>((bits & 0x7FFFFFFFU) >= 0x7F800000U);  // infinite or NaN
    } else {
        return std::uint8_t{0};
    }
}
using ConvertDirectly = bool (*)(const char*, std::int64_t, char*) noexcept;
/// Converts compact elements. False if one may have no counterpart.
template <class To, class From>
bool convert_block_directly(const char* ISTHMUS_RESTRICT from, std::int64_t count, char* ISTHMUS_RESTRICT to) noexcept {
    constexpr std::int64_t at_once = 32;
    constexpr std::int64_t f = sizeof(From), t = sizeof(To);
    using Refused = decltype(convert_directly<To, From>(from, to));
    Refused refused = 0;
    std::int64_t i = 0;
    for (; i + at_once <= count; i += at_once) {
        const char* ISTHMUS_RESTRICT first = from + i * f;
        char* ISTHMUS_RESTRICT out = to + i * t;
        for (std::int64_t j = 0; j < at_once; ++j)
            refused = static_cast<Refused>(refused | convert_directly<To, From>(first + j * f, out + j * t));
    }
    for (; i < count; ++i)
        refused = static_cast<Refused>(refused | convert_directly<To, From>(from + i * f, to + i * t));
    return refused == 0;
}
template <class... T>
struct DirectTypes {
    /// The place of a dtype, or -1.
    static int place(DType dtype) noexcept {
        constexpr DType all[] = {dtype_of<T>()...};
        for (int i = 0; i < static_cast<int>(sizeof...(T)); ++i)
            if (all[i] == dtype) return i;
        return -1;
    }
    template <class To, class From>
    static constexpr ConvertDirectly one() {
        if constexpr (std::is_same_v<To, ByteBool> || std::is_same_v<To, From> ||
                      NumberOf<From>::kind > NumberOf<To>::kind)
            return nullptr;
        else
            return convert_block_directly<To, From>;
    }
    template <class From>
    static ConvertDirectly from(int to) noexcept {
        static constexpr ConvertDirectly all[] = {one<T, From>()...};
        return all[to];
    }
    static ConvertDirectly find(DType from_dtype, DType to_dtype) noexcept {
        static constexpr ConvertDirectly (*all[])(int) noexcept = {from<T>...};
        const int a = place(from_dtype), b = place(to_dtype);
        return a >= 0 && b >= 0 ? all[a](b) : nullptr;
    }
};
using Direct = DirectTypes<ByteBool, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t,
                           std::int16_t, std::int32_t, std::int64_t, float, double>;

std::int64_t convert_elements(const DLTensor& t, const NumberType& from, const NumberType& wanted, WriteNumbers write,
                              char* to) noexcept {
    WideBlock block;
    std::int64_t done = 0, refused = -1;
    const std::int64_t bytes = from.dtype.itemsize();
    const auto itemsize = static_cast<std::size_t>(wanted.dtype.itemsize());
    const ConvertDirectly directly = Direct::find(from.dtype, wanted.dtype);
    alignas(64) char compact[conversion_block * sizeof(double)];
    walk_rows(t, [&](const char* row, std::int64_t step, std::int64_t count) {
        for (std::int64_t begin = 0; begin < count && refused < 0; begin += conversion_block) {
            const std::int64_t now = count - begin < conversion_block ? count - begin : conversion_block;
            const char* first = row + begin * step * bytes;
            char* out = to + static_cast<std::size_t>(done) * itemsize;
            if (directly != nullptr) {
                if (step != 1) move_elements({first, step * bytes, compact, bytes, now}, log2_of(bytes));
                if (ISTHMUS_LIKELY(directly(step != 1 ? compact : first, now, out))) {
                    done += now;
                    continue;
                }
            }
            from.read(first, step * bytes, now, block);
            const std::int64_t found = write(block, now, out);
            if (found >= 0) refused = done + found;
            done += now;
        }
    });
    return refused;
}

static ISTHMUS_COLD Error refuse_conversion(const DLTensor& t, const Requirement& r, Message why,
                                            ErrorCode code = ErrorCode::bad_dtype) {
    return make_error(code, ErrorKind::value, {"expected ", r.words, ", got ", describe_tensor(t), ": ", why});
}
/// `place` counts in row-major order, or in column-major order.
static ISTHMUS_COLD Error refuse_element(const DLTensor& t, const Requirement& r, DType wanted, std::int64_t place) {
    std::int64_t index[max_ndim];
    for (int i = t.ndim - 1; i >= 0; --i) {
        const int d = r.order == Order::f ? t.ndim - 1 - i : i;
        index[d] = place % t.shape[d];
        place /= t.shape[d];
    }
    return refuse_conversion(t, r,
                             {"the element at ", sizes_text(index, t.ndim), " is beyond what ", wanted, " holds"});
}

/// Under its own name in isthmus.live(), for memory behind its block (which releases nothing) and apart from it.
template <void (*release)(void*)>
inline constexpr OwnerOps converted_ops{.release = release, .producer = "a converted argument", .owns_memory = true};

Tensor new_converted(DLTensor& made, std::size_t alignment) {
    alignment = alignment > 64 ? alignment : 64;
    const DType dtype = made.dtype;
    const std::int64_t bytes =
        bytes_of_new(made.shape, made.ndim, dtype.is_subbyte() ? uint8 : dtype, static_cast<std::int64_t>(alignment));
    Block* block = new_elements(made, flag::copied | (dtype.is_subbyte() ? flag::padded : 0), bytes, alignment);
    const bool apart = block->ops->release != nullptr;
    block->ops = apart ? &converted_ops<release_new_memory> : &converted_ops<nullptr>;
    return Tensor::steal(announce(block));
}

/// Row-major, or column-major: the sizes of new memory with the steps that it has, and a source seen in the order in
/// which that memory lies.
struct ConvertedLayout {
    std::int64_t strides[max_ndim];                                 ///< of the new memory
    std::int64_t source_shape[max_ndim], source_strides[max_ndim];  ///< of the source, in the order of the new memory
    DLTensor source;

    ConvertedLayout(const DLTensor& t, bool columns) noexcept : source(t) {
        std::int64_t step = 1;
        for (int i = t.ndim - 1; i >= 0; --i) {
            const int d = columns ? t.ndim - 1 - i : i;
            strides[d] = step;
            step *= t.shape[d] > 0 ? t.shape[d] : 1;
            source_shape[i] = t.shape[d];
            source_strides[i] = t.strides[d];
        }
        source.shape = source_shape;
        source.strides = source_strides;
    }
    /// The source with the dimensions that lie as one taken together, for longer rows.
    const DLTensor& merge() noexcept {
        if (layout::numel(source) == 0) return source;
        int n = 0;
        for (int d = 0; d < source.ndim; ++d) {
            const std::int64_t size = source_shape[d], step = source_strides[d];
            if (size == 1) continue;  // its stride may be anything
            if (n > 0 && source_strides[n - 1] == step * size)
                source_shape[n - 1] *= size;
            else
                source_shape[n++] = size;
            source_strides[n - 1] = step;
        }
        source.ndim = n;
        return source;
    }
};

Result<Tensor> convert_tensor(const DLTensor& t, const Requirement& r) {
    const DType wanted = r.accepts != nullptr ? DType(t.dtype) : r.dtype;
    const bool same = wanted == DType(t.dtype);
    if (!r.takes(wanted)) return refuse_conversion(t, r, "dtype differs");
    if (!Device(t.device).is_host())
        return refuse_conversion(t, r, "only its framework can convert that; expected host memory",
                                 ErrorCode::bad_device);
    const NumberType *from = find_number_type(t.dtype), *to = find_number_type(wanted);
    const WriteNumbers write = from != nullptr && to != nullptr ? to->write[static_cast<int>(from->kind)] : nullptr;
    if (!same && write == nullptr)
        return refuse_conversion(t, r, {DType(t.dtype), " does not become ", wanted, " (numpy.can_cast, 'same_kind')"});
    try {
        ConvertedLayout layout(t, r.order == Order::f);
        DLTensor made{nullptr, Device::cpu(), t.ndim, wanted, t.shape, const_cast<std::int64_t*>(layout.strides), 0};
        Tensor converted = new_converted(made, r.alignment);
        auto* data = static_cast<char*>(made.data);
        std::int64_t refused = -1;
        if (same)
            copy_elements(layout.source, data);
        else
            refused = convert_elements(layout.merge(), *from, *to, write, data);
        if (refused >= 0) return refuse_element(t, r, wanted, refused);
        return converted;
    } catch (Error& error) {
        return std::move(error);
    }
}

}  // namespace detail

ISTHMUS_END
