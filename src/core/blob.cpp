// Blob: a tensor as plain numbers, for runtimes that know nothing of tensors.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/blob.h>

ISTHMUS_BEGIN

Blob to_blob(const Tensor& tensor) {
    if (tensor->byte_offset != 0)
        throw detail::make_error(ErrorCode::bad_device,
                                 {"the elements begin ", tensor->byte_offset, " bytes into a handle of ",
                                  tensor.device(), "; a blob has a pointer and no offset"});
    Blob blob;
    blob.ptr = tensor.data();
    blob.shape = tensor.shape();
    blob.strides = tensor.strides();
    blob.dtype = tensor.dtype();
    blob.device = tensor.device();
    blob.element_size = tensor.itemsize();
    blob.read_only = tensor.read_only();
    blob.padded = tensor.is_padded();
    blob.owner = tensor;
    return blob;
}

namespace detail {

TensorSpec blob_spec(const Blob& blob) {
    if (blob.element_size != 0 && blob.element_size != blob.dtype.itemsize())
        throw make_error(ErrorCode::bad_dtype, ErrorKind::value,
                         {"argument 'element_size': ", blob.element_size, " bytes; expected ", blob.dtype.itemsize(),
                          ", the size of ", blob.dtype});
    TensorSpec spec(blob.ptr, blob.dtype, blob.shape);
    if (!blob.strides.empty()) spec.set_strides(blob.strides);
    spec.device = blob.device;
    spec.read_only = blob.read_only;
    spec.padded = blob.padded;
    return spec;
}

}  // namespace detail

Result<Tensor> from_blob(const Blob& blob) {
    Result<Tensor> tensor = from_blob(blob, blob.owner);
    if (tensor && !blob.owner) tensor->block()->flags |= detail::unowned_flag;
    return tensor;
}

ISTHMUS_END
