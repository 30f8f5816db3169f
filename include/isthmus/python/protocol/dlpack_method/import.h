// Import by `__dlpack__`: what the producer is asked, and when it is asked again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/capsule/import.h>  // Python.h must come before any standard header

#include <string_view>

#include <isthmus/python/runtime/interned.h>
#include <isthmus/python/runtime/shared_runtime.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether the TypeError now set says that the producer does not know a keyword, rather than that something failed inside it.
/// A Python function that could not be called has no frame in the traceback; a C function says it in its text only.
ISTHMUS_COLD inline bool refuses_keyword(PyObject* exception, const char* keyword) {
    const std::string text = exception_text(exception);
    const std::string_view view = text;
    const auto says = [&](const char* words) { return view.find(words) != std::string_view::npos; };
    if (says("keyword") && says(keyword)) return true;
    Ref trace(PyException_GetTraceback(exception));
    if (trace) return false;
    return says("takes no keyword arguments") || says("takes no arguments") || says("unexpected keyword") ||
           says("incompatible function arguments") || says("takes at most") || says("positional argument");
}

/// Whether a BufferError only passes on that something deeper failed: our own error, or a recursion without end. To ask again
/// would then double the work at every level.
inline bool tells_of_failure_below(PyObject* exception) {
    if (SharedRuntime* shared = shared_runtime(); shared != nullptr && PyErr_GivenExceptionMatches(exception, shared->error))
        return true;
    Ref at = Ref::borrow(exception);
    constexpr int deepest = 100'000;  // a chain of exceptions may bite its own tail
    for (int i = 0; i < deepest && at; ++i) {
        if (PyErr_GivenExceptionMatches(at.get(), PyExc_RecursionError)) return true;
        Ref cause(PyException_GetCause(at.get()));
        at = cause ? std::move(cause) : Ref(PyException_GetContext(at.get()));
    }
    return false;
}

enum class Asked { ok, failed, keyword_refused, buffer_error };

/// One call of `__dlpack__`, with the keywords that have a value. The exception stays with `exception`.
ISTHMUS_RARE inline Asked ask_dlpack(PyObject* object, PyObject* max_version, PyObject* stream, PyObject* device,
                                     PyObject* copy, PyObject*& capsule, PyObject*& exception) {
    const Interned& names = interned();
    PyObject* arguments[5] = {object};
    PyObject* keywords[4];
    int count = 0;
    const auto pass = [&](PyObject* name, PyObject* value) {
        if (value == nullptr) return;
        keywords[count] = name;
        arguments[++count] = value;
    };
    pass(names.max_version, max_version);
    pass(names.stream, stream);
    pass(names.dl_device, device);
    pass(names.copy, copy);
    Ref kwnames;
    if (count == 1 && max_version != nullptr) {
        kwnames = Ref::borrow(names.only_max_version);
    } else if (count > 0) {
        kwnames = Ref(PyTuple_New(count));
        if (!kwnames) {
            exception = take_exception();
            return Asked::failed;
        }
        for (int i = 0; i < count; ++i) {
            Py_INCREF(keywords[i]);
            PyTuple_SET_ITEM(kwnames.get(), i, keywords[i]);
        }
    }
    capsule = PyObject_VectorcallMethod(names.dlpack, arguments, 1, kwnames.get());
    if (capsule != nullptr) return Asked::ok;
    exception = take_exception();
    if (exception == nullptr) return Asked::failed;
    if (PyErr_GivenExceptionMatches(exception, PyExc_BufferError))
        return tells_of_failure_below(exception) ? Asked::failed : Asked::buffer_error;
    if (!PyErr_GivenExceptionMatches(exception, PyExc_TypeError) || count == 0) return Asked::failed;
    const char* last = max_version != nullptr ? "max_version" : "stream";
    return refuses_keyword(exception, last) || (device != nullptr && refuses_keyword(exception, "dl_device")) ||
                   (copy != nullptr && refuses_keyword(exception, "copy"))
               ? Asked::keyword_refused
               : Asked::failed;
}

ISTHMUS_COLD inline bool fail_producer(ImportRequest& request, PyObject* exception, const std::string& what) {
    if (exception == nullptr)
        return request.fail(ErrorCode::producer_failed, concat({what, " failed without setting an exception"}));
    restore_exception(exception);
    return request.fail_with_exception(ErrorCode::producer_failed, what);
}

/// `__dlpack__` (array API standard 2024.12): versioned where the producer knows `max_version`, else as before DLPack 1.0. A
/// producer is asked again only when it said that it does not know a keyword or cannot export this version; the first error is
/// the one that is told.
inline bool import_dlpack_method(ImportRequest& request) {
    const ImportOptions& options = request.options;
    PyObject* object = request.object;
    request.keep_alive();
    const Interned& names = interned();
    Ref version, stream, device, copy;
    if (options.max_version.major >= 1) {
        version = options.max_version.major == DLPACK_MAJOR_VERSION && options.max_version.minor == DLPACK_MINOR_VERSION
                      ? Ref::borrow(names.newest_version)
                      : Ref(Py_BuildValue("(II)", options.max_version.major, options.max_version.minor));
    }
    if (options.has_stream()) stream = Ref(PyLong_FromLongLong(options.stream));
    if (options.device.type != 0) device = Ref(Py_BuildValue("(ii)", options.device.type, options.device.id));
    if (options.copy == Copy::always) copy = Ref::borrow(Py_True);
    if (PyErr_Occurred() != nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, "building the arguments of __dlpack__");

    PyObject *capsule = nullptr, *exception = nullptr;
    Asked asked = ask_dlpack(object, version.get(), stream.get(), device.get(), copy.get(), capsule, exception);
    if (ISTHMUS_UNLIKELY(asked != Asked::ok)) {
        const std::string what = concat({type_name(object), ".__dlpack__()"});
        const bool again = version && (asked == Asked::keyword_refused || asked == Asked::buffer_error);
        if (!again) return fail_producer(request, exception, what);
        Ref first(exception);
        if (asked == Asked::keyword_refused && (device || copy))
            return request.fail(ErrorCode::needs_copy,
                                concat({what, " knows neither dl_device nor copy, so it cannot move or copy the data (",
                                        exception_text(first.get()), ")"}));
        if (device || copy) return fail_producer(request, first.release(), what);
        PyObject* second = nullptr;
        if (ask_dlpack(object, nullptr, stream.get(), nullptr, nullptr, capsule, second) != Asked::ok) {
            Ref told(second);
            // The second failure explains more only where the first was about the keyword.
            if (asked == Asked::keyword_refused && told) first = std::move(told);
            return fail_producer(request, first.release(), what);
        }
    }
    Ref held(capsule);
    if (ISTHMUS_UNLIKELY(!PyCapsule_CheckExact(capsule)))
        return request.fail(ErrorCode::producer_failed,
                            concat({type_name(object), ".__dlpack__() returned a ", type_name(capsule), "; wanted a capsule"}));
    return consume_any_capsule(request, capsule);
}

}  // namespace detail

ISTHMUS_END
