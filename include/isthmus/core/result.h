// Result: a value or an Error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <type_traits>
#include <utility>

#include <isthmus/core/error.h>

ISTHMUS_BEGIN

template <class T>
class ISTHMUS_NODISCARD Result;
template <class T, int N, class... C>
class View;

namespace detail {
template <class T>
inline constexpr bool is_result = false;
template <class T>
inline constexpr bool is_result<Result<T>> = true;
template <class V>
inline constexpr bool is_view = false;
template <class T, int N, class... C>
inline constexpr bool is_view<View<T, N, C...>> = true;
/// Whether a function of a Result's value returns a view that would dangle once the Result is gone.
template <class Self, class T, class Made>
inline constexpr bool is_view_of_temporary = !std::is_lvalue_reference_v<Self> && !is_view<T> && is_view<Made>;
struct Uninitialised {};

/// An element of a std::tuple that is made as its own constructor makes it. A tuple initialises its elements by T(),
/// which first writes zeros over the whole of a class without a constructor, a borrow of 1.2 kB in it included.
template <class T>
struct Unzeroed {
    T of;
    Unzeroed() noexcept {}  // NOLINT(modernize-use-equals-default): the zeros would be back
};
}  // namespace detail

/// A value or an Error: the interface of `std::expected<T, Error>` (C++23, [expected.object]).
/// Nothing throws but value(), which throws the Error.
template <class T>
class ISTHMUS_NODISCARD Result {
public:
    /// As std::expected has them.
    using value_type = T;
    using error_type = Error;

    /// Success: takes the value.
    Result(T value) noexcept(std::is_nothrow_move_constructible_v<T>) : has_value_(true) {
        ::new (&value_) T(std::move(value));
    }
    /// Failure: takes the error.
    Result(Error error) noexcept : has_value_(false) { ::new (&error_) Error(std::move(error)); }
    Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) : has_value_(other.has_value_) {
        if (has_value_)
            ::new (&value_) T(std::move(other.value_));
        else
            ::new (&error_) Error(std::move(other.error_));
    }
    Result(const Result& other)
        requires std::is_copy_constructible_v<T>
        : has_value_(other.has_value_) {
        if (has_value_)
            ::new (&value_) T(other.value_);
        else
            ::new (&error_) Error(other.error_);
    }
    Result& operator=(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) {
        if (this != &other) {
            this->~Result();
            ::new (this) Result(std::move(other));
        }
        return *this;
    }
    Result& operator=(const Result& other)
        requires std::is_copy_constructible_v<T>
    {
        return *this = Result(other);
    }
    ~Result() {
        if (has_value_)
            value_.~T();
        else
            error_.~Error();
    }

    /// Whether there is a value; `if (result)` asks the same.
    bool has_value() const noexcept { return has_value_; }
    explicit operator bool() const noexcept { return has_value_; }

    /// Undefined without a value, as for std::expected: ask first, or call value().
    T& operator*() & noexcept { return value_; }
    const T& operator*() const& noexcept { return value_; }
    T&& operator*() && noexcept { return std::move(value_); }
    /// A member of the value. Undefined without one. Not of a temporary, whose value would end with the expression.
    T* operator->() & noexcept { return &value_; }
    const T* operator->() const& noexcept { return &value_; }
    const T* operator->() const&& = delete;  // name the Result first: what it points to would end with the expression

    /// The value. Throws the Error if there is none: the only member that throws.
    T& value() & { return throw_if_error(), value_; }
    const T& value() const& { return throw_if_error(), value_; }
    T&& value() && { return throw_if_error(), std::move(value_); }
    /// The value, or `other` if there is none.
    template <class U>
    T value_or(U&& other) const& {
        return has_value_ ? value_ : static_cast<T>(std::forward<U>(other));
    }
    template <class U>
    T value_or(U&& other) && {
        return has_value_ ? std::move(value_) : static_cast<T>(std::forward<U>(other));
    }

    /// Undefined with a value.
    Error& error() & noexcept { return error_; }
    const Error& error() const& noexcept { return error_; }
    Error&& error() && noexcept { return std::move(error_); }

    /// The Result that `f(value)` returns, or this error. A view of a temporary's tensor does not compile.
    template <class F>
    auto and_then(F&& f) & {
        return and_then_on(*this, std::forward<F>(f));
    }
    template <class F>
    auto and_then(F&& f) const& {
        return and_then_on(*this, std::forward<F>(f));
    }
    template <class F>
    auto and_then(F&& f) && {
        return and_then_on(std::move(*this), std::forward<F>(f));
    }

    /// The result of `f(value)` as a Result, or this error. A view of a temporary's tensor does not compile.
    template <class F>
    auto transform(F&& f) & {
        return transform_on(*this, std::forward<F>(f));
    }
    template <class F>
    auto transform(F&& f) const& {
        return transform_on(*this, std::forward<F>(f));
    }
    template <class F>
    auto transform(F&& f) && {
        return transform_on(std::move(*this), std::forward<F>(f));
    }

    /// This value, or the Result that `f(error)` returns.
    template <class F>
    Result or_else(F&& f) const& {
        return has_value_ ? *this : Result(std::forward<F>(f)(error_));
    }
    template <class F>
    Result or_else(F&& f) && {
        return has_value_ ? std::move(*this) : Result(std::forward<F>(f)(std::move(error_)));
    }
    /// This value, or the Error that `f(error)` returns.
    template <class F>
    Result transform_error(F&& f) && {
        return has_value_ ? std::move(*this) : Result(Error(std::forward<F>(f)(std::move(error_))));
    }

    /// For makers that build the value in place: starts with a default value and no move.
    explicit Result(detail::Uninitialised) noexcept : has_value_(true) { ::new (&value_) T(); }
    /// Turns a result that holds a value into a failure.
    void fail(Error error) noexcept {
        if (has_value_)
            value_.~T();
        else
            error_.~Error();
        ::new (&error_) Error(std::move(error));
        has_value_ = false;
    }

