// Import by `__dlpack__`: the arguments of the call, when it is called again, and whether the memory may be written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include "../../runtime/lookups.h"
#include "../../runtime/names.h"
#include "../../runtime/shared_runtime.h"
#include "../capsule.h"
#include "call.h"

ISTHMUS_BEGIN

namespace detail {

/// The second number of an interface's `data`. False, with a Python exception or without, if it does not say.
inline bool interface_is_read_only(PyObject* object, PyObject* name) {
    Ref described(PyObject_GetAttr(object, name));
    const Ref data = described && PyDict_Check(described.get()) ? dict_item(described.get(), "data") : Ref();
    if (!data || !PyTuple_Check(data.get()) || PyTuple_GET_SIZE(data.get()) != 2) return false;
    const Ref flag = Ref::borrow(PyTuple_GET_ITEM(data.get(), 1));
    return PyObject_IsTrue(flag.get()) > 0;
}

/// By `__array_struct__`, NumPy's interface of C: a capsule with the address of a struct that begins like this one.
/// False, with a Python exception or without, if it does not say.
ISTHMUS_COLD inline bool struct_is_read_only(PyObject* object) {
    struct Interface {
        int two, nd;
        char typekind;
        int itemsize, flags;
    };
    constexpr int writeable = 0x0400;  // NPY_ARRAY_WRITEABLE
    const Ref capsule(PyObject_GetAttr(object, interned().array_struct));
    if (!capsule || !PyCapsule_IsValid(capsule.get(), nullptr)) return false;
    const auto* said = static_cast<const Interface*>(PyCapsule_GetPointer(capsule.get(), nullptr));
    return said->two == 2 && (said->flags & writeable) == 0;
}

inline bool buffer_is_read_only(PyObject* object) {
    Py_buffer view;
    if (!PyObject_CheckBuffer(object) || !take_buffer(object, view, PyBUF_FULL_RO)) return false;
    const bool read_only = view.readonly != 0;
    end_buffer(view);
    return read_only;
}

/// Arrow's arrays are immutable by contract (arrow.apache.org, "The Arrow C data interface", "Immutability").
inline bool is_arrow_array(PyObject* object) {
    for (PyObject* name : {interned().arrow_array, interned().arrow_device_array}) {
        Ref found(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(object)), name));
        if (found || is_interrupted()) return static_cast<bool>(found);
    }
    return false;
}

/// 1 when one of the object's other protocols says that its memory must not be written, 0 when none does, -1 with a
/// Python exception set that must not be swallowed.
ISTHMUS_NOINLINE inline int is_read_only_elsewhere(PyObject* object, bool on_host) {
    const Interned& names = interned();
    if (on_host && buffer_is_read_only(object)) return 1;
    if (is_interrupted()) return -1;
    if (interface_is_read_only(object, on_host ? names.array_interface : names.cuda_array_interface)) return 1;
    if (is_interrupted()) return -1;
    if (on_host && struct_is_read_only(object)) return 1;
    if (is_interrupted()) return -1;
    if (is_arrow_array(object)) return 1;
    return is_interrupted() ? -1 : 0;
}

/// The arguments of `__dlpack__` for an import.
struct DLPackRequest : DLPackArguments {
    /// The stream is -1, although the caller did not ask for that. None would synchronise with the legacy default
    /// stream, which invalidates a graph capture and is not what a caller who named no stream asked for: so a producer
    /// of device memory is asked for no synchronisation.
    bool no_synchronisation = false;

    /// False with the error left in the request.
    bool make(ImportRequest& request) {
        const ImportOptions& options = request.options;
        const Interned& names = interned();
        if (options.max_version.major >= 1)
            version =
                options.max_version.major == DLPACK_MAJOR_VERSION && options.max_version.minor == DLPACK_MINOR_VERSION
                    ? Ref::borrow(names.newest_version)
                    : Ref(Py_BuildValue("(II)", options.max_version.major, options.max_version.minor));
        if (options.device.type != 0) device = Ref(Py_BuildValue("(ii)", options.device.type, options.device.id));
        if (options.copy == Copy::always) copy = Ref::borrow(Py_True);
        if (options.copy == Copy::never) copy = Ref::borrow(Py_False);
        if (PyErr_Occurred() != nullptr)
            return request.fail_with_exception(ErrorCode::producer_failed, "building the arguments of __dlpack__");
        return (ISTHMUS_LIKELY(!options.has_stream()) && ISTHMUS_LIKELY(!has_driver())) || name_stream(request);
    }
    /// Whether a producer that knows neither `dl_device` nor `copy` cannot answer. Anything else it can: it shares the
    /// memory, or says by a flag that it did not.
    bool needs_newer_producer() const noexcept { return device || copy.get() == Py_True; }

private:
    /// The stream belongs to the device where the data is, by the producer's answer, or to the requested one. The host
    /// has none.
    ISTHMUS_COLD bool name_stream(ImportRequest& request) {
        const ImportOptions& options = request.options;
        Device found = options.device;
        if (found.type == 0) {
            Ref pair(PyObject_CallMethodNoArgs(request.object, interned().dlpack_device));
            int type = 0, id = 0;
            if (pair && read_pair(pair.get(), type, id)) found = Device(type, id);
            if (is_interrupted())
                return request.fail_with_exception(ErrorCode::producer_failed,
                                                   {type_name(request.object), ".__dlpack_device__()"});
        }
        if (found.is_host()) return true;
        if (!accept_stream(request, found)) return false;
        // Memory that a producer makes for this import alone, and does not keep, is ready for the legacy default
        // stream.
        no_synchronisation = !options.has_stream() && has_streams(found.type) && !needs_newer_producer();
        if (options.has_stream() || no_synchronisation)
            stream = Ref(PyLong_FromLongLong(no_synchronisation ? -1 : options.stream));
        return PyErr_Occurred() == nullptr ||
               request.fail_with_exception(ErrorCode::producer_failed, "making the stream's number");
    }
};

