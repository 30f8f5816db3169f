// Shape: a list of sizes or strides as an argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

/// A list of sizes or strides, as an argument: a braced list, or any contiguous range of int64 or of another integer type.
/// A view of a range of int64, else a copy of at most max_ndim numbers: for the length of a call, never to be stored.
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
    operator std::span<const std::int64_t>() const noexcept { return {data_, size_}; }

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

ISTHMUS_END
