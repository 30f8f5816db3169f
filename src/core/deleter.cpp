// Calling deleters and other code that is not ours, from functions that must not throw.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/deleter.h>

ISTHMUS_BEGIN

namespace detail {

void run_release(void (*release)(void*), void* owner) noexcept {
    swallowing([=] { release(owner); });
}

}  // namespace detail

ISTHMUS_END
