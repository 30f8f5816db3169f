// Blobs in the C interface.
// SPDX-License-Identifier: Apache-2.0
#include "interface.h"

namespace {

using isthmus::Device;
using isthmus::DType;
using isthmus::ErrorCode;
using isthmus::detail::make_error;

DType dtype_of_blob(const isthmus_blob& blob) {
    const std::string_view name = isthmus_c::bounded(blob.dtype_name);
    const DType dtype = isthmus_c::cpp(blob.dtype);
    if (name.empty()) return dtype;
    const DType named = isthmus_c::parse_dtype(name, "dtype_name");
    if (blob.dtype.bits != 0 && dtype != named)
        throw make_error(ErrorCode::bad_dtype, {"argument 'dtype': ", dtype, ", but dtype_name is \"", name,
                                                "\"; expected one of the two, or both alike"});
    return named;
}

Device device_of_blob(const isthmus_blob& blob) {
    const std::string_view name = isthmus_c::bounded(blob.device_name);
    const Device device = isthmus_c::cpp(blob.device);
    if (name.empty()) return blob.device.type != 0 ? device : Device::cpu();
    const Device named = isthmus_c::parse_device(name, "device_name");
    if (blob.device.type != 0 && device != named)
        throw make_error(ErrorCode::bad_device, {"argument 'device': ", device, ", but device_name is \"", name,
                                                 "\"; expected one of the two, or both alike"});
    return named;
}

}  // namespace

isthmus_status isthmus_from_blob(const isthmus_blob* blob, isthmus_tensor** out) noexcept {
    isthmus_c::Owner held(blob != nullptr ? blob->release : nullptr, blob != nullptr ? blob->owner : nullptr);
    return isthmus_c::guarded([&] {
        isthmus_c::require(blob, "blob");
        isthmus_c::require(out, "out");
        const auto describe = [&] {
            const DType dtype = dtype_of_blob(*blob);
            if (blob->element_size != 0 && dtype.is_valid() && blob->element_size != dtype.itemsize())
                throw make_error(ErrorCode::bad_dtype,
                                 {"argument 'element_size': ", blob->element_size, " bytes; expected ",
                                  dtype.itemsize(), ", the size of ", dtype});
            return isthmus_c::make_spec(blob->ptr, dtype, device_of_blob(*blob), blob->shape, blob->strides, blob->ndim,
                                        blob->flags);
        };
        *out = isthmus_c::hand_out(isthmus::Tensor::wrap_spec(describe, std::move(held)));
    });
}

isthmus_status isthmus_to_blob(isthmus_tensor* tensor, isthmus_blob* out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        isthmus::Tensor t = isthmus_c::share(tensor);
        if (t->byte_offset != 0)
            throw make_error(ErrorCode::bad_device,
                             {"argument 'tensor': the elements begin ", t->byte_offset, " bytes into a handle of ",
                              t.device(), "; a blob has a pointer and no offset"});
        isthmus_blob blob{};
        blob.ptr = t.data();
        blob.shape = t->shape;
        blob.strides = t->strides;
        blob.element_size = t.itemsize();
        blob.ndim = t.ndim();
        blob.flags = isthmus_c::flags_of(t);
        blob.dtype = isthmus_c::c(t.dtype());
        blob.device = isthmus_c::c(t.device());
        isthmus_c::write_name(t.dtype().name(), blob.dtype_name, sizeof blob.dtype_name);
        isthmus_c::write_name(t.device().name(), blob.device_name, sizeof blob.device_name);
        blob.release = [](void* owner) { (void)isthmus_release(static_cast<isthmus_tensor*>(owner)); };
        blob.owner = isthmus_c::hand_out(std::move(t));
        *out = blob;
    });
}
