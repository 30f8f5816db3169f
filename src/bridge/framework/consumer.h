// A framework's own from_dlpack: looked up once in an interpreter session, called with what it takes, and checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include <isthmus/core/result.h>
#include <isthmus/python/api.h>
#include "../protocol/capsule.h"
#include "../protocol/exchange_api.h"
#include "facts.h"
#include "numpy/dtypes.h"

ISTHMUS_BEGIN

namespace detail {

/// module.a.b as a new reference; NULL with a Python exception set.
ISTHMUS_COLD inline PyObject* import_attribute(const char* module, const char* dotted) {
    Ref at(PyImport_ImportModule(module));
    for (std::string_view rest = dotted; at && !rest.empty();) {
        const std::string part(rest.substr(0, rest.find('.')));
        rest.remove_prefix(part.size() == rest.size() ? part.size() : part.size() + 1);
        at = Ref(PyObject_GetAttrString(at.get(), part.c_str()));
    }
    return at.release();
}

struct Consumer {
    PyObject* function;            ///< its from_dlpack
    const DLPackExchangeAPI* api;  ///< of its array type, if the facts name one; NULL if it cannot make arrays
};
ISTHMUS_STATE PerSession<Consumer> consumers[framework_count];

/// NULL with a Python exception set.
ISTHMUS_COLD inline const Consumer* find_consumer(const FrameworkFacts& facts) {
    PerSession<Consumer>& consumer = consumers[&facts - framework_facts];
    if (ISTHMUS_LIKELY(consumer->function != nullptr)) return consumer.operator->();
    Consumer found{import_attribute(facts.module, facts.from_dlpack), nullptr};
    if (found.function == nullptr) return nullptr;
    if (facts.exchange_type != nullptr) {
        Ref type(import_attribute(facts.module_of_type, facts.exchange_type));
        if (type && PyType_Check(type.get()))
            found.api = find_exchange_api(reinterpret_cast<PyTypeObject*>(type.get()));
        if (found.api != nullptr && found.api->managed_tensor_to_py_object_no_sync == nullptr) found.api = nullptr;
        if (is_interrupted()) return Py_DECREF(found.function), nullptr;
    }
    if (!consumer.keep(found)) Py_DECREF(found.function);
    return consumer.operator->();
}

/// Whether host memory is aligned too little for the framework to share it.
inline bool is_misplaced(const DLTensor& t, const FrameworkFacts& facts) noexcept {
    return facts.alignment != 0 && Device(t.device).is_host() && layout::numel(t) > 0 &&
           reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::uint64_t>(facts.alignment) != 0;
}
/// Whether a dimension is stepped through backwards. (The stride of a dimension of size 1 may be anything.)
inline bool runs_backwards(const DLTensor& t) noexcept {
    for (int i = 0; i < t.ndim; ++i)
        if (t.shape[i] > 1 && t.strides[i] < 0) return layout::numel(t) > 0;
    return false;
}

ISTHMUS_COLD inline Result<void> check_layout_for(const DLTensor& t, const FrameworkFacts& facts,
                                                  const ExportOptions& options) {
    if (facts.no_negative_strides && runs_backwards(t))
        return make_error(ErrorCode::bad_layout, {"strides ", sizes_text(t.strides, t.ndim), " are negative, which ",
                                                  facts.name, " does not support; copy it first, or say allow_copy"});
    if (facts.needs_contiguous && !layout::is_contiguous(t.shape, t.strides, t.ndim))
        return make_error(ErrorCode::needs_copy,
                          {"strides ", sizes_text(t.strides, t.ndim), " of shape ", sizes_text(t.shape, t.ndim),
                           " are not contiguous, as ", facts.name, " needs; copy it first, or say allow_copy"});
    if (!options.allow_copy && facts.always_copies)
        return make_error(ErrorCode::needs_copy,
                          {facts.name, " always copies what it imports; allow it with allow_copy"});
    if (!options.allow_copy && is_misplaced(t, facts))
        return make_error(ErrorCode::needs_copy,
                          {"data at ", hex(t.data), " is not aligned to ", facts.alignment, " bytes, so ", facts.name,
                           (facts.needs_alignment ? "'s own operations would end the process" : " would copy it"),
                           "; use Tensor::empty, or allow_copy"});
    return {};
}
inline Error consumer_is_missing(const FrameworkFacts& facts) {
    return error_from_exception(ErrorCode::unavailable, nullptr, {"importing ", facts.name});
}
/// Refuses tensors that the framework would copy silently, misread, or not accept: first those that allow_copy does not
/// cure. If the framework is not installed, that is the error.
ISTHMUS_COLD inline Result<void> check_consumer_takes(const DLTensor& t, const FrameworkFacts& facts,
                                                      const ExportOptions& options) {
    Result<void> taken = check_layout_for(t, facts, options);
    if (!taken && facts.module != nullptr && !Ref(PyImport_ImportModule(facts.module)))
        return consumer_is_missing(facts);
    return taken;
}

/// The block in the form that the framework takes; empty with a Python exception set.
inline Ref consumable(Block* block, const FrameworkFacts& facts) {
    if (facts.form == ExportForm::legacy_capsule) return Ref(legacy_capsule(block));
    if (facts.form == ExportForm::capsule) return Ref(versioned_capsule(block));
    const bool kept = facts.read_only == ReadOnly::kept;
    if (!(block->flags & flag::read_only) || (kept && !(block->flags & tracked_flag))) {
        retain(block);
        return Ref(object_of_block(block));
    }
    // The flags matter only to a consumer that could write. Some ask for the legacy form, which cannot carry them, and
    // never write.
    Block* shown = alias_block(block, block->dl, block->flags & (kept ? flag::dlpack_known : flag::padded));
    if (shown != nullptr) {
        shown->flags &= ~tracked_flag;
        return Ref(new_tensor_object(shown));
    }
    PyErr_NoMemory();
    return {};
}

/// Calls the framework's from_dlpack with what consumable() made, and with `more` unless that is NULL.
ISTHMUS_COLD inline Result<PyObject*> call_consumer(const Consumer& consumer, const FrameworkFacts& facts, DType dtype,
                                                    PyObject* given, PyObject* more = nullptr) {
    if (given == nullptr)
        return error_from_exception(ErrorCode::consumer_failed, nullptr, {"making the object for ", facts.name});
    PyObject* array = PyObject_CallFunctionObjArgs(consumer.function, given, more, nullptr);
    if (array != nullptr) return array;
    TextBuffer what = compose({facts.module, ".", facts.from_dlpack, "()"});
    if (numpy_type_number(dtype) < 0)
        Message({" of ", dtype, " (nearest: uint", 8 * dtype.itemsize(), ", the bytes)"}).append_to(what);
    return error_from_exception(ErrorCode::consumer_failed, nullptr, what);
}

/// The error for an exception that passes_through(), when the framework is asked what it made.
ISTHMUS_COLD inline Error fail_to_ask(const FrameworkFacts& facts) {
    return error_from_exception(ErrorCode::consumer_failed, nullptr, {"asking the array of ", facts.name});
}
/// Whether a copy has elements of the same size, if the framework can be asked.
inline bool has_same_size(PyObject* made, const DLTensor& t) {
    Ref nbytes(PyObject_GetAttrString(made, "nbytes"));
    const long long found = nbytes ? PyLong_AsLongLong(nbytes.get()) : -1;
    (void)is_interrupted();
    return found < 0 || DType(t.dtype).is_subbyte() || found == layout::numel(t) * DType(t.dtype).itemsize();
}
ISTHMUS_COLD inline Error explain_other_dtype(PyObject* made, const DLTensor& t, const FrameworkFacts& facts) {
    Ref dtype(PyObject_GetAttrString(made, "dtype")), text(dtype ? PyObject_Str(dtype.get()) : nullptr);
    const char* name = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (is_interrupted()) return fail_to_ask(facts);
    TextBuffer what = compose({facts.name, " made ", name != nullptr ? name : "another dtype", " of ", DType(t.dtype)});
    if (facts.wide_dtypes != nullptr) Message({"; call ", facts.wide_dtypes, " first"}).append_to(what);
    return make_error(ErrorCode::bad_dtype, what);
}

/// Whether the array shows the block's own memory, or is a requested copy with its dtype, if the framework can be
/// asked. Takes over the reference.
ISTHMUS_COLD inline Result<PyObject*> check_not_copied(PyObject* made, const DLTensor& t, const FrameworkFacts& facts,
                                                       const ExportOptions& options) {
    Ref array(made);
    if (t.data == nullptr || layout::numel(t) == 0) return array.release();
    bool copied = options.allow_copy;
    if (facts.pointer != nullptr && !copied) {
        Ref pointer(PyObject_CallMethod(made, facts.pointer, nullptr));
        copied = pointer && PyLong_AsVoidPtr(pointer.get()) != t.data;
        if (is_interrupted()) return fail_to_ask(facts);
    }
    const bool same_size = !copied || has_same_size(made, t);
    if (PyErr_Occurred() != nullptr) return fail_to_ask(facts);
    if (!same_size) return explain_other_dtype(made, t, facts);
    if (copied && !options.allow_copy)
        return make_error(ErrorCode::needs_copy,
                          {facts.name, " copied the data, which nobody asked for; allow it with allow_copy"});
    return array.release();
}

/// A legacy capsule cannot say that each element has its own byte.
inline Result<void> check_legacy_padding(const Block* block, const FrameworkFacts& facts) {
    if (ISTHMUS_LIKELY(!legacy_loses_padding(block))) return {};
    return make_error(ErrorCode::bad_dtype, {"dtype ", DType(block->dl.dtype), " has no counterpart in ", facts.name,
                                             "; nearest is uint8, the bytes"});
}

/// The export path to every framework that has no function in the table of exports.
ISTHMUS_COLD inline Result<PyObject*> export_by_consumer(Block* block, const FrameworkFacts& facts,
                                                         const ExportOptions& options) {
    const DLTensor& t = block->dl;
    if (auto taken = check_consumer_takes(t, facts, options); !taken) return std::move(taken).error();
    if (facts.needs_alignment && is_misplaced(t, facts)) {  // the framework would not copy by itself
        Result<Tensor> moved = copy_of(t, block->flags & flag::dlpack_known);
        return moved ? export_by_consumer(moved->block(), facts, options) : std::move(moved).error();
    }
    const Consumer* consumer = find_consumer(facts);
    if (consumer == nullptr) return consumer_is_missing(facts);
    if (consumer->api != nullptr && !layout::has_negative_stride(t))
        return block_to_exchange(block, consumer->api, facts.name);
    if (facts.form == ExportForm::legacy_capsule)
        if (auto said = check_legacy_padding(block, facts); !said) return std::move(said).error();
    // An isthmus.Tensor can order the consumer's stream; a capsule cannot.
    if (facts.form != ExportForm::object && !order_export(block)) return fail_to_order();
    const Ref given = consumable(block, facts);
    Result<PyObject*> array = call_consumer(*consumer, facts, t.dtype, given.get());
    return array ? check_not_copied(*array, t, facts, options) : array;
}

}  // namespace detail

ISTHMUS_END
