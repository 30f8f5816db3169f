// Tensors in the C interface: made, shared, described.
// SPDX-License-Identifier: Apache-2.0
#include "describe.h"
#include "handle.h"

isthmus_status isthmus_empty(const int64_t* shape, int32_t ndim, isthmus_dtype dtype, isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const auto spec = isthmus_c::make_spec(nullptr, isthmus_c::cpp(dtype), {}, shape, nullptr, ndim, 0);
        *out = isthmus_c::hand_out(
            isthmus::Tensor::empty(std::span<const int64_t>(spec.shape, static_cast<std::size_t>(spec.ndim)), spec.dtype));
    });
}

isthmus_status isthmus_wrap(void* data, const int64_t* shape, const int64_t* strides, int32_t ndim, isthmus_dtype dtype,
                            isthmus_device device, uint32_t flags, isthmus_release_fn release, void* owner,
                            isthmus_tensor** out) noexcept {
    isthmus_c::Owner held(release, owner);  // first, so that every failure below gives it back
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        *out = isthmus_c::hand_out(isthmus::Tensor::wrap_spec(
            [&] {
                return isthmus_c::make_spec(data, isthmus_c::cpp(dtype), isthmus_c::cpp(device), shape, strides, ndim, flags);
            },
            std::move(held)));
    });
}

isthmus_status isthmus_describe(const isthmus_tensor* tensor, isthmus_tensor_info* out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const isthmus::Tensor t = isthmus_c::share(tensor);
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