private:
    void throw_if_error() const {
        if (!has_value_) throw Error(error_);
    }
    template <class Self, class F>
    static auto and_then_on(Self&& self, F&& f) {
        using R = std::remove_cvref_t<decltype(std::forward<F>(f)(*std::forward<Self>(self)))>;
        static_assert(detail::is_result<R>, "isthmus: the function given to and_then must return a Result");
        static_assert(
            !detail::is_view_of_temporary<Self&&, T, typename R::value_type>,
            "isthmus: the view would outlive the temporary Result that holds its tensor; name that Result first");
        if (self.has_value_) return std::forward<F>(f)(*std::forward<Self>(self));
        return R(Error(std::forward<Self>(self).error_));
    }
    template <class Self, class F>
    static auto transform_on(Self&& self, F&& f) {
        using U = std::remove_cv_t<decltype(std::forward<F>(f)(*std::forward<Self>(self)))>;
        static_assert(
            !detail::is_view_of_temporary<Self&&, T, U>,
            "isthmus: the view would outlive the temporary Result that holds its tensor; name that Result first");
        if constexpr (std::is_void_v<U>) {
            if (self.has_value_) return std::forward<F>(f)(*std::forward<Self>(self)), Result<U>();
            return Result<U>(Error(std::forward<Self>(self).error_));
        } else {
            if (self.has_value_) return Result<U>(std::forward<F>(f)(*std::forward<Self>(self)));
            return Result<U>(Error(std::forward<Self>(self).error_));
        }
    }

    union {
        T value_;
        Error error_;
    };
    bool has_value_;
};

/// Success without a value, or an Error.
template <>
class ISTHMUS_NODISCARD Result<void> {
public:
    using value_type = void;
    using error_type = Error;

    Result() noexcept : has_value_(true) {}
    Result(Error error) noexcept : has_value_(false) { ::new (&error_) Error(std::move(error)); }
    Result(Result&& other) noexcept : has_value_(other.has_value_) {
        if (!has_value_) ::new (&error_) Error(std::move(other.error_));
    }
    Result(const Result& other) noexcept : has_value_(other.has_value_) {
        if (!has_value_) ::new (&error_) Error(other.error_);
    }
    Result& operator=(Result other) noexcept {
        this->~Result();
        return *::new (this) Result(std::move(other));
    }
    ~Result() {
        if (!has_value_) error_.~Error();
    }

    bool has_value() const noexcept { return has_value_; }
    explicit operator bool() const noexcept { return has_value_; }
    void operator*() const noexcept {}
    void value() const {
        if (!has_value_) throw Error(error_);
    }
    Error& error() & noexcept { return error_; }
    const Error& error() const& noexcept { return error_; }
    Error&& error() && noexcept { return std::move(error_); }

    template <class F>
    auto and_then(F&& f) const {
        using R = std::remove_cvref_t<decltype(std::forward<F>(f)())>;
        static_assert(detail::is_result<R>, "isthmus: the function given to and_then must return a Result");
        return has_value_ ? std::forward<F>(f)() : R(error_);
    }
    template <class F>
    auto transform(F&& f) const {
        using U = std::remove_cv_t<decltype(std::forward<F>(f)())>;
        return has_value_ ? Result<U>(std::forward<F>(f)()) : Result<U>(error_);
    }
    template <class F>
    Result or_else(F&& f) const {
        return has_value_ ? *this : Result(std::forward<F>(f)(error_));
    }

private:
    union {
        Error error_;
    };
    bool has_value_;
};

ISTHMUS_END
