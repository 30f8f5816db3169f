// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <isthmus/core/config.h>

namespace isthmus_test {

/// A managed tensor of another library, 2 x 3 float32 unless told otherwise, which counts the calls of its deleter.
template <class Managed>
struct Foreign {
    std::vector<float> elements{0, 1, 2, 3, 4, 5};
    std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
    std::atomic<int> deleted{0};
    Managed managed{};

    Foreign() {
        managed.dl_tensor =
            DLTensor{elements.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape.data(), strides.data(), 0};
        managed.manager_ctx = this;
        managed.deleter = [](Managed* self) { static_cast<Foreign*>(self->manager_ctx)->deleted++; };
        if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>)
            managed.version = DLPackVersion{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    }
    Foreign(const Foreign&) = delete;
    Foreign& operator=(const Foreign&) = delete;

    DLTensor& dl() { return managed.dl_tensor; }
    Managed* get() { return &managed; }
    void reshape(std::vector<std::int64_t> sizes, std::vector<std::int64_t> steps) {
        shape = std::move(sizes);
        strides = std::move(steps);
        dl().ndim = static_cast<std::int32_t>(shape.size());
        dl().shape = shape.data();
        dl().strides = strides.data();
    }
};

using Versioned = Foreign<DLManagedTensorVersioned>;
using Legacy = Foreign<DLManagedTensor>;

}  // namespace isthmus_test
