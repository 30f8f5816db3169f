// Import of a torch.Tensor by libtorch's stable C shims.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../protocol/import_request.h"  // Python.h must come before any standard header

#include "import_by_python.h"
#include "questions.h"
#include "rules.h"
#include "shims.h"
#include "storage.h"

ISTHMUS_BEGIN

namespace detail {

/// The questions of torch's rules, answered by libtorch, and by Python if libtorch cannot answer.
struct AskShims {
    PyObject* object;
    void* handle;
    int dtype_code;
    bool failed = false;

    /// Any tensor can carry the negative bit, only a complex one the conjugate bit.
    ISTHMUS_ALWAYS_INLINE LazyBit lazy_bit() {
        if (ISTHMUS_UNLIKELY(dtype_code == kDLComplex))
            if (torch_shims.is_conj != nullptr ? torch_shims.is_conj(handle)
                                               : ask_python(object, "is_conj", true, failed))
                return LazyBit::conjugate;
        const bool negative = ISTHMUS_LIKELY(torch_shims.is_neg != nullptr)
                                  ? torch_shims.is_neg(handle)
                                  : ask_python(object, "is_neg", true, failed);
        return negative ? LazyBit::negative : LazyBit::none;
    }
    void* impl() const { return *static_cast<void**>(handle); }  // an at::Tensor is one pointer to its TensorImpl
    ISTHMUS_ALWAYS_INLINE bool may_be_watched() {
        if (dtype_code < kDLFloat) return false;  // integers; bool's code is above
        return ISTHMUS_UNLIKELY(torch_shims.autograd_meta == nullptr) || torch_shims.autograd_meta(impl()) != nullptr;
    }
    bool is_dual() {
        if (ISTHMUS_LIKELY(torch_shims.has_dual_level != nullptr && !torch_shims.has_dual_level())) return false;
        return is_torch_dual(object, failed);
    }
    bool requires_grad() {
        return ISTHMUS_LIKELY(torch_shims.requires_grad != nullptr)
                   ? torch_shims.requires_grad(impl())
                   : ask_python(object, "requires_grad", false, failed);
    }
    bool is_recording() const { return torch_shims.grad_mode_is_enabled(); }
    const char* in_place_refusal() { return torch_in_place_refusal(object, failed); }
    bool is_transformed() const { return is_torch_transformed(object); }
    bool is_closed_inference() {
        if (ISTHMUS_LIKELY(torch_shims.is_inference != nullptr && torch_shims.in_inference_mode != nullptr))
            return torch_shims.is_inference(handle) && !torch_shims.in_inference_mode();
        return is_closed_inference_tensor(object, failed);
    }
};

/// Tells autograd of a coming write, as an in-place operation would, or notes that this is still to be done.
ISTHMUS_NOINLINE inline bool bump_torch_version(ImportRequest& request, void* handle) {
    AskShims ask{request.object, handle, 0};
    const bool closed = ask.is_closed_inference();
    if (ask.failed)
        return request.fail_with_exception(ErrorCode::producer_failed, "asking torch for its inference mode");
    if (closed) return request.fail(ErrorCode::requires_grad, torch_refusal::inference);
    if (!request.options.announce) {
        request.out.flags() |= unannounced_flag;
        return true;
    }
    if (torch_shims.bump_version == nullptr) return bump_torch_version_by_python(request);
    try {
        torch_shims.bump_version(handle);
        return true;
    } catch (const std::exception& refused) {
        const std::string_view text = refused.what();
        return request.fail(torch_failure(ErrorCode::requires_grad, text),
                            {"torch refuses a write to this tensor: ", text.substr(0, text.find('\n'))});
    }
}

/// torch's own descriptor is unsound: most likely a tensor without memory. True if it may be copied all the same.
ISTHMUS_COLD inline bool take_torch_unsound(ImportRequest& request, Flags flags) {
    Error error = explain_unsound(request.out.dl(), flags, request.options.argument);
    if (error.code() != ErrorCode::null_data) return request.may_copy_despite(error) || request.fail(std::move(error));
    if (is_torch_transformed(request.object)) return request.fail(ErrorCode::not_values, torch_refusal::transformed);
    return request.fail(ErrorCode::null_data,
                        {"data is NULL with elements: this ", type_name(request.object),
                         " (a fake, zero or wrapper tensor) has no memory of its own; expected a materialised tensor"});
}

ISTHMUS_COLD inline bool explain_torch_handle(ImportRequest& request) {
    const char* said = torch_shims.what();
    return request.fail(torch_failure(ErrorCode::not_a_tensor, said),
                        {"torch does not take this ", type_name(request.object), " for a tensor: ", said});
}

inline void release_torch_handle(void* handle) {
    drop_torch([](void* held) { torch_shims.delete_handle(held); }, handle);
}
/// The torch.Tensor of a handle, a new reference, or NULL.
inline void* array_of_torch_handle(void* handle) noexcept {
    return surviving_exit([handle] {
        void* object = nullptr;
        return torch_shims.to_pyobject(handle, nullptr, &object) == 0 ? object : nullptr;
    });
}
inline const void* at_tensor_of_handle(void* handle) noexcept { return handle; }
/// libtorch's AtenTensorHandle, an at::Tensor on the heap.
inline constexpr OwnerOps torch_handle_ops{.framework = static_cast<std::uint32_t>(Framework::torch),
                                           .release = release_torch_handle,
                                           .array = array_of_torch_handle,
                                           .native = at_tensor_of_handle,
                                           .producer = "torch.Tensor"};

/// The work on a tensor of a GPU is on torch's current stream.
ISTHMUS_NOINLINE inline bool settle_torch_stream(ImportRequest& request) {
    return settle_device_stream(request, torch_current_stream(request.out.dl().device, request.producer.api), false);
}

/// The handle of the object, and what keeps it: the at::Tensor inside the object itself, if that was verified to be
/// one.
ISTHMUS_ALWAYS_INLINE bool take_torch_handle(ImportRequest& request, void*& handle) {
    TorchShims& torch = torch_shims;
    const bool known = request.producer.known_torch;
    if (ISTHMUS_UNLIKELY(known && load_shared(torch.inside) == 0) && !torch.find_inside(request.object))
        return explain_torch_handle(request);
    if (ISTHMUS_LIKELY(known && load_shared(torch.inside) > 0)) {
        handle = reinterpret_cast<char*>(request.object) + load_shared(torch.inside);
        // A second handle would make libtorch take the GIL and increment the object's count; the caller's reference
        // lasts until the end.
        return true;
    }
    if (ISTHMUS_UNLIKELY(torch.from_pyobject(request.object, &handle) != 0)) return explain_torch_handle(request);
    request.out.hold(handle, torch_handle_ops);
    return true;
}

/// The offset of the deleter in a c10::DataPtr, found with one that we make; 0 if that fails.
ISTHMUS_COLD inline std::size_t find_torch_deleter() noexcept {
    if (torch_shims.is_cow == nullptr || torch_shims.cow_deleter == nullptr) return 0;
    for (const std::size_t place : {std::size_t{1}, std::size_t{2}}) {
        void* made_up[4] = {};
        made_up[place] = reinterpret_cast<void*>(torch_shims.cow_deleter);
        if (torch_shims.is_cow(made_up)) return place * sizeof(void*);
    }
    return 0;
}

/// Asks Python, and finds out whether the storage itself can be asked from now on: whether this tensor's storage shows
/// that it lies where storage_of() looks. (Functions of torch._C run no code of a subclass.)
/// True with a Python exception set on one that passes_through().
ISTHMUS_COLD inline bool find_copy_on_write(ImportRequest& request, void* handle) {
    TorchShims& torch = torch_shims;
    Ref core(import_torch("torch._C"));
    Ref answer(core ? PyObject_CallMethod(core.get(), "_is_cow_tensor", "O", request.object) : nullptr);
    Ref number(answer ? PyObject_CallMethod(core.get(), "_storage_address", "O", request.object) : nullptr);
    const char* storage = number ? static_cast<const char*>(PyLong_AsVoidPtr(number.get())) : nullptr;
    if (is_interrupted()) return true;  // else this torch does not have that storage yet
    std::int64_t offset = 0;
    const std::size_t deleter = find_torch_deleter();
    if (deleter == 0 || torch.get_storage_offset == nullptr || storage == nullptr ||
        torch.get_storage_offset(handle, &offset) != 0)
        return answer.get() == Py_True;
    const DLTensor& t = request.out.dl();
    const char* data = static_cast<char*>(t.data) - offset * DType(t.dtype).itemsize();
    if (TorchShims::storage_of(handle) == storage &&
        std::memcmp(storage + TorchShims::behind_counts, &data, sizeof data) == 0)
        store_shared(torch.deleter_at, TorchShims::behind_counts + deleter);
    torch.find_plain();
    return answer.get() == Py_True;
}

/// Whether the storage is shared until somebody writes.
ISTHMUS_ALWAYS_INLINE bool is_copy_on_write(ImportRequest& request, void* handle) {
    if (ISTHMUS_UNLIKELY(load_shared(torch_shims.deleter_at) == 0)) return find_copy_on_write(request, handle);
    return torch_shims.is_shared_until_written(TorchShims::storage_of(handle));
}

/// Sizes, strides, dtype and device are torch's own, which has checked them against the storage; it does not guarantee
/// an aligned address, or a non-NULL one.
ISTHMUS_ALWAYS_INLINE bool has_plain_torch_address(const DLTensor& t) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(t.data);
    return address != 0 && (address & static_cast<std::uintptr_t>(DType(t.dtype).itemsize() - 1)) == 0;
}

