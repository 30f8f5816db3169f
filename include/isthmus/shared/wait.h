// How long a call may wait, and what may end the wait.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include <isthmus/core/result.h>
#include <isthmus/shared/file.h>

#if !defined(_WIN32)
#include <poll.h>
#endif

ISTHMUS_BEGIN

namespace shared {

/// How long a call may wait for the other process.
struct Wait {
    /// Milliseconds: negative for as long as it takes, 0 for not at all.
    std::int64_t timeout_ms = -1;
    /// Asked whenever a signal has arrived, with `context`: true ends the call with an Error. May be NULL.
    bool (*interrupted)(void* context) = nullptr;
    void* context = nullptr;  ///< handed to `interrupted`
};

namespace impl {

/// The time that is left of a Wait.
class Deadline {
public:
    explicit Deadline(const Wait& wait) : wait_(wait) {
        if (wait.timeout_ms > 0) end_ = Clock::now() + std::chrono::milliseconds(wait.timeout_ms);
    }
    bool is_endless() const noexcept { return wait_.timeout_ms < 0; }
    /// Whether it may wait at all.
    bool is_patient() const noexcept { return wait_.timeout_ms != 0; }
    /// Milliseconds left, as poll() takes them.
    int left() const {
        if (is_endless()) return -1;
        if (wait_.timeout_ms == 0) return 0;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
        return left <= 0 ? 0 : left > 1'000'000'000 ? 1'000'000'000 : static_cast<int>(left);
    }
    bool is_interrupted() const { return wait_.interrupted != nullptr && wait_.interrupted(wait_.context); }

    ISTHMUS_COLD Error timed_out(const char* what) const {
        return Error(ErrorCode::timed_out, concat({what, " within ", static_cast<long long>(wait_.timeout_ms), " ms"}));
    }
    ISTHMUS_COLD static Error interrupted() { return Error(ErrorCode::system_failed, "a signal ended the wait"); }

#if !defined(_WIN32)
    /// Waits until the descriptor is ready for `events`, or for at most `most_ms` where that is not negative.
    Result<void> wait_for(int descriptor, short events, const char* what, int most_ms = -1) const {
        for (;;) {
            int ms = left();
            if (ms == 0) return timed_out(what);
            if (most_ms >= 0 && (ms < 0 || ms > most_ms)) ms = most_ms;
            struct pollfd item{descriptor, events, 0};
            const int ready = ::poll(&item, descriptor >= 0 ? 1 : 0, ms);
            if (ready > 0 || (ready == 0 && most_ms >= 0)) return {};
            if (ready < 0 && errno != EINTR) return system_error("poll", errno);
            if (ready < 0 && is_interrupted()) return interrupted();
        }
    }
#endif

private:
    using Clock = std::chrono::steady_clock;
    Wait wait_;
    Clock::time_point end_{};
};

}  // namespace impl

}  // namespace shared

ISTHMUS_END
