// Error: what went wrong, as a code and one sentence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <utility>

#include <isthmus/core/compiler.h>
#include <isthmus/core/config.h>
#include <isthmus/core/text.h>

ISTHMUS_BEGIN

/// Every way in which an exchange can fail. The list only grows at its end: it is part of the C ABI.
enum class ErrorCode : std::int32_t {
    not_a_tensor = 1,     ///< the object offers none of the protocols
    bad_capsule,          ///< a capsule of another name, or with a NULL pointer
    consumed_capsule,     ///< a capsule that was taken before
    unsupported_version,  ///< a DLPack major version, or flag bits, that this library cannot read
    bad_dtype,            ///< a dtype that cannot be expressed, or is not the expected one
    bad_layout,           ///< a rank, shape or strides that are invalid, or not the expected ones
    bad_device,           ///< a device that is unknown, or not the expected one
    read_only,            ///< writable memory was requested and the memory is read-only
    null_data,            ///< elements without memory
    overflow,             ///< sizes, strides or offsets that do not fit the address space
    producer_failed,      ///< the producer raised; its exception is the cause
    needs_copy,           ///< only a copy could do it, and none was requested
    not_values,           ///< the bytes are not the values: conjugate, negative, sparse, quantised, …
    requires_grad,        ///< autograd would not see the write
    bad_argument,         ///< an argument of the call itself is wrong
    consumer_failed,      ///< the framework that was to receive the tensor raised; its exception is the cause
    unavailable,          ///< the framework is not installed, or not usable here
    bad_thread,           ///< called without the GIL, or in a subinterpreter
    out_of_memory,        ///< an allocation failed
    system_failed,        ///< the operating system refused a call; the text says which and why
    bad_message,          ///< what another process sent is not what it says it is
    peer_closed,          ///< the other process is gone, or has closed its end
    timed_out,            ///< the other process did not answer, read or release in time
    bad_file,             ///< a file is not what it says it is
};

namespace detail {
/// The names of the codes from 1 on.
inline constexpr const char* error_code_names[] = {
    "not_a_tensor", "bad_capsule",   "consumed_capsule", "unsupported_version",
    "bad_dtype",    "bad_layout",    "bad_device",       "read_only",
    "null_data",    "overflow",      "producer_failed",  "needs_copy",
    "not_values",   "requires_grad", "bad_argument",     "consumer_failed",
    "unavailable",  "bad_thread",    "out_of_memory",    "system_failed",
    "bad_message",  "peer_closed",   "timed_out",        "bad_file",
};
inline constexpr int error_code_count = sizeof(error_code_names) / sizeof(error_code_names[0]);
static_assert(static_cast<int>(ErrorCode::bad_file) == error_code_count);
}  // namespace detail

/// The enumerator's own name: "bad_dtype".
constexpr const char* error_code_name(ErrorCode code) noexcept {
    const auto number = static_cast<std::int32_t>(code);
    return number >= 1 && number <= detail::error_code_count ? detail::error_code_names[number - 1] : "unknown";
}

/// Which family of mistake it is; the Python exception is chosen by it.
enum class ErrorKind : std::uint8_t {
    type,    ///< the wrong kind of object (TypeError)
    value,   ///< an argument that does not fit (ValueError)
    buffer,  ///< something that the exchange cannot express (BufferError)
};

namespace detail {

/// Called whenever this shared object makes an Error, so before it can be thrown: sets up what must be ready by then (a
/// binder's translation of exceptions).
struct ErrorWatcher {
    void (*made)() noexcept;
    const ErrorWatcher* next = nullptr;
};
ISTHMUS_STATE const ErrorWatcher* error_watchers = nullptr;
/// Only while the shared object is being loaded: the list does not change afterwards.
inline bool watch_errors(ErrorWatcher& watcher) noexcept {
    watcher.next = error_watchers;
    error_watchers = &watcher;
    return true;
}

/// What an Error refers to, in one allocation with its text. Part of the ABI (docs/abi.md).
struct ErrorState {
    Atomic<int> refs;
    ErrorCode code;
    ErrorKind kind;
    const char* text;  ///< UTF-8, with a NUL at its end and none before
    void* cause;
    void (*drop_cause)(void*);
    ErrorState* cause_holder;  ///< the error that will release the cause, if this one borrows it
};
/// The state of a new error, with one reference. Never NULL: without memory for the text it is the state of an error
/// that says so (ErrorCode::out_of_memory).
ErrorState* make_error_state(ErrorCode code, ErrorKind kind, Message text) noexcept;
/// That state, with one reference more.
ErrorState* no_memory_error_state() noexcept;
/// Removes a reference; the last one releases the cause.
void drop_error_state(ErrorState* state) noexcept;

}  // namespace detail

