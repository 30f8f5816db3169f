// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/framework/facts.h>
#include <isthmus/python/from_py.h>
#include <isthmus/python/framework/consumer.h>
#include <isthmus/python/framework/numpy/export.h>
#include <isthmus/python/runtime/observe.h>
#include <isthmus/python/framework/torch/export.h>

ISTHMUS_BEGIN

namespace detail {

/// The very object this block was imported from, when it is of the wanted framework: a new reference, or NULL.
inline PyObject* same_object(const Block* block, Framework framework) {
    if (block->origin == Origin::none || block->origin == Origin::python_owner) return nullptr;
    if (block->origin == Origin::torch_handle || block->origin == Origin::at_tensor)
        return framework == Framework::torch ? torch_object_of(block) : nullptr;
    PyObject* source = source_of(block);
    if (source == nullptr) return nullptr;
    TypeEntry scratch;
    const TypeEntry* entry = find_type(Py_TYPE(source), scratch);
    if (entry == nullptr) PyErr_Clear();
    if (entry == nullptr || entry->framework != framework) return nullptr;
    Py_INCREF(source);
    return source;
}

/// Every framework without a C way in: its own public importer, with what it is known to accept.
ISTHMUS_COLD inline Result<PyObject*> block_to_framework(Block* block, const FrameworkFacts& facts,
                                                         const ExportOptions& options) {
    const DLTensor& t = block->dl;
    const std::string name(facts.name);
    if (!options.allow_copy) {
        if (facts.always_copies)
            return Error(ErrorCode::needs_copy, concat({name, " always copies what it imports; allow it with allow_copy"}));
        if (facts.alignment != 0 && Device(t.device).is_host() &&
            reinterpret_cast<std::uintptr_t>(t.data) % static_cast<std::uint64_t>(facts.alignment) != 0)
            return Error(ErrorCode::needs_copy,
                         concat({"data at ", hex(t.data), " is not aligned to ", facts.alignment, " bytes, so ", name,
                                 " would copy it; use Tensor::empty, or allow_copy"}));
    }
    if (facts.needs_contiguous && !layout::is_contiguous(t.shape, t.strides, t.ndim))
        return Error(ErrorCode::needs_copy,
                     concat({"strides ", sizes_text(t.strides, t.ndim), " of shape ", sizes_text(t.shape, t.ndim),
                             " are not contiguous, as ", name, " needs; copy it first"}));
    const Importers::Entry* importer = importers.find(facts);
    if (importer == nullptr) return error_from_exception(ErrorCode::unavailable, nullptr, concat({"importing ", name}));
    if (importer->api != nullptr && torch_takes_strides(t)) return block_to_exchange(block, importer->api, facts.name);
    Ref handed;
    if (facts.hand == Hand::legacy_capsule && legacy_loses_padding(block))
        return Error(ErrorCode::bad_dtype,
                     concat({"dtype ", DType(t.dtype), " has no counterpart in ", name, "; nearest is uint8, the bytes"}));
    const bool is_bool = DType(t.dtype) == boolean;
    if (facts.framework == Framework::onnxruntime && is_bool) {
        // It knows booleans as bytes, and is told by an argument that they are.
        Block* bytes = writable_alias(block);
        if (bytes != nullptr) {
            bytes->dl.dtype = uint8;
            handed = Ref(legacy_capsule(bytes));
            drop(bytes);
        }
    } else if (facts.hand == Hand::legacy_capsule) {
        handed = Ref(legacy_capsule(block));
    } else if (facts.hand == Hand::capsule) {
        handed = Ref(versioned_capsule(block));
    } else {
        // The flag is for those who could write. Some ask for the legacy form, which cannot carry it, and never write.
        const bool hide = (block->flags & flag::read_only) && facts.read_only != ReadOnly::kept;
        Block* shown = hide ? writable_alias(block) : (retain(block), block);
        if (shown != nullptr) handed = Ref(hide ? new_tensor_object(shown) : object_of_block(shown));
    }
    if (!handed) return error_from_exception(ErrorCode::consumer_failed, nullptr, concat({"making the object for ", name}));
    Ref result(facts.framework == Framework::onnxruntime
                   ? PyObject_CallFunctionObjArgs(importer->function, handed.get(), is_bool ? Py_True : Py_False, nullptr)
                   : PyObject_CallFunctionObjArgs(importer->function, handed.get(), nullptr));
    if (!result) {
        std::string what = concat({facts.module, ".", facts.importer, "()"});
        if (numpy_type_number(t.dtype) < 0)
            what += concat({" of ", DType(t.dtype), " (nearest: uint", 8 * DType(t.dtype).itemsize(), ", the bytes)"});
        return error_from_exception(ErrorCode::consumer_failed, nullptr, what);
    }
    if (facts.always_copies) {
        // MLX makes float32 of float64 without a word.
        Ref itemsize(PyObject_GetAttrString(result.get(), "itemsize"));
        const std::int64_t size = itemsize ? PyLong_AsLongLong(itemsize.get()) : DType(t.dtype).itemsize();
        PyErr_Clear();
        if (size != DType(t.dtype).itemsize())
            return Error(ErrorCode::bad_dtype, concat({"dtype ", DType(t.dtype), " has no counterpart in ", name,
                                                       ", which made elements of ", size, " bytes of it; convert it first"}));
    }
    if (facts.pointer != nullptr && !options.allow_copy && t.data != nullptr) {
        Ref pointer(PyObject_CallMethod(result.get(), facts.pointer, nullptr));
        void* address = pointer ? PyLong_AsVoidPtr(pointer.get()) : t.data;
        PyErr_Clear();
        std::int64_t numel = 0;
        if (layout::numel(t.shape, t.ndim, numel) && numel > 0 && address != t.data)
            return Error(ErrorCode::needs_copy,
                         concat({name, " copied the data, which nobody asked for; allow it with allow_copy"}));
    }
    return result.release();
}

ISTHMUS_COLD inline Result<PyObject*> export_unseen(Block* block, Framework framework, const ExportOptions& options) {
    if (PyObject* same = same_object(block, framework)) return same;
    switch (framework) {
        case Framework::tensor:
        case Framework::none: {
            retain(block);
            PyObject* object = object_of_block(block);
            if (object == nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, "making an isthmus.Tensor");
            return object;
        }
        case Framework::numpy:
            return block_to_numpy(block);
        case Framework::capsule:
        case Framework::capsule_legacy: {
            const bool legacy = framework == Framework::capsule_legacy;
            if (legacy && (block->flags & flag::read_only) && !options.allow_read_only_loss)
                return Error(ErrorCode::read_only,
                             "the memory is read-only, which a legacy capsule cannot say; ask for a versioned one, or "
                             "allow_read_only_loss");
            if (legacy && legacy_loses_padding(block))
                return Error(
                    ErrorCode::bad_dtype,
                    concat({DType(block->dl.dtype),
                            " with a byte for each element is what a legacy capsule cannot say; ask for a versioned one"}));
            PyObject* capsule = legacy ? legacy_capsule(block) : versioned_capsule(block);
            if (capsule == nullptr) return error_from_exception(ErrorCode::out_of_memory, nullptr, "making a capsule");
            return capsule;
        }
        default:
            break;
    }
    const FrameworkFacts* facts = find_framework(framework);
    if (facts == nullptr)
        return Error(ErrorCode::bad_argument,
                     concat({"argument 'framework': no framework has the number ", static_cast<int>(framework)}));
    if (ISTHMUS_UNLIKELY(block->flags & flag::read_only) && facts->read_only == ReadOnly::lost && !options.allow_read_only_loss)
        return Error(ErrorCode::read_only, concat({"the memory is read-only, and ", facts->name,
                                                   " would let it be written; copy it first, or say allow_read_only_loss"}));
    if (framework == Framework::torch) return block_to_torch(block);
    return block_to_framework(block, *facts, options);
}

/// An export while somebody keeps a list. The very object that a tensor came from is no consumer of it.
ISTHMUS_COLD inline Result<PyObject*> export_seen(Block* block, Framework framework, const ExportOptions& options) {
    if (PyObject* same = same_object(block, framework)) return same;
    Result<PyObject*> exported = export_unseen(block, framework, options);
    if (exported)
        note_consumer(block, framework == Framework::tensor || framework == Framework::none ? "isthmus.Tensor"
                                                                                            : framework_name(framework));
    return exported;
}

inline Result<PyObject*> export_block(Block* block, Framework framework, const ExportOptions& options) {
    if (ISTHMUS_UNLIKELY(observer.load_relaxed() != nullptr)) return export_seen(block, framework, options);
    return export_unseen(block, framework, options);
}

}  // namespace detail

ISTHMUS_API Result<PyObject*> to_py(const Tensor& tensor, Framework framework, const ExportOptions& options) noexcept {
    return detail::surviving_exit([&]() -> Result<PyObject*> {
        if (ISTHMUS_UNLIKELY(!tensor))
            return Error(ErrorCode::bad_argument, "argument 'tensor': it is empty (default-made or moved from)");
        return detail::export_block(tensor.block(), framework, options);
    });
}

ISTHMUS_API Result<PyObject*> to_py_like(const Tensor& tensor, PyObject* example, const ExportOptions& options) noexcept {
    return detail::surviving_exit([&]() -> Result<PyObject*> {
        if (ISTHMUS_UNLIKELY(!tensor))
            return Error(ErrorCode::bad_argument, "argument 'tensor': it is empty (default-made or moved from)");
        detail::TypeEntry scratch;
        const detail::TypeEntry* entry = example != nullptr ? detail::find_type(Py_TYPE(example), scratch) : nullptr;
        if (entry == nullptr) PyErr_Clear();
        return detail::export_block(tensor.block(), entry != nullptr ? entry->framework : Framework::tensor, options);
    });
}

ISTHMUS_END
