// The parameters of an operator's function: Out, InOut, Stream, and the tables that the library reads of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include <isthmus/converted.h>
#include <isthmus/core/view/sizes.h>
#include <isthmus/core/view/view.h>
#include <isthmus/python/captured.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether one of the first `count` sizes is a bound.
constexpr bool has_bound(const Requirement& r, int count = 1) {
    for (int i = 0; i < count && i < r.size_count; ++i)
        if (is_bound(formula_of(r.sizes[i]))) return true;
    return false;
}
template <class V>
inline constexpr bool is_bounded = has_bound(V::requirement);
/// Where a result whose first size is a bound says how many rows it has.
template <bool has_rows>
class RowCount {};
template <>
class RowCount<true> {
public:
    /// For layers above.
    void set_rows_at(std::int64_t* rows) noexcept { rows_ = rows; }

protected:
    std::int64_t* rows_ = nullptr;
};
[[noreturn]] inline void throw_rows(std::int64_t rows, std::int64_t bound) {
    throw make_error(ErrorCode::bad_argument, ErrorKind::value,
                     {"Out::resize(): found ", rows, " rows; expected 0 to ", bound});
}

}  // namespace detail

/// A result of an operator: memory that the library makes, in the caller's framework, and that is not zeroed. A size is
/// a number or a name, which an input's sizes or an integer argument gives: Out<float, 2, sizes<"n m">>, or a formula
/// of such names: sizes<"n-1 c/(h*w)">. Without sizes it has those of the first tensor argument. Of a set of dtypes
/// (Out<one_of<float, double>, 1>) it has the dtype of the first tensor argument of that set; Out<dtype_like<"x">, 1>
/// has that of argument x. Valid for the length of the call, as a View is.
///
/// If the function finds out how many rows there are, the first size is the most that there can be, and resize() says
/// how many there were: Out<std::int64_t, 1, sizes<"<=n">>.
template <class T, int N, class... C>
class Out : public View<T, N, C...>, public detail::RowCount<detail::has_bound(View<T, N, C...>::requirement)> {
    static_assert(!std::is_const_v<T>, "isthmus: an Out is written, so its elements are not const");
    static_assert(detail::has_bound(View<T, N, C...>::requirement) ||
                      !detail::has_bound(View<T, N, C...>::requirement, N),
                  "isthmus: of the sizes of an Out the first one can be a bound (\"<=n\"), and no other");

public:
    constexpr Out() noexcept = default;
    /// Over the memory that the view shows.
    Out(const View<T, N, C...>& view) noexcept : View<T, N, C...>(view) {}

    /// The result has the first `rows` rows. Only if its first size is a bound ("<=n"): without a call it has all.
    /// Throws Error if it is not from 0 to extent(0).
    void resize(std::int64_t rows)
        requires detail::is_bounded<View<T, N, C...>>
    {
        if (rows < 0 || rows > this->extent(0)) detail::throw_rows(rows, this->extent(0));
        if (this->rows_ != nullptr) *this->rows_ = rows;
    }
};

/// A tensor argument of an operator that is written in place.
template <class T, int N, class... C>
class InOut : public View<T, N, C...> {
    static_assert(!std::is_const_v<T>, "isthmus: an InOut is written, so its elements are not const");

public:
    constexpr InOut() noexcept = default;
    /// Over the memory that the view shows.
    InOut(const View<T, N, C...>& view) noexcept : View<T, N, C...>(view) {}
};

/// The last parameter of a device function: the queue of a GPU that it puts its work on. The memory of its tensors is
/// ready there when the function is called, and whoever uses its results waits for what it put there; it does not wait
/// itself. The device is the current one of the thread. Valid for the length of the call.
class Stream {
public:
    /// The stream `number` of a device.
    constexpr Stream(Device device, std::int64_t number) noexcept : device_(device), number_(number) {}

    /// The device that the stream belongs to.
    constexpr Device device() const noexcept { return device_; }
    /// By the numbers of the array API standard's `__dlpack__(stream=)`: CUDA's 1 is the legacy default stream.
    constexpr std::int64_t number() const noexcept { return number_; }
    /// To be cast to cudaStream_t, CUstream or hipStream_t.
    void* handle() const noexcept { return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number_)); }

private:
    Device device_;
    std::int64_t number_;
};

/// Where the random numbers of a call come from: 128 bits that the caller's generator has drawn. An argument of one is
/// None, a generator of torch or NumPy, a key of JAX, or an integer; the function makes its numbers of it in any way
/// (std::mt19937_64(random.seed()), curand_init(random.seed(), i, random.offset(), …)). A gradient that takes it gets
/// the same.
class Random {
public:
    /// Of 128 bits in two halves.
    constexpr Random(std::uint64_t seed, std::uint64_t offset) noexcept : seed_(seed), offset_(offset) {}

