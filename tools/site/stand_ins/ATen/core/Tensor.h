// What isthmus/torch.h names of ATen, for the reference: the site is built without libtorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once
namespace at {
struct Tensor {};
}  // namespace at
