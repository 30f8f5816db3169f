// One import by the protocol that its type offers, and what follows if that one cannot.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "classify.h"  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// Whether a producer's exception means that DLPack cannot express what it holds, rather than that something failed.
inline bool says_it_cannot(PyObject* exception) {
    return (PyErr_GivenExceptionMatches(exception, PyExc_BufferError) ||
            PyErr_GivenExceptionMatches(exception, PyExc_TypeError) ||
            PyErr_GivenExceptionMatches(exception, PyExc_NotImplementedError)) &&
           !tells_of_failure_below(exception);
}

/// Of a producer that may convert, by a protocol without a word for a copy: whether the memory was made for the
/// question, so that what is written to it is lost. It is asked the same a second time while the first answer is held;
/// another address means that each is a copy. False also if it is not answered again: a stream is given away once. An
/// interrupt, or a lack of memory, is left in `outcome`.
ISTHMUS_COLD inline bool is_temporary(const ProtocolFacts& row, const ImportRequest& request, ImportOutcome& outcome,
                                      bool& interrupted) {
    const DLTensor& first = request.out.dl();
    if (layout::numel(first) == 0 || Device(first.device).is_opaque()) return false;
    ImportOptions options = request.options;
    if (options.copy != Copy::never) options.copy = Copy::from_producer;
    options.require_writable = options.announce = false;
    Borrowed again;
    ReadForCopy read;
    // Whether it may be written is known, or does not matter.
    ImportRequest second{request.object, options, {again}, false, request.producer, outcome, true, &read};
    if (row.import(second)) return again.descriptor().data != first.data;
    interrupted = passes_through(outcome.error.look());
    if (!interrupted) (void)outcome.error.take();
    return false;
}

/// Says of memory that is a copy that it is one, or refuses it.
ISTHMUS_COLD inline bool tell_of_copy(const ProtocolFacts& row, ImportRequest& request) {
    if ((request.out.flags() & flag::copied) || request.for_copy != nullptr) return true;
    ImportOutcome outcome;
    bool interrupted = false;
    const bool copied = is_temporary(row, request, outcome, interrupted);
    if (ISTHMUS_LIKELY(!copied && !interrupted)) return true;
    request.out.flags() |= flag::copied;
    if (!interrupted && request.suits(request.out.flags())) return true;
    request.out.reset();
    return interrupted ? request.fail(outcome.error.take()) : false;
}

/// The first error, and what the protocol that was tried next says of the memory: that has the remedy.
ISTHMUS_COLD inline Error with_reason(const Error& first, const Error& second, const char* argument) {
    if (second.code() != ErrorCode::bad_dtype && second.code() != ErrorCode::not_values) return first;
    std::string_view reason = second.what();
    if (const std::string prefix = argument_prefix(argument); reason.substr(0, prefix.size()) == prefix)
        reason.remove_prefix(prefix.size());
    return with_more(first, reason);
}

/// An object whose `__dlpack__` says that it cannot (an Arrow array of lists) may offer the same memory by a protocol
/// further down the table that says as much of it. If that fails too, the first error is reported, unless a copy would
/// do.
ISTHMUS_COLD inline bool import_after_dlpack(ImportRequest& request) {
    const Error& error = request.outcome.error.look();
    auto* cause = static_cast<PyObject*>(error.cause());
    const bool plain = request.options.copy != Copy::always && request.options.device.type == 0 &&
                       !request.producer.only_dlpack && !request.producer.own_dlpack;
    if (!plain || error.code() != ErrorCode::producer_failed || cause == nullptr || !says_it_cannot(cause))
        return false;
    ProducerType other{.type = request.producer.type};
    for (int i = static_cast<int>(Protocol::dlpack_method) + 1; i < protocol_count; ++i) {
        const ProtocolFacts& row = protocols[i];
        if (!row.after_dlpack) continue;
        const bool offered =
            row.on_instance ? has_attribute(request.object, interned().*row.attribute) : offers(row, other);
        if (!offered && !is_interrupted()) continue;
        Error told = request.outcome.error.take();
        if (!offered)  // an interrupt
            return request.fail_with_exception(ErrorCode::producer_failed,
                                               {"looking at this ", type_name(request.object)});
        request.out.reset();
        if (row.import(request)) return ISTHMUS_LIKELY(!request.ask_again) || tell_of_copy(row, request);
        const Error& why = request.outcome.error.look();
        if (why.code() == ErrorCode::needs_copy || passes_through(why)) return false;  // all that stands in the way
        const Error other_reason = request.outcome.error.take();
        request.outcome.error.put(with_reason(told, other_reason, request.options.argument));
    }
    return false;
}

