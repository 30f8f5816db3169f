// Names of dtypes and devices, read and written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "status.h"

namespace isthmus_c {

inline isthmus::DType cpp(isthmus_dtype d) noexcept { return {d.code, d.bits, d.lanes}; }
inline isthmus::Device cpp(isthmus_device d) noexcept { return {d.type, d.id}; }
inline isthmus_dtype c(isthmus::DType d) noexcept { return {d.code, d.bit_count, d.lane_count}; }
inline isthmus_device c(isthmus::Device d) noexcept { return {d.type, d.id}; }

inline void write_name(const std::string& name, char* buffer, std::size_t size) {
    if (name.size() >= size)
        throw isthmus::Error(isthmus::ErrorCode::bad_argument, "argument 'size': " + std::to_string(size) + " bytes; wanted " +
                                                                   std::to_string(name.size() + 1) + " for \"" + name + "\"");
    std::memcpy(buffer, name.c_str(), name.size() + 1);
}

inline isthmus::DType parse_dtype(std::string_view name, const char* argument) {
    isthmus::DType dtype;
    if (!isthmus::DType::parse(name, dtype))
        throw isthmus::Error(isthmus::ErrorCode::bad_dtype, "argument '" + std::string(argument) + "': no dtype is called \"" +
                                                                std::string(name) + "\"; wanted a name such as \"float32\"");
    return dtype;
}
inline isthmus::Device parse_device(std::string_view name, const char* argument) {
    isthmus::Device device;
    if (!isthmus::Device::parse(name, device))
        throw isthmus::Error(isthmus::ErrorCode::bad_device, "argument '" + std::string(argument) +
                                                                 "': no device is called \"" + std::string(name) +
                                                                 "\"; wanted a name such as \"cuda:0\"");
    return device;
}

}  // namespace isthmus_c