/// The fast path: on the CPU, only read, and not tracked by autograd. It calls neither Python nor any other code.
/// False, and nothing held, for those that import_torch_by_shims() must look at.
ISTHMUS_ALWAYS_INLINE bool import_torch_fast(PyObject* object, const ImportOptions& options,
                                             const ProducerType& producer, BorrowedBuilder out, bool owning) noexcept {
    const TorchShims& torch = torch_shims;
    if (options.require_writable || !producer.known_torch || producer.immutable ||
        ISTHMUS_UNLIKELY(!load_shared(torch.plain)))
        return false;
    void* handle = reinterpret_cast<char*>(object) + load_shared(torch.inside);
    if (!options.allow_grad && torch.autograd_meta(*static_cast<void**>(handle)) != nullptr) return false;
    std::int32_t layout = 0, number = 0, device_type = 0;
    std::int64_t ndim = 0;
    DLTensor& t = out.dl();
    if (ISTHMUS_UNLIKELY(torch.get_layout(handle, &layout) != 0 || torch.get_device_type(handle, &device_type) != 0 ||
                         layout != torch.layout_strided || device_type != torch.device_cpu))
        return false;
    torch.get_dtype(handle, &number);
    const DType dtype = torch_dtype_table.dtype_of(number);
    t.dtype = dtype;
    if (ISTHMUS_UNLIKELY(dtype.bits() == 0 || (dtype.code == kDLComplex && torch.is_conj(handle)) ||
                         torch.is_neg(handle) || torch.get_dim(handle, &ndim) != 0 ||
                         torch.get_sizes(handle, &t.shape) != 0 || torch.get_strides(handle, &t.strides) != 0 ||
                         ndim > max_ndim || torch.get_const_data_ptr(handle, const_cast<const void**>(&t.data)) != 0 ||
                         !has_plain_torch_address(t)))
        return false;
    t.device = DLDevice{kDLCPU, 0};
    t.ndim = static_cast<std::int32_t>(ndim);
    t.byte_offset = 0;
    if (!owning) {
        out.keep_dims();  // a block copies them anyway; a borrow must not follow an x.t_() of its tensor
    } else {
        TorchStorage* storage = torch_storage_of(handle);
        if (ISTHMUS_UNLIKELY(load_shared(torch_storages.state) != TorchStorages::State::as_above || storage == nullptr))
            return false;
        hold_known_torch_storage(out, storage);
    }
    out.flags() = ISTHMUS_UNLIKELY(torch.is_shared_until_written(TorchShims::storage_of(handle))) ? flag::read_only : 0;
    return true;
}