inline bool import_by(const ProtocolFacts& row, ImportRequest& request) {
    if (row.import(request)) return ISTHMUS_LIKELY(!request.ask_again) || tell_of_copy(row, request);
    return row.protocol == Protocol::dlpack_method && import_after_dlpack(request);
}

/// Whether instances may have attributes that their type does not have.
inline bool has_own_attributes(const PyTypeObject* type) noexcept {
    return type->tp_dictoffset != 0 || type->tp_getattro != PyObject_GenericGetAttr;
}

/// An object whose type offers nothing: refused by name, a class, or an instance that carries a protocol by itself.
ISTHMUS_COLD inline bool import_from_instance(ImportRequest& request) {
    PyObject* object = request.object;
    if (request.producer.refusal != nullptr)
        return request.fail(ErrorCode::not_values,
                            {"a ", type_name(object), " is not taken: ", request.producer.refusal});
    // A class has the attributes of its instances, but is not one of them.
    if (PyType_Check(object))
        return request.fail(ErrorCode::not_a_tensor,
                            {"expected a tensor, got the class ", type_name(reinterpret_cast<PyTypeObject*>(object))});
    request.keep_alive();
    const auto refuse = [&](Message more) {
        return request.fail(ErrorCode::not_a_tensor,
                            {"expected a tensor (", what_is_a_tensor(), "), got ", type_name(object), more});
    };
    if (const char* hint = request.producer.hint) return refuse({"; ", hint, " gives one"});
    // A number has the attributes of its type alone: six of them would each be an AttributeError, made and cleared.
    const bool may_offer = has_own_attributes(Py_TYPE(object));
    for (const ProtocolFacts& row : protocols) {
        if (!row.on_instance || !may_offer) continue;
        if (has_attribute(object, interned().*row.attribute)) return import_by(row, request);
        if (PyErr_Occurred() != nullptr)
            return request.fail_with_exception(ErrorCode::producer_failed, {"looking at this ", type_name(object)});
    }
    return refuse(type_has(Py_TYPE(object), interned().array) ? "; try numpy.asarray(x)" : "");
}

inline bool import_by_protocol(ImportRequest& request) {
    const ProtocolFacts& row = facts_of(request.producer.protocol);
    return row.import != nullptr ? import_by(row, request) : import_from_instance(request);
}

/// Whether the caller may ask for an import at all. A release build does not check for an array that its struct
/// describes, whose type it has seen.
inline bool is_ready(PyObject* object) {
#if defined(NDEBUG)
    return object != nullptr;
#else
    return object != nullptr && have_gil() && is_this_session();
#endif
}

/// Whether an object is an array of NumPy's, as far as the cache of types tells.
ISTHMUS_ALWAYS_INLINE bool is_known_array(PyObject* object) noexcept {
    TypeCopy copy;
    const ProducerType* type = ISTHMUS_LIKELY(is_ready(object)) ? cached_type(Py_TYPE(object), copy) : nullptr;
    return type != nullptr && type->protocol == Protocol::numpy;
}
/// A NumPy array for the length of a call, by its struct alone: what borrow_py() does with most arrays, for a caller
/// that has no options. False, and nothing held, for all others.
ISTHMUS_ALWAYS_INLINE bool borrow_array(PyObject* object, bool require_writable, Borrowed& out) noexcept {
    return is_known_array(object) && borrow_numpy_fast(object, require_writable, {out});
}

}  // namespace detail

ISTHMUS_END
