// Import of a torch.Tensor without the stable shims: by the exchange API or `__dlpack__`, after questions in Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../protocol/dlpack_method/import.h"  // Python.h must come before any standard header

#include "../../protocol/exchange_api.h"
#include "questions.h"
#include "rules.h"
#include "shims.h"
#include "storage.h"

ISTHMUS_BEGIN

namespace detail {

/// The questions of torch's rules, answered by Python attributes and methods.
struct AskPython {
    PyObject* object;
    bool failed = false;

    bool ask(const char* name, bool call) { return !failed && ask_python(object, name, call, failed); }
    LazyBit lazy_bit() {
        if (ask("is_conj", true)) return LazyBit::conjugate;
        return ask("is_neg", true) ? LazyBit::negative : LazyBit::none;
    }
    bool may_be_watched() const { return true; }
    bool is_dual() { return is_torch_dual(object, failed); }
    bool requires_grad() { return ask("requires_grad", false); }
    bool is_recording() { return ask_torch("is_grad_enabled", failed); }
    const char* in_place_refusal() { return torch_in_place_refusal(object, failed); }
    bool is_transformed() const { return is_torch_transformed(object); }
};

/// Tells autograd of a coming write. Before PyTorch 2.4 only libtorch itself can.
ISTHMUS_NOINLINE inline bool bump_torch_version_by_python(ImportRequest& request) {
    Ref graph(import_torch("torch.autograd.graph"));
    Ref function(graph ? PyObject_GetAttrString(graph.get(), "increment_version") : nullptr);
    if (!function && is_interrupted())
        return request.fail_with_exception(ErrorCode::requires_grad, "importing torch.autograd.graph");
    Ref done(function ? PyObject_CallFunctionObjArgs(function.get(), request.object, nullptr) : nullptr);
    return done || !function ||
           request.fail_with_exception(ErrorCode::requires_grad, "torch.autograd.graph.increment_version()");
}

/// Checks that the exchange API omits and `__dlpack__` makes only in part.
ISTHMUS_NOINLINE inline bool check_torch_by_python(ImportRequest& request, TorchVerdict& verdict) {
    AskPython ask{request.object};
    if (ask.ask("is_nested", false) || ask.ask("is_sparse", false) || ask.ask("is_sparse_csr", false) ||
        ask.ask("is_mkldnn", false) || ask.ask("is_meta", false))
        return explain_torch_layout(request, nullptr);
    if (ask.ask("is_quantized", false)) return explain_torch_dtype(request);
    verdict = check_torch_rules(ask, request.options);
    if (!ask.failed && verdict.refusal != nullptr) return request.fail(verdict.code, verdict.refusal);
    if (!ask.failed && request.options.require_writable && is_closed_inference_tensor(request.object, ask.failed))
        return request.fail(ErrorCode::requires_grad, torch_refusal::inference);
    if (!ask.failed) return true;
    return request.fail_with_exception(ErrorCode::producer_failed, {"asking this ", type_name(request.object)});
}

/// Finds the reason again, if torch's error was an internal one of its C++ code, or empty.
ISTHMUS_COLD inline bool explain_torch_failure(ImportRequest& request) {
    const Error& error = request.outcome.error.look();
    if (is_torch_transformed(request.object) || PyErr_Occurred() != nullptr) {
        const Error replaced = request.outcome.error.take();
        return request.fail(ErrorCode::not_values, torch_refusal::transformed);
    }
    auto* cause = static_cast<PyObject*>(error.cause());
    if (error.code() != ErrorCode::producer_failed || (cause != nullptr && passes_through(cause))) return false;
    Ref layout(PyObject_GetAttrString(request.object, "layout"));
    Ref text(layout ? PyObject_Str(layout.get()) : nullptr);
    const bool strided = text && PyUnicode_CompareWithASCIIString(text.get(), "torch.strided") == 0;
    if (!is_interrupted() && strided) return false;
    const Error replaced = request.outcome.error.take();
    return explain_torch_layout(request, nullptr);
}

/// torch exports its types of fewer than 8 bits (torch.int4) under the dtype of the byte that holds one element.
inline bool names_a_smaller_dtype(ImportRequest& request) {
    const DType dtype = request.out.dl().dtype;
    if (dtype != int8 && dtype != uint8) return false;
    Ref found(PyObject_GetAttrString(request.object, "dtype"));
    Ref text(found ? PyObject_Str(found.get()) : nullptr);
    const bool same =
        !text || PyUnicode_CompareWithASCIIString(text.get(), dtype == int8 ? "torch.int8" : "torch.uint8") == 0;
    return is_interrupted() || !same;
}

/// `__dlpack__`, called without synchronisation: torch's other functions tell its stream. torch may reach a GPU without
/// any import, so the driver is searched for.
inline bool import_torch_by_method(ImportRequest& request) {
    expect_driver();
    ImportOptions options = request.options;
    options.stream = no_stream;
    ImportRequest asked{request.object,   options,         request.out,      request.owning,
                        request.producer, request.outcome, request.immutable};
    if (!import_dlpack_method(asked)) return false;
    if (!(request.out.flags() & producer_flag)) return settle_stream(request, no_stream);
    request.out.flags() &= ~producer_flag;
    return settle_device_stream(request, torch_stream_by_python(request.out.dl().device), false);
}

/// PyTorch 2.10 to 2.13 by the exchange API, older versions by `__dlpack__`, both after the same questions.
ISTHMUS_NOINLINE inline bool import_torch_older(ImportRequest& request, const DLPackExchangeAPI* api) {
    request.keep_alive();
    TorchVerdict verdict;
    if (!check_torch_by_python(request, verdict)) return false;
    // torch's own __dlpack__ refuses a tensor that requires grad; a detached alias of it shows the same memory.
    PyObject* const object = request.object;
    bool failed = false;
    const bool grad = ask_python(object, "requires_grad", false, failed);
    Ref detached(grad ? PyObject_CallMethod(object, "detach", nullptr) : nullptr);
    if (failed || (grad && !detached))
        return request.fail_with_exception(ErrorCode::producer_failed, {type_name(object), ".detach()"});
    if (grad) request.object = detached.get();
    if (verdict.watched) request.immutable = true;
    const bool by_method = api == nullptr || request.options.device.type != 0;
    const bool ok = by_method ? import_torch_by_method(request) : import_exchange_table(request, api);
    request.object = object;
    if (!ok) return explain_torch_failure(request);
    if (names_a_smaller_dtype(request)) return explain_torch_dtype(request);
    request.out.flags() |= verdict.flags();
    if (request.options.require_writable) {
        if (!request.options.announce)
            request.out.flags() |= unannounced_flag;
        else if (!bump_torch_version_by_python(request))
            return false;
    }
    return !request.owning || hold_torch_storage_by_python(request);
}
inline bool import_torch_exchange(ImportRequest& request) { return import_torch_older(request, request.producer.api); }
inline bool import_torch_method(ImportRequest& request) { return import_torch_older(request, nullptr); }

/// For a torch whose shims do not describe this tensor in DLPack's terms.
ISTHMUS_NOINLINE inline bool import_torch_elsewhere(ImportRequest& request) {
    const DLPackExchangeAPI* api = find_exchange_api(Py_TYPE(request.object));
    if (PyErr_Occurred() != nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, {"looking at this ", type_name(request.object)});
    return import_torch_older(request, api);
}

}  // namespace detail

ISTHMUS_END