/// A torch.Tensor on the CPU or a GPU by its handle. Keeps its storage, and the object for the return of the same
/// object.
ISTHMUS_ALWAYS_INLINE bool import_torch_by_shims(ImportRequest& request) {
    const TorchShims& torch = torch_shims;
    void* handle = nullptr;
    if (ISTHMUS_UNLIKELY(!take_torch_handle(request, handle))) return false;

    std::int32_t layout = 0, number = 0, device_type = 0, device_index = 0;
    std::int64_t ndim = 0;
    DLTensor& t = request.out.dl();
    if (ISTHMUS_UNLIKELY(torch.get_layout(handle, &layout) != 0 || torch.get_device_type(handle, &device_type) != 0))
        return explain_torch_layout(request, torch.what());
    if (ISTHMUS_UNLIKELY(layout != torch.layout_strided || device_type == torch.device_meta))
        return explain_torch_layout(request, nullptr);
    if (ISTHMUS_LIKELY(device_type == torch.device_cpu)) {
        t.device = DLDevice{kDLCPU, 0};
    } else if (device_type == torch.device_cuda) {
        torch.get_device_index(handle, &device_index);
        t.device = DLDevice{torch_gpu_type(), device_index};
    } else {  // the shims do not describe it in DLPack's terms (XPU, MPS, extensions)
        request.out.reset();
        return import_torch_elsewhere(request);
    }
    torch.get_dtype(handle, &number);
    const DType dtype = torch_dtype_table.dtype_of(number);
    if (ISTHMUS_UNLIKELY(dtype.bits() == 0)) return explain_torch_dtype(request);
    t.dtype = dtype;

    Flags flags = 0;
    AskShims ask{request.object, handle, dtype.code};
    const TorchVerdict verdict = check_torch_rules(ask, request.options);
    if (ISTHMUS_UNLIKELY(ask.failed))
        return request.fail_with_exception(ErrorCode::producer_failed, {"asking this ", type_name(request.object)});
    if (ISTHMUS_UNLIKELY(verdict.refusal != nullptr)) return request.fail(verdict.code, verdict.refusal);
    flags |= verdict.flags();
    if (ISTHMUS_UNLIKELY(torch.get_dim(handle, &ndim) != 0 || torch.get_sizes(handle, &t.shape) != 0 ||
                         torch.get_strides(handle, &t.strides) != 0))
        return explain_torch_layout(request, torch.what());
    t.ndim = static_cast<std::int32_t>(ndim);
    // The code below may run Python, and with it an x.t_() of this tensor.
    if (ISTHMUS_LIKELY(t.ndim <= max_ndim)) request.out.keep_dims();
    // Copy-on-write storage must be materialised before it may be written; reading alone leaves it shared.
    const bool writes = request.options.require_writable;
    const int status = ISTHMUS_UNLIKELY(writes) ? torch.get_mutable_data_ptr(handle, &t.data)
                                                : torch.get_const_data_ptr(handle, const_cast<const void**>(&t.data));
    if (ISTHMUS_UNLIKELY(status != 0)) return explain_torch_layout(request, torch.what());
    bool copy_on_write = false;
    if (!writes && ISTHMUS_LIKELY(t.data != nullptr) && ISTHMUS_UNLIKELY(is_copy_on_write(request, handle))) {
        copy_on_write = true;
        flags |= flag::read_only;
        if (PyErr_Occurred() != nullptr)
            return request.fail_with_exception(ErrorCode::producer_failed, "asking torch about copy-on-write");
    }
    t.byte_offset = 0;
    const bool plain = has_plain_torch_address(t) && t.ndim <= max_ndim;
    if (ISTHMUS_UNLIKELY(!plain) && !is_sound(t, flags & flag::dlpack_known) &&
        !take_torch_unsound(request, flags & flag::dlpack_known))
        return false;
    if (ISTHMUS_UNLIKELY(!request.accept_sound(flags))) return false;
    if (ISTHMUS_UNLIKELY(writes) && !bump_torch_version(request, handle)) return false;
    if (request.owning &&
        !(ISTHMUS_UNLIKELY(copy_on_write) ? hold_lazy_clone(request) : hold_torch_storage(request, handle)))
        return false;
    return ISTHMUS_LIKELY(t.device.device_type == kDLCPU) || settle_torch_stream(request);
}

/// Out of line, for callers that come by the table.
ISTHMUS_NOINLINE inline bool import_torch(ImportRequest& request) { return import_torch_by_shims(request); }

/// Announces the write to an object that was imported without announcing it. `request` is a new one, for the same
/// object.
ISTHMUS_NOINLINE inline bool bump_torch_version_later(ImportRequest& request) {
    if (request.producer.protocol != Protocol::torch_stable) return bump_torch_version_by_python(request);
    void* handle = nullptr;
    return take_torch_handle(request, handle) && bump_torch_version(request, handle);
}

}  // namespace detail

ISTHMUS_END
