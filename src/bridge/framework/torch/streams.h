// torch's current stream of a GPU: it has the work on torch's tensors, and waits for memory that torch is handed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../protocol/exchange_api/export.h"  // Python.h must come before any standard header

#include "modules.h"
#include "shims.h"

ISTHMUS_BEGIN

namespace detail {

/// By libtorch, without Python. no_stream if it cannot tell.
ISTHMUS_NOINLINE inline std::int64_t torch_stream_by_shim(Device device) noexcept {
    void* stream = nullptr;
    const auto ask = find_torch_stream();
    return ask != nullptr && ask(device.id, &stream) == 0 ? stream_number(device, stream) : no_stream;
}

/// By torch.cuda.current_stream(), which every version has. no_stream if it cannot tell.
ISTHMUS_NOINLINE inline std::int64_t torch_stream_by_python(Device device) {
    Ref module(import_torch("torch.cuda"));
    Ref stream(module ? PyObject_CallMethod(module.get(), "current_stream", "i", static_cast<int>(device.id)) : nullptr);
    Ref number(stream ? PyObject_GetAttrString(stream.get(), "cuda_stream") : nullptr);
    void* handle = number ? PyLong_AsVoidPtr(number.get()) : nullptr;
    const bool known = PyErr_Occurred() == nullptr;
    PyErr_Clear();
    return known ? stream_number(device, handle) : no_stream;
}

/// The current stream of this thread on a device with streams. `api` is the exchange table of torch.Tensor; NULL if it has
/// none. Needs the GIL.
inline std::int64_t torch_current_stream(Device device, const DLPackExchangeAPI* api) {
    if (torch_has_shims())
        if (const std::int64_t stream = torch_stream_by_shim(device); stream != no_stream) return stream;
    return api != nullptr ? current_stream(api, device) : torch_stream_by_python(device);
}

/// Makes one of torch's streams wait for the work on a block's memory. False with a Python exception set.
inline bool order_for_torch(const Block* block, std::int64_t stream) {
    return order_export(block, stream == no_stream ? legacy_stream(block->dl.device) : stream);
}

}  // namespace detail

ISTHMUS_END
