// The C interface but for shared memory: status codes, tensors and blobs, exchanged, described and named.
// SPDX-License-Identifier: Apache-2.0
#include "interface.h"

#include <cstdio>
#include <cstring>

using isthmus::Device;
using isthmus::DType;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus_c::make_error;

namespace {

// Plain memory without a destructor, so that a thread may fail while it ends.
struct LastError {
    isthmus_status status;
    char text[1024];
};
thread_local LastError last_error{};

// Programs in other languages have these numbers compiled in.
#define ISTHMUS_SAME_NUMBER(c, cpp) static_assert((c) == static_cast<int>(isthmus::ErrorCode::cpp))
ISTHMUS_SAME_NUMBER(ISTHMUS_NOT_A_TENSOR, not_a_tensor);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_CAPSULE, bad_capsule);
ISTHMUS_SAME_NUMBER(ISTHMUS_CONSUMED_CAPSULE, consumed_capsule);
ISTHMUS_SAME_NUMBER(ISTHMUS_UNSUPPORTED_VERSION, unsupported_version);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_DTYPE, bad_dtype);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_LAYOUT, bad_layout);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_DEVICE, bad_device);
ISTHMUS_SAME_NUMBER(ISTHMUS_READ_ONLY, read_only);
ISTHMUS_SAME_NUMBER(ISTHMUS_NULL_DATA, null_data);
ISTHMUS_SAME_NUMBER(ISTHMUS_OVERFLOW, overflow);
ISTHMUS_SAME_NUMBER(ISTHMUS_PRODUCER_FAILED, producer_failed);
ISTHMUS_SAME_NUMBER(ISTHMUS_NEEDS_COPY, needs_copy);
ISTHMUS_SAME_NUMBER(ISTHMUS_NOT_VALUES, not_values);
ISTHMUS_SAME_NUMBER(ISTHMUS_REQUIRES_GRAD, requires_grad);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_ARGUMENT, bad_argument);
ISTHMUS_SAME_NUMBER(ISTHMUS_CONSUMER_FAILED, consumer_failed);
ISTHMUS_SAME_NUMBER(ISTHMUS_UNAVAILABLE, unavailable);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_THREAD, bad_thread);
ISTHMUS_SAME_NUMBER(ISTHMUS_OUT_OF_MEMORY, out_of_memory);
ISTHMUS_SAME_NUMBER(ISTHMUS_SYSTEM_FAILED, system_failed);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_MESSAGE, bad_message);
ISTHMUS_SAME_NUMBER(ISTHMUS_PEER_CLOSED, peer_closed);
ISTHMUS_SAME_NUMBER(ISTHMUS_TIMED_OUT, timed_out);
ISTHMUS_SAME_NUMBER(ISTHMUS_BAD_FILE, bad_file);
static_assert(ISTHMUS_FLAG_READ_ONLY == isthmus::flag::read_only && ISTHMUS_FLAG_PADDED == isthmus::flag::padded);

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

isthmus_status isthmus_c::fail(isthmus_status status, const char* text) noexcept {
    last_error.status = status;
    std::snprintf(last_error.text, sizeof last_error.text, "%s", text);
    return status;
}

const char* isthmus_status_name(isthmus_status status) noexcept {
    return status == ISTHMUS_OK ? "ok" : isthmus::error_code_name(static_cast<isthmus::ErrorCode>(status));
}
isthmus_status isthmus_last_status() noexcept { return last_error.status; }
const char* isthmus_last_error() noexcept { return last_error.text; }
void isthmus_clear_error() noexcept { (void)isthmus_c::fail(ISTHMUS_OK, ""); }

uint32_t isthmus_abi_version() noexcept { return ISTHMUS_C_ABI_VERSION; }
const char* isthmus_version() noexcept { return ISTHMUS_VERSION; }

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
