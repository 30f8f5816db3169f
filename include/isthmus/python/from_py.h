// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/copy.h>
#include <isthmus/python/protocol/array_interface/import.h>
#include <isthmus/python/protocol/arrow.h>
#include <isthmus/python/protocol/buffer/import.h>
#include <isthmus/python/protocol/dlpack_method/import.h>
#include <isthmus/python/dispatch/classify.h>
#include <isthmus/python/framework/numpy/import.h>
#include <isthmus/python/object/tensor_object.h>
#include <isthmus/python/framework/tensorflow.h>
#include <isthmus/python/framework/torch/import_by_python.h>

ISTHMUS_BEGIN

namespace detail {

/// One of our own objects: the block itself, shared.
inline bool import_isthmus(Import& import) {
    Block* block = reinterpret_cast<TensorObject*>(import.object)->block;
    if (ISTHMUS_UNLIKELY(block == nullptr))
        return import.fail(ErrorCode::null_data, "this isthmus.Tensor was cleared by the garbage collector");
    if (ISTHMUS_UNLIKELY(import.options.require_writable && (block->flags & flag::read_only))) return import.fail_read_only();
    import.out.dl() = block->dl;
    import.out.flags() = block->flags & flag::dlpack_known;
    if (import.owning) {
        retain(block);
        import.out.hold(block, drop_owned_block);
    }
    return true;
}

/// The buffer protocol where it can say it, for a producer that also has `__dlpack__`.
inline bool import_buffer_or_dlpack(Import& import, const TypeEntry& entry) {
    const bool elsewhere =
        import.options.has_stream() || import.options.device.type != 0 || import.options.copy == Copy::always;
    if (ISTHMUS_LIKELY(!elsewhere) && ISTHMUS_LIKELY(PyObject_CheckBuffer(import.object))) {
        Py_buffer& view = import.out.buffer();
        if (ISTHMUS_LIKELY(PyObject_GetBuffer(import.object, &view, PyBUF_FULL_RO) == 0)) {
            import.out.hold_buffer();
            if (entry.string_dtype_aborts && !is_floating_format(view.format) && !has_numeric_dtype(import)) return false;
            return import_held_buffer(import);
        }
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return import.fail_with_exception(ErrorCode::producer_failed,
                                              concat({"the buffer of this ", type_name(import.object)}));
        PyErr_Clear();
    }
    if (ISTHMUS_UNLIKELY(entry.string_dtype_aborts) && !has_numeric_dtype(import)) return false;
    return import_dlpack_method(import);
}

ISTHMUS_COLD inline bool import_nothing(Import& import, const TypeEntry& entry) {
    if (entry.refusal != nullptr)
        return import.fail(ErrorCode::not_values, concat({"a ", type_name(import.object), " is not taken: ", entry.refusal}));
    // A class has what its instances have, but is none of them.
    if (PyType_Check(import.object))
        return import.fail(ErrorCode::not_a_tensor, concat({"expected a tensor, got the class ",
                                                            type_name(reinterpret_cast<PyTypeObject*>(import.object))}));
    // The protocol is looked for on the type, as Python does for its own; an instance that carries it is taken all the same.
    import.keep_alive();
    const Names& names = interned();
    if (has_attribute(import.object, names.dlpack)) return import_dlpack_method(import);
    if (has_attribute(import.object, names.cuda_array_interface)) return import_array_interface(import, true);
    if (has_attribute(import.object, names.array_interface)) return import_array_interface(import, false);
    if (PyErr_Occurred() != nullptr)
        return import.fail_with_exception(ErrorCode::producer_failed, concat({"looking at this ", type_name(import.object)}));
    return import.fail(ErrorCode::not_a_tensor,
                       concat({"expected a tensor (an object with __dlpack__, the buffer protocol, __array_interface__ or "
                               "__cuda_array_interface__, or a DLPack capsule), got ",
                               type_name(import.object)}));
}

ISTHMUS_ALWAYS_INLINE bool import_torch_stable(Import& import, const TypeEntry& entry) {
    bool handled = true;
    const bool ok = import_torch(import, torch_shims, entry.known_torch, handled);
    return ISTHMUS_LIKELY(handled) ? ok : import_torch_elsewhere(import, entry);
}

/// The same out of line, for those that copy.
ISTHMUS_COLD inline bool import_torch_to_copy(Import& import, const TypeEntry& entry) {
    return import_torch_stable(import, entry);
}

ISTHMUS_NOINLINE inline bool import_by(Import& import, const TypeEntry& entry) {
    switch (entry.protocol) {
        case Protocol::isthmus_tensor:
            return import_isthmus(import);
        case Protocol::numpy:
            return import_numpy(import);
        case Protocol::torch_stable:
            return import_torch_to_copy(import, entry);
        case Protocol::torch_exchange:
        case Protocol::torch_method:
            return import_torch_older(import, entry);
        case Protocol::exchange_api:
            return import.options.has_stream() || import.options.device.type != 0 ? import_dlpack_method(import)
                                                                                  : import_exchange(import, entry.api);
        case Protocol::buffer_or_dlpack:
            return import_buffer_or_dlpack(import, entry);
        case Protocol::dlpack_method:
            return import_dlpack_method(import);
        case Protocol::cuda_array_interface:
            return import_array_interface(import, true);
        case Protocol::buffer:
            return import_buffer(import);
        case Protocol::array_interface:
            return import_array_interface(import, false);
        case Protocol::arrow_device_array:
            return import_arrow(import, true);
        case Protocol::arrow_array:
            return import_arrow(import, false);
        case Protocol::capsule:
            return import_capsule(import, import.object);
        case Protocol::none:
            break;
    }
    return import_nothing(import, entry);
}

/// Imports where a copy is welcome, or where the data is wanted on a certain device. Only host memory is copied by ourselves;
/// everything else is asked of the producer.
ISTHMUS_COLD inline bool import_copying(Import& import, const TypeEntry& entry) {
    import.keep_alive();
    ImportOptions plain = import.options;
    plain.device = Device{0, 0};
    plain.copy = Copy::if_needed;
    plain.require_writable = import.options.require_writable && import.options.copy != Copy::always;
    Import shared{import.object, plain, import.out, import.owning, import.may_be_written, import.error, import.alive};
    if (!import_by(shared, entry)) return false;
    const Device wanted = import.options.device;
    const bool moved = wanted.type != 0 && wanted != Device(import.out.dl().device);
    const bool copy = import.options.copy == Copy::always && !(import.out.flags() & flag::copied);
    if (moved || (copy && !Device(import.out.dl().device).is_host())) {
        import.out.reset();
        ImportOptions elsewhere = import.options;
        if (elsewhere.copy == Copy::never) elsewhere.copy = Copy::if_needed;
        Import asked{import.object, elsewhere, import.out, import.owning, import.may_be_written, import.error, import.alive};
        return import_dlpack_method(asked);
    }
    if (!copy) {
        if ((import.out.flags() & flag::copied) && import.options.copy == Copy::never)
            return import.fail(ErrorCode::needs_copy, "the data could only be exported as a copy; wanted its own memory");
        return true;
    }
    Result<Tensor> made = copy_of(import.out.dl(), import.out.flags());
    if (!made) return import.fail(std::move(made).error());
    import.out.reset();
    Block* block = made->release_block();
    import.out.dl() = block->dl;
    import.out.flags() = block->flags & flag::dlpack_known;
    import.out.hold(block, drop_owned_block);
    return true;
}

/// What keeps a type from being looked at: no object, no GIL, or an exception on the way.
ISTHMUS_COLD inline bool fail_early(Import& import) {
#if !defined(NDEBUG)
    if (!have_gil())
        return import.fail(ErrorCode::bad_thread,
                           "called without the GIL, or in a subinterpreter; hold the main interpreter's (PyGILState_Ensure) "
                           "while Python objects are imported");
#endif
    if (import.object == nullptr) return import.fail(ErrorCode::not_a_tensor, "expected a tensor, got a NULL PyObject*");
    return import.fail_with_exception(ErrorCode::bad_thread, "looking at the type");
}

/// The street that every tensor takes: type → protocol → validation → `out`; what failed goes to the raw storage of `error`.
/// `alive` may be left holding the object, which need not outlive its own export otherwise.
ISTHMUS_ALWAYS_INLINE bool import_any(PyObject* object, const ImportOptions& options, Borrowed& out, bool owning, Error* error,
                                      Ref& alive) {
    bool ready = object != nullptr;
#if !defined(NDEBUG)
    ready = ready && have_gil() && start_runtime();  // which refuses another interpreter than the one it serves
#endif
    TypeEntry scratch;
    const TypeEntry* entry = ISTHMUS_LIKELY(ready) ? find_type(Py_TYPE(object), scratch) : nullptr;
    if (ISTHMUS_UNLIKELY(entry == nullptr)) {
        Import failed{object, options, {out}, owning, true, error, alive};
        return fail_early(failed);
    }
    const bool copying = options.copy == Copy::always || options.device.type != 0;
    if (ISTHMUS_LIKELY(entry->protocol == Protocol::numpy && !copying) &&
        import_plain_numpy(object, options.require_writable, {out}, owning))
        return true;
    Import import{object, options, {out}, owning, entry->may_be_written, error, alive};
    if (ISTHMUS_UNLIKELY(copying)) return import_copying(import, *entry);
    // In place, unlike the other ways in: at this speed a call shows.
    if (ISTHMUS_LIKELY(entry->protocol == Protocol::torch_stable)) return import_torch_stable(import, *entry);
    return import_by(import, *entry);
}

}  // namespace detail

