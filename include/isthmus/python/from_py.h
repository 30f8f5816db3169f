// The way in: an object's type, its protocol, what the protocol finds, checked, as a Borrowed or a Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/dispatch/classify.h>  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

/// An object whose type offers nothing: refused by name, a class, or an instance that carries a protocol by itself.
ISTHMUS_NOINLINE inline bool import_from_instance(ImportRequest& request) {
    PyObject* object = request.object;
    if (request.producer.refusal != nullptr)
        return request.fail(ErrorCode::not_values,
                            concat({"a ", type_name(object), " is not taken: ", request.producer.refusal}));
    // A class has what its instances have, but is none of them.
    if (PyType_Check(object))
        return request.fail(ErrorCode::not_a_tensor,
                            concat({"expected a tensor, got the class ", type_name(reinterpret_cast<PyTypeObject*>(object))}));
    request.keep_alive();
    for (const ProtocolFacts& row : protocols)
        if (row.on_instance && has_attribute(object, interned().*row.attribute)) return row.import(request);
    if (PyErr_Occurred() != nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, concat({"looking at this ", type_name(object)}));
    return request.fail(ErrorCode::not_a_tensor,
                        concat({"expected a tensor (", what_is_a_tensor(), "), got ", type_name(object)}));
}

inline bool import_by_protocol(ImportRequest& request) {
    const ProtocolFacts& row = facts_of(request.producer.protocol);
    return row.import != nullptr ? row.import(request) : import_from_instance(request);
}

/// Asks the producer itself for the data on another device, or for a copy that only it can make.
inline bool import_elsewhere(ImportRequest& request) {
    ImportOptions options = request.options;
    if (options.copy == Copy::never) options.copy = Copy::if_needed;
    ImportRequest asked{request.object, options, request.out, request.owning, request.producer, request.outcome};
    return import_dlpack_method(asked);
}

/// Imports where a copy is welcome, or where the data is wanted on a certain device. Only host memory is copied by ourselves;
/// everything else is asked of the producer.
ISTHMUS_NOINLINE inline bool import_copying(ImportRequest& request) {
    request.keep_alive();
    const ImportOptions& options = request.options;
    ImportOptions plain = options;
    plain.device = Device{0, 0};
    plain.copy = Copy::if_needed;
    plain.require_writable = options.require_writable && options.copy != Copy::always;
    ImportRequest shared{request.object, plain, request.out, request.owning, request.producer, request.outcome};
    if (!import_by_protocol(shared)) return false;
    const Device found = request.out.dl().device;
    const bool copied = (request.out.flags() & flag::copied) != 0;
    const bool moved = options.device.type != 0 && options.device != found;
    const bool copy = options.copy == Copy::always && !copied;
    if (moved || (copy && !found.is_host())) {
        request.out.reset();
        return import_elsewhere(request);
    }
    if (!copy) return !copied || options.copy != Copy::never || request.fail_copied();
    Result<Tensor> made = copy_of(request.out.dl(), request.out.flags());
    if (!made) return request.fail(std::move(made).error());
    request.out.reset();
    request.out.hold_block(made->release_block());
    return true;
}

/// What keeps a type from being looked at: no object, no GIL, or an exception on the way.
ISTHMUS_COLD inline bool fail_early(ImportRequest& request) {
#if !defined(NDEBUG)
    if (!have_gil())
        return request.fail(ErrorCode::bad_thread,
                            "called without the GIL, or in a subinterpreter; hold the main interpreter's (PyGILState_Ensure) "
                            "while Python objects are imported");
#endif
    if (request.object == nullptr) return request.fail(ErrorCode::not_a_tensor, "expected a tensor, got a NULL PyObject*");
    return request.fail_with_exception(ErrorCode::bad_thread, "looking at the type");
}

/// The way that every tensor takes: type → protocol → validation → `out`; where it fails, the error is left in `outcome`.
ISTHMUS_ALWAYS_INLINE bool import_any(PyObject* object, const ImportOptions& options, Borrowed& out, bool owning,
                                      ImportOutcome& outcome) {
    bool ready = object != nullptr;
#if !defined(NDEBUG)
    ready = ready && have_gil() && start_life();  // which refuses another interpreter than the one it serves
#endif
    ProducerType scratch;
    const ProducerType* type = ISTHMUS_LIKELY(ready) ? find_type(Py_TYPE(object), scratch) : nullptr;
    if (ISTHMUS_UNLIKELY(type == nullptr)) {
        ImportRequest failed{object, options, {out}, owning, scratch, outcome};
        return fail_early(failed);
    }
    const bool copying = options.copy == Copy::always || options.device.type != 0;
    if (ISTHMUS_LIKELY(type->protocol == Protocol::numpy && !copying) &&
        import_plain_numpy(object, options.require_writable, {out}, owning))
        return true;
    ImportRequest request{object, options, {out}, owning, *type, outcome};
    if (ISTHMUS_UNLIKELY(copying)) return import_copying(request);
    // In place, unlike the other ways in: at this speed a call shows.
    if (ISTHMUS_LIKELY(type->protocol == Protocol::torch_stable)) return import_torch_by_shims(request);
    return import_by_protocol(request);
}

}  // namespace detail

ISTHMUS_API Result<Borrowed> borrow_py(PyObject* object, const ImportOptions& options) noexcept {
    Result<Borrowed> result{detail::Uninitialised{}};
    detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        detail::ImportOutcome outcome;
        if (ISTHMUS_UNLIKELY(!detail::import_any(object, options, *result, false, outcome))) result.fail(outcome.error.take());
    });
    return result;
}

ISTHMUS_API Result<Tensor> from_py(PyObject* object, const ImportOptions& options) noexcept {
    Result<Tensor> result{detail::Uninitialised{}};
    detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        Borrowed borrowed;
        detail::ImportOutcome outcome;
        detail::Block* block = nullptr;
        if (ISTHMUS_UNLIKELY(!detail::import_any(object, options, borrowed, true, outcome)))
            result.fail(outcome.error.take());
        else if (ISTHMUS_UNLIKELY(
                     !detail::BorrowedBuilder{borrowed}.into_block(block, PyCapsule_CheckExact(object) ? nullptr : object)))
            result.fail(Error(ErrorCode::out_of_memory, "no memory for a tensor handle"));
        else
            *result = Tensor::steal(block);
    });
    return result;
}

ISTHMUS_END
