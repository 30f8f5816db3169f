// Import by `__dlpack__`: what the producer is asked, and when it is asked again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../capsule/import.h"  // Python.h must come before any standard header

#include <string_view>

#include "read_only.h"
#include <isthmus/python/runtime/interned.h>
#include "../../runtime/shared_runtime.h"
#include "../../runtime/tuples.h"

ISTHMUS_BEGIN

namespace detail {

/// Whether the TypeError now set means that the producer does not know a keyword, rather than that something failed inside it.
/// A Python function that could not be called has no frame in the traceback; a C function says it only in its text.
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

/// Whether a BufferError only passes on a failure further down: our own error, or infinite recursion. Asking again would then
/// double the work at every level.
inline bool tells_of_failure_below(PyObject* exception) {
    if (SharedRuntime* shared = shared_runtime(); shared != nullptr && PyErr_GivenExceptionMatches(exception, shared->error))
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

/// What `__dlpack__` is asked for; NULL where an argument is left out.
struct DLPackQuestion {
    Ref version, stream, device, copy;

    /// The stream is -1, although the caller did not ask for that. None would synchronise with the legacy default stream, which
    /// invalidates a graph capture and is not what a caller who named no stream asked for: so a producer of device memory is
    /// asked for no synchronisation.
    bool no_synchronisation = false;

    /// False with the error left in the request.
    bool make(ImportRequest& request) {
        const ImportOptions& options = request.options;
        const Interned& names = interned();
        if (options.max_version.major >= 1)
            version = options.max_version.major == DLPACK_MAJOR_VERSION && options.max_version.minor == DLPACK_MINOR_VERSION
                          ? Ref::borrow(names.newest_version)
                          : Ref(Py_BuildValue("(II)", options.max_version.major, options.max_version.minor));
        if (options.device.type != 0) device = Ref(Py_BuildValue("(ii)", options.device.type, options.device.id));
        if (options.copy != Copy::if_needed) copy = Ref::borrow(options.copy == Copy::always ? Py_True : Py_False);
        if (PyErr_Occurred() != nullptr)
            return request.fail_with_exception(ErrorCode::producer_failed, "building the arguments of __dlpack__");
        return (ISTHMUS_LIKELY(!options.has_stream()) && ISTHMUS_LIKELY(!has_driver())) || name_stream(request);
    }
    /// Whether a producer that knows neither `dl_device` nor `copy` cannot answer. Other questions it can: it shares the
    /// memory, or says by a flag that it did not.
    bool needs_newer_producer() const noexcept { return device || copy.get() == Py_True; }

private:
    /// The stream belongs to the device where the data is, by the producer's answer, or to the one where it is wanted. The host
    /// has none.
    ISTHMUS_NOINLINE bool name_stream(ImportRequest& request) {
        const ImportOptions& options = request.options;
        Device found = options.device;
        if (found.type == 0) {
            Ref pair(PyObject_CallMethodNoArgs(request.object, interned().dlpack_device));
            long type = 0, id = 0;
            if (pair && read_pair(pair.get(), type, id)) found = Device(static_cast<int>(type), static_cast<int>(id));
            if (PyErr_Occurred() != nullptr && !PyErr_ExceptionMatches(PyExc_Exception))
                return request.fail_with_exception(ErrorCode::producer_failed,
                                                   {type_name(request.object), ".__dlpack_device__()"});
            PyErr_Clear();
        }
        if (found.is_host()) return true;
        if (!accept_stream(request, found)) return false;
        // What a producer makes for this import alone, and does not keep, is made ready for the legacy default stream.
        no_synchronisation = !options.has_stream() && has_streams(found.type) && !needs_newer_producer();
        if (options.has_stream() || no_synchronisation)
            stream = Ref(PyLong_FromLongLong(no_synchronisation ? -1 : options.stream));
        return PyErr_Occurred() == nullptr ||
               request.fail_with_exception(ErrorCode::producer_failed, "making the stream's number");
    }
};

enum class Asked { ok, failed, keyword_refused, buffer_error };

/// The names of the keywords that are passed; those of the common cases are made only once.
inline Ref keyword_names(PyObject* const* keywords, int count) {
    const Interned& names = interned();
    if (count == 1 && keywords[0] == names.max_version) return Ref::borrow(names.only_max_version);
    if (count == 2 && keywords[0] == names.max_version && keywords[1] == names.copy) return Ref::borrow(names.version_and_copy);
    Ref tuple(PyTuple_New(count));
    for (int i = 0; tuple && i < count; ++i) {
        Py_INCREF(keywords[i]);
        PyTuple_SET_ITEM(tuple.get(), i, keywords[i]);
    }
    return tuple;
}

/// One call of `__dlpack__`, with the keywords that have a value. Its exception goes to `exception`.
ISTHMUS_RARE inline Asked ask_dlpack(PyObject* object, const DLPackQuestion& question, Ref& capsule, Ref& exception) {
    const Interned& names = interned();
    PyObject* arguments[5] = {object};
    PyObject* keywords[4];
    int count = 0;
    const auto pass = [&](PyObject* name, const Ref& value) {
        if (!value) return;
        keywords[count] = name;
        arguments[++count] = value.get();
    };
    pass(names.max_version, question.version);
    pass(names.stream, question.stream);
    pass(names.dl_device, question.device);
    pass(names.copy, question.copy);
    const Ref kwnames = keyword_names(keywords, count);
    if (kwnames) capsule = Ref(PyObject_VectorcallMethod(names.dlpack, arguments, 1, kwnames.get()));
    if (capsule) return Asked::ok;
    exception = Ref(take_exception());
    if (PyErr_GivenExceptionMatches(exception.get(), PyExc_BufferError))
        return tells_of_failure_below(exception.get()) ? Asked::failed : Asked::buffer_error;
    if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_TypeError)) return Asked::failed;
    const char* last = question.version ? "max_version" : "stream";
    return refuses_keyword(exception.get(), last) || (question.device && refuses_keyword(exception.get(), "dl_device")) ||
                   (question.copy && refuses_keyword(exception.get(), "copy"))
               ? Asked::keyword_refused
               : Asked::failed;
}

