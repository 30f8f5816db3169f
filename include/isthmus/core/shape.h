// Sizes or strides: Shape, a list as an argument, and SizesList, a list to keep.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {
/// A span of sizes or strides. Each other way to make one, of an array, of a class with begin() and end(), of a pointer
/// of another type, has the compiler check the library's concepts of iterators and ranges once more: more work than all
/// of this header.
constexpr std::span<const std::int64_t> span_of(const std::int64_t* values, std::size_t count) noexcept {
    return {values, count};
}
}  // namespace detail

/// A list of sizes or strides, as an argument: a braced list, or any contiguous range of int64 or of another integer
/// type. A view of a range of int64, else a copy of at most max_ndim numbers: for the length of a call, never to be
/// stored.
class Shape {
public:
    Shape() noexcept : data_(nullptr), size_(0) {}
    /// The numbers of a braced list, copied.
    Shape(std::initializer_list<std::int64_t> list) noexcept : Shape() { copy(list.begin(), list.size()); }
    /// A view of the numbers, which must live as long as the call.
    Shape(std::span<const std::int64_t> values) noexcept : data_(values.data()), size_(values.size()) {}
    /// The numbers of a list of another integer type, copied.
    template <std::integral Integer>
    Shape(std::initializer_list<Integer> list) noexcept : Shape() {
        copy(list.begin(), list.size());
    }
    /// Any contiguous range: a view of int64, a copy of other integers.
    template <class R>
        requires requires(const R& r) {
            { *r.data() } -> std::convertible_to<std::int64_t>;
            { r.size() } -> std::convertible_to<std::size_t>;
        }
    Shape(const R& range) noexcept : Shape() {
        using Integer = std::remove_cvref_t<decltype(*range.data())>;
        if constexpr (std::same_as<Integer, std::int64_t>) {
            data_ = range.data();
            size_ = range.size();
        } else {
            copy(range.data(), range.size());
        }
    }
    Shape(const Shape&) = delete;
    Shape& operator=(const Shape&) = delete;

    /// The first number; valid as long as this object.
    const std::int64_t* data() const noexcept { return data_; }
    /// How many numbers; may be more than max_ndim, which the function that takes the list refuses.
    std::size_t size() const noexcept { return size_; }
    /// Number `i`, which is not checked.
    std::int64_t operator[](std::size_t i) const noexcept { return data_[i]; }
    /// The numbers, as a range.
    const std::int64_t* begin() const noexcept { return data_; }
    const std::int64_t* end() const noexcept { return data_ + size_; }  ///< as begin()
    /// The numbers as a span, valid as long as this object.
    operator std::span<const std::int64_t>() const noexcept { return detail::span_of(data_, size_); }

private:
    template <class Integer>
    void copy(const Integer* values, std::size_t count) noexcept {
        size_ = count;
        for (std::size_t i = 0; i < count && i < static_cast<std::size_t>(max_ndim); ++i)
            own_[i] = static_cast<std::int64_t>(values[i]);
        data_ = own_;
    }

    const std::int64_t* data_;
    std::size_t size_;
    std::int64_t own_[max_ndim];
};

/// A list of sizes or strides that may be stored, unlike Shape, with the interface of a std::vector<std::int64_t> as
/// far as such a list needs it. Of more than max_ndim numbers it keeps only the count, so that the receiver can refuse
/// it. (<vector> would cost every file that includes this 50 ms.)
class SizesList {
public:
    /// As std::vector has it.
    using value_type = std::int64_t;

    /// Empty.
    SizesList() noexcept : size_(0) {}
    /// A copy of the numbers.
    SizesList(std::initializer_list<std::int64_t> values) noexcept : SizesList() {
        assign(values.begin(), values.end());
    }
    /// A copy of any range of numbers.
    template <class R>
        requires requires(const R& r) {
            { *r.begin() } -> std::convertible_to<std::int64_t>;
            r.end();
        } && (!std::same_as<R, SizesList>)
    SizesList(const R& range) : SizesList() {
        assign(range.begin(), range.end());
    }
    SizesList(const SizesList& other) noexcept : SizesList() { copy(other); }
    SizesList& operator=(const SizesList& other) noexcept {
        if (this != &other) copy(other);
        return *this;
    }

    /// The numbers between two iterators, in place of those here.
    template <class It>
    void assign(It first, It last) {
        size_ = 0;
        for (; first != last; ++first) push_back(static_cast<std::int64_t>(*first));
    }
    /// One number more; beyond max_ndim only the count grows.
    void push_back(std::int64_t value) noexcept {
        if (size_ < capacity) values_[size_] = value;
        ++size_;
    }
    /// No numbers any more.
    void clear() noexcept { size_ = 0; }

    /// How many numbers were given, even if they are more than are kept.
    std::size_t size() const noexcept { return size_; }
    /// Whether there are none.
    bool empty() const noexcept { return size_ == 0; }
    /// The first number; valid as long as this object.
    std::int64_t* data() noexcept { return values_; }
    const std::int64_t* data() const noexcept { return values_; }
    /// Number `i`, which is not checked.
    std::int64_t& operator[](std::size_t i) noexcept { return values_[i]; }
    std::int64_t operator[](std::size_t i) const noexcept { return values_[i]; }
    /// The numbers that are kept, as a range.
    std::int64_t* begin() noexcept { return values_; }
    std::int64_t* end() noexcept { return values_ + kept(); }  ///< as begin()
    const std::int64_t* begin() const noexcept { return values_; }
    const std::int64_t* end() const noexcept { return values_ + kept(); }

    /// With any range of numbers.
    template <class R>
        requires requires(const R& r) {
            { r.size() } -> std::convertible_to<std::size_t>;
            { *r.begin() } -> std::convertible_to<std::int64_t>;
        }
    friend bool operator==(const SizesList& a, const R& b) noexcept {
        if (a.size() != b.size()) return false;
        auto at = b.begin();
        for (const std::int64_t value : a)
            if (value != static_cast<std::int64_t>(*at++)) return false;
        return true;
    }

private:
    void copy(const SizesList& other) noexcept {
        size_ = other.size_;
        for (std::size_t i = 0; i < kept(); ++i) values_[i] = other.values_[i];
    }
    std::size_t kept() const noexcept { return size_ < capacity ? size_ : capacity; }

    static constexpr std::size_t capacity = max_ndim;
    std::size_t size_;
    std::int64_t values_[capacity];
};

ISTHMUS_END
