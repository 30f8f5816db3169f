// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <utility>

#include <isthmus/core/tensor.h>

#include "support/allocations.h"

namespace isthmus_test {

/// What a Tensor is given to keep; tells how often it was called and destroyed. A moved-from one tells nothing.
struct Counts {
    std::atomic<int> called{0};
    std::atomic<int> destroyed{0};
};
class CountedOwner {
public:
    explicit CountedOwner(Counts& counts) : counts_(&counts) {}
    CountedOwner(CountedOwner&& other) noexcept : counts_(std::exchange(other.counts_, nullptr)) {}
    ~CountedOwner() {
        if (counts_ != nullptr) counts_->destroyed++;
    }
    void operator()() { counts_->called++; }

private:
    Counts* counts_;
};

inline float eight_floats[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/// A tensor of them that keeps `owner`.
template <class Owner>
isthmus::Tensor wrap_eight_floats(Owner owner) {
    return isthmus::Tensor::wrap(eight_floats, {8}, {}, isthmus::float32, isthmus::Device::cpu(), std::move(owner));
}

/// Lets the allocation fail that follows its `at`th move: wherever its last place is made and described.
class FailsAfterMove : public CountedOwner {
public:
    FailsAfterMove(Counts& counts, int at) : CountedOwner(counts), at_(at) {}
    FailsAfterMove(FailsAfterMove&& other) noexcept : CountedOwner(std::move(other)), at_(other.at_ - 1) {
        if (at_ == 0) fail_next_allocation();
    }

private:
    int at_;
};

}  // namespace isthmus_test
