// Import of an openvino.Tensor, which offers no protocol: by its `.data` array and the name of its element type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../protocol/buffer.h"  // Python.h must come before any standard header

#include <cstring>

ISTHMUS_BEGIN

namespace detail {

/// The element types of OpenVINO that DLPack also has, by the names of `element_type.get_type_name()`
/// (ov::element::Type_t, openvino/core/type/element_type.hpp). The array shows bf16 as float16 and each float8 as
/// bytes, so its dtype is not used.
struct OpenvinoElement {
    const char* name;
    DType dtype;
};
inline constexpr OpenvinoElement openvino_elements[] = {
    {"f32", float32},
    {"f16", float16},
    {"bf16", bfloat16},
    {"f64", float64},
    {"i8", int8},
    {"i16", int16},
    {"i32", int32},
    {"i64", int64},
    {"u8", uint8},
    {"u16", uint16},
    {"u32", uint32},
    {"u64", uint64},
    {"boolean", boolean},
    {"f8e4m3", float8_e4m3fn},
    {"f8e5m2", float8_e5m2},
    {"f8e8m0", float8_e8m0fnu},
};

ISTHMUS_COLD inline bool ask_openvino_dtype(ImportRequest& request, DType& dtype) {
    Ref element(PyObject_GetAttrString(request.object, "element_type"));
    Ref name(element ? PyObject_CallMethod(element.get(), "get_type_name", nullptr) : nullptr);
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed,
                                           {"the element type of this ", type_name(request.object)});
    for (const OpenvinoElement& known : openvino_elements)
        if (std::strcmp(known.name, text) == 0) {
            dtype = known.dtype;
            return true;
        }
    return request.fail(ErrorCode::bad_dtype, {"element type ", text, " of this ", type_name(request.object),
                                               " has no counterpart in DLPack; expected numbers of whole bytes"});
}

/// The array of `.data` shares the tensor's memory and keeps the tensor alive. Device memory has no array: the error
/// quotes OpenVINO's text. Strings, which `.data` would copy, are refused before it is read.
ISTHMUS_COLD inline bool import_openvino(ImportRequest& request) {
    request.keep_alive();
    DType dtype;
    if (!ask_openvino_dtype(request, dtype)) return false;
    Ref array(PyObject_GetAttrString(request.object, "data"));
    if (!array || !take_buffer(array.get(), request.out.buffer(), PyBUF_FULL_RO))
        return request.fail_with_exception(ErrorCode::producer_failed,
                                           {"the data of this ", type_name(request.object)});
    request.out.hold_buffer();
    if (request.out.buffer().itemsize != dtype.itemsize())
        return request.fail(ErrorCode::bad_dtype, {"the data of this ", type_name(request.object), " has elements of ",
                                                   request.out.buffer().itemsize, " bytes; expected ", dtype.itemsize(),
                                                   ", as its element type ", dtype, " says"});
    if (!import_held_buffer(request)) return false;
    request.out.dl().dtype = dtype;
    return true;
}

}  // namespace detail

ISTHMUS_END
