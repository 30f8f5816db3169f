// Interned strings that the protocols use again and again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "object_owner.h"

ISTHMUS_BEGIN

namespace detail {

struct Interned {
    PyObject *dlpack, *dlpack_device, *exchange_api, *max_version, *stream, *dl_device, *copy;
    PyObject *array_interface, *cuda_array_interface, *arrow_array, *arrow_device_array, *arrow_stream;
    PyObject *module, *dtype, *backing_device;
    PyObject* only_max_version;  ///< ("max_version",)
    PyObject* version_and_copy;  ///< ("max_version", "copy")
    PyObject* newest_version;    ///< (1, 3)

    /// False with a Python exception set.
    bool make() {
        struct Row {
            PyObject*& slot;
            const char* text;
        };
        const Row rows[] = {
            {dlpack, "__dlpack__"},
            {dlpack_device, "__dlpack_device__"},
            {exchange_api, "__dlpack_c_exchange_api__"},
            {max_version, "max_version"},
            {stream, "stream"},
            {dl_device, "dl_device"},
            {copy, "copy"},
            {array_interface, "__array_interface__"},
            {cuda_array_interface, "__cuda_array_interface__"},
            {arrow_array, "__arrow_c_array__"},
            {arrow_device_array, "__arrow_c_device_array__"},
            {arrow_stream, "__arrow_c_stream__"},
            {module, "__module__"},
            {dtype, "dtype"},
            {backing_device, "backing_device"},
        };
        constexpr std::size_t tuples = 3;
        static_assert(sizeof(rows) / sizeof(rows[0]) + tuples == sizeof(Interned) / sizeof(PyObject*),
                      "isthmus: one row per string");
        for (const Row& row : rows)
            if ((row.slot = PyUnicode_InternFromString(row.text)) == nullptr) return false;
        only_max_version = PyTuple_Pack(1, max_version);
        version_and_copy = PyTuple_Pack(2, max_version, copy);
        newest_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
        return only_max_version != nullptr && version_and_copy != nullptr && newest_version != nullptr;
    }
};
ISTHMUS_STATE PerSession<Interned> interned_strings;

/// Makes them when first needed. False with a Python exception set.
inline bool make_interned() {
    if (ISTHMUS_LIKELY(interned_strings->newest_version != nullptr)) return true;
    Interned made{};
    if (!start_session() || !made.make()) return false;
    (void)interned_strings.keep(made);  // else those of another thread are kept, which are the same strings
    return true;
}

/// Valid once a type was classified or one of our Python types was made.
inline const Interned& interned() noexcept { return *interned_strings; }

}  // namespace detail

ISTHMUS_END
