// Questions to a torch.Tensor's Python attributes, which libtorch does not answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../protocol/import_request.h"  // Python.h must come before any standard header

#include "rules.h"
#include "shims.h"

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
    Ref torch(import_torch("torch"));
    failed = failed || !torch;
    return !failed && ask_python(torch.get(), name, true, failed);
}

/// Whether the tensor has a tangent of forward-mode automatic differentiation at the level that is open now.
ISTHMUS_NOINLINE inline bool is_torch_dual(PyObject* object, bool& failed) {
    Ref module(failed ? nullptr : import_torch("torch.autograd.forward_ad"));
    Ref level(module ? PyObject_GetAttrString(module.get(), "_current_level") : nullptr);
    const long number = level ? PyLong_AsLong(level.get()) : -1;
    if (number < 0) {
        failed = failed || PyErr_Occurred() != nullptr;
        return false;
    }
    Ref both(PyObject_CallMethod(module.get(), "unpack_dual", "O", object));
    Ref tangent(both ? PyObject_GetAttrString(both.get(), "tangent") : nullptr);
    failed = failed || !tangent;
    return tangent && tangent.get() != Py_None;
}

/// Whether it is the stand-in for a tensor inside a transform of torch.func. An older torch does not have them.
ISTHMUS_COLD inline bool is_torch_transformed(PyObject* object) {
    Ref module(import_torch("torch._C._functorch"));
    Ref answer(module ? PyObject_CallMethod(module.get(), "is_functorch_wrapped_tensor", "O", object) : nullptr);
    if (!answer) (void)is_interrupted();
    return answer.get() == Py_True;
}

/// Whether autograd can follow a write through this view. An older torch cannot tell; the answer is then yes.
ISTHMUS_NOINLINE inline bool is_plain_torch_view(PyObject* view, bool& failed) {
    Ref module(import_torch("torch._C._autograd"));
    Ref made(module ? PyObject_CallMethod(module.get(), "_get_creation_meta", "O", view) : nullptr);
    Ref kinds(made ? PyObject_GetAttrString(module.get(), "CreationMeta") : nullptr);
    Ref plain(kinds ? PyObject_GetAttrString(kinds.get(), "DEFAULT") : nullptr);
    const int same = plain ? PyObject_RichCompareBool(made.get(), plain.get(), Py_EQ) : -1;
    const bool untold = same < 0 && !made &&
                        (PyErr_ExceptionMatches(PyExc_ImportError) || PyErr_ExceptionMatches(PyExc_AttributeError));
    if (untold) PyErr_Clear();
    failed = failed || (same < 0 && !untold);
    return same != 0;
}

/// Why torch refuses an in-place operation on this tensor, which requires grad while grad mode is on; NULL if it does
/// not. The same rules as in torch/csrc/autograd/VariableTypeUtils.h (check_inplace).
ISTHMUS_COLD inline const char* torch_in_place_refusal(PyObject* object, bool& failed) {
    if (ask_python(object, "is_leaf", false, failed)) return torch_refusal::leaf;
    if (failed || !ask_python(object, "_is_view", true, failed)) return nullptr;
    Ref base(PyObject_GetAttrString(object, "_base"));
    failed = failed || !base;
    if (!failed && ask_python(base.get(), "is_leaf", false, failed)) return torch_refusal::view_of_leaf;
    return failed || is_plain_torch_view(object, failed) ? nullptr : torch_refusal::fixed_view;
}

/// Whether it was made in inference mode, and is to be written outside of it.
ISTHMUS_COLD inline bool is_closed_inference_tensor(PyObject* object, bool& failed) {
    return ask_python(object, "is_inference", true, failed) && !ask_torch("is_inference_mode_enabled", failed) &&
           !failed;
}

/// Asks in Python what the shims were asked: a wrapper subclass answers there, and the shims keep only the text of the
/// exception. False with an error that has the exception.
ISTHMUS_COLD inline bool ask_torch_again(ImportRequest& request, std::string_view what) {
    PyObject* object = request.object;
    Ref size(PyObject_CallMethod(object, "size", nullptr));
    Ref stride(size ? PyObject_CallMethod(object, "stride", nullptr) : nullptr);
    Ref device(stride ? PyObject_GetAttrString(object, "device") : nullptr);
    Ref layout(device ? PyObject_GetAttrString(object, "layout") : nullptr);
    // An interrupt is raised once: if that was inside the shims, only its name is left.
    if (layout && what.find("KeyboardInterrupt") == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);
    return PyErr_Occurred() == nullptr ||
           request.fail_with_exception(ErrorCode::producer_failed, {"asking this ", type_name(object)});
}

/// Why this tensor's bytes are not available, in torch's own words and with what to call instead. `reason`: what
/// libtorch said.
ISTHMUS_COLD inline bool explain_torch_layout(ImportRequest& request, const char* reason) {
    const std::string what = reason != nullptr ? reason : "";  // copied: torch's next answer would overwrite it
    if (const ErrorCode code = torch_failure(ErrorCode::not_values, what); code == ErrorCode::out_of_memory)
        return request.fail(code, {"torch: ", what});
    const auto refuse = [&request](Message text) { return request.fail(ErrorCode::not_values, text); };
    PyObject* object = request.object;
    const Piece name = type_name(object);
    if (is_torch_transformed(object)) return refuse(torch_refusal::transformed);
    Ref layout(is_interrupted() ? nullptr : PyObject_GetAttrString(object, "layout"));
    Ref text(layout ? PyObject_Str(layout.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    const std::string_view found = utf8 != nullptr ? utf8 : "";
    bool failed = utf8 == nullptr;
    if (!failed && ask_python(object, "is_nested", false, failed)) return refuse(torch_refusal::nested);
    if (!failed && ask_python(object, "is_meta", false, failed)) return refuse(torch_refusal::meta);
    if (failed) return request.fail_with_exception(ErrorCode::producer_failed, {"asking this ", name});
    if (found == "torch._mkldnn") return refuse(torch_refusal::mkldnn);
    if (found != "torch.strided") return refuse(torch_refusal::sparse(found));
    if (!ask_torch_again(request, what)) return false;
    return refuse({"torch refused to show the memory of this ", name, what.empty() ? "" : ": ", what});
}

ISTHMUS_COLD inline bool explain_torch_dtype(ImportRequest& request) {
    Ref dtype(PyObject_GetAttrString(request.object, "dtype"));
    Ref text(dtype ? PyObject_Str(dtype.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    const std::string_view name = utf8 != nullptr ? utf8 : "unknown";
    if (name.find("torch.q") == 0) return request.fail(ErrorCode::not_values, torch_refusal::quantised(name));
    return request.fail(ErrorCode::bad_dtype, torch_refusal::unknown_dtype(name));
}

}  // namespace detail

ISTHMUS_END
