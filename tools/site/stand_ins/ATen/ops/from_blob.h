// What isthmus/torch.h names of ATen, for the reference: the site is built without libtorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
namespace c10 {
struct Storage {};
}  // namespace c10
namespace at {
enum class ScalarType : std::int8_t { Bool = 11, BFloat16 = 15, Float8_e5m2 = 23, UInt64 = 29 };
struct TensorBase {
    c10::Storage storage() const;
};
struct Tensor : TensorBase {};
}  // namespace at
