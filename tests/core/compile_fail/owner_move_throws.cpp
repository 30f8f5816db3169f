// SPDX-License-Identifier: Apache-2.0
// An owner is moved to its last place, from where there is no way back: its move may not throw.
// expect: an owner must move without throwing
#include <isthmus/isthmus.h>

struct Owner {
    Owner() = default;
#if defined(ISTHMUS_MUST_FAIL)
    Owner(Owner&&) noexcept(false) {}
#else
    Owner(Owner&&) noexcept {}
#endif
};
isthmus::Tensor wrap(float* data) {
    return isthmus::Tensor::wrap(data, {4}, {}, isthmus::float32, isthmus::Device::cpu(), Owner());
}
