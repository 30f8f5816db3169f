// Requirement: what a view type asks of a tensor, as plain values, with one check and one explanation for all types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/device.h>
#include <isthmus/core/layout.h>
#include <isthmus/core/result.h>

ISTHMUS_BEGIN

class Tensor;

/// A size that is not fixed: `extents<dyn, dyn, 3>`.
inline constexpr std::int64_t dyn = -1;
/// The rank of a view that takes any number of dimensions.
inline constexpr int dynamic_rank = -1;

namespace detail {

/// The requirement for one dimension: a size, a name that stands for one size wherever it is written and how many more
/// there are here than it stands for, or nothing. A formula is the name of a further SizeSpec, which stands `more`
/// places behind this one. A run of dimensions ("b...") has the `more` a_run.
struct SizeSpec {
    std::int64_t size = dyn;
    TextRef name{};
    std::int64_t more = 0;
};
inline constexpr std::int64_t a_run = INT64_MIN;
constexpr bool is_run(const SizeSpec& spec) { return spec.more == a_run; }
/// The formula of a size that an operator computes from others ("c/(h*w)"); empty for any other size.
constexpr std::string_view formula_of(const SizeSpec& spec) {
    if (spec.size != dyn || !spec.name.empty() || spec.more == 0) return {};
    return (&spec)[spec.more].name;
}

/// Whether a formula says the most that a size will be: "<=n".
constexpr bool is_bound(std::string_view formula) {
    return formula.size() > 2 && formula[0] == '<' && formula[1] == '=';
}

enum class Order : std::uint8_t { any, c, f, inner };

/// The required memory: any that the host may access, any at all, or that of one DLPack device type.
inline constexpr int host_memory = -1;
inline constexpr int any_memory = 0;

/// What a conversion takes if the argument does not fit: tensors, also lists and other objects, or tensors that differ
/// in the order of their elements alone.
enum class Converts : std::uint8_t { nothing, tensors, objects, orders };
/// What a signature says of it, behind the view's words.
constexpr std::string_view conversion_words(Converts converts) {
    return converts == Converts::nothing  ? ""
           : converts == Converts::orders ? ", row-major or copied"
                                          : ", converted where it differs";
}

/// Everything that a view type asks of a tensor, as plain values: one checker and one explainer serve all view types.
struct Requirement {
    bool (*accepts)(DType) noexcept = nullptr;  ///< a set of dtypes; NULL: `dtype` and no other
    DType dtype{};
    bool writable = false;
    bool allow_grad = false;  ///< a tensor that automatic differentiation watches will do
    bool no_grad = false;     ///< such a tensor is refused explicitly; without either constraint it is refused too
    Order order = Order::any;
    int min_rank = 0;
    int max_rank = max_ndim;
    const SizeSpec* sizes = nullptr;  ///< one per dimension, if size_count says so
    /// -1: no sizes are required. Below it: of n specs some are runs of dimensions, -1 - n. (GCC with
    /// -fsanitize=undefined compares no address at compile time.)
    int size_count = -1;
    int device_type = host_memory;
    std::size_t alignment = 1;
    TextRef words{};  ///< "uint8[h, w, 3] C-contiguous on cpu"
    /// A copy of an argument that differs in dtype, layout or alignment alone (isthmus/converted.h); NULL: it is
    /// refused.
    Result<Tensor> (*convert)(const DLTensor&, const Requirement&) = nullptr;
    /// Whether there is a conversion. (GCC with -fsanitize=undefined compares no address at compile time.)
    Converts converts = Converts::nothing;

    // A second constraint that contradicts a first one; the view type does not compile then.
    bool orders_clash = false;
    bool sizes_clash = false;
    bool ranks_clash = false;
    bool devices_clash = false;
    bool grads_clash = false;

    bool distinct = false;  ///< shares no element with another argument of the call

    constexpr bool takes(DType found) const noexcept { return accepts != nullptr ? accepts(found) : found == dtype; }

