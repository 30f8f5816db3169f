// DLPack's C exchange API: import and export.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include <string_view>

#include <isthmus/core/copy.h>
#include "../../core/managed_tensor.h"
#include "../runtime/shared_runtime.h"
#include "capsule.h"
#include "dlpack_method/import.h"
#include "export.h"

ISTHMUS_BEGIN

namespace detail {

/// The C exchange API of a type (DLPack 1.3, dlpack.h: DLPackExchangeAPI), or NULL: an attribute of the type that is a
/// capsule called "dlpack_exchange_api", of this major version or with one in its chain, and with the functions it must
/// have. If the attribute is anything else it is ignored; no exception stays set.
inline const DLPackExchangeAPI* find_exchange_api(PyTypeObject* type) {
    // As Python looks up special methods: an attribute of a metaclass belongs to the class object.
    Ref capsule = type_item(type, interned().exchange_api);
    if (const descrgetfunc get = capsule ? Py_TYPE(capsule.get())->tp_descr_get : nullptr)
        capsule = Ref(get(capsule.get(), nullptr, reinterpret_cast<PyObject*>(type)));
    if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) {
        (void)is_interrupted();
        return nullptr;
    }
    const auto* header =
        static_cast<const DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
    constexpr int longest_chain = 16;  // the chain may be circular, but the search must end
    for (int i = 0; i < longest_chain && header != nullptr; ++i, header = header->prev_api) {
        if (header->version.major != DLPACK_MAJOR_VERSION) continue;
        const auto* api = reinterpret_cast<const DLPackExchangeAPI*>(header);
        return api->managed_tensor_from_py_object_no_sync != nullptr ? api : nullptr;
    }
    return nullptr;
}

/// The current stream of the framework behind an exchange table (DLPack 1.3, dlpack.h: DLPackCurrentWorkStream);
/// no_stream if it cannot tell.
ISTHMUS_NOINLINE inline std::int64_t current_stream(const DLPackExchangeAPI* api, Device device) noexcept {
    void* stream = nullptr;
    if (api == nullptr || api->current_work_stream == nullptr) return no_stream;
    // For managed memory a framework knows only the device's stream.
    const auto type = static_cast<DLDeviceType>(device.type == kDLCUDAManaged ? kDLCUDA : device.type);
    if (api->current_work_stream(type, device.id, &stream) == 0) return stream_number(device, stream);
    PyErr_Clear();
    return no_stream;
}

/// Finishes an import by the table.
inline bool settle_exchanged(ImportRequest& request, const DLPackExchangeAPI* api) {
    const Device device = request.out.dl().device;
    return ISTHMUS_LIKELY(!has_streams(device.type)) ||
           settle_device_stream(request, current_stream(api, device), false);
}

/// Import by the exchange API. The managed form is used for borrowing too: the bare DLTensor has no flags, so read-only
/// memory would look writable.
inline bool import_exchange_table(ImportRequest& request, const DLPackExchangeAPI* api) {
    request.keep_alive();
    DLManagedTensorVersioned* managed = nullptr;
    const int status = api->managed_tensor_from_py_object_no_sync(request.object, &managed);
    if (ISTHMUS_UNLIKELY(status != 0 || managed == nullptr || PyErr_Occurred() != nullptr)) {
        const TextBuffer what = compose({"the exchange API of ", type_name(request.object)});
        if (status == 0 && managed != nullptr) end_managed_in_python<DLManagedTensorVersioned>(managed);
        return request.fail_with_exception(ErrorCode::producer_failed, what);
    }
    if (ISTHMUS_UNLIKELY(!is_acceptable(managed)) &&
        !request.may_copy_despite(explain_unacceptable(managed, nullptr))) {
        request.fail(explain_unacceptable(managed, request.options.argument));
        end_managed_in_python<DLManagedTensorVersioned>(managed);
        return false;
    }
    return import_managed(request, managed) && settle_exchanged(request, api);
}

/// By the table of the object's type; by `__dlpack__` if a device is requested, which the table cannot pass on.
inline bool import_exchange(ImportRequest& request) {
    return request.options.device.type != 0 ? import_dlpack_method(request)
                                            : import_exchange_table(request, request.producer.api);
}

// The producer's and consumer's side of the C exchange API (DLPack 1.3, dlpack.h: DLPackExchangeAPI). No function
// throws; if one calls Python, a garbage collection may run any code.

inline int exchange_allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                             void (*set_error)(void*, const char*, const char*)) noexcept {
    *out = nullptr;
    return surviving_exit([&] {
        try {
            if (prototype == nullptr || prototype->ndim < 0 || (prototype->ndim > 0 && prototype->shape == nullptr))
                throw Error(ErrorCode::bad_layout, ErrorKind::value, "the prototype has no valid shape");
            if (Device(prototype->device) != Device::cpu())
                throw make_error(ErrorCode::bad_device,
                                 {"isthmus allocates on the cpu only, not on ", Device(prototype->device)});
            const Tensor made = Tensor::empty(
                std::span<const std::int64_t>(prototype->shape, static_cast<std::size_t>(prototype->ndim)),
                prototype->dtype);
            *out = made.to_dlpack();
            if (*out == nullptr) throw Error(ErrorCode::out_of_memory, "no memory for an export");
            return 0;
        } catch (const Error& error) {
            const char* kind = error.code() == ErrorCode::out_of_memory ? "MemoryError"
                               : error.kind() == ErrorKind::value       ? "ValueError"
                                                                        : "BufferError";
            if (set_error != nullptr) set_error(context, kind, error.what());
        } catch (const std::bad_alloc&) {
            if (set_error != nullptr) set_error(context, "MemoryError", "no memory for a tensor");
        }
        return -1;
    });
}

