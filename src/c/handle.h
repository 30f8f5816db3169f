// Handles of the C interface and the tensors behind them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "status.h"

namespace isthmus_c {

/// An isthmus_tensor* is the block itself: one reference is one count, and nothing is allocated for the C side.
inline isthmus::detail::Block* block_of(const isthmus_tensor* tensor) {
    require(tensor, "tensor");
    return reinterpret_cast<isthmus::detail::Block*>(const_cast<isthmus_tensor*>(tensor));
}

/// A second handle on the caller's reference.
inline isthmus::Tensor share(const isthmus_tensor* tensor) {
    auto* block = block_of(tensor);
    isthmus::detail::retain(block);
    return isthmus::Tensor::steal(block);
}

inline isthmus_tensor* hand_out(isthmus::Tensor tensor) noexcept {
    return reinterpret_cast<isthmus_tensor*>(tensor.release_block());
}

/// The owner of memory that came from C: a callback and its argument.
class Owner {
public:
    Owner(isthmus_release_fn release, void* owner) noexcept : release_(release), owner_(owner) {}
    Owner(Owner&& other) noexcept : release_(std::exchange(other.release_, nullptr)), owner_(other.owner_) {}
    ~Owner() {
        if (release_ != nullptr) isthmus::detail::run_deleter([this] { release_(owner_); });
    }

private:
    isthmus_release_fn release_;
    void* owner_;
};

}  // namespace isthmus_c
