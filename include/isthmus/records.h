// Records, dates and fixed strings: the elements that NumPy alone has, as C++ structs, std::chrono and std::array.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define ISTHMUS_RECORDS 1  // <isthmus/python.h> comes last, as in arguments.h

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <ratio>
#include <vector>

#include <isthmus/owned.h>

ISTHMUS_BEGIN

namespace detail {

struct NumpyField;

/// An element type as NumPy describes it: what a dtype is compared with, and made of.
struct NumpyType {
    char
        kind;  ///< NumPy's: V for a record, M and m for dates, S and U for strings; n for a number, whose dtype says it
    DType dtype;
    std::uint32_t itemsize, alignment;
    const char* text;  ///< the struct's name, or the unit of a date: "ns"
    const NumpyField* fields;
    std::uint32_t field_count;
};
struct NumpyField {
    const char* name;
    const NumpyType* type;
    std::uint32_t offset;
    std::int32_t ndim;  ///< of an array in the record
    const std::int64_t* shape;
};

/// DLPack has no word for these elements: opaque bytes, as many as one element has.
template <class T>
constexpr DType opaque_dtype() {
    static_assert(sizeof(T) <= 65535, "isthmus: a record has at most 65535 bytes");
    return DType(kDLOpaqueHandle, 8, static_cast<int>(sizeof(T)));
}

template <std::size_t n>
struct RecordFields {
    const char* name;
    NumpyField fields[n];
};
template <std::size_t n>
constexpr RecordFields<n> make_record(const char* name, const NumpyField (&fields)[n]) {
    RecordFields<n> made{name, {}};
    for (std::size_t i = 0; i < n; ++i) made.fields[i] = fields[i];
    return made;
}
/// Whether ISTHMUS_RECORD names the fields of this struct.
template <class S>
concept Record = std::is_class_v<S> && requires(const S* record) { isthmus_record_of(record); };
template <Record S>
inline constexpr auto record_fields = isthmus_record_of(static_cast<const S*>(nullptr));

template <Record S>
constexpr NumpyType record_type() {
    static_assert(std::is_trivially_copyable_v<S> && std::is_standard_layout_v<S>,
                  "isthmus: a record is a plain struct: trivially copyable, and all its members in one class");
    const auto& of = record_fields<S>;
    return {'V', opaque_dtype<S>(), sizeof(S), alignof(S), of.name, of.fields, std::size(of.fields)};
}
template <class T>
constexpr NumpyType string_type(char kind) {
    return {kind, opaque_dtype<T>(), sizeof(T), alignof(T), nullptr, nullptr, 0};
}
/// "ns" of std::nano; NULL for a period that NumPy has no unit of.
template <class Period>
constexpr const char* unit_of_period() {
    using P = typename Period::type;
    if constexpr (P::num == 1)
        return P::den == 1                 ? "s"
               : P::den == 1'000           ? "ms"
               : P::den == 1'000'000       ? "us"
               : P::den == 1'000'000'000   ? "ns"
               : P::den == std::pico::den  ? "ps"
               : P::den == std::femto::den ? "fs"
               : P::den == std::atto::den  ? "as"
                                           : nullptr;
    else
        return P::den != 1        ? nullptr
               : P::num == 60     ? "m"
               : P::num == 3600   ? "h"
               : P::num == 86400  ? "D"
               : P::num == 604800 ? "W"
                                  : nullptr;
}
template <class T, class Rep, class Period>
constexpr NumpyType date_type(char kind) {
    static_assert(std::is_integral_v<Rep> && std::is_signed_v<Rep> && sizeof(Rep) == 8,
                  "isthmus: NumPy counts time in 64-bit integers; use std::chrono::duration<std::int64_t, Period>");
    static_assert(unit_of_period<Period>() != nullptr,
                  "isthmus: NumPy has no unit of this period; it has as, fs, ps, ns, us, ms, s, m, h, D and W");
    return {kind, opaque_dtype<T>(), sizeof(T), alignof(T), unit_of_period<Period>(), nullptr, 0};
}

}  // namespace detail

