// Borrowed: a tensor lent by a Python object for the length of a call, without an allocation.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/borrowed.h>

ISTHMUS_BEGIN

void Borrowed::end() noexcept {
    detail::run_release(std::exchange(ops_, nullptr)->release, owner_ == nullptr ? &buffer_ : owner_);
}

ISTHMUS_END
