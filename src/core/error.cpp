// Error: what went wrong, as a code and one sentence.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/error.h>

ISTHMUS_BEGIN

Error::Error(ErrorCode code, std::string message) : Error(code, kind_of(code), std::move(message)) {}
Error::Error(ErrorCode code, ErrorKind kind, std::string message)
    : state_(new State{detail::Atomic<int>(1), code, kind, detail::printable(std::move(message)), nullptr, nullptr,
                       nullptr}) {
    for (const auto* watcher = detail::error_watchers; watcher != nullptr; watcher = watcher->next) watcher->made();
}
Error::~Error() {
    if (state_ != nullptr) drop(state_);
}
Error Error::prefixed(const std::string& prefix) const {
    Error error(code(), kind(), prefix + what());
    if (cause() != nullptr) {
        error.state_->cause = state_->cause;
        error.state_->cause_holder = state_;
        state_->refs.retain();
    }
    return error;
}
Error& Error::set_cause(void* cause, void (*drop_cause)(void*)) & noexcept {
    end_cause(state_);
    state_->cause = cause;
    state_->drop_cause = drop_cause;
    return *this;
}
ISTHMUS_NOINLINE void Error::end_cause(State* state) noexcept {
    if (state->cause_holder != nullptr)
        drop(std::exchange(state->cause_holder, nullptr));
    else if (state->cause != nullptr)
        state->drop_cause(state->cause);
    state->cause = nullptr;
}
ISTHMUS_NOINLINE void Error::drop(State* state) noexcept {
    if (!state->refs.release()) return;
    end_cause(state);
    delete state;
}

namespace detail {

std::string argument_prefix(const char* argument) {
    return argument != nullptr && *argument != '\0' ? concat({"argument '", argument, "': "}) : std::string();
}
Error make_error(ErrorCode code, Message text) { return Error(code, concat({text})); }
Error make_error(ErrorCode code, const char* argument, Message text) {
    return Error(code, concat({argument_prefix(argument), text}));
}

}  // namespace detail

ISTHMUS_END
