// CapturedException: an exception of C++ code as plain data, and the one place that decides how it is reported.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
    /// Of Kind::memory if there is none for the text.
    CapturedException(Kind kind, const char* text) noexcept
        : kind_(kind), state_(make_error_state(ErrorCode::bad_argument, ErrorKind::value, text)) {
        if (state_->code == ErrorCode::out_of_memory) kind_ = Kind::memory;
    }
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

/// The exception that is being handled. The code that threw it reads its text: a module of the stable ABI has the
/// function itself.
ISTHMUS_COLD CapturedException capture_current() noexcept;

/// Returns what `f` returns; if it throws, what `report` returns while the exception is being handled.
template <class F, class Report>
ISTHMUS_ALWAYS_INLINE auto catching(F&& f, Report&& report) -> decltype(f()) {
    try {
        return f();
#if defined(ISTHMUS_FORCED_UNWIND)
    } catch (__cxxabiv1::__forced_unwind&) {
        throw;
#endif
    } catch (...) {
        return report();
    }
}
/// Returns what `f` returns, or what `report` makes of the exception that it threw.
template <class F, class Report>
ISTHMUS_ALWAYS_INLINE auto capturing(F&& f, Report&& report) -> decltype(f()) {
    return catching(f, [&]() ISTHMUS_INLINE_LAMBDA { return report(capture_current()); });
}
/// Runs `f`, and returns what it threw.
template <class F>
ISTHMUS_ALWAYS_INLINE CapturedException capture(F&& f) {
    return capturing([&] { return f(), CapturedException(); }, [](CapturedException captured) { return captured; });
}

/// Sets what was captured as the Python exception that fits; `function` is named in the text unless it is an
/// isthmus::Error. Needs the GIL.
void raise_captured(const char* function, const CapturedException& captured) noexcept;
/// The same of the exception that is being handled.
ISTHMUS_COLD void raise_current(const char* function) noexcept;

/// Returns what `f` returns; `failed`, with a Python exception set, if it throws. Needs the GIL.
template <class R, class F>
ISTHMUS_ALWAYS_INLINE R raising(const char* function, R failed, F&& f) noexcept {
    return surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        return catching(f, [&]() ISTHMUS_INLINE_LAMBDA {
            raise_current(function);
            return failed;
        });
    });
}

}  // namespace detail

ISTHMUS_END
