// What is asked of a torch.Tensor's Python attributes, where libtorch does not tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/import_request.h>  // Python.h must come before any standard header

#include <isthmus/python/framework/torch/refusals.h>

ISTHMUS_BEGIN

namespace detail {

/// A Python attribute or method of no arguments, as a bool; false when it raises.
ISTHMUS_NOINLINE inline bool ask_python(PyObject* object, const char* name, bool call, bool& failed) {
    Ref value(call ? PyObject_CallMethod(object, name, nullptr) : PyObject_GetAttrString(object, name));
    const int truth = value ? PyObject_IsTrue(value.get()) : -1;
    failed = failed || truth < 0;
    return truth > 0;
}

/// A function of the module torch without arguments, as a bool; false when it raises.
ISTHMUS_NOINLINE inline bool ask_torch(const char* name, bool& failed) {
    Ref torch(PyImport_ImportModule("torch"));
    failed = failed || !torch;
    return !failed && ask_python(torch.get(), name, true, failed);
}

/// Made in inference mode, and wanted for writing outside of it.
ISTHMUS_NOINLINE inline bool is_closed_inference_tensor(PyObject* object, bool& failed) {
    return ask_python(object, "is_inference", true, failed) && !ask_torch("is_inference_mode_enabled", failed) && !failed;
}

/// Why this tensor's bytes cannot be had, in torch's own words and with what to call instead.
ISTHMUS_COLD inline bool explain_torch_layout(ImportRequest& request, const char* what) {
    PyObject* object = request.object;
    std::string found;
    Ref layout(PyObject_GetAttrString(object, "layout"));
    Ref text(layout ? PyObject_Str(layout.get()) : nullptr);
    if (const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr) found = utf8;
    PyErr_Clear();
    bool failed = false;
    const bool nested = ask_python(object, "is_nested", false, failed);
    const bool meta = ask_python(object, "is_meta", false, failed);
    PyErr_Clear();
    if (nested) return request.fail(ErrorCode::not_values, torch_refusal::nested);
    if (meta) return request.fail(ErrorCode::not_values, torch_refusal::meta);
    if (found == "torch._mkldnn") return request.fail(ErrorCode::not_values, torch_refusal::mkldnn);
    if (!found.empty() && found != "torch.strided") return request.fail(ErrorCode::not_values, torch_refusal::sparse(found));
    std::string message = concat({"torch refused to show the memory of this ", type_name(object)});
    if (what != nullptr && *what != '\0') message += concat({": ", what});
    return request.fail(ErrorCode::not_values, message);
}

ISTHMUS_COLD inline bool explain_torch_dtype(ImportRequest& request) {
    Ref dtype(PyObject_GetAttrString(request.object, "dtype"));
    Ref text(dtype ? PyObject_Str(dtype.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    const std::string name = utf8 != nullptr ? utf8 : "unknown";
    PyErr_Clear();
    if (name.find("torch.q") == 0) return request.fail(ErrorCode::not_values, torch_refusal::quantised(name));
    return request.fail(ErrorCode::bad_dtype, torch_refusal::unknown_dtype(name));
}

}  // namespace detail

ISTHMUS_END