    /// 64 bits that differ from call to call.
    constexpr std::uint64_t seed() const noexcept { return seed_; }
    /// 0 if the caller gave 64 bits: an integer, or a key of JAX's default kind.
    constexpr std::uint64_t offset() const noexcept { return offset_; }

private:
    std::uint64_t seed_, offset_;
};

/// In the place of an Out's element type: the dtype of the tensor argument of this name, Out<dtype_like<"x">, 2>, or
/// the one that a DType argument of this name says. Like any_dtype, the view has no elements until as<T>() or visit()
/// has named their type. An op() without such an argument, or whose argument may be None, is refused.
template <detail::Literal argument>
struct dtype_like {
    /// Whether an element may be of this dtype: always.
    static constexpr bool accepts(DType) noexcept { return true; }
    static constexpr void describe(detail::Words& words) {
        words.add("dtype of '");
        words.add(argument.view());
        words.add('\'');
    }
};

namespace detail {

/// Limits of one function: its parameters, results included, and its results.
inline constexpr int max_parameters = 40;
inline constexpr int max_results = 8;

/// `sizes` is never a parameter of a function: an argument of a gradient that has an array's sizes, then 0, and no
/// elements. `random` is a tensor of four int32: the words of the seed and of the offset, the lower ones first.
/// `tensors` and `in_outs` are lists of tensors, `integers` one of integers.
enum class ParameterKind : std::uint8_t {
    tensor,
    in_out,
    out,
    number,
    integer,
    boolean,
    text,
    stream,
    dtype,
    sizes,
    random,
    tensors,
    in_outs,
    integers,
};

/// One parameter. `requirement` is NULL for a scalar and for integers; of a list of tensors it is that of each.
struct ParameterFacts {
    ParameterKind kind;
    bool optional = false;  ///< None is an argument
    bool is_like = false;   ///< `requirement` is the first member of a LikeRequirement
    const Requirement* requirement = nullptr;

    constexpr bool is_list() const noexcept { return kind == ParameterKind::tensors || kind == ParameterKind::in_outs; }
    constexpr bool is_tensor() const noexcept { return requirement != nullptr && !is_list(); }
    /// Whether a value that was given says so behind it (ParameterValue::has_scalar).
    constexpr bool is_flagged() const noexcept {
        return requirement == nullptr && kind != ParameterKind::text && kind != ParameterKind::integers;
    }
    /// Whether the caller's memory is written.
    constexpr bool is_written() const noexcept {
        return kind == ParameterKind::in_out || kind == ParameterKind::in_outs;
    }
    /// A tensor, and its elements are data of the caller.
    constexpr bool is_data() const noexcept {
        return is_tensor() && kind != ParameterKind::sizes && kind != ParameterKind::random;
    }
    /// The argument whose dtype a result has; empty if its type does not name one.
    TextRef dtype_like() const noexcept;
};
/// What a result asks for that has the dtype of a named argument.
struct LikeRequirement {
    Requirement requirement;
    TextRef dtype_like;
};
inline TextRef ParameterFacts::dtype_like() const noexcept {
    return is_like ? reinterpret_cast<const LikeRequirement*>(requirement)->dtype_like : TextRef{};
}

/// The elements of a list in a call.
template <class X>
struct ListValue {
    const X* data;
    std::size_t size;
};

/// The value of one parameter in a call. A NULL tensor was not given; a text or list without an address was not either.
union ParameterValue {
    const DLTensor* tensor;
    double number;
    std::int64_t integer;
    bool boolean;
    TextRef text;
    ListValue<DLTensor> tensors;
    ListValue<std::int64_t> integers;
    const Stream* stream;
    DLDataType dtype;

