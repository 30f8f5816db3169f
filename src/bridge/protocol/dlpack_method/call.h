// One call of a producer's `__dlpack__`, and what its refusal means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <string_view>

#include "../../runtime/lookups.h"
#include "../../runtime/names.h"

ISTHMUS_BEGIN

namespace detail {

/// Whether a TypeError means that the producer does not know one of these keywords, rather than that something failed
/// inside it. Without memory to read it, it becomes a MemoryError. A Python function that could not be called has no
/// frame in the traceback; a C function says it only in its text.
ISTHMUS_COLD inline bool refuses_keyword(Ref& exception, std::initializer_list<const char*> keywords) {
    const TextBuffer text = exception_text(exception.get());
    if (text.failed()) {
        PyErr_NoMemory();
        exception = Ref(take_exception());
        return false;
    }
    const std::string_view view = text.view();
    const auto says = [&](const char* words) { return view.find(words) != std::string_view::npos; };
    for (const char* keyword : keywords)
        if (says("keyword") && says(keyword)) return true;
    Ref trace(PyException_GetTraceback(exception.get()));
    if (trace) return false;
    return says("takes no keyword arguments") || says("takes no arguments") || says("unexpected keyword") ||
           says("incompatible function arguments") || says("takes at most") || says("positional argument");
}

/// Whether a BufferError only passes on a failure further down: our own error, or infinite recursion. Asking again
/// would then double the work at every level.
inline bool tells_of_failure_below(PyObject* exception) {
    if (SharedRuntime* shared = shared_runtime();
        shared != nullptr && PyErr_GivenExceptionMatches(exception, shared->error))
        return true;
    Ref at = Ref::borrow(exception);
    constexpr int deepest = 100'000;  // a chain of exceptions may be circular
    for (int i = 0; i < deepest && at; ++i) {
        if (PyErr_GivenExceptionMatches(at.get(), PyExc_RecursionError)) return true;
        Ref cause(PyException_GetCause(at.get()));
        at = cause ? std::move(cause) : Ref(PyException_GetContext(at.get()));
    }
    return false;
}

/// The arguments of a call of `__dlpack__`; NULL for one that is left out.
struct DLPackArguments {
    Ref version, stream, device, copy;
};

enum class DLPackOutcome { ok, failed, keyword_refused, buffer_error };

/// The names of the keywords that are passed; those of the common cases are made only once.
inline Ref keyword_names(PyObject* const* keywords, int count) {
    const Interned& names = interned();
    if (count == 1 && keywords[0] == names.max_version) return Ref::borrow(names.only_max_version);
    if (count == 2 && keywords[0] == names.max_version && keywords[1] == names.copy)
        return Ref::borrow(names.version_and_copy);
    Ref tuple(PyTuple_New(count));
    for (int i = 0; tuple && i < count; ++i) {
        Py_INCREF(keywords[i]);
        PyTuple_SET_ITEM(tuple.get(), i, keywords[i]);
    }
    return tuple;
}

/// One call of `__dlpack__`, with the keywords that have a value. Its exception goes to `exception`.
ISTHMUS_RARE inline DLPackOutcome call_dlpack(PyObject* object, const DLPackArguments& request, Ref& capsule,
                                              Ref& exception) {
    const Interned& names = interned();
    PyObject* arguments[5] = {object};
    PyObject* keywords[4];
    int count = 0;
    const auto pass = [&](PyObject* name, const Ref& value) {
        if (!value) return;
        keywords[count] = name;
        arguments[++count] = value.get();
    };
    pass(names.max_version, request.version);
    pass(names.stream, request.stream);
    pass(names.dl_device, request.device);
    pass(names.copy, request.copy);
    const Ref kwnames = keyword_names(keywords, count);
    if (kwnames) capsule = Ref(PyObject_VectorcallMethod(names.dlpack, arguments, 1, kwnames.get()));
    if (capsule) return DLPackOutcome::ok;
    exception = Ref(take_exception());
    if (passes_through(exception.get())) return DLPackOutcome::failed;
    if (PyErr_GivenExceptionMatches(exception.get(), PyExc_BufferError))
        return tells_of_failure_below(exception.get()) ? DLPackOutcome::failed : DLPackOutcome::buffer_error;
    if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_TypeError)) return DLPackOutcome::failed;
    const char* first = request.version ? "max_version" : "stream";
    const bool refused =
        refuses_keyword(exception, {first, request.device ? "dl_device" : first, request.copy ? "copy" : first});
    return refused ? DLPackOutcome::keyword_refused : DLPackOutcome::failed;
}

/// Asks a producer that alone knows its stream to order the consumer's after it, as `__dlpack__(stream=)` does. False
/// with a Python exception set.
ISTHMUS_NOINLINE inline bool request_order(PyObject* producer, std::int64_t after) {
    const Ref kept = Ref::borrow(producer);
    DLPackArguments request;
    request.stream = Ref(PyLong_FromLongLong(after));
    if (!request.stream || !make_interned()) return false;
    request.version = Ref::borrow(interned().newest_version);
    Ref capsule, exception;
    DLPackOutcome outcome = call_dlpack(producer, request, capsule, exception);
    if (outcome == DLPackOutcome::keyword_refused || outcome == DLPackOutcome::buffer_error) {
        request.version = Ref();
        outcome = call_dlpack(producer, request, capsule, exception);
    }
    if (outcome == DLPackOutcome::ok) return true;
    if (exception) restore_exception(exception.release());
    return false;
}

}  // namespace detail

ISTHMUS_END
