// Names of dtypes and devices in the C interface.
// SPDX-License-Identifier: Apache-2.0
#include "names.h"

using isthmus::Error;
using isthmus::ErrorCode;

isthmus_status isthmus_dtype_name(isthmus_dtype dtype, char* buffer, size_t size) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(buffer, "buffer");
        const isthmus::DType d = isthmus_c::cpp(dtype);
        if (!d.is_valid())
            throw Error(ErrorCode::bad_dtype, "argument 'dtype': (code " + std::to_string(dtype.code) + ", bits " +
                                                  std::to_string(dtype.bits) + ", lanes " + std::to_string(dtype.lanes) +
                                                  ") is not one that DLPack 1.3 defines");
        isthmus_c::write_name(d.name(), buffer, size);
    });
}

isthmus_status isthmus_dtype_parse(const char* name, isthmus_dtype* out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(name, "name");
        isthmus_c::require(out, "out");
        *out = isthmus_c::c(isthmus_c::parse_dtype(name, "name"));
    });
}

isthmus_status isthmus_device_name(isthmus_device device, char* buffer, size_t size) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(buffer, "buffer");
        const isthmus::Device d = isthmus_c::cpp(device);
        if (!d.is_valid())
            throw Error(ErrorCode::bad_device, "argument 'device': (type " + std::to_string(device.type) + ", id " +
                                                   std::to_string(device.id) + ") is not one that DLPack 1.3 defines");
        isthmus_c::write_name(d.name(), buffer, size);
    });
}

isthmus_status isthmus_device_parse(const char* name, isthmus_device* out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(name, "name");
        isthmus_c::require(out, "out");
        *out = isthmus_c::c(isthmus_c::parse_device(name, "name"));
    });
}
