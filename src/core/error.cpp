// Error: what went wrong, as a code and one sentence.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/error.h>

#include <cstdlib>
#include <new>

ISTHMUS_BEGIN

namespace detail {

/// The state of every error for whose text there is no memory. It holds a reference to itself.
static ErrorState no_memory_state{
    Atomic<int>(1), ErrorCode::out_of_memory, ErrorKind::buffer, "no memory is left", nullptr, nullptr, nullptr};

ErrorState* no_memory_error_state() noexcept {
    no_memory_state.refs.retain();
    return &no_memory_state;
}
ErrorState* make_error_state(ErrorCode code, ErrorKind kind, Message text) noexcept {
    TextBuffer raw, clean;
    Piece(text).append_to(raw);
    append_printable(clean, raw.view());
    const std::string_view made = clean.view();
    const bool failed = raw.failed() || clean.failed();
    void* memory = failed ? nullptr : std::malloc(sizeof(ErrorState) + made.size() + 1);
    if (memory == nullptr) return no_memory_error_state();
    char* chars = static_cast<char*>(memory) + sizeof(ErrorState);
    made.copy(chars, made.size());
    chars[made.size()] = '\0';
    return ::new (memory) ErrorState{Atomic<int>(1), code, kind, chars, nullptr, nullptr, nullptr};
}

static void end_cause(ErrorState* state) noexcept {
    if (state->cause_holder != nullptr)
        drop_error_state(std::exchange(state->cause_holder, nullptr));
    else if (state->cause != nullptr)
        state->drop_cause(state->cause);
    state->cause = nullptr;
}
ISTHMUS_NOINLINE void drop_error_state(ErrorState* state) noexcept {
    if (!state->refs.release()) return;
    end_cause(state);
    std::free(state);
}

static ISTHMUS_COLD void append_argument(TextBuffer& out, const void* name, Piece::Number ends) noexcept {
    std::string_view text = name != nullptr ? static_cast<const char*>(name) : "";
    if (text.empty()) return;
    const std::size_t element = text.find(element_mark);
    if (element != 0) (out += "argument '") += text.substr(0, element);
    if (element == std::string_view::npos)
        out += "'";
    else
        out += text.substr(element == 0 ? std::string_view("', ").size() : element);
    if (ends != 0) out += ": ";
}
Piece named_argument(const char* argument) noexcept { return {append_argument, argument, 0}; }
Piece of_argument(const char* argument) noexcept { return {append_argument, argument, 1}; }
std::string argument_prefix(const char* argument) { return concat({of_argument(argument)}); }
Error make_error(ErrorCode code, Message text) noexcept { return make_error(code, Error::kind_of(code), text); }
Error make_error(ErrorCode code, ErrorKind kind, Message text) noexcept {
    return Error(make_error_state(code, kind, text));
}
Error make_error(ErrorCode code, const char* argument, Message text) noexcept {
    return make_error(code, {of_argument(argument), text});
}

}  // namespace detail

Error::Error(ErrorCode code, std::string_view message) noexcept : Error(code, kind_of(code), message) {}
Error::Error(ErrorCode code, ErrorKind kind, std::string_view message) noexcept
    : Error(detail::make_error_state(code, kind, message)) {}
Error::~Error() {
    if (state_ != nullptr) detail::drop_error_state(state_);
}
Error Error::prefixed(std::string_view prefix) const noexcept { return prefixed_by(prefix); }
Error Error::prefixed_by(detail::Message prefix) const noexcept {
    Error error(detail::make_error_state(code(), kind(), {prefix, what()}));
    // Without memory for its text it is another error, which has no cause.
    if (cause() != nullptr && error.state_ != &detail::no_memory_state) {
        error.state_->cause = state_->cause;
        error.state_->cause_holder = state_;
        state_->refs.retain();
    }
    return error;
}
Error& Error::set_cause(void* cause, void (*drop_cause)(void*)) & noexcept {
    if (state_ == &detail::no_memory_state) {
        drop_cause(cause);
        return *this;
    }
    detail::end_cause(state_);
    state_->cause = cause;
    state_->drop_cause = drop_cause;
    return *this;
}

ISTHMUS_END
