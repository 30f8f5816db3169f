// A torch.Tensor over a block's memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <exception>

#include <isthmus/core/result.h>
#include "../../protocol/capsule.h"
#include "../../protocol/exchange_api.h"
#include "rules.h"
#include "shims.h"

ISTHMUS_BEGIN

namespace detail {

/// How torch makes tensors in this interpreter session, after it was imported.
struct TorchConsumer {
    bool ready = false;
    const DLPackExchangeAPI* api = nullptr;  ///< before 2.14; NULL if torch.utils.dlpack must be used
};
ISTHMUS_STATE PerSession<TorchConsumer> torch_consumer;

/// Imports torch. False with a Python exception set.
ISTHMUS_COLD inline bool load_torch_consumer() {
    Ref torch(import_torch("torch"));
    Ref tensor(torch ? PyObject_GetAttrString(torch.get(), "Tensor") : nullptr);
    if (!tensor || !make_interned()) return false;
    const bool is_type = PyType_Check(tensor.get());
    const DLPackExchangeAPI* api =
        torch_has_shims() || !is_type ? nullptr : find_exchange_api(reinterpret_cast<PyTypeObject*>(tensor.get()));
    if (PyErr_Occurred() != nullptr) return false;
    (void)torch_consumer.keep({true, api});
    return true;
}

/// Counts the deleters that ran in this thread, which tells whether torch had taken a tensor over before it failed.
ISTHMUS_STATE ISTHMUS_THREAD_STATE unsigned torch_drops = 0;

ISTHMUS_COLD inline Error explain_torch_wrap(const char* what) {
    if (PyErr_Occurred() != nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, "torch");
    return make_error(torch_failure(ErrorCode::consumer_failed, what), {"torch made no object of the tensor: ", what});
}

/// The torch.Tensor of a handle that nobody else holds; the handle may be empty afterwards.
inline Result<PyObject*> wrap_torch_handle(TorchShims::Handle handle) {
    if (ISTHMUS_LIKELY(torch_shims.wrap != nullptr)) {
        try {
            PyObject* object = torch_shims.wrap(handle);
            return ISTHMUS_LIKELY(object != nullptr) ? Result<PyObject*>(object)
                                                     : explain_torch_wrap("no reason given");
        } catch (const std::exception& refused) {
            return explain_torch_wrap(refused.what());
        }
    }
    void* object = nullptr;
    if (torch_shims.to_pyobject(handle, nullptr, &object) == 0) return static_cast<PyObject*>(object);
    return explain_torch_wrap(torch_shims.what());
}

inline Result<PyObject*> export_to_torch_by_shims(Block* block, const DLTensor& t);

/// Packed float4, one element of torch's float4_e2m1fn_x2 for two of DLPack's: bytes of the last dimension.
ISTHMUS_COLD inline Result<PyObject*> export_pairs_to_torch(Block* block) {
    DLTensor t = block->dl;
    std::int64_t shape[max_ndim], strides[max_ndim];
    const int last = t.ndim - 1;
    bool pairs = (block->flags & flag::padded) == 0 && last >= 0 && t.strides[last] == 1;
    for (int i = 0; pairs && i <= last; ++i) {
        shape[i] = i == last ? t.shape[i] / 2 : t.shape[i];
        strides[i] = i == last ? 1 : t.strides[i] / 2;
        pairs = i == last ? t.shape[i] % 2 == 0 : t.strides[i] % 2 == 0;
    }
    if (!pairs) return explain_torch_export(t, false, "");
    t.shape = shape;
    t.strides = strides;
    t.dtype = DType(kDLFloat4_e2m1fn, 4, 2);
    return export_to_torch_by_shims(block, t);
}

/// By the stable shims: one allocation of torch's own, none of ours. `t`: the block's memory.
inline Result<PyObject*> export_to_torch_by_shims(Block* block, const DLTensor& t) {
    const TorchShims& torch = torch_shims;
    const Device device = t.device;
    const std::int32_t number = torch_dtype_table.number_of(t.dtype);
    const std::int32_t type = device.is_host() ? torch.device_cpu : torch.device_cuda;
    if (ISTHMUS_UNLIKELY(number < 0 || layout::has_negative_stride(t)))
        return DType(t.dtype) == float4_e2m1fn && !layout::has_negative_stride(t)
                   ? export_pairs_to_torch(block)
                   : explain_torch_export(t, number >= 0, "");
    TorchShims::Handle handle = nullptr;
    retain(block);
    const unsigned before = torch_drops;
    const int status = torch.from_blob(
        exported_data(t), t.ndim, t.shape, t.strides, 0, number, type, device.is_host() ? -1 : device.id, &handle,
        torch.layout_strided, nullptr, 0,
        [](void*, void* context) {
            ++torch_drops;
            drop(static_cast<Block*>(context));
        },
        block);
    if (ISTHMUS_UNLIKELY(status != 0)) {
        if (torch_drops == before) drop(block);
        return explain_torch_export(t, true, torch.what());
    }
    Result<PyObject*> object = wrap_torch_handle(handle);
    torch.delete_handle(handle);
    return object;
}

/// By the exchange table of torch.Tensor (2.10 to 2.13).
ISTHMUS_COLD inline Result<PyObject*> export_to_torch_by_exchange(Block* block, const TextBuffer& what) {
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
    const int status = torch_consumer->api->managed_tensor_to_py_object_no_sync(managed, &object);
    if (status != 0 && torch_drops == before)
        managed->deleter(managed);  // torch leaks it if it does not know the dtype
    if (status != 0 || object == nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, what);
    return static_cast<PyObject*>(object);
}

/// Before torch 2.14: by the exchange API, else by its Python function.
ISTHMUS_COLD inline Result<PyObject*> export_to_torch_older(Block* block) {
    if (layout::has_negative_stride(block->dl)) return explain_torch_export(block->dl, true, "");
    const TextBuffer what = compose({"handing a tensor of ", DType(block->dl.dtype), " to torch"});
    const DLPackExchangeAPI* api = torch_consumer->api;
    if (api != nullptr && api->managed_tensor_to_py_object_no_sync != nullptr)
        return export_to_torch_by_exchange(block, what);
    Ref capsule(legacy_capsule(block));
    Ref module(capsule ? import_torch("torch.utils.dlpack") : nullptr);
    PyObject* object = module ? PyObject_CallMethod(module.get(), "from_dlpack", "O", capsule.get()) : nullptr;
    if (object == nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, what);
    return object;
}

inline Result<PyObject*> export_to_torch(Block* block) {
    if (ISTHMUS_UNLIKELY(!torch_consumer->ready) && !load_torch_consumer())
        return error_from_exception(ErrorCode::unavailable, nullptr, "importing torch");
    const Device device = block->dl.device;
    if (ISTHMUS_LIKELY(device.is_host() && torch_has_shims())) return export_to_torch_by_shims(block, block->dl);
    if (has_streams(device.type) && !order_for_torch(block, torch_current_stream(device, torch_consumer->api)))
        return fail_to_order();
    const bool plain = device.is_host() || device.type == torch_gpu_type() || device.type == kDLCUDAManaged;
    return plain && torch_has_shims() ? export_to_torch_by_shims(block, block->dl) : export_to_torch_older(block);
}

}  // namespace detail

ISTHMUS_END