inline Block* exchange_block(void* object) {
    SharedRuntime* shared = shared_runtime();
    if (shared == nullptr) return nullptr;
    if (object == nullptr || !PyObject_TypeCheck(static_cast<PyObject*>(object), load_shared(shared->tensor))) {
        set_python_error(make_error(ErrorCode::not_a_tensor,
                                    {"expected an isthmus.Tensor, got ",
                                     object != nullptr ? type_name(static_cast<PyObject*>(object)) : "NULL"}));
        return nullptr;
    }
    return block_of(static_cast<PyObject*>(object));
}

inline int exchange_from_object(void* object, DLManagedTensorVersioned** out) noexcept {
    return surviving_exit([&] {
        *out = nullptr;
        Block* block = exchange_block(object);
        if (block == nullptr || refuse_tracked(block) || !order_export(block)) return -1;
        const ExportGuard guard(block);
        if (guard.block() != nullptr)
            *out = Export<DLManagedTensorVersioned>::make(guard.block(), block->flags & ~flag::copied);
        note_consumer(block, "C exchange API");
        if (*out == nullptr) PyErr_NoMemory();
        return *out != nullptr ? 0 : -1;
    });
}

/// The bare descriptor has no flags: read-only memory would look writable, and padded sub-byte elements packed, so both
/// are refused here.
inline int exchange_view_object(void* object, DLTensor* out) noexcept {
    return surviving_exit([&] {
        Block* block = exchange_block(object);
        if (block == nullptr || refuse_tracked(block)) return -1;
        if (block->flags & flag::read_only) {
            set_python_error(Error(ErrorCode::read_only,
                                   "the memory is read-only, which a bare DLTensor cannot say; use "
                                   "managed_tensor_from_py_object_no_sync"));
            return -1;
        }
        if (legacy_loses_padding(block)) {
            set_python_error(
                make_error(ErrorCode::bad_dtype, {DType(block->dl.dtype),
                                                  " with a byte for each element is what a bare DLTensor cannot say; "
                                                  "use managed_tensor_from_py_object_no_sync"}));
            return -1;
        }
        if (!order_export(block)) return -1;
        *out = block->dl;
        return 0;
    });
}

inline int exchange_to_object(DLManagedTensorVersioned* managed, void** out) noexcept {
    return surviving_exit([&] {
        *out = nullptr;
        Result<Tensor> tensor = Tensor::from_dlpack(managed);
        if (!tensor) {
            set_python_error(tensor.error());
            return -1;
        }
        *out = new_tensor_object(tensor->release_block());
        return *out != nullptr ? 0 : -1;
    });
}

/// Isthmus has no streams: it names the legacy default one, which waits for the work on the exported memory.
inline int exchange_stream(DLDeviceType, std::int32_t, void** out) noexcept {
    *out = nullptr;
    return 0;
}

inline const DLPackExchangeAPI* exchange_table() noexcept {
    static const DLPackExchangeAPI table{{{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr},
                                         exchange_allocate,
                                         exchange_from_object,
                                         exchange_to_object,
                                         exchange_view_object,
                                         exchange_stream};
    return &table;
}

/// For a framework that uses its arrays on its own current stream.
inline bool order_export(const Block* block, const DLPackExchangeAPI* api) {
    const Device device = block->dl.device;
    if (ISTHMUS_LIKELY(!has_streams(device.type))) return true;
    const std::int64_t theirs = current_stream(api, device);
    return order_on_device(block, theirs == no_stream ? legacy_stream(device) : theirs);
}

/// A framework's array by the exchange table of its type; strides are never negative here.
inline Result<PyObject*> block_to_exchange(Block* block, const DLPackExchangeAPI* api, std::string_view name) {
    if (!order_export(block, api)) return fail_to_order();
    DLManagedTensorVersioned* managed = Export<DLManagedTensorVersioned>::make(block, block->flags & flag::padded);
    if (ISTHMUS_UNLIKELY(managed == nullptr)) return Error(ErrorCode::out_of_memory, "no memory for an export");
    void* object = nullptr;
    if (ISTHMUS_UNLIKELY(api->managed_tensor_to_py_object_no_sync(managed, &object) != 0 || object == nullptr))
        return error_from_exception(ErrorCode::consumer_failed, nullptr, {name, "'s exchange API"});
    return static_cast<PyObject*>(object);
}

}  // namespace detail

ISTHMUS_END