ISTHMUS_API Result<Borrowed> borrow_py(PyObject* object, const ImportOptions& options) noexcept {
    Result<Borrowed> result{detail::Uninitialised{}};
    detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        alignas(Error) unsigned char error[sizeof(Error)];
        Ref alive;
        if (ISTHMUS_UNLIKELY(!detail::import_any(object, options, *result, false, reinterpret_cast<Error*>(error), alive)))
            detail::fail_result(result, reinterpret_cast<Error&>(error));
    });
    return result;
}

ISTHMUS_API Result<Tensor> from_py(PyObject* object, const ImportOptions& options) noexcept {
    Result<Tensor> result{detail::Uninitialised{}};
    detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        Borrowed borrowed;
        alignas(Error) unsigned char error[sizeof(Error)];
        Ref alive;
        detail::Block* block = nullptr;
        if (ISTHMUS_UNLIKELY(!detail::import_any(object, options, borrowed, true, reinterpret_cast<Error*>(error), alive)))
            detail::fail_result(result, reinterpret_cast<Error&>(error));
        else if (ISTHMUS_UNLIKELY(!detail_import{borrowed}.into_block(block, PyCapsule_CheckExact(object) ? nullptr : object)))
            result.fail(Error(ErrorCode::out_of_memory, "no memory for a tensor handle"));
        else
            *result = Tensor::steal(block);
    });
    return result;
}

ISTHMUS_END