    /// Rows are contiguous in a C-contiguous view too: the stronger of the two stays.
    constexpr void ask_order(Order wanted) {
        const bool rows_of_c =
            (order == Order::c && wanted == Order::inner) || (order == Order::inner && wanted == Order::c);
        orders_clash = orders_clash || (order != Order::any && order != wanted && !rows_of_c);
        order = rows_of_c ? Order::c : wanted;
    }
    constexpr void ask_sizes(const SizeSpec* wanted, int count) {
        sizes_clash = sizes_clash || size_count >= 0;
        sizes = wanted;
        size_count = count;
    }
    /// Sizes among which are runs of dimensions, and `fixed` of other kinds.
    constexpr void ask_runs(const SizeSpec* wanted, int count, int fixed) {
        ask_sizes(wanted, -1 - count);
        ask_ranks(fixed, max_ndim);
    }
    constexpr void ask_ranks(int least, int most) {
        ranks_clash = ranks_clash || least > max_rank || most < min_rank;
        if (least > min_rank) min_rank = least;
        if (most < max_rank) max_rank = most;
    }
    constexpr void ask_grad(bool allowed) {
        allow_grad = allow_grad || allowed;
        no_grad = no_grad || !allowed;
        grads_clash = allow_grad && no_grad;
    }
    constexpr void ask_device(int wanted) {
        devices_clash = devices_clash || (device_type != host_memory && device_type != wanted);
        device_type = wanted;
    }
};

/// Whether some sizes are runs of dimensions.
constexpr bool has_runs(const Requirement& r) { return r.size_count < -1; }
/// How many specs of sizes there are, each of a dimension or of a run.
constexpr int spec_count(const Requirement& r) {
    return r.size_count >= 0 ? r.size_count : has_runs(r) ? -1 - r.size_count : 0;
}

constexpr bool is_host_type(int type) noexcept {
    return type == host_memory || (type != any_memory && Device(type, 0).is_host());
}

/// Text put together by the compiler: a view type's words are a constant of the program. Without a place to write to it
/// counts.
struct Words {
    char* out = nullptr;
    bool counting = true;  // GCC with -fsanitize=undefined cannot compare addresses at compile time
    std::size_t size = 0;

    constexpr void add(char c) {
        if (!counting) out[size] = c;
        ++size;
    }
    constexpr void add(std::string_view more) {
        for (char c : more) add(c);
    }
    constexpr void add(std::int64_t number) {
        char digits[20]{};
        int count = 0;
        do digits[count++] = static_cast<char>('0' + number % 10);
        while ((number /= 10) != 0);
        while (count > 0) add(digits[--count]);
    }
    constexpr void add(DType dtype) {
        if (dtype.code >= dtype_code_count) return add("unknown");
        const auto& row = dtype_codes[dtype.code];
        add(row.name);
        if (row.fixed_bits == 0 && !(dtype.code == kDLBool && dtype.bits() == 8)) add(std::int64_t{dtype.bits()});
        if (dtype.lanes() == 1) return;
        add('x');
        add(std::int64_t{dtype.lanes()});
    }
};

using Spell = void (*)(Words&);
constexpr std::size_t length_of(Spell spell) {
    Words words;
    spell(words);
    return words.size;
}
/// The text that `spell` writes, in as many bytes as it has.
template <Spell spell>
struct ConstexprString {
    static constexpr std::size_t size = length_of(spell);
    char text[size + 1]{};
    constexpr ConstexprString() {
        Words words{text, false};
        spell(words);
    }
    constexpr std::string_view view() const { return {text, size}; }
};

/// "n", "n+1", "n-1", "b...".
constexpr void add_size_name(Words& words, const SizeSpec& spec) {
    words.add(spec.name);
    if (is_run(spec)) return words.add("...");
    if (spec.more == 0) return;
    words.add(spec.more > 0 ? '+' : '-');
    words.add(spec.more > 0 ? spec.more : -spec.more);
}

/// Adds all that follows the dtype: "[h, w, 3] C-contiguous on cpu".
constexpr void add_shape_words(Words& words, const Requirement& r) {
    words.add('[');
    if (r.min_rank == r.max_rank || has_runs(r)) {
        for (int i = 0; i < (has_runs(r) ? spec_count(r) : r.min_rank); ++i) {
            if (i != 0) words.add(", ");
            if (r.size_count >= 0 && !formula_of(r.sizes[i]).empty())
                words.add(formula_of(r.sizes[i]));
            else if (r.size_count == -1 || (r.sizes[i].size == dyn && r.sizes[i].name.empty()))
                words.add(':');
            else if (r.sizes[i].name.empty())
                words.add(r.sizes[i].size);
            else
                add_size_name(words, r.sizes[i]);
        }
    } else if (r.min_rank == 0 && r.max_rank == max_ndim) {
        words.add("...");
    } else {
        words.add(std::int64_t{r.min_rank});
        words.add(r.max_rank == max_ndim ? std::string_view(" or more dimensions") : std::string_view(" to "));
        if (r.max_rank != max_ndim) {
            words.add(std::int64_t{r.max_rank});
            words.add(" dimensions");
        }
    }
    words.add(']');
    if (r.order == Order::c && r.converts != Converts::orders) words.add(" C-contiguous");
    if (r.order == Order::f) words.add(" F-contiguous");
    if (r.order == Order::inner) words.add(" with contiguous rows");
    if (r.alignment > 16) {
        words.add(" aligned to ");
        words.add(static_cast<std::int64_t>(r.alignment));
        words.add(" bytes");
    }
    if (r.distinct) words.add(" distinct");
    words.add(" on ");
    if (r.device_type == any_memory) {
        words.add("any device");
    } else {
        const std::string_view device = device_type_name(r.device_type == host_memory ? kDLCPU : r.device_type);
        words.add(device.empty() ? std::string_view("an unknown device") : device);
    }
}

constexpr bool has_formula(const Requirement& r) {
    for (int i = 0; i < r.size_count; ++i)
        if (!formula_of(r.sizes[i]).empty()) return true;
    return false;
}
/// Whether only an operator can compare the sizes: by formulas and runs.
constexpr bool is_for_operators(const Requirement& r) { return has_formula(r) || has_runs(r); }

/// The values of the named sizes of one call so far.
struct SizeNames {
    struct Entry {
        TextRef name;
        std::int64_t size;
        const char* argument;
        int dimension;
    };
    static constexpr int most = 2 * max_ndim;

