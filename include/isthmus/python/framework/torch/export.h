// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include <isthmus/python/protocol/capsule/export.h>
#include <isthmus/python/dispatch/classify.h>
#include <isthmus/python/framework/torch/import.h>

ISTHMUS_BEGIN

namespace detail {

/// torch.Tensor, looked up once per interpreter life.
struct TorchExit {
    PyInterpreterState* interpreter;
    PyTypeObject* type;
    const DLPackExchangeAPI* api;

    /// False with a Python exception set.
    bool load() {
        Ref torch(PyImport_ImportModule("torch"));
        Ref tensor(torch ? PyObject_GetAttrString(torch.get(), "Tensor") : nullptr);
        if (!tensor || !start_runtime()) return false;
        type = reinterpret_cast<PyTypeObject*>(tensor.release());
        TypeEntry scratch;
        if (find_type(type, scratch) == nullptr) return false;  // finds the shims
        api = find_exchange_api(type);
        interpreter = PyInterpreterState_Get();
        return true;
    }
};
ISTHMUS_STATE TorchExit torch_exit{};

ISTHMUS_COLD inline Error explain_torch_export(const DLTensor& t, const char* what) {
    const DType dtype = t.dtype;
    for (int i = 0; i < t.ndim; ++i)
        if (t.strides[i] < 0)
            return Error(ErrorCode::bad_layout,
                         concat({"strides ", sizes_text(t.strides, t.ndim),
                                 " are negative, which torch has not; copy it first (numpy: np.ascontiguousarray)"}));
    if (torch_shims.code_of(dtype) < 0) {
        std::string nearest = concat({"uint", 8 * dtype.itemsize()});
        if (dtype == float4_e2m1fn) nearest = "float4_e2m1fn_x2, two elements a byte";
        return Error(ErrorCode::bad_dtype, concat({"dtype ", dtype, " has no counterpart in torch; nearest is ", nearest}));
    }
    return Error(ErrorCode::consumer_failed, concat({"torch did not take the tensor: ", (what != nullptr ? what : "")}));
}

ISTHMUS_STATE thread_local unsigned torch_drops = 0;

inline bool torch_takes_strides(const DLTensor& t) noexcept {
    std::int64_t signs = 0;
    for (int i = 0; i < t.ndim; ++i) signs |= t.strides[i];
    return signs >= 0;
}

ISTHMUS_COLD inline Error explain_torch_wrap(const char* what) {
    if (PyErr_Occurred() != nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, "torch");
    return Error(ErrorCode::consumer_failed, concat({"torch made no object of the tensor: ", what}));
}

/// The torch.Tensor of a handle that nobody else holds; the handle may be empty afterwards.
inline Result<PyObject*> wrap_torch_handle(TorchShims::Handle handle) {
    if (ISTHMUS_LIKELY(torch_shims.wrap != nullptr)) {
        try {
            PyObject* object = torch_shims.wrap(handle);
            return ISTHMUS_LIKELY(object != nullptr) ? Result<PyObject*>(object) : explain_torch_wrap("no reason given");
        } catch (const std::exception& refused) {
            return explain_torch_wrap(refused.what());
        }
    }
    void* object = nullptr;
    if (torch_shims.to_pyobject(handle, nullptr, &object) == 0) return static_cast<PyObject*>(object);
    return explain_torch_wrap(torch_shims.what());
}

/// torch.Tensor over the block's memory, by the stable shims: one allocation of torch's own, none of ours.
inline Result<PyObject*> block_to_torch_stable(Block* block) {
    const TorchShims& torch = torch_shims;
    const DLTensor& t = block->dl;
    const Device device = t.device;
    const std::int32_t code = torch.code_of(t.dtype);
    const std::int32_t type = device.is_host() ? torch.device_cpu : torch.device_cuda;
    if (ISTHMUS_UNLIKELY(code < 0 || !torch_takes_strides(t))) return explain_torch_export(t, nullptr);
    TorchShims::Handle handle = nullptr;
    retain(block);
    const unsigned before = torch_drops;
    const int status = torch.from_blob(
        t.data, t.ndim, t.shape, t.strides, 0, code, type, device.is_host() ? -1 : device.id, &handle, torch.layout_strided,
        nullptr, 0,
        [](void*, void* context) {
            ++torch_drops;
            drop(static_cast<Block*>(context));
        },
        block);
    if (ISTHMUS_UNLIKELY(status != 0)) {
        // Whether torch had taken the deleter over by then, the deleter itself tells.
        if (torch_drops == before) drop(block);
        return explain_torch_export(t, torch.what());
    }
    Result<PyObject*> object = wrap_torch_handle(handle);
    torch.delete_handle(handle);
    return object;
}

/// The same before torch 2.14: by the exchange API, else by its Python function.
ISTHMUS_COLD inline Result<PyObject*> block_to_torch_older(Block* block) {
    if (!torch_takes_strides(block->dl)) return explain_torch_export(block->dl, nullptr);
    const auto what = [block] { return concat({"handing a tensor of ", DType(block->dl.dtype), " to torch"}); };
    if (torch_exit.api != nullptr && torch_exit.api->managed_tensor_to_py_object_no_sync != nullptr) {
        DLManagedTensorVersioned* managed = Export<DLManagedTensorVersioned>::make(block, block->flags & flag::padded);
        if (managed == nullptr) return Error(ErrorCode::out_of_memory, "no memory for an export");
        managed->deleter = [](DLManagedTensorVersioned* self) {
            auto* exported = reinterpret_cast<Export<DLManagedTensorVersioned>*>(self);
            ++torch_drops;
            drop(exported->block);
            std::free(exported);
        };
        void* object = nullptr;
        const unsigned before = torch_drops;
        const int status = torch_exit.api->managed_tensor_to_py_object_no_sync(managed, &object);
        if (status != 0 && torch_drops == before)
            managed->deleter(managed);  // torch forgets it when it does not know the dtype
        if (status != 0 || object == nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, what());
        return static_cast<PyObject*>(object);
    }
    Ref capsule(legacy_capsule(block));
    Ref module(capsule ? PyImport_ImportModule("torch.utils.dlpack") : nullptr);
    PyObject* object = module ? PyObject_CallMethod(module.get(), "from_dlpack", "O", capsule.get()) : nullptr;
    if (object == nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, what());
    return object;
}

inline Result<PyObject*> block_to_torch(Block* block) {
    if (ISTHMUS_UNLIKELY(torch_exit.interpreter != PyInterpreterState_Get()) && !torch_exit.load())
        return error_from_exception(ErrorCode::unavailable, nullptr, "importing torch");
    const int device = block->dl.device.device_type;
    const bool plain = Device(block->dl.device).is_host() || device == torch_shims.cuda_is || device == kDLCUDAManaged;
    return ISTHMUS_LIKELY(torch_state == TorchState::stable && plain) ? block_to_torch_stable(block)
                                                                      : block_to_torch_older(block);
}

}  // namespace detail

ISTHMUS_END
