// How a C++ function crosses the border between a module and the backend: as a C function of pointers and numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <isthmus/core/device.h>
#include <isthmus/core/dtype.h>
#include <isthmus/core/result.h>

ISTHMUS_BEGIN

namespace detail {

/// What the capsule of a backend points to. Rows are only ever added at the end, and `count` says how many there are.
struct BackendTable {
    std::uint32_t count;
    std::uint32_t version;     ///< of the package: 100 * (100 * major + minor) + patch
    const char* version_text;  ///< "0.1.0"
    Atomic<const struct Observer*>* observer;
    void (*const* functions)();  ///< by the numbers of isthmus/backend/functions.h
};

/// A std::string_view as GCC's library lays it out, which modules without row 194 have read.
struct CountedText {
    std::size_t size;
    const char* data;
};

/// A LiveTensor as it crosses; valid during the call that shows it.
struct LiveFacts {
    std::uint64_t serial;
    void* data;
    std::int64_t nbytes;
    const std::int64_t* shape;
    std::size_t ndim;
    DType dtype;
    Device device;
    bool read_only, borrowed;
    std::uint32_t handles;
    TextRef producer, consumer;
    double age;
    TextRef place, cpp_place;
};

/// A TensorEntry as it crosses; valid as long as its file.
struct FileEntry {
    TextRef name;
    DType dtype;
    const std::int64_t* shape;
    std::size_t ndim;
    std::uint64_t begin, end;
};

/// One parameter as the caller of a row passes it: as the function takes it, so that no template has to convert it.
template <class T>
struct Passed {
    using Type = std::conditional_t<std::is_trivially_copyable_v<T>, T, T&>;
};
template <class T>
struct Passed<T&> {
    using Type = T&;
};
template <class T>
struct Passed<T&&> {
    using Type = T&;
};
template <>
struct Passed<std::string_view> {
    using Type = TextRef;
};

/// One parameter: numbers, enumerators, pointers and small structs of ours as they are, references as pointers.
template <class T>
struct Border {
    static constexpr bool as_it_is = std::is_trivially_copyable_v<T>;
    using C = std::conditional_t<as_it_is, T, T*>;
    ISTHMUS_ALWAYS_INLINE static std::conditional_t<as_it_is, T&, T&&> raise(C& value) noexcept {
        if constexpr (as_it_is)
            return value;
        else
            return std::move(*value);
    }
};
template <class T>
struct Border<T&> {
    using C = T*;
    ISTHMUS_ALWAYS_INLINE static T& raise(C value) noexcept { return *value; }
};
template <class T>
struct Border<T&&> {
    using C = T*;
    ISTHMUS_ALWAYS_INLINE static T&& raise(C value) noexcept { return std::move(*value); }
};
/// The standard libraries lay it out in different ways.
template <>
struct Border<std::string_view> {
    using C = TextRef;
    // Of the text, not of what points to it.
    ISTHMUS_ALWAYS_INLINE static std::string_view raise(C text) noexcept {
        return text;  // NOLINT(bugprone-dangling-handle)
    }
};

/// The result. A failure is an ErrorState, whose reference is the caller's; a text is written to a TextBuffer.
template <class R>
struct BorderResult {
    using C = R;
    static constexpr bool is_text = false;
};
template <>
struct BorderResult<Error> {
    using C = ErrorState*;
    static constexpr bool is_text = false;
};
template <>
struct BorderResult<Result<void>> {
    using C = ErrorState*;
    static constexpr bool is_text = false;
};
template <>
struct BorderResult<std::string> {
    using C = void;
    static constexpr bool is_text = true;
};

/// A row that throws nothing, and of which nothing is converted; a reference is passed as a pointer is (Itanium C++
/// ABI, 3.1.1).
inline constexpr bool plain = true;

/// The C function of a row. A function that may throw has one parameter more, to which it writes the error.
template <class Signature, bool is_noexcept>
struct BackendSlot;
template <class R, class... A>
struct BackendSlot<R(A...), true> {
    using Result = BorderResult<R>;
    using C = typename Result::C;
    static_assert(!Result::is_text, "isthmus: a std::string may lack memory");
    using Type = C (*)(typename Border<A>::C...);
};
template <class R, class... A>
struct BackendSlot<R(A...), false> {
    using Result = BorderResult<R>;
    using C = typename Result::C;
    using Type = std::conditional_t<Result::is_text, C (*)(typename Border<A>::C..., TextBuffer*, ErrorState**),
                                    C (*)(typename Border<A>::C..., ErrorState**)>;
};

}  // namespace detail

ISTHMUS_END

// Helpers of the lists in isthmus/backend/functions.h: a parameter list with the object of a member function in front.
#define ISTHMUS_BACKEND_LIST(...) __VA_ARGS__
#define ISTHMUS_BACKEND_SELF_OF(C, ...) (C & self __VA_OPT__(, ) __VA_ARGS__)
#define ISTHMUS_BACKEND_SELF(...) ISTHMUS_BACKEND_SELF_OF(__VA_ARGS__)
#define ISTHMUS_BACKEND_WITH_OF(...) (*this __VA_OPT__(, ) __VA_ARGS__)
#define ISTHMUS_BACKEND_WITH(...) ISTHMUS_BACKEND_WITH_OF(__VA_ARGS__)
