// Blob: a tensor as plain numbers, for runtimes that know nothing of tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/shape.h>
#include <isthmus/core/tensor.h>

ISTHMUS_BEGIN

/// A tensor as plain numbers, for a runtime without a tensor type; with the owner beside them.
struct Blob {
    void* ptr = nullptr;            ///< first element, byte offset included; an address on `device`
    SizesList shape;                ///< sizes, one per dimension
    SizesList strides;              ///< steps in elements, one per dimension; empty for row-major
    DType dtype{};                  ///< what one element is
    Device device{};                ///< where the memory is
    std::int64_t element_size = 0;  ///< bytes of one element; 0 for "as the dtype says"
    bool read_only = false;         ///< nobody may write to the elements
    bool padded = false;            ///< elements of fewer than 8 bits occupy a whole byte each
    Tensor owner;                   ///< keeps the memory alive as long as the Blob; empty if the Blob borrows
};

/// Describes a tensor in O(ndim) and holds its owner. Throws Error for the one tensor that a pointer cannot describe:
/// an offset from a handle (OpenCL, Vulkan, Metal, WebGPU).
Blob to_blob(const Tensor& tensor);

namespace detail {

/// Throws Error if a field is wrong.
TensorSpec blob_spec(const Blob& blob);

}  // namespace detail

/// A tensor over the memory that `blob` describes; `owner` (any object or callable, as for Tensor::wrap) is kept until
/// the last view is gone. On failure the owner is released and the Error says which field is wrong.
template <class Owner>
Result<Tensor> from_blob(const Blob& blob, Owner owner) {
    try {
        return Tensor::wrap_spec([&blob] { return detail::blob_spec(blob); }, std::move(owner));
    } catch (Error& error) {
        return std::move(error);
    }
}

/// Without a separate owner: the Blob's owner is shared, and if it has none **the caller must keep the memory alive**,
/// which must outlive every view.
Result<Tensor> from_blob(const Blob& blob);

ISTHMUS_END