    // In a union, so that making one for a call does not write 128 empty names.
    union {
        Entry entries[most];
    };
    int count = 0;

    SizeNames() noexcept {}
    /// The entry that contradicts this size, or NULL. A name seen for the first time is added; if the table is full,
    /// the last entry stands for the contradiction.
    const Entry* contradiction(TextRef name, std::int64_t size, const char* argument, int dimension) noexcept {
        for (int i = 0; i < count; ++i)
            if (entries[i].name == name) return entries[i].size == size ? nullptr : &entries[i];
        if (count == most) return &entries[most - 1];
        entries[count++] = Entry{name, size, argument, dimension};
        return nullptr;
    }
    /// -1 for a name not seen yet.
    std::int64_t size_of(std::string_view name) const noexcept {
        for (int i = 0; i < count; ++i)
            if (entries[i].name == name) return entries[i].size;
        return -1;
    }
};

inline bool has_order(const DLTensor& t, Order order) noexcept {
    switch (order) {
        case Order::c:
            return layout::is_contiguous(t.shape, t.strides, t.ndim);
        case Order::f:
            return layout::is_f_contiguous(t.shape, t.strides, t.ndim);
        case Order::inner:
            if (t.ndim == 0 || t.shape[t.ndim - 1] <= 1 || t.strides[t.ndim - 1] == 1) return true;
            for (int i = 0; i < t.ndim; ++i)
                if (t.shape[i] == 0) return true;
            return false;
        default:
            return true;
    }
}

/// Whether the sizes are the expected ones; `names` is only needed if two names may have to agree.
inline bool has_sizes(const DLTensor& t, const SizeSpec* wanted, SizeNames& names, const char* argument) noexcept {
    for (int i = 0; i < t.ndim; ++i) {
        if (wanted[i].size != dyn && wanted[i].size != t.shape[i]) return false;
        if (wanted[i].name.empty()) continue;
        const std::int64_t named = t.shape[i] - wanted[i].more;
        if (named < 0 || names.contradiction(wanted[i].name, named, argument, i) != nullptr) return false;
    }
    return true;
}

/// Every check but the sizes. Inlined if `r` is a constant, so that absent requirements cost nothing.
ISTHMUS_ALWAYS_INLINE bool meets(const DLTensor& t, Flags flags, const Requirement& r) noexcept {
    const DType dtype = t.dtype;
    if (!r.takes(dtype)) return false;
    if (r.min_rank == r.max_rank ? t.ndim != r.min_rank : (t.ndim < r.min_rank || t.ndim > r.max_rank)) return false;
    if (r.device_type == host_memory ? !Device(t.device).is_host()
                                     : (r.device_type != any_memory && t.device.device_type != r.device_type))
        return false;
    if (r.writable && (flags & flag::read_only)) return false;
    const bool may_overlap = r.order == Order::any || r.order == Order::inner;
    if (r.writable && may_overlap && layout::overlaps(t)) return false;
    if (r.alignment > 1 && reinterpret_cast<std::uintptr_t>(t.data) % r.alignment != 0 && layout::numel(t) != 0)
        return false;
    if ((r.accepts != nullptr || r.dtype.is_subbyte()) && dtype.is_subbyte() && !(flags & flag::padded)) return false;
    return r.order == Order::any || has_order(t, r.order);
}

/// "uint8[480, 640, 3] on cpu": a tensor in the words of an error.
std::string describe_tensor(const DLTensor& t);
/// The same as a piece of a message; `t` must live as long.
Piece described(const DLTensor& t) noexcept;
/// Why memory that may be read may not be written; as a piece of a message, too.
std::string overlap_text(const DLTensor& t);
Piece overlap_of(const DLTensor& t) noexcept;
/// The check that fails, in words: the expected and the found description, and which part of it differs.
Error explain_mismatch(const DLTensor& t, Flags flags, const Requirement& r, SizeNames& names, const char* argument);

}  // namespace detail

ISTHMUS_END
