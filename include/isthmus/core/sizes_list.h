// SizesList: sizes or strides to keep, at most max_ndim of them, without an allocation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/shape.h>

ISTHMUS_BEGIN

/// A list of sizes or strides that may be stored, unlike Shape, with the interface of a std::vector<std::int64_t> as far as
/// such a list needs it. Of more than max_ndim numbers it keeps only the count, so that the receiver can refuse it. (<vector>
/// would cost every file that includes this 50 ms.)
class SizesList {
public:
    /// As std::vector has it.
    using value_type = std::int64_t;

    /// Empty.
    SizesList() noexcept : size_(0) {}
    /// A copy of the numbers.
    SizesList(std::initializer_list<std::int64_t> values) noexcept : SizesList() { assign(values.begin(), values.end()); }
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

    /// How many numbers were given, also where they are more than are kept.
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
