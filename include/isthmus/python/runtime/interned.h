// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/gil.h>

ISTHMUS_BEGIN

namespace detail {

/// Strings and tuples that the protocols pass again and again, made once per interpreter life.
struct Names {
    PyObject *dlpack, *dlpack_device, *exchange_api, *max_version, *stream, *dl_device, *copy, *only_max_version,
        *newest_version;
    PyObject *array_interface, *cuda_array_interface, *arrow_array, *arrow_device_array;
    bool ready;

    bool make() {
        const auto name = [](PyObject*& slot, const char* text) {
            return (slot = PyUnicode_InternFromString(text)) != nullptr;
        };
        return name(dlpack, "__dlpack__") && name(dlpack_device, "__dlpack_device__") &&
               name(exchange_api, "__dlpack_c_exchange_api__") && name(max_version, "max_version") && name(stream, "stream") &&
               name(dl_device, "dl_device") && name(copy, "copy") && name(array_interface, "__array_interface__") &&
               name(cuda_array_interface, "__cuda_array_interface__") && name(arrow_array, "__arrow_c_array__") &&
               name(arrow_device_array, "__arrow_c_device_array__") &&
               (only_max_version = PyTuple_Pack(1, max_version)) != nullptr &&
               (newest_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION)) != nullptr &&
               (ready = true);
    }
};
ISTHMUS_STATE Names names_state{};

/// Valid once the type of the object was looked up (lookup_type() makes them).
inline const Names& interned() noexcept { return names_state; }

}  // namespace detail

ISTHMUS_END