/// A struct whose fields ISTHMUS_RECORD names.
template <detail::Record S>
struct dtype_traits<S> {
    static constexpr DType value = detail::opaque_dtype<S>();
    static constexpr detail::NumpyType numpy = detail::record_type<S>();
};
/// NumPy's S8: as many bytes as the array has, padded with zeros.
template <std::size_t n>
struct dtype_traits<std::array<char, n>> {
    static constexpr DType value = detail::opaque_dtype<std::array<char, n>>();
    static constexpr detail::NumpyType numpy = detail::string_type<std::array<char, n>>('S');
};
/// NumPy's U8: as many code points, padded with zeros.
template <std::size_t n>
struct dtype_traits<std::array<char32_t, n>> {
    static constexpr DType value = detail::opaque_dtype<std::array<char32_t, n>>();
    static constexpr detail::NumpyType numpy = detail::string_type<std::array<char32_t, n>>('U');
};
/// NumPy's timedelta64 of the unit that the period is.
template <class Rep, class Period>
struct dtype_traits<std::chrono::duration<Rep, Period>> {
    static constexpr DType value = detail::opaque_dtype<std::chrono::duration<Rep, Period>>();
    static constexpr detail::NumpyType numpy = detail::date_type<std::chrono::duration<Rep, Period>, Rep, Period>('m');
};
/// NumPy's datetime64, which counts from 1970 as the system clock does, and knows no time zone.
template <class Rep, class Period>
struct dtype_traits<std::chrono::time_point<std::chrono::system_clock, std::chrono::duration<Rep, Period>>> {
    using Point = std::chrono::time_point<std::chrono::system_clock, std::chrono::duration<Rep, Period>>;
    static constexpr DType value = detail::opaque_dtype<Point>();
    static constexpr detail::NumpyType numpy = detail::date_type<Point, Rep, Period>('M');
};

/// Whether a duration or time point is NumPy's NaT, "not a time": the least number that it can count.
template <class Rep, class Period>
constexpr bool is_nat(std::chrono::duration<Rep, Period> time) noexcept {
    return time.count() == (std::numeric_limits<Rep>::min)();
}
template <class Clock, class Duration>
constexpr bool is_nat(std::chrono::time_point<Clock, Duration> time) noexcept {
    return is_nat(time.time_since_epoch());
}

