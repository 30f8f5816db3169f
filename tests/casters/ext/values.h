// SPDX-License-Identifier: Apache-2.0
// Functions that take and return dtypes, devices and Results.
#pragma once

#include <isthmus/python/value_arguments.h>

#include <string>

namespace casters {

using namespace isthmus;

inline DType dtype_back(DType dtype) { return dtype; }
inline Device device_back(Device device) { return device; }
inline std::string dtype_name(DType dtype) { return dtype.name(); }
inline std::string device_name(const Device& device) { return device.name(); }
inline DType wider(const Borrowed& x) { return {x.dtype().code, 2 * x.dtype().bits()}; }
inline Device device_of(const Borrowed& x) { return x.device(); }
inline Tensor empty_of(DType dtype) { return Tensor::empty({2}, dtype); }

inline Result<Tensor> tensor_or_error(bool works) {
    if (!works) return Error(ErrorCode::needs_copy, ErrorKind::buffer, "no tensor this time");
    return Tensor::empty({2}, int16);
}
inline Result<DType> dtype_or_error(bool works) {
    if (!works) return Error(ErrorCode::bad_dtype, ErrorKind::value, "no dtype this time");
    return int16;
}
inline Result<double> number_or_error(bool works) {
    if (!works) return Error(ErrorCode::overflow, ErrorKind::value, "no number this time");
    return 2.5;
}
inline Result<void> nothing_or_error(bool works) {
    if (!works) return Error(ErrorCode::read_only, ErrorKind::value, "nothing this time");
    return {};
}

template <class Def>
void bind_values(Def def) {
    def("dtype_back", dtype_back);
    def("device_back", device_back);
    def("dtype_name", dtype_name);
    def("device_name", device_name);
    def("wider", wider);
    def("device_of", device_of);
    def("empty_of", empty_of);
    // A text is a text first: a dtype takes its name by conversion.
    def("text_or_dtype", [](DType) { return std::string("dtype"); });
    def("text_or_dtype", [](const std::string&) { return std::string("text"); });
    def("tensor_or_error", tensor_or_error);
    def("dtype_or_error", dtype_or_error);
    def("number_or_error", number_or_error);
    def("nothing_or_error", nothing_or_error);
}

}  // namespace casters
