// CapturedException: an exception of C++ code as plain data, and the one place that decides how it is reported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <stdexcept>

#include <isthmus/core/block.h>
#include <isthmus/core/error.h>

ISTHMUS_BEGIN

namespace detail {

/// An exception of C++ code, as plain data: it may have been thrown on a thread that has no Python, and by code of
/// another C++ library. Its text is that of an ErrorState.
class CapturedException {
public:
    enum class Kind : std::uint8_t { none, error, memory, value, index, overflow, other };

    CapturedException() noexcept = default;
    explicit CapturedException(Error error) noexcept : kind_(Kind::error), state_(error.release()) {}
    CapturedException(Kind kind, const char* text) noexcept
        : kind_(kind), state_(make_error_state(ErrorCode::bad_argument, ErrorKind::value, text)) {}
    CapturedException(CapturedException&& other) noexcept
        : kind_(std::exchange(other.kind_, Kind::none)), state_(std::exchange(other.state_, nullptr)) {}
    CapturedException& operator=(CapturedException other) noexcept {
        std::swap(kind_, other.kind_);
        std::swap(state_, other.state_);
        return *this;
    }
    ~CapturedException() {
        if (ISTHMUS_UNLIKELY(state_ != nullptr)) drop_error_state(state_);
    }

    explicit operator bool() const noexcept { return kind_ != Kind::none; }
    Kind kind() const noexcept { return kind_; }
    const char* text() const noexcept { return state_ != nullptr ? state_->text : ""; }
    /// Of Kind::error.
    Error error() const noexcept {
        if (state_ != nullptr) state_->refs.retain();
        return Error(state_);
    }

private:
    Kind kind_ = Kind::none;
    ErrorState* state_ = nullptr;
};

/// The exception that is being handled. Its text is inline, so that the code that threw it is the code that reads it.
ISTHMUS_COLD inline CapturedException capture_current() {
    using Kind = CapturedException::Kind;
    try {
        throw;
    } catch (const Error& error) {
        return CapturedException(error);
    } catch (const std::bad_alloc&) {
        return {Kind::memory, "no memory"};
    } catch (const std::invalid_argument& error) {
        return {Kind::value, error.what()};
    } catch (const std::domain_error& error) {
        return {Kind::value, error.what()};
    } catch (const std::length_error& error) {
        return {Kind::value, error.what()};
    } catch (const std::out_of_range& error) {
        return {Kind::index, error.what()};
    } catch (const std::overflow_error& error) {
        return {Kind::overflow, error.what()};
    } catch (const std::exception& error) {
        return {Kind::other, error.what()};
    } catch (...) {
        return {Kind::other, "an exception was thrown that is not a std::exception"};
    }
}

/// Returns what `f` returns, or what `report` makes of the exception that it threw.
template <class F, class Report>
ISTHMUS_ALWAYS_INLINE auto capturing(F&& f, Report&& report) -> decltype(f()) {
    try {
        return f();
#if defined(ISTHMUS_FORCED_UNWIND)
    } catch (__cxxabiv1::__forced_unwind&) {
        throw;
#endif
    } catch (...) {
        return report(capture_current());
    }
}
/// Runs `f`, and returns what it threw.
template <class F>
ISTHMUS_ALWAYS_INLINE CapturedException capture(F&& f) {
    return capturing([&] { return f(), CapturedException(); }, [](CapturedException captured) { return captured; });
}

/// Sets what was captured as the Python exception that fits; `function` is named in the text unless it is an
/// isthmus::Error. Needs the GIL.
void raise_captured(const char* function, const CapturedException& captured) noexcept;

/// Returns what `f` returns; `failed`, with a Python exception set, if it throws. Needs the GIL.
template <class R, class F>
ISTHMUS_ALWAYS_INLINE R raising(const char* function, R failed, F&& f) {
    return capturing(f, [&](const CapturedException& captured) -> R {
        raise_captured(function, captured);
        return failed;
    });
}

}  // namespace detail

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_CAPTURED)
#endif
