// Import by DLPack's C exchange API, and where a type keeps it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../capsule/import.h"  // Python.h must come before any standard header

#include "../dlpack_method/import.h"
#include <isthmus/python/runtime/interned.h>

ISTHMUS_BEGIN

namespace detail {

/// The C exchange API of a type (DLPack 1.3, dlpack.h: DLPackExchangeAPI), or NULL: an attribute of the type that is a capsule
/// called "dlpack_exchange_api", of this major version or with one in its chain, and with the functions it must have.
/// If the attribute is anything else it is ignored; no exception stays set.
inline const DLPackExchangeAPI* find_exchange_api(PyTypeObject* type) {
    // As Python looks up special methods: an attribute of a metaclass belongs to the class object.
    Ref capsule = type_item(type, interned().exchange_api);
    if (const descrgetfunc get = capsule ? Py_TYPE(capsule.get())->tp_descr_get : nullptr)
        capsule = Ref(get(capsule.get(), nullptr, reinterpret_cast<PyObject*>(type)));
    if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) {
        if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
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

/// The current stream of the framework behind an exchange table (DLPack 1.3, dlpack.h: DLPackCurrentWorkStream); no_stream
/// where it cannot tell.
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
    return ISTHMUS_LIKELY(!has_streams(device.type)) || settle_device_stream(request, current_stream(api, device), false);
}

/// Import by the exchange API. The managed form is used for borrowing too: the bare DLTensor has no flags, so read-only memory
/// would look writable.
inline bool import_exchange_table(ImportRequest& request, const DLPackExchangeAPI* api) {
    request.keep_alive();
    DLManagedTensorVersioned* managed = nullptr;
    const int status = api->managed_tensor_from_py_object_no_sync(request.object, &managed);
    if (ISTHMUS_UNLIKELY(status != 0 || managed == nullptr || PyErr_Occurred() != nullptr)) {
        const std::string what = concat({"the exchange API of ", type_name(request.object)});
        if (status == 0 && managed != nullptr) end_managed_in_python<DLManagedTensorVersioned>(managed);
        return request.fail_with_exception(ErrorCode::producer_failed, what);
    }
    if (ISTHMUS_UNLIKELY(!is_acceptable(managed))) {
        request.fail(explain_unacceptable(managed, request.options.argument));
        end_managed_in_python<DLManagedTensorVersioned>(managed);
        return false;
    }
    return import_managed(request, managed) && settle_exchanged(request, api);
}

/// By the table of the object's type; by `__dlpack__` if a device is asked for, which the table cannot pass on.
inline bool import_exchange(ImportRequest& request) {
    return request.options.device.type != 0 ? import_dlpack_method(request)
                                            : import_exchange_table(request, request.producer.api);
}

}  // namespace detail

ISTHMUS_END
