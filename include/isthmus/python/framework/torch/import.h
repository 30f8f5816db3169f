// Import of a torch.Tensor by libtorch's stable C shims.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/import_request.h>  // Python.h must come before any standard header

#include <isthmus/python/framework/torch/import_by_python.h>
#include <isthmus/python/framework/torch/questions.h>
#include <isthmus/python/framework/torch/rules.h>
#include <isthmus/python/framework/torch/shims.h>

ISTHMUS_BEGIN

namespace detail {

/// What torch's rules ask, answered by libtorch, and by Python where that does not tell.
struct AskShims {
    PyObject* object;
    void* handle;
    int dtype_code;
    bool failed = false;

    /// Only a real floating tensor can carry the negative bit, only a complex one the conjugate bit, or both.
    ISTHMUS_ALWAYS_INLINE LazyBit lazy_bit() {
        if (ISTHMUS_UNLIKELY(dtype_code == kDLComplex))
            if (torch_shims.is_conj != nullptr ? torch_shims.is_conj(handle) : ask_python(object, "is_conj", true, failed))
                return LazyBit::conjugate;
        const bool negative = ISTHMUS_LIKELY(torch_shims.is_neg != nullptr) ? torch_shims.is_neg(handle)
                                                                            : ask_python(object, "is_neg", true, failed);
        return negative ? LazyBit::negative : LazyBit::none;
    }
    ISTHMUS_ALWAYS_INLINE bool requires_grad() {
        void* impl = *static_cast<void**>(handle);  // an at::Tensor is one pointer to its TensorImpl
        return ISTHMUS_LIKELY(torch_shims.requires_grad != nullptr) ? torch_shims.requires_grad(impl)
                                                                    : ask_python(object, "requires_grad", false, failed);
    }
    bool is_recording() const { return torch_shims.grad_mode_is_enabled(); }
    bool is_leaf() {
        return torch_shims.is_leaf != nullptr ? torch_shims.is_leaf(handle) : ask_python(object, "is_leaf", false, failed);
    }
};

/// Tells autograd of a write to come, as an in-place operation would.
ISTHMUS_NOINLINE inline bool announce_torch_write(ImportRequest& request, void* handle) {
    try {
        if (torch_shims.bump_version != nullptr) {
            torch_shims.bump_version(handle);
            return true;
        }
    } catch (const std::exception& refused) {
        const std::string text = refused.what();
        return request.fail(ErrorCode::requires_grad,
                            concat({"torch refuses a write to this tensor: ", text.substr(0, text.find('\n'))}));
    }
    bool failed = false;
    if (is_closed_inference_tensor(request.object, failed))
        return request.fail(ErrorCode::requires_grad, torch_refusal::inference);
    Ref module(failed ? nullptr : PyImport_ImportModule("torch.autograd.graph"));
    Ref done(module ? PyObject_CallMethod(module.get(), "increment_version", "O", request.object) : nullptr);
    return done || request.fail_with_exception(ErrorCode::requires_grad, "torch.autograd.graph.increment_version()");
}

/// A descriptor of torch's own that does not hold: a tensor without memory, most likely.
ISTHMUS_COLD inline bool explain_torch_unsound(ImportRequest& request, Flags flags) {
    Error error = explain_unsound(request.out.dl(), flags, request.options.argument);
    if (error.code() != ErrorCode::null_data) return request.fail(std::move(error));
    return request.fail(ErrorCode::null_data,
                        concat({"data is NULL with elements: this ", type_name(request.object),
                                " (a fake, zero or wrapper tensor) has no memory of its own; wanted a materialised tensor"}));
}

ISTHMUS_COLD inline bool explain_torch_handle(ImportRequest& request) {
    return request.fail(ErrorCode::not_a_tensor, concat({"torch does not take this ", type_name(request.object),
                                                         " for a tensor: ", torch_shims.what()}));
}

inline void release_torch_handle(void* handle) {
    drop_torch([handle] { torch_shims.delete_handle(handle); });
}
/// The torch.Tensor of a handle, a new reference, or NULL.
inline void* array_of_torch_handle(void* handle) noexcept {
    void* object = nullptr;
    return torch_shims.to_pyobject(handle, nullptr, &object) == 0 ? object : nullptr;
}
inline const void* at_tensor_of_handle(void* handle) noexcept { return handle; }
/// libtorch's AtenTensorHandle, an at::Tensor on the heap.
inline constexpr OwnerOps torch_handle_ops{.framework = static_cast<std::uint32_t>(Framework::torch),
                                           .release = release_torch_handle,
                                           .array = array_of_torch_handle,
                                           .native = at_tensor_of_handle,
                                           .producer = "torch.Tensor"};

/// The handle of the object, and what keeps it: the at::Tensor inside the object itself where that was shown to be one.
ISTHMUS_ALWAYS_INLINE bool take_torch_handle(ImportRequest& request, void*& handle) {
    TorchShims& torch = torch_shims;
    const bool known = request.producer.known_torch;
    if (ISTHMUS_UNLIKELY(known && torch.inside == 0) && !torch.find_inside(request.object))
        return explain_torch_handle(request);
    if (ISTHMUS_LIKELY(known && torch.inside > 0)) {
        handle = reinterpret_cast<char*>(request.object) + torch.inside;
        // A second handle would make libtorch take the GIL and count the object up; we have the one and can do the other.
        if (request.owning) request.out.hold_object(request.object);
        return true;
    }
    if (ISTHMUS_UNLIKELY(torch.from_pyobject(request.object, &handle) != 0)) return explain_torch_handle(request);
    request.out.hold(handle, torch_handle_ops);
    return true;
}

/// A torch.Tensor on the CPU or a GPU by its handle. Owns the object, or the TensorImpl that Python has, so that the way back
/// is the same object.
ISTHMUS_ALWAYS_INLINE bool import_torch_by_shims(ImportRequest& request) {
    const TorchShims& torch = torch_shims;
    void* handle = nullptr;
    if (ISTHMUS_UNLIKELY(!take_torch_handle(request, handle))) return false;

    std::int32_t layout = 0, number = 0, device_type = 0, device_index = 0;
    std::int64_t ndim = 0;
    DLTensor& t = request.out.dl();
    if (ISTHMUS_UNLIKELY(torch.get_layout(handle, &layout) != 0 || layout != torch.layout_strided ||
                         torch.get_device_type(handle, &device_type) != 0 || device_type == torch.device_meta))
        return explain_torch_layout(request, nullptr);
    if (ISTHMUS_LIKELY(device_type == torch.device_cpu)) {
        t.device = DLDevice{kDLCPU, 0};
    } else if (device_type == torch.device_cuda && !request.options.has_stream()) {
        torch.get_device_index(handle, &device_index);
        t.device = DLDevice{torch_gpu_type(), device_index};
    } else {  // the shims do not describe it in DLPack's terms (XPU, MPS, extensions), or there is a stream to wait for
        request.out.reset();
        return import_torch_elsewhere(request);
    }
    torch.get_dtype(handle, &number);
    const DType dtype = torch_dtype_table.dtype_of(number);
    if (ISTHMUS_UNLIKELY(dtype.bits() == 0)) return explain_torch_dtype(request);
    t.dtype = dtype;

    Flags flags = 0;
    // Integers and bool carry neither lazy bits nor gradients; bool's code is above, and answers no.
    if (dtype.code >= kDLFloat) {
        AskShims ask{request.object, handle, dtype.code};
        const TorchVerdict verdict = judge_torch(ask, request.options);
        if (ISTHMUS_UNLIKELY(verdict.refusal != nullptr)) return request.fail(verdict.code, verdict.refusal);
        if (ISTHMUS_UNLIKELY(ask.failed))
            return request.fail_with_exception(ErrorCode::producer_failed, concat({"asking this ", type_name(request.object)}));
        if (verdict.read_only) flags |= flag::read_only;
    }
    if (ISTHMUS_UNLIKELY(torch.get_dim(handle, &ndim) != 0 || torch.get_sizes(handle, &t.shape) != 0 ||
                         torch.get_strides(handle, &t.strides) != 0))
        return explain_torch_layout(request, torch.what());
    t.ndim = static_cast<std::int32_t>(ndim);
    // Copy-on-write storage must be made its own before it may be written; reading alone leaves it shared.
    const int status = (flags & flag::read_only) ? torch.get_const_data_ptr(handle, const_cast<const void**>(&t.data))
                                                 : torch.get_mutable_data_ptr(handle, &t.data);
    if (ISTHMUS_UNLIKELY(status != 0)) return explain_torch_layout(request, torch.what());
    t.byte_offset = 0;
    // Sizes, strides, dtype and device are torch's own, checked by it against the storage; what it does not promise is an
    // aligned address, or any.
    const auto address = reinterpret_cast<std::uintptr_t>(t.data);
    const bool plain = address != 0 && (address & static_cast<std::uintptr_t>(dtype.itemsize() - 1)) == 0 && t.ndim <= max_ndim;
    if (ISTHMUS_UNLIKELY(!plain) && !is_sound(t, flags)) return explain_torch_unsound(request, flags);
    if (ISTHMUS_UNLIKELY(request.options.require_writable) && !announce_torch_write(request, handle)) return false;
    return request.accept_sound(flags);
}

/// Out of line, for those who come by the table.
ISTHMUS_NOINLINE inline bool import_torch(ImportRequest& request) { return import_torch_by_shims(request); }

}  // namespace detail

ISTHMUS_END
