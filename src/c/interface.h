// Shared by the functions of the C interface: errors as status codes, handles on tensors, names, descriptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <isthmus/c/isthmus.h>
#include <isthmus/isthmus.h>

namespace isthmus_c {

using isthmus::Device;
using isthmus::DType;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::detail::make_error;

/// Keeps the error for isthmus_last_error() and returns its number. Allocates nothing, since memory may have run out.
isthmus_status fail(isthmus_status status, const char* text) noexcept;

/// The boundary between C++ and C: runs `f`, and turns whatever it throws into a status. Defers pthread_cancel until it
/// is done.
template <class F>
isthmus_status guarded(F&& f) noexcept {
    const isthmus::detail::NoCancellation whole;
    try {
        f();
        return ISTHMUS_OK;
    } catch (const Error& e) {
        return fail(static_cast<isthmus_status>(e.code()), e.what());
    } catch (const std::bad_alloc&) {
        return fail(ISTHMUS_OUT_OF_MEMORY, "no memory");
    } catch (const std::exception& e) {
        return fail(ISTHMUS_BAD_ARGUMENT, e.what());
    } catch (...) {
        return fail(ISTHMUS_BAD_ARGUMENT, "an exception of an unknown type");
    }
}

inline void require(const void* pointer, const char* argument) {
    if (pointer == nullptr)
        throw make_error(ErrorCode::bad_argument, {"argument '", argument, "': NULL; expected a pointer"});
}

/// A name in an array of the caller, which may lack the NUL: never reads past the array.
template <std::size_t N>
std::string_view bounded(const char (&name)[N]) noexcept {
    std::size_t size = 0;
    while (size < N && name[size] != '\0') ++size;
    return {name, size};
}

/// An isthmus_tensor* is the block itself: one reference is one count, and nothing is allocated for the C side.
inline isthmus::detail::Block* block_of(const isthmus_tensor* tensor) {
    require(tensor, "tensor");
    return reinterpret_cast<isthmus::detail::Block*>(const_cast<isthmus_tensor*>(tensor));
}

/// A second handle on the caller's reference.
inline Tensor share(const isthmus_tensor* tensor) {
    auto* block = block_of(tensor);
    isthmus::detail::retain(block);
    return Tensor::steal(block);
}

inline isthmus_tensor* hand_out(Tensor tensor) noexcept {
    return reinterpret_cast<isthmus_tensor*>(tensor.release_block());
}

/// The owner of memory that came from C: a callback and its argument.
class Owner {
public:
    Owner(isthmus_release_fn release, void* owner) noexcept : release_(release), owner_(owner) {}
    Owner(Owner&& other) noexcept : release_(std::exchange(other.release_, nullptr)), owner_(other.owner_) {}
    ~Owner() {
        if (release_ != nullptr) isthmus::detail::run_deleter([this] { release_(owner_); });
    }

private:
    isthmus_release_fn release_;
    void* owner_;
};

inline DType cpp(isthmus_dtype d) noexcept { return {d.code, d.bits, d.lanes}; }
inline Device cpp(isthmus_device d) noexcept { return {d.type, d.id}; }
inline isthmus_dtype c(DType d) noexcept { return {d.code, d.bit_count, d.lane_count}; }
inline isthmus_device c(Device d) noexcept { return {d.type, d.id}; }

inline void write_name(const std::string& name, char* buffer, std::size_t size) {
    if (name.size() >= size)
        throw make_error(ErrorCode::bad_argument,
                         {"argument 'size': ", size, " bytes; expected ", name.size() + 1, " for \"", name, "\""});
    std::memcpy(buffer, name.c_str(), name.size() + 1);
}

inline DType parse_dtype(std::string_view name, const char* argument) {
    DType dtype;
    if (!DType::parse(name, dtype))
        throw make_error(ErrorCode::bad_dtype, {"argument '", argument, "': no dtype is called \"", name,
                                                "\"; expected a name such as \"float32\""});
    return dtype;
}
inline Device parse_device(std::string_view name, const char* argument) {
    Device device;
    if (!Device::parse(name, device))
        throw make_error(ErrorCode::bad_device, {"argument '", argument, "': no device is called \"", name,
                                                 "\"; expected a name such as \"cuda:0\""});
    return device;
}

/// A description whose sizes come as C pointers.
inline isthmus::TensorSpec make_spec(void* data, DType dtype, Device device, const int64_t* shape,
                                     const int64_t* strides, int32_t ndim, uint32_t flags) {
    if (ndim < 0 || ndim > isthmus::max_ndim)
        throw make_error(ErrorCode::bad_layout, {"argument 'ndim': ", ndim, "; expected 0 to ", isthmus::max_ndim});
    if (ndim > 0 && shape == nullptr)
        throw make_error(ErrorCode::bad_layout,
                         {"argument 'shape': NULL; expected ", ndim, " sizes, one per dimension"});
    if ((flags & ~uint32_t{ISTHMUS_FLAG_READ_ONLY | ISTHMUS_FLAG_PADDED}) != 0)
        throw make_error(ErrorCode::bad_argument,
                         {"argument 'flags': ", flags, "; expected a combination of ISTHMUS_FLAG_READ_ONLY (",
                          ISTHMUS_FLAG_READ_ONLY, ") and ISTHMUS_FLAG_PADDED (", ISTHMUS_FLAG_PADDED, ")"});
    const auto count = static_cast<std::size_t>(ndim);
    isthmus::TensorSpec spec(data, dtype, std::span<const int64_t>(shape, count));
    if (strides != nullptr) spec.set_strides(std::span<const int64_t>(strides, count));
    spec.device = device;
    spec.read_only = (flags & ISTHMUS_FLAG_READ_ONLY) != 0;
    spec.padded = (flags & ISTHMUS_FLAG_PADDED) != 0;
    return spec;
}

inline uint32_t flags_of(const Tensor& t) noexcept {
    return (t.read_only() ? uint32_t{ISTHMUS_FLAG_READ_ONLY} : 0) | (t.is_padded() ? uint32_t{ISTHMUS_FLAG_PADDED} : 0);
}

}  // namespace isthmus_c
