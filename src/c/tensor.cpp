// Tensors in the C interface: made, shared, described, exchanged as DLPack's managed tensors; names.
// SPDX-License-Identifier: Apache-2.0
#include "interface.h"

using isthmus::Device;
using isthmus::DType;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus_c::make_error;

namespace {

// Takes the managed tensor before it checks `out`, since a call that fails has taken the managed tensor too.
template <class Managed>
isthmus_status from(Managed* managed, isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        auto tensor = Tensor::from_dlpack(managed);
        isthmus_c::require(out, "out");
        *out = isthmus_c::hand_out(std::move(tensor).value());
    });
}

template <class Managed>
void give(Managed* managed, Managed** out) {
    if (managed == nullptr) throw Error(ErrorCode::out_of_memory, "no memory for a managed tensor");
    *out = managed;
}

}  // namespace

isthmus_status isthmus_empty(const int64_t* shape, int32_t ndim, isthmus_dtype dtype, isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const auto spec = isthmus_c::make_spec(nullptr, isthmus_c::cpp(dtype), {}, shape, nullptr, ndim, 0);
        *out = isthmus_c::hand_out(
            Tensor::empty(std::span<const int64_t>(spec.shape, static_cast<std::size_t>(spec.ndim)), spec.dtype));
    });
}

isthmus_status isthmus_wrap(void* data, const int64_t* shape, const int64_t* strides, int32_t ndim, isthmus_dtype dtype,
                            isthmus_device device, uint32_t flags, isthmus_release_fn release, void* owner,
                            isthmus_tensor** out) noexcept {
    isthmus_c::Owner held(release, owner);  // first, so that every failure below releases it
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        *out = isthmus_c::hand_out(Tensor::wrap_spec(
            [&] {
                return isthmus_c::make_spec(data, isthmus_c::cpp(dtype), isthmus_c::cpp(device), shape, strides, ndim,
                                            flags);
            },
            std::move(held)));
    });
}

isthmus_status isthmus_describe(const isthmus_tensor* tensor, isthmus_tensor_info* out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const Tensor t = isthmus_c::share(tensor);
        isthmus_tensor_info info{};
        info.data = t.data();
        info.shape = t->shape;
        info.strides = t->strides;
        info.numel = t.numel();
        info.nbytes = t.nbytes();
        info.itemsize = t.itemsize();
        info.byte_offset = t->byte_offset;
        info.dtype = isthmus_c::c(t.dtype());
        info.device = isthmus_c::c(t.device());
        info.ndim = t.ndim();
        info.flags = isthmus_c::flags_of(t);
        info.is_contiguous = t.is_contiguous() ? 1 : 0;
        *out = info;
    });
}

isthmus_status isthmus_retain(isthmus_tensor* tensor) noexcept {
    return isthmus_c::guarded([&] { (void)isthmus_c::share(tensor).release_block(); });
}

isthmus_status isthmus_release(isthmus_tensor* tensor) noexcept {
    return isthmus_c::guarded([&] { isthmus::detail::drop(isthmus_c::block_of(tensor)); });
}

isthmus_status isthmus_as_read_only(isthmus_tensor* tensor, isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        *out = isthmus_c::hand_out(isthmus_c::share(tensor).as_read_only());
    });
}

isthmus_status isthmus_from_dlpack(DLManagedTensorVersioned* managed, isthmus_tensor** out) noexcept {
    return from(managed, out);
}
isthmus_status isthmus_from_dlpack_legacy(DLManagedTensor* managed, isthmus_tensor** out) noexcept {
    return from(managed, out);
}

isthmus_status isthmus_to_dlpack(isthmus_tensor* tensor, DLManagedTensorVersioned** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        give(isthmus_c::share(tensor).to_dlpack(), out);
    });
}

isthmus_status isthmus_to_dlpack_legacy(isthmus_tensor* tensor, DLManagedTensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const Tensor t = isthmus_c::share(tensor);
        if (t.read_only())
            throw Error(
                ErrorCode::read_only,
                "argument 'tensor': read-only, which the layout before DLPack 1.0 cannot say; use isthmus_to_dlpack");
        if (t.is_padded() && t.dtype().is_subbyte())
            throw make_error(ErrorCode::bad_dtype,
                             {"argument 'tensor': padded elements of ", t.dtype(),
                              ", which the layout before DLPack 1.0 cannot say; use isthmus_to_dlpack"});
        give(t.to_dlpack_legacy(), out);
    });
}

isthmus_status isthmus_dtype_name(isthmus_dtype dtype, char* buffer, size_t size) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(buffer, "buffer");
        const DType d = isthmus_c::cpp(dtype);
        if (!d.is_valid())
            throw make_error(ErrorCode::bad_dtype, {"argument 'dtype': (code ", dtype.code, ", bits ", dtype.bits,
                                                    ", lanes ", dtype.lanes, ") is not one that DLPack 1.3 defines"});
        isthmus_c::write_name(d.name(), buffer, size);
    });
}

isthmus_status isthmus_dtype_parse(const char* name, isthmus_dtype* out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(name, "name");
        isthmus_c::require(out, "out");
        *out = isthmus_c::c(isthmus_c::parse_dtype(name, "name"));
    });
}

isthmus_status isthmus_device_name(isthmus_device device, char* buffer, size_t size) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(buffer, "buffer");
        const Device d = isthmus_c::cpp(device);
        if (!d.is_valid())
            throw make_error(ErrorCode::bad_device, {"argument 'device': (type ", device.type, ", id ", device.id,
                                                     ") is not one that DLPack 1.3 defines"});
        isthmus_c::write_name(d.name(), buffer, size);
    });
}

isthmus_status isthmus_device_parse(const char* name, isthmus_device* out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(name, "name");
        isthmus_c::require(out, "out");
        *out = isthmus_c::c(isthmus_c::parse_device(name, "name"));
    });
}
