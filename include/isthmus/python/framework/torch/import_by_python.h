// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/dlpack_method/import.h>
#include <isthmus/python/dispatch/classify.h>

ISTHMUS_BEGIN

namespace detail {

/// What the exchange API does not check and `__dlpack__` checks only in part, asked of torch's Python methods.
/// `refused` grad makes the tensor read-only or the import an error, as in check_grad().
ISTHMUS_COLD inline bool check_torch_by_python(Import& import, bool& grad, bool& may_be_written) {
    PyObject* object = import.object;
    bool failed = false;
    grad = false;
    const auto ask = [&](const char* name, bool call) { return !failed && ask_python(object, name, call, failed); };
    if (ask("is_nested", false) || ask("is_sparse", false) || ask("is_sparse_csr", false) || ask("is_mkldnn", false) ||
        ask("is_meta", false))
        return explain_torch_layout(import, nullptr);
    if (ask("is_quantized", false)) return explain_torch_dtype(import);
    if (ask("is_conj", true)) return import.fail(ErrorCode::not_values, torch_words::conjugate);
    if (ask("is_neg", true)) return import.fail(ErrorCode::not_values, torch_words::negative);
    grad = ask("requires_grad", false);
    may_be_written = true;
    if (grad && !import.options.allow_grad && ask_torch("is_grad_enabled", failed)) {
        may_be_written = import.options.require_writable;
        if (may_be_written && ask("is_leaf", false)) return import.fail(ErrorCode::requires_grad, torch_words::leaf);
    }
    if (!failed && import.options.require_writable && is_closed_inference_tensor(object, failed))
        return import.fail(ErrorCode::requires_grad, torch_words::inference);
    if (failed) return import.fail_with_exception(ErrorCode::producer_failed, concat({"asking this ", type_name(object)}));
    return true;
}

/// Where torch failed with words of its own C++, or said nothing: asks again for the reason.
ISTHMUS_COLD inline void explain_torch_failure(Import& import, Error& error) {
    auto* cause = static_cast<PyObject*>(error.cause());
    if (error.code() != ErrorCode::producer_failed ||
        (cause != nullptr && !PyErr_GivenExceptionMatches(cause, PyExc_Exception)))
        return;
    Ref layout(PyObject_GetAttrString(import.object, "layout"));
    Ref text(layout ? PyObject_Str(layout.get()) : nullptr);
    const bool strided = text && PyUnicode_CompareWithASCIIString(text.get(), "torch.strided") == 0;
    PyErr_Clear();
    if (strided) return;
    error.~Error();
    explain_torch_layout(import, nullptr);
}

/// torch exports its types of fewer than 8 bits (torch.int4) under the name of the byte that holds one.
inline bool names_a_smaller_dtype(Import& import) {
    const DType dtype = import.out.dl().dtype;
    if (dtype != int8 && dtype != uint8) return false;
    Ref found(PyObject_GetAttrString(import.object, "dtype"));
    Ref text(found ? PyObject_Str(found.get()) : nullptr);
    const bool same = !text || PyUnicode_CompareWithASCIIString(text.get(), dtype == int8 ? "torch.int8" : "torch.uint8") == 0;
    PyErr_Clear();
    return !same;
}

/// torch without the stable shims: 2.10 to 2.13 by the exchange API, older ones by `__dlpack__`, both after the same questions.
/// The entry is a copy: the questions run Python code, which may look at other types and take its place in the cache.
ISTHMUS_COLD inline bool import_torch_older(Import& import, const TypeEntry entry) {
    bool grad = false, may_be_written = true;
    import.keep_alive();
    if (!check_torch_by_python(import, grad, may_be_written)) return false;
    // torch's own __dlpack__ refuses a tensor that requires grad; a detached alias of it shows the same memory.
    PyObject* const object = import.object;
    Ref detached;
    if (grad) {
        detached = Ref(PyObject_CallMethod(object, "detach", nullptr));
        if (!detached) return import.fail_with_exception(ErrorCode::producer_failed, concat({type_name(object), ".detach()"}));
        import.object = detached.get();
        if (!may_be_written) import.may_be_written = false;
    }
    const bool by_method = entry.protocol == Protocol::torch_method || entry.api == nullptr || import.options.has_stream() ||
                           import.options.device.type != 0;
    const bool ok = by_method ? import_dlpack_method(import) : import_exchange(import, entry.api);
    import.object = object;
    if (!ok) return explain_torch_failure(import, *import.error), false;
    if (names_a_smaller_dtype(import)) return explain_torch_dtype(import);
    if (!import.options.require_writable) return true;
    Ref graph(PyImport_ImportModule("torch.autograd.graph"));
    Ref done(graph ? PyObject_CallMethod(graph.get(), "increment_version", "O", object) : nullptr);
    if (!done) PyErr_Clear();  // before 2.4 there is no such function
    return true;
}

/// A device that the stable shims do not describe in DLPack's terms (XPU, MPS, extensions), or one with a stream to wait for.
ISTHMUS_COLD inline bool import_torch_elsewhere(Import& import, const TypeEntry& entry) {
    TypeEntry other = entry;
    other.api = find_exchange_api(entry.type);
    return import_torch_older(import, other);
}

}  // namespace detail

ISTHMUS_END
