// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <isthmus/core/tensor.h>

#include "support/allocations.h"
#include "support/foreign_tensor.h"

namespace isthmus_test {

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