namespace detail {

template <class T>
inline constexpr NumpyType numpy_type_of = [] {
    if constexpr (NumpyElement<T>) {
        return dtype_traits<T>::numpy;
    } else {
        static_assert(has_dtype<T>,
                      "isthmus: a field of a record is a number, a date, a fixed string, another record, "
                      "or an array of these");
        return NumpyType{'n', dtype_of<T>(), sizeof(T), alignof(T), nullptr, nullptr, 0};
    }
}();

/// A member of a record: an element, or an array of them. Characters in an array are a fixed string.
template <class M>
struct RecordMember {
    using Element = M;
    static constexpr std::int32_t ndim = 0;
    static constexpr std::int64_t shape[1] = {0};
};
template <class Inner, class Array, std::int64_t n>
struct RecordArray {
    using Element = typename Inner::Element;
    static constexpr std::int32_t ndim = Inner::ndim + 1;
    static constexpr auto shapes = [] {
        std::array<std::int64_t, static_cast<std::size_t>(ndim)> sizes{n};
        for (std::int32_t i = 1; i < ndim; ++i) sizes[static_cast<std::size_t>(i)] = Inner::shape[i - 1];
        return sizes;
    }();
    static constexpr const std::int64_t* shape = shapes.data();
};
template <class M>
inline constexpr bool is_character = std::is_same_v<M, char> || std::is_same_v<M, char32_t>;
template <class M, std::size_t n>
struct RecordMember<M[n]> : RecordArray<RecordMember<M>, M[n], static_cast<std::int64_t>(n)> {};
template <class M, std::size_t n>
    requires(!is_character<M>)
struct RecordMember<std::array<M, n>> : RecordArray<RecordMember<M>, std::array<M, n>, static_cast<std::int64_t>(n)> {};
template <class M, std::size_t n>
    requires is_character<M>
struct RecordMember<M[n]> : RecordMember<std::array<M, n>> {};

template <class M>
constexpr NumpyField record_field(const char* name, std::size_t offset) {
    using Member = RecordMember<std::remove_cv_t<M>>;
    return {name, &numpy_type_of<std::remove_cv_t<typename Member::Element>>, static_cast<std::uint32_t>(offset),
            Member::ndim, Member::shape};
}

template <class S>
constexpr NumpyField record_field_of_none() {
    static_assert(sizeof(S) == 0, "isthmus: ISTHMUS_RECORD names a field that its struct does not have");
    return record_field<char>("", 0);  // a whole record, of which nothing else is wrong
}

/// "Point(x: float32, y: datetime64[ns], name: S8)"; in parentheses, since binders read braces in a signature
constexpr void spell_numpy(Words& out, const NumpyType& type) {
    if (type.kind == 'n') return out.add(type.dtype);
    if (type.kind == 'S' || type.kind == 'U') {
        out.add(type.kind);
        return out.add(static_cast<std::int64_t>(type.itemsize / (type.kind == 'U' ? 4 : 1)));
    }
    if (type.kind == 'V') {
        out.add(std::string_view(type.text));
        out.add('(');
        for (std::uint32_t i = 0; i < type.field_count; ++i) {
            const NumpyField& field = type.fields[i];
            if (i != 0) out.add(", ");
            out.add(std::string_view(field.name));
            out.add(": ");
            spell_numpy(out, *field.type);
            for (std::int32_t d = 0; d < field.ndim; ++d) {
                out.add(d == 0 ? '[' : ',');
                out.add(field.shape[d]);
            }
            if (field.ndim > 0) out.add(']');
        }
        return out.add(')');
    }
    out.add(type.kind == 'M' ? std::string_view("datetime64[") : std::string_view("timedelta64["));
    out.add(std::string_view(type.text));
    out.add(']');
}

/// An array of NumPy's with such elements, for the length of a call. Holds nothing: the caller keeps the array.
Result<Borrowed> borrow_numpy_as(PyObject* object, const NumpyType& type, const ImportOptions& options) noexcept;
/// The same, owned: the handle keeps the array.
Result<Tensor> own_numpy_as(PyObject* object, const NumpyType& type, const ImportOptions& options) noexcept;
/// A new numpy.ndarray over the tensor's memory; NULL with the exception set.
PyObject* to_numpy_as(const Tensor& tensor, const NumpyType& type) noexcept;

/// An array of such elements as a Borrowed or a Tensor, from numpy.ndarray alone, whose dtype is compared field by
/// field, and remembered. The loader of a value that shows what was taken.
template <class V, class H>
class RecordLoader {
    static_assert(V::requirement.converts == Converts::nothing,
                  "isthmus: records, dates and fixed strings are not converted");

public:
    template <class Value>
    Loaded try_load(PyObject* object, Value& value, bool last) noexcept {
        if (is_no_tensor(object)) return Loaded::no;
        const Result<void> taken = take(object, value, nullptr, nullptr, nullptr);
        return ISTHMUS_LIKELY(taken.has_value()) ? Loaded::yes : pass_on(taken.error(), last);
    }
    template <class Value>
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument, Match* match) noexcept {
        const Result<void> taken = take(object, value, function, argument, match);
        return ISTHMUS_LIKELY(taken.has_value()) ? Loaded::yes : raise_in_call(taken.error());
    }
    static bool commit(const char*, const char*) noexcept { return true; }
    static void commit_or_throw(const char* = nullptr, const char* = nullptr) noexcept {}
    static bool is_done() noexcept { return true; }

private:
    template <class Value>
    Result<void> take(PyObject* object, Value& value, const char* function, const char* argument,
                      Match* match) noexcept {
        ImportOptions options;
        options.require_writable = V::requirement.writable;
        options.argument = argument;
        auto imported = read(object, options);
        if (ISTHMUS_UNLIKELY(!imported)) return argument_error(imported.error(), function);
        array_ = std::move(*imported);
        Match own(function);
        Match& of_call = match != nullptr ? *match : own;
        auto fits = of_call.check_argument(argument, array_.descriptor(), array_.flags(), V::requirement);
        if (ISTHMUS_UNLIKELY(!fits)) return fits;
        if constexpr (is_view<Value>)
            value = view_of<V>(array_.descriptor());
        else
            value = Value(std::move(array_));
        return fits;
    }
    static Result<H> read(PyObject* object, const ImportOptions& options) noexcept {
        const NumpyType& type = dtype_traits<std::remove_cv_t<typename V::element_type>>::numpy;
        if constexpr (std::is_same_v<H, Borrowed>)
            return borrow_numpy_as(object, type, options);
        else
            return own_numpy_as(object, type, options);
    }

    H array_;
};
template <class T, int N, class... C>
    requires NumpyElement<T>
struct ArgumentLoader<View<T, N, C...>> : RecordLoader<View<T, N, C...>, Borrowed> {
    static void roll_back(PyObject*, View<T, N, C...>&) noexcept {}
};
template <class T, int N, class... C>
    requires NumpyElement<T>
struct ArgumentLoader<Owned<View<T, N, C...>>> : RecordLoader<View<T, N, C...>, Tensor> {
    static void roll_back(PyObject*, Owned<View<T, N, C...>>& value) noexcept { value = {}; }
};

}  // namespace detail

/// A result whose elements NumPy alone has: a tensor of records, dates or fixed strings, which becomes a numpy.ndarray
/// of that dtype over the same memory.
///
///     Records<Point> nearest(…) { return std::vector<Point>{…}; }
template <class T>
class Records {
public:
    static_assert(detail::NumpyElement<T>,
                  "isthmus: the elements of Records are structs of ISTHMUS_RECORD, dates or fixed strings");