/// A failure: a code to branch on and one sentence that names the argument, the value found and the value expected.
/// Copies share the text; a moved-from or default Error has an empty one.
class ISTHMUS_EXPORT Error : public std::exception {
public:
    /// An error with its text, in which `\x1b` stands for a control character (line ends and tabs stay) and for a byte
    /// that is not UTF-8. The kind says which Python exception it becomes; without one it is kind_of(code). Without
    /// memory for the text it is an error of ErrorCode::out_of_memory.
    Error(ErrorCode code, std::string_view message) noexcept;
    Error(ErrorCode code, ErrorKind kind, std::string_view message) noexcept;
    /// For layers above: takes a reference to the state over.
    explicit Error(detail::ErrorState* state) noexcept : state_(state) {
        for (const auto* watcher = detail::error_watchers; watcher != nullptr; watcher = watcher->next) watcher->made();
    }
    Error(const Error& other) noexcept : std::exception(), state_(other.state_) {
        if (state_ != nullptr) state_->refs.retain();
    }
    Error(Error&& other) noexcept : std::exception(), state_(std::exchange(other.state_, nullptr)) {}
    Error& operator=(Error other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~Error() override;

    // Copies share the state, whose count the analyzer does not follow.
    // NOLINTBEGIN(clang-analyzer-cplusplus.NewDelete)
    /// The code to branch on; bad_argument for a moved-from error.
    ErrorCode code() const noexcept { return state_ != nullptr ? state_->code : ErrorCode::bad_argument; }
    // NOLINTEND(clang-analyzer-cplusplus.NewDelete)
    /// Which Python exception this becomes.
    ErrorKind kind() const noexcept { return state_ != nullptr ? state_->kind : ErrorKind::value; }
    /// One sentence, UTF-8, with no NUL before its end; valid as long as a copy of this error exists.
    const char* what() const noexcept override {
        return state_ != nullptr ? state_->text : "(moved-from isthmus::Error)";
    }

    /// The foreign exception behind this error (a PyObject* for the Python bridge), or nullptr. `drop_cause` releases
    /// it once.
    void* cause() const noexcept { return state_ != nullptr ? state_->cause : nullptr; }
    /// For layers above: the state, whose reference is the caller's from then on.
    detail::ErrorState* release() noexcept { return std::exchange(state_, nullptr); }
    /// Gives the error a foreign exception, which it owns from then on: `drop_cause(cause)` is called once, with the
    /// last copy.
    Error& set_cause(void* cause, void (*drop_cause)(void*)) & noexcept;
    /// The same error with `prefix` before its text: how a caller adds the name of its function.
    Error prefixed(std::string_view prefix) const noexcept;
    /// For layers above: the same with a prefix of pieces.
    Error prefixed_by(detail::Message prefix) const noexcept;

    /// The kind that goes with a code unless the error says otherwise.
    static constexpr ErrorKind kind_of(ErrorCode code) noexcept {
        switch (code) {
            case ErrorCode::not_a_tensor:
                return ErrorKind::type;
            case ErrorCode::bad_capsule:
            case ErrorCode::consumed_capsule:
            case ErrorCode::bad_argument:
            case ErrorCode::bad_thread:
                return ErrorKind::value;
            default:
                return ErrorKind::buffer;
        }
    }

private:
    detail::ErrorState* state_;
};

namespace detail {

/// In a name, what stands between that of a container and an element: "x', element 1".
inline constexpr std::string_view element_mark = "', element ";
/// "argument 'x': ", "argument 'x', element 1: " or, without a name, nothing.
std::string argument_prefix(const char* argument);
/// The same as a piece of a message; the name must live as long.
Piece of_argument(const char* argument) noexcept;
/// The same without the colon.
Piece named_argument(const char* argument) noexcept;

/// Error::prefixed() with a text of pieces.
ISTHMUS_COLD inline Error prefixed(const Error& error, Message prefix) noexcept { return error.prefixed_by(prefix); }
ISTHMUS_COLD Error make_error(ErrorCode code, Message text) noexcept;
ISTHMUS_COLD Error make_error(ErrorCode code, ErrorKind kind, Message text) noexcept;
ISTHMUS_COLD Error make_error(ErrorCode code, const char* argument, Message text) noexcept;

}  // namespace detail

ISTHMUS_END
