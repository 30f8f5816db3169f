// Calling deleters and other code that is not ours, from functions that must not throw; threads and forks.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/deleter.h>

#include "system.h"

ISTHMUS_BEGIN

namespace detail {

#if defined(_WIN32)
void stop_this_thread() noexcept {
    for (;;) Sleep(0xFFFFFFFFUL);
}
void sleep_microseconds(unsigned count) noexcept { Sleep((count + 999) / 1000); }
void around_forks(void (*)(), void (*)(), void (*)()) noexcept {}
#else
void stop_this_thread() noexcept {
    for (;;) pause();
}
void sleep_microseconds(unsigned count) noexcept { usleep(count); }
void around_forks(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
    (void)pthread_atfork(before, in_parent, in_child);
}
#endif

void run_release(void (*release)(void*), void* owner) noexcept {
    swallowing([=] { release(owner); });
}

}  // namespace detail

ISTHMUS_END