ISTHMUS_COLD inline bool fail_producer(ImportRequest& request, Ref exception) {
    const Piece type = type_name(request.object);
    if (!exception)
        return request.fail(ErrorCode::producer_failed, {type, ".__dlpack__() failed without setting an exception"});
    restore_exception(exception.release());
    return request.fail_with_exception(ErrorCode::producer_failed, {type, ".__dlpack__()"});
}

/// Asks again without what the producer said that it does not know, or could not answer in this version; the first
/// error is the one reported. The request not to copy is dropped only if the keyword is unknown: with None a producer
/// may copy.
ISTHMUS_COLD inline bool call_dlpack_again(ImportRequest& request, DLPackRequest& arguments, DLPackOutcome outcome,
                                           Ref first, Ref& capsule) {
    const auto may_call_again = [&] {
        return outcome == DLPackOutcome::keyword_refused || outcome == DLPackOutcome::buffer_error;
    };
    if (outcome == DLPackOutcome::keyword_refused && arguments.needs_newer_producer()) {
        const TextBuffer why = exception_text(first.get());
        if (PyErr_Occurred() != nullptr) return fail_producer(request, Ref(take_exception()));
        return request.fail(
            ErrorCode::needs_copy,
            {type_name(request.object),
             ".__dlpack__() knows neither dl_device nor copy, so it cannot move or copy the data (", why, ")"});
    }
    if (!may_call_again() || arguments.needs_newer_producer()) return fail_producer(request, std::move(first));
    if (outcome == DLPackOutcome::keyword_refused && arguments.copy) {
        arguments.copy = Ref();
        // A producer that does not know the older of the two keywords does not know the newer one either.
        const TextBuffer words = exception_text(first.get());
        if (PyErr_Occurred() != nullptr) return fail_producer(request, Ref(take_exception()));
        const std::string_view text = words.view();
        const bool too_old = text.find("max_version") != text.npos && text.find("copy") == text.npos;
        if (!too_old) {
            outcome = call_dlpack(request.object, arguments, capsule, first);
            if (outcome == DLPackOutcome::ok) return true;
        }
    }
    if (!may_call_again() || !(arguments.version || arguments.no_synchronisation))
        return fail_producer(request, std::move(first));
    Ref second;
    DLPackOutcome then = outcome;
    if (arguments.version) {
        arguments.version = Ref();
        then = call_dlpack(request.object, arguments, capsule, second);
    }
    // A producer that knows no streams at all: pass None, and use what it makes ready for the legacy default stream.
    if (then == DLPackOutcome::keyword_refused && arguments.no_synchronisation) {
        arguments.stream = Ref();
        second = Ref();
        then = call_dlpack(request.object, arguments, capsule, second);
    }
    if (then == DLPackOutcome::ok) return true;
    // The second failure explains more only if the first was about the keyword, or if it is an interrupt.
    if (second && (outcome == DLPackOutcome::keyword_refused || passes_through(second.get())))
        first = std::move(second);
    return fail_producer(request, std::move(first));
}

/// A legacy capsule cannot say that the memory is read-only, so the object's other protocols are checked. False with a
/// Python exception set.
ISTHMUS_NOINLINE inline bool ask_of_legacy_memory(ImportRequest& request, PyObject* capsule) {
    const auto* managed = static_cast<const DLManagedTensor*>(PyCapsule_GetPointer(capsule, capsule_name));
    const int answer = is_read_only_elsewhere(request.object, Device(managed->dl_tensor.device).is_host());
    if (answer > 0) request.immutable = true;
    return answer >= 0;
}

/// `__dlpack__` (array API standard 2024.12): versioned if the producer knows `max_version`, else as before DLPack 1.0.
/// A producer is called again only if it said that it does not know a keyword or cannot export this version.
inline bool import_dlpack_method(ImportRequest& request) {
    request.keep_alive();
    DLPackRequest arguments;
    if (!arguments.make(request)) return false;
    Ref capsule, exception;
    const DLPackOutcome outcome = call_dlpack(request.object, arguments, capsule, exception);
    if (ISTHMUS_UNLIKELY(outcome != DLPackOutcome::ok) &&
        !call_dlpack_again(request, arguments, outcome, std::move(exception), capsule))
        return false;
    if (ISTHMUS_UNLIKELY(!PyCapsule_CheckExact(capsule.get())))
        return request.fail(ErrorCode::producer_failed, {type_name(request.object), ".__dlpack__() returned a ",
                                                         type_name(capsule.get()), "; expected a capsule"});
    if (ISTHMUS_UNLIKELY(PyCapsule_IsValid(capsule.get(), capsule_name))) {
        request.doubt();
        if (!request.immutable && !request.producer.only_dlpack && !ask_of_legacy_memory(request, capsule.get()))
            return request.fail_with_exception(
                ErrorCode::producer_failed, {"asking this ", type_name(request.object), " whether it may be written"});
    }
    if (!consume_any_capsule(request, capsule.get())) return false;
    if (ISTHMUS_LIKELY(!has_streams(request.out.dl().device.device_type))) return true;
    if (arguments.no_synchronisation && arguments.stream) {  // only the producer knows its stream
        request.out.set_producer(request.object);
        return true;
    }
    return settle_device_stream(request, no_stream, static_cast<bool>(arguments.stream));
}

}  // namespace detail

ISTHMUS_END