    static constexpr char isthmus_annotation[] = "numpy.ndarray";  ///< in signatures

    /// Empty: None in Python.
    Records() noexcept = default;
    /// Takes the elements over, as one dimension. Throws Error.
    Records(std::vector<T>&& elements) {
        const auto count = static_cast<std::int64_t>(elements.size());
        tensor_ = Tensor::own(std::move(elements), {count});
    }
    /// The same with a shape. Throws Error if it does not fit.
    Records(std::vector<T>&& elements, const Shape& shape) : tensor_(Tensor::own(std::move(elements), shape)) {}
    /// A tensor of such elements (Tensor::wrap of T*). Throws Error for one of another dtype.
    explicit Records(Tensor tensor) : tensor_(std::move(tensor)) {
        if (tensor_ && tensor_.dtype() != dtype_of<T>()) throw detail::not_of_type(dtype_of<T>(), tensor_.dtype());
    }

    /// The tensor, whose dtype is opaque bytes.
    const Tensor& tensor() const noexcept { return tensor_; }

    /// A new reference to the numpy.ndarray; NULL with the Python exception set. The GIL must be held.
    friend PyObject* result_to_py(const Records& records) noexcept {
        return detail::to_numpy_as(records.tensor_, dtype_traits<T>::numpy);
    }

private:
    Tensor tensor_;
};

/// A new reference to the numpy.ndarray of what an argument owns; NULL with the Python exception set.
template <detail::NumpyElement T, int N, class... C>
PyObject* result_to_py(const Owned<View<T, N, C...>>& owned) noexcept {
    return detail::to_numpy_as(owned.tensor(), dtype_traits<std::remove_cv_t<T>>::numpy);
}

ISTHMUS_END

#define ISTHMUS_RECORD_CALL ()
#define ISTHMUS_RECORD_AGAIN() ISTHMUS_RECORD_STEP
// A generic lambda: what its body does not compile is one error there, and the record is whole.
#define ISTHMUS_RECORD_STEP(type, field, ...)                                                             \
    []<class Struct>(const Struct* of) {                                                                  \
        if constexpr (requires { of->field; })                                                            \
            return ::isthmus::detail::record_field<decltype(of->field)>(#field, offsetof(Struct, field)); \
        else                                                                                              \
            return ::isthmus::detail::record_field_of_none<Struct>();                                     \
    }(static_cast<type*>(nullptr))__VA_OPT__(, ISTHMUS_RECORD_AGAIN ISTHMUS_RECORD_CALL(type, __VA_ARGS__))
#define ISTHMUS_RECORD_SCAN(...) \
    ISTHMUS_RECORD_SCAN2(ISTHMUS_RECORD_SCAN2(ISTHMUS_RECORD_SCAN2(ISTHMUS_RECORD_SCAN2(__VA_ARGS__))))
#define ISTHMUS_RECORD_SCAN2(...) \
    ISTHMUS_RECORD_SCAN1(ISTHMUS_RECORD_SCAN1(ISTHMUS_RECORD_SCAN1(ISTHMUS_RECORD_SCAN1(__VA_ARGS__))))
#define ISTHMUS_RECORD_SCAN1(...) \
    ISTHMUS_RECORD_SCAN0(ISTHMUS_RECORD_SCAN0(ISTHMUS_RECORD_SCAN0(ISTHMUS_RECORD_SCAN0(__VA_ARGS__))))
#define ISTHMUS_RECORD_SCAN0(...) __VA_ARGS__

/// Names the fields of a plain struct, so that it can be the element of a View or of Records: NumPy's structured
/// arrays, packed or aligned as the struct is. Stands behind the struct, in its namespace. Up to 64 fields: numbers,
/// dates, fixed strings (char[8]), records, and arrays of these.
///
///     struct Point { float x, y; double z; };
///     ISTHMUS_RECORD(Point, x, y, z);
#define ISTHMUS_RECORD(type, ...)                                                                                    \
    [[maybe_unused]] constexpr auto isthmus_record_of(const type*) noexcept {                                        \
        return ::isthmus::detail::make_record(#type, {ISTHMUS_RECORD_SCAN(ISTHMUS_RECORD_STEP(type, __VA_ARGS__))}); \
    }                                                                                                                \
    static_assert(::isthmus::detail::Record<type>,                                                                   \
                  "isthmus: ISTHMUS_RECORD stands behind its struct, in the same namespace")

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_RECORDS)
#endif

#include <isthmus/python.h>  // last: with ISTHMUS_IMPLEMENTATION it brings the sources, which need the above
