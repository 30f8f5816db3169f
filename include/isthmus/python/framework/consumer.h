// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>

#include <isthmus/python/protocol/exchange_api/import.h>
#include <isthmus/python/protocol/capsule/export.h>
#include <isthmus/python/framework/facts.h>
#include <isthmus/python/runtime/life.h>

ISTHMUS_BEGIN

namespace detail {

/// module.a.b as a new reference; NULL with a Python exception set.
ISTHMUS_COLD inline PyObject* import_function(const char* module, const char* dotted) {
    Ref at(PyImport_ImportModule(module));
    for (std::string_view rest = dotted; at && !rest.empty();) {
        const std::string part(rest.substr(0, rest.find('.')));
        rest.remove_prefix(part.size() == rest.size() ? part.size() : part.size() + 1);
        at = Ref(PyObject_GetAttrString(at.get(), part.c_str()));
    }
    return at.release();
}

/// The ways into the frameworks without a file of their own, each looked up once per interpreter life.
struct Importers {
    struct Entry {
        PyObject* function;
        const DLPackExchangeAPI* api;
    };
    PyInterpreterState* interpreter;
    Entry entries[std::size(framework_facts)];

    /// NULL with a Python exception set.
    const Entry* find(const FrameworkFacts& facts) {
        if (ISTHMUS_UNLIKELY(interpreter != PyInterpreterState_Get())) *this = Importers{PyInterpreterState_Get(), {}};
        Entry& entry = entries[&facts - framework_facts];
        if (ISTHMUS_LIKELY(entry.function != nullptr)) return &entry;
        PyObject* function = import_function(facts.module, facts.importer);
        if (function == nullptr) return nullptr;
        if (facts.exchange_type != nullptr && start_runtime()) {
            Ref type(import_function(facts.module_of_type, facts.exchange_type));
            const bool found = type && PyType_Check(type.get());
            const auto* api = found ? find_exchange_api(reinterpret_cast<PyTypeObject*>(type.get())) : nullptr;
            if (api != nullptr && api->managed_tensor_to_py_object_no_sync != nullptr) entry.api = api;
        }
        PyErr_Clear();
        entry.function = function;
        return &entry;
    }
};
ISTHMUS_STATE Importers importers{};

/// A framework's array by the exchange table of its type; strides are never negative here.
inline Result<PyObject*> block_to_exchange(Block* block, const DLPackExchangeAPI* api, std::string_view name) {
    DLManagedTensorVersioned* managed = Export<DLManagedTensorVersioned>::make(block, block->flags & flag::padded);
    if (ISTHMUS_UNLIKELY(managed == nullptr)) return Error(ErrorCode::out_of_memory, "no memory for an export");
    void* object = nullptr;
    if (ISTHMUS_UNLIKELY(api->managed_tensor_to_py_object_no_sync(managed, &object) != 0 || object == nullptr))
        return error_from_exception(ErrorCode::consumer_failed, nullptr, concat({name, "'s exchange API"}));
    return static_cast<PyObject*>(object);
}

}  // namespace detail

ISTHMUS_END
