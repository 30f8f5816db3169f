// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <isthmus/core/dlpack.h>

ISTHMUS_BEGIN

/// A tensor as plain numbers, for a runtime that knows nothing of tensors: what crosses is this, and the owner beside it.
struct Blob {
    void* ptr = nullptr;                ///< first element, byte offset included; an address on `device`
    std::vector<std::int64_t> shape;    ///< sizes, one per dimension
    std::vector<std::int64_t> strides;  ///< steps in elements, one per dimension; empty for row-major
    DType dtype{};
    Device device{};
    std::int64_t element_size = 0;  ///< bytes of one element; 0 for "as the dtype says"
    bool read_only = false;
    Tensor owner;  ///< keeps the memory alive while the Blob lives; empty when the Blob borrows
};

/// Describes a tensor in O(ndim) and holds its owner.
inline Blob to_blob(const Tensor& tensor) {
    Blob blob;
    blob.ptr = tensor.data();
    blob.shape.assign(tensor.shape().begin(), tensor.shape().end());
    blob.strides.assign(tensor.strides().begin(), tensor.strides().end());
    blob.dtype = tensor.dtype();
    blob.device = tensor.device();
    blob.element_size = tensor.itemsize();
    blob.read_only = tensor.read_only();
    blob.owner = tensor;
    return blob;
}

/// A tensor over the memory that `blob` describes; `owner` (any object or callable, as for Tensor::wrap) is kept until the
/// last view is gone. On failure the owner is released and the Error says which field is wrong.
template <class Owner>
Result<Tensor> from_blob(const Blob& blob, Owner owner) {
    try {
        if (blob.element_size != 0 && blob.element_size != blob.dtype.itemsize())
            throw Error(ErrorCode::bad_dtype, ErrorKind::value,
                        "argument 'element_size': " + std::to_string(blob.element_size) + " bytes; wanted " + std::to_string(blob.dtype.itemsize()) +
                            ", the size of " + blob.dtype.name());
        if (blob.strides.empty() || blob.strides.size() == blob.shape.size()) {
            if (blob.read_only)
                return Tensor::wrap(static_cast<const void*>(blob.ptr), blob.shape, blob.strides, blob.dtype, blob.device, std::move(owner));
            return Tensor::wrap(blob.ptr, blob.shape, blob.strides, blob.dtype, blob.device, std::move(owner));
        }
        throw Error(ErrorCode::bad_layout, ErrorKind::value,
                    "argument 'strides': " + std::to_string(blob.strides.size()) + " entries; wanted " + std::to_string(blob.shape.size()) +
                        ", one per dimension");
    } catch (Error& error) {
        return std::move(error);
    }
}

/// Without an owner of its own: the Blob's owner is shared, and where it has none **the caller answers for the memory**, which
/// must outlive every view.
inline Result<Tensor> from_blob(const Blob& blob) { return from_blob(blob, blob.owner); }

ISTHMUS_END
