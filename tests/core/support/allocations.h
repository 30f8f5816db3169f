// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace isthmus_test {

/// Counts the allocations that this thread makes while the object lives, however they are made.
class Allocations {
public:
    Allocations() noexcept : start_(total()) {}
    std::size_t count() const noexcept { return total() - start_; }

private:
    static std::size_t total() noexcept;
    std::size_t start_;
};

/// Whether they are: only glibc and the sanitizers let a program stand between it and its allocations.
bool counts_allocations() noexcept;

/// Lets the next allocation of this thread fail. False where that cannot be arranged (under a sanitizer, without
/// glibc).
bool fail_next_allocation() noexcept;

}  // namespace isthmus_test