ISTHMUS_COLD inline bool fail_producer(ImportRequest& request, Ref exception) {
    const Piece type = type_name(request.object);
    if (!exception)
        return request.fail(ErrorCode::producer_failed, {type, ".__dlpack__() failed without setting an exception"});
    restore_exception(exception.release());
    return request.fail_with_exception(ErrorCode::producer_failed, {type, ".__dlpack__()"});
}

/// Asks again without what the producer said that it does not know, or could not answer in this version; the first error is the
/// one reported. The request not to copy is dropped only if the keyword is unknown: with None a producer may copy.
ISTHMUS_COLD inline bool ask_dlpack_again(ImportRequest& request, DLPackQuestion& question, Asked asked, Ref first,
                                          Ref& capsule) {
    const auto may_ask_again = [&] { return asked == Asked::keyword_refused || asked == Asked::buffer_error; };
    if (asked == Asked::keyword_refused && question.needs_newer_producer())
        return request.fail(
            ErrorCode::needs_copy,
            {type_name(request.object), ".__dlpack__() knows neither dl_device nor copy, so it cannot move or copy the data (",
             exception_text(first.get()), ")"});
    if (!may_ask_again() || question.needs_newer_producer()) return fail_producer(request, std::move(first));
    if (asked == Asked::keyword_refused && question.copy) {
        question.copy = Ref();
        // A producer that does not know the older of the two keywords does not know the newer one either.
        const std::string text = exception_text(first.get());
        const bool too_old = text.find("max_version") != text.npos && text.find("copy") == text.npos;
        if (!too_old) {
            asked = ask_dlpack(request.object, question, capsule, first);
            if (asked == Asked::ok) return true;
        }
    }
    if (!may_ask_again() || !(question.version || question.no_synchronisation)) return fail_producer(request, std::move(first));
    Ref second;
    Asked then = asked;
    if (question.version) {
        question.version = Ref();
        then = ask_dlpack(request.object, question, capsule, second);
    }
    // A producer that knows no streams at all: pass None, and use what it makes ready for the legacy default stream.
    if (then == Asked::keyword_refused && question.no_synchronisation) {
        question.stream = Ref();
        second = Ref();
        then = ask_dlpack(request.object, question, capsule, second);
    }
    if (then == Asked::ok) return true;
    // The second failure explains more only if the first was about the keyword.
    if (asked == Asked::keyword_refused && second) first = std::move(second);
    return fail_producer(request, std::move(first));
}

/// A legacy capsule cannot say that the memory is read-only, so the object's other protocols are asked. False with a Python
/// exception set.
ISTHMUS_NOINLINE inline bool ask_of_legacy_memory(ImportRequest& request, PyObject* capsule) {
    const auto* managed = static_cast<const DLManagedTensor*>(PyCapsule_GetPointer(capsule, capsule_name));
    const int answer = is_read_only_elsewhere(request.object, Device(managed->dl_tensor.device).is_host());
    if (answer > 0) request.immutable = true;
    return answer >= 0;
}

/// `__dlpack__` (array API standard 2024.12): versioned if the producer knows `max_version`, else as before DLPack 1.0. A
/// producer is asked again only if it said that it does not know a keyword or cannot export this version.
inline bool import_dlpack_method(ImportRequest& request) {
    request.keep_alive();
    DLPackQuestion question;
    if (!question.make(request)) return false;
    Ref capsule, exception;
    const Asked asked = ask_dlpack(request.object, question, capsule, exception);
    if (ISTHMUS_UNLIKELY(asked != Asked::ok) && !ask_dlpack_again(request, question, asked, std::move(exception), capsule))
        return false;
    if (ISTHMUS_UNLIKELY(!PyCapsule_CheckExact(capsule.get())))
        return request.fail(ErrorCode::producer_failed, {type_name(request.object), ".__dlpack__() returned a ",
                                                         type_name(capsule.get()), "; wanted a capsule"});
    if (ISTHMUS_UNLIKELY(PyCapsule_IsValid(capsule.get(), capsule_name)) && !request.immutable &&
        !request.producer.only_dlpack && !ask_of_legacy_memory(request, capsule.get()))
        return request.fail_with_exception(ErrorCode::producer_failed,
                                           {"asking this ", type_name(request.object), " whether it may be written"});
    if (!consume_any_capsule(request, capsule.get())) return false;
    if (ISTHMUS_LIKELY(!has_streams(request.out.dl().device.device_type))) return true;
    if (question.no_synchronisation && question.stream) {  // only the producer knows its stream
        const auto producer = reinterpret_cast<std::uintptr_t>(request.object);
        request.out.set_stream(static_cast<std::int64_t>(producer), producer_flag);
        return true;
    }
    return settle_device_stream(request, no_stream, static_cast<bool>(question.stream));
}

}  // namespace detail

ISTHMUS_END