    /// Whether there is a scalar, for a parameter that may be None: behind every scalar but a text.
    bool has_scalar() const noexcept {
        bool given = false;
        std::memcpy(&given, reinterpret_cast<const char*>(this) + scalar_size, sizeof given);
        return given;
    }
    void set_scalar_given() noexcept {
        const bool given = true;
        std::memcpy(reinterpret_cast<char*>(this) + scalar_size, &given, sizeof given);
    }
    /// Where a result says how many rows it has: behind the address of its tensor.
    std::int64_t* rows() const noexcept {
        std::int64_t* at = nullptr;
        std::memcpy(&at, reinterpret_cast<const char*>(this) + scalar_size, sizeof at);
        return at;
    }
    void set_rows(std::int64_t* at) noexcept {
        std::memcpy(reinterpret_cast<char*>(this) + scalar_size, &at, sizeof at);
    }
    static constexpr std::size_t scalar_size = 8;
};

/// One function of an overload set. `call` is the function with its types erased; what it throws goes to `captured`.
struct OverloadFacts {
    const ParameterFacts* parameters;
    int count;
    void (*call)(const ParameterValue* values, CapturedException& captured);
};

/// How a C++ type is a parameter: its facts, and how its value is made.
template <class A>
struct OperatorParameter {
    static_assert(
        sizeof(A) == 0,
        "isthmus: a parameter of an operator is a View<const T, …>, InOut, double, std::int64_t, bool, "
        "std::string_view, DType, a std::span<const …> of views or integers, a std::optional of one of these, "
        "or an Out");
    static constexpr ParameterFacts facts{};  // the sentence above is the only error
    static A get(const ParameterValue& value);
};

constexpr bool has_known_sizes(const Requirement& r) {
    for (int i = 0; i < spec_count(r); ++i)
        if (r.sizes[i].size == dyn && r.sizes[i].name.empty() && r.sizes[i].more == 0) return false;
    return true;
}

/// `V` is the view that `A` is or derives from.
template <class A, class V, ParameterKind kind>
struct TensorParameter {
    static_assert(kind == ParameterKind::out || !has_bound(V::requirement, V::requirement.size_count),
                  "isthmus: a size that is a bound (\"<=n\") is for an Out");
    static constexpr ParameterFacts facts{kind, false, false, &V::requirement};
    static A get(const ParameterValue& value) noexcept { return view_of<V>(*value.tensor); }
    /// Of an element of a list.
    static A view_at(const DLTensor& t) noexcept
        requires(kind != ParameterKind::out)
    {
        return view_of<V>(t);
    }
    static bool is_given(const ParameterValue& value) noexcept
        requires(kind != ParameterKind::out)
    {
        return value.tensor != nullptr;
    }
};
template <class T, int N, class... C>
struct OperatorParameter<View<T, N, C...>>
    : TensorParameter<View<T, N, C...>, View<T, N, C...>, ParameterKind::tensor> {
    static_assert(
        View<T, N, C...>::requirement.converts == Converts::nothing ||
            View<T, N, C...>::requirement.converts == Converts::orders,
        "isthmus: an operator takes what it is given, up to the order of the elements (packed), since compilers "
        "and gradients know of no conversion");
    static_assert(std::is_const_v<T>,
                  "isthmus: an operator reads a View<const T, …>; what it writes is an InOut or an Out");
};
template <class T, int N, class... C>
struct OperatorParameter<InOut<T, N, C...>>
    : TensorParameter<InOut<T, N, C...>, View<T, N, C...>, ParameterKind::in_out> {};
/// Of a result whose elements have a type, or a dtype that an argument says.
template <class O, class V>
struct OutParameter : TensorParameter<O, V, ParameterKind::out> {
    static_assert(has_known_sizes(V::requirement),
                  "isthmus: each size of an Out is a number, a name or a formula, since the library makes it");
    static O get(const ParameterValue& value) noexcept {
        O out = view_of<V>(*value.tensor);
        if constexpr (has_bound(V::requirement)) out.set_rows_at(value.rows());
        return out;
    }
};
template <class T, int N, class... C>
struct OperatorParameter<Out<T, N, C...>> : OutParameter<Out<T, N, C...>, View<T, N, C...>> {};

template <Literal argument, int N, class... C>
struct OperatorParameter<Out<dtype_like<argument>, N, C...>>
    : OutParameter<Out<dtype_like<argument>, N, C...>, View<dtype_like<argument>, N, C...>> {
    using V = View<dtype_like<argument>, N, C...>;
    static constexpr LikeRequirement like{V::requirement, TextRef(argument.view())};
    static constexpr ParameterFacts facts{ParameterKind::out, false, true, &like.requirement};
};

template <ParameterKind kind, class T, T ParameterValue::* member>
struct ScalarParameter {
    static constexpr ParameterFacts facts{kind};
    static T get(const ParameterValue& value) noexcept { return value.*member; }
    static bool is_given(const ParameterValue& value) noexcept { return value.has_scalar(); }
};
template <>
struct OperatorParameter<double> : ScalarParameter<ParameterKind::number, double, &ParameterValue::number> {};
template <>
struct OperatorParameter<std::int64_t>
    : ScalarParameter<ParameterKind::integer, std::int64_t, &ParameterValue::integer> {};
template <>
struct OperatorParameter<bool> : ScalarParameter<ParameterKind::boolean, bool, &ParameterValue::boolean> {};
template <>
struct OperatorParameter<std::string_view> {
    static constexpr ParameterFacts facts{ParameterKind::text};
    static std::string_view get(const ParameterValue& value) noexcept { return value.text; }
    static bool is_given(const ParameterValue& value) noexcept { return value.text.data != nullptr; }
};
template <>
struct OperatorParameter<DType> {
    static constexpr ParameterFacts facts{ParameterKind::dtype};
    static DType get(const ParameterValue& value) noexcept { return value.dtype; }
    static bool is_given(const ParameterValue& value) noexcept { return value.has_scalar(); }
};
template <>
struct OperatorParameter<Random> {
    using Words = View<const std::int32_t, 1, extents<4>, c_contiguous>;
    static constexpr ParameterFacts facts{ParameterKind::random, false, false, &Words::requirement};
    static Random get(const ParameterValue& value) noexcept {
        std::uint64_t words[2];
        std::memcpy(words, static_cast<const char*>(value.tensor->data) + value.tensor->byte_offset, sizeof words);
        return {words[0], words[1]};
    }
};
/// A gradient that is computed only if it is needed.
template <class T, int N, class... C>
struct OperatorParameter<std::optional<Out<T, N, C...>>> {
    using Inner = OperatorParameter<Out<T, N, C...>>;
    static constexpr ParameterFacts facts{ParameterKind::out, true, Inner::facts.is_like, Inner::facts.requirement};
    static std::optional<Out<T, N, C...>> get(const ParameterValue& value) noexcept {
        if (value.tensor == nullptr) return std::nullopt;
        return Inner::get(value);
    }
};
/// What may be None: an input that says whether it was given.
template <class A>
    requires requires(const ParameterValue& value) { OperatorParameter<A>::is_given(value); }
struct OperatorParameter<std::optional<A>> {
    using Inner = OperatorParameter<A>;
    static constexpr ParameterFacts facts{Inner::facts.kind, true, false, Inner::facts.requirement};
    static std::optional<A> get(const ParameterValue& value) noexcept {
        if (!Inner::is_given(value)) return std::nullopt;
        return Inner::get(value);
    }
};
/// The views of a list for the length of a call.
template <class E>
class ListOfViews {
public:
    explicit ListOfViews(ListValue<DLTensor> list) : size_(list.size), views_(new E[list.size]) {
        for (std::size_t i = 0; i < size_; ++i) views_[i] = OperatorParameter<E>::view_at(list.data[i]);
    }
    operator std::span<const E>() const noexcept { return {views_.get(), size_}; }

private:
    std::size_t size_;
    std::unique_ptr<E[]> views_;
};
template <class E>
    requires requires(const DLTensor& t) { OperatorParameter<E>::view_at(t); }
struct OperatorParameter<std::span<const E>> {
    using Inner = OperatorParameter<E>;
    static constexpr ParameterFacts facts{
        Inner::facts.kind == ParameterKind::in_out ? ParameterKind::in_outs : ParameterKind::tensors, false, false,
        Inner::facts.requirement};
    static ListOfViews<E> get(const ParameterValue& value) { return ListOfViews<E>(value.tensors); }
};
/// A list of results: graphs of torch and XLA have a number of results that is known before a call.
template <class E>
inline constexpr bool is_out = false;
template <class T, int N, class... C>
inline constexpr bool is_out<Out<T, N, C...>> = true;
template <class E>
    requires is_out<std::remove_const_t<E>>
struct OperatorParameter<std::span<E>> {
    static_assert(sizeof(E) == 0,
                  "isthmus: an operator has as many results as its function has Outs, and no list of them; write into "
                  "tensors of the caller, a std::span<const InOut<T, N>>");
    static constexpr ParameterFacts facts{};  // the sentence above is the only error
    static std::span<E> get(const ParameterValue& value);
};
template <>
struct OperatorParameter<std::span<const std::int64_t>> {
    static constexpr ParameterFacts facts{ParameterKind::integers};
    static std::span<const std::int64_t> get(const ParameterValue& value) noexcept {
        return {value.integers.data, value.integers.size};
    }
    static bool is_given(const ParameterValue& value) noexcept { return value.integers.data != nullptr; }
};
template <>
struct OperatorParameter<Stream> {
    static constexpr ParameterFacts facts{ParameterKind::stream};
    static Stream get(const ParameterValue& value) noexcept { return *value.stream; }
};

}  // namespace detail

ISTHMUS_END
