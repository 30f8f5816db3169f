// Shared by the extensions of one process that have the same ABI: types, exceptions, live list, the isthmus.Tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <cstdlib>

#include <isthmus/core/block.h>
#include <isthmus/core/error.h>
#include <isthmus/python/api.h>
#include "../../core/observer.h"
#include "errors.h"
#include "lookups.h"
#include "names.h"
#include "object_owner.h"
#include "session.h"

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>  // PyFrame_GetBack, in Python.h itself from 3.11 on
#endif

ISTHMUS_BEGIN

namespace detail {

inline char* copied_text(const std::string& text) noexcept {
    auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
    return copy != nullptr ? static_cast<char*>(std::memcpy(copy, text.c_str(), text.size() + 1)) : nullptr;
}

/// Whether the frame runs code of the package isthmus, which says nothing to its user.
inline bool is_frame_of_isthmus(PyObject* frame) {
    Ref globals(PyObject_GetAttrString(frame, "f_globals"));
    const Ref name = globals && PyDict_Check(globals.get()) ? dict_item(globals.get(), "__name__") : Ref();
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    return text != nullptr && std::strncmp(text, "isthmus", 7) == 0 && (text[7] == '\0' || text[7] == '.');
}

/// "train.py:12 in step": the innermost line of the user's Python that runs in this thread.
ISTHMUS_COLD inline std::string python_place() {
    Ref held(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
    while (held && is_frame_of_isthmus(held.get()))
        held = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(held.get()))));
    if (!held) return {};
    auto* frame = reinterpret_cast<PyFrameObject*>(held.get());
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    Ref file(PyObject_GetAttrString(code.get(), "co_filename")),
        function(PyObject_GetAttrString(code.get(), "co_name"));
    const char *file_text = file ? PyUnicode_AsUTF8(file.get()) : nullptr,
               *function_text = function ? PyUnicode_AsUTF8(function.get()) : nullptr;
    if (file_text == nullptr || function_text == nullptr) return {};
    return concat({file_text, ":", PyFrame_GetLineNumber(frame), " in ", function_text});
}

/// Whose memory a new block is. An import holds the GIL; other blocks may be made by a thread without it.
ISTHMUS_COLD inline BlockWords words_of_python(const Block* block, bool tracing) noexcept {
    if (!have_gil()) return {};
    return surviving_exit([&]() -> BlockWords {
        PyObject* pending = take_exception();
        BlockWords words{};
        try {
            const Block* root = root_of(block);
            if (auto* source = static_cast<PyObject*>(source_of(root)))
                words.producer =
                    copied_text(concat({(root->ops->array == nullptr ? "blob of " : ""), type_name(source)}));
            else if (root->ops->producer != nullptr)
                words.producer = copied_text(root->ops->producer);
            if ((block->flags & unowned_flag) != 0) words.producer = copied_text("blob without owner");
            if (tracing) words.place = copied_text(python_place());
        } catch (const std::bad_alloc&) {  // then with fewer words
        }
        PyErr_Clear();
        if (pending != nullptr) restore_exception(pending);
        return words;
    });
}

/// Makes the list of this shared object ask for these words.
inline void tell_observers_of_python() noexcept { words_of_block.store(words_of_python); }

/// The first extension makes it and stores it in the interpreter's dictionary. Its references end with that dictionary;
/// the struct is never freed, since memory of C++ that is tracked outlives every interpreter. Part of the shared ABI
/// (docs/abi.md): fields are only ever added at the end.
struct SharedRuntime {
    std::uint32_t size;         ///< of this struct, as its maker knows it
    PyTypeObject* tensor;       ///< isthmus.Tensor; NULL, as the next three, until somebody makes one (make_types())
    PyTypeObject* dtype;        ///< isthmus.DType
    PyTypeObject* device;       ///< isthmus.Device
    PyTypeObject* device_type;  ///< isthmus.DeviceType
    PyObject* error;            ///< isthmus.Error
    PyObject* error_kinds[3];   ///< by ErrorKind: also a TypeError, a ValueError, a BufferError
    ObserverHub observers;      ///< so that live_tracking() in one extension sees the tensors of all
};
/// NULL until join_runtime() in this session.
ISTHMUS_STATE PerSession<SharedRuntime*> shared_state;

inline constexpr const char* runtime_key = "isthmus.runtime.abi2";
static_assert(ISTHMUS_ABI == 2, "the key of the shared runtime carries the ABI");

ISTHMUS_COLD inline bool make_exceptions(SharedRuntime& shared) {
    struct Row {
        const char* name;
        PyObject* builtin;
        const char* doc;
    };
    const Row rows[] = {
        {"isthmus.TensorTypeError", PyExc_TypeError, "The object is not a tensor of any kind that Isthmus knows."},
        {"isthmus.TensorValueError", PyExc_ValueError, "An argument does not fit what was expected."},
        {"isthmus.TensorBufferError", PyExc_BufferError,
         "The data cannot be exchanged as it is; the text says what to call first."},
    };
    shared.error = PyErr_NewExceptionWithDoc(
        "isthmus.Error", "Any failure of an exchange. `code` is the name of its isthmus::ErrorCode.", PyExc_Exception,
        nullptr);
    if (shared.error == nullptr || PyObject_SetAttrString(shared.error, "code", Py_None) != 0) return false;
    for (int i = 0; i < 3; ++i) {
        Ref bases(PyTuple_Pack(2, shared.error, rows[i].builtin));
        if (!bases) return false;
        shared.error_kinds[i] = PyErr_NewExceptionWithDoc(rows[i].name, rows[i].doc, bases.get(), nullptr);
        if (shared.error_kinds[i] == nullptr) return false;
    }
    return true;
}

inline SharedRuntime* join_runtime(SharedRuntime* shared) noexcept {
    if (shared == nullptr) return nullptr;
    tell_observers_of_python();
    if (shared->size >= offsetof(SharedRuntime, observers) + sizeof(ObserverHub)) {
        const StateLock lock(interpreter_session.mutex);
        join_observers(shared->observers);
    }
    (void)shared_state.keep(shared);
    return *shared_state;
}

/// Releases the types and the exceptions. A tensor that outlives them keeps its type.
inline void release_types(SharedRuntime& shared) noexcept {
    Py_CLEAR(shared.tensor);
    Py_CLEAR(shared.dtype);
    Py_CLEAR(shared.device);
    Py_CLEAR(shared.device_type);
    Py_CLEAR(shared.error);
    for (PyObject*& kind : shared.error_kinds) Py_CLEAR(kind);
}
/// The destructor of the capsule that the interpreter's dictionary holds.
inline void end_runtime(PyObject* capsule) {
    if (auto* shared = static_cast<SharedRuntime*>(PyCapsule_GetPointer(capsule, runtime_key))) release_types(*shared);
}

/// A new shared part, or the one that another thread or extension has stored in `dict` meanwhile. NULL with a Python
/// exception set.
ISTHMUS_COLD inline SharedRuntime* make_shared_runtime(PyObject* dict) {
    auto* made = static_cast<SharedRuntime*>(std::calloc(1, sizeof(SharedRuntime)));
    if (made == nullptr) {
        PyErr_NoMemory();
        return nullptr;
    }
    made->size = sizeof(SharedRuntime);
    Ref capsule(make_exceptions(*made) ? PyCapsule_New(made, runtime_key, end_runtime) : nullptr);
    const Ref kept = capsule ? dict_item_or(dict, runtime_key, capsule.get()) : Ref();
    auto* shared = kept ? static_cast<SharedRuntime*>(PyCapsule_GetPointer(kept.get(), runtime_key)) : nullptr;
    if (shared == made) return made;
    capsule = Ref();  // releases what was made
    release_types(*made);
    std::free(made);
    return shared;
}

/// Finds the shared part, or makes it. NULL with a Python exception set.
ISTHMUS_COLD inline SharedRuntime* find_shared_runtime() {
    if (!make_interned()) return nullptr;
    PyObject* dict = PyInterpreterState_GetDict(interpreter_session.interpreter.load());  // borrowed
    const Ref known = dict_item(dict, runtime_key);
    return join_runtime(known ? static_cast<SharedRuntime*>(PyCapsule_GetPointer(known.get(), runtime_key))
                              : make_shared_runtime(dict));
}
inline SharedRuntime* shared_runtime() {
    return ISTHMUS_LIKELY(*shared_state != nullptr) ? *shared_state : find_shared_runtime();
}

/// Part of the shared ABI.
struct TensorObject {
    PyObject_HEAD Block* block;  ///< NULL once the garbage collector has cleared it
    PyObject* weak_references;
};

/// The Python object that keeps the memory of this block, borrowed; NULL when none does.
inline PyObject* python_source_of(const Block* block) noexcept { return static_cast<PyObject*>(source_of(block)); }

/// The object that the collector sees behind the one handle of a block, borrowed: the isthmus.Tensor of the root if the
/// block is an alias that holds it, else the owner. NULL if somebody else holds the block, or its root: only what goes
/// with this handle, or with others that lead to it, is part of a cycle.
inline PyObject* reached_by(const Block* block) noexcept {
    if (block == nullptr || block->refs.load_acquire() != 1 + load_shared(block->wrapper_aliases)) return nullptr;
    const Block* root = root_of(block);
    if (block->flags & wrapper_alias_flag) return static_cast<PyObject*>(block->ops->source(block->owner));
    if (root != block && root->refs.load_acquire() != 1) return nullptr;
    return python_source_of(root);
}

inline PyObject* object_of_block(Block* block);

/// A new isthmus.Tensor that takes over one reference to the block; NULL with a Python exception set, and the block
/// dropped. The Python types must have been made. `seen` is what hold_wrapper() saw of the block; if another thread has
/// since made an object that shows it, that one is returned.
inline PyObject* new_tensor_object(Block* block, PyObject* seen = nullptr) {
    auto* object = PyObject_GC_New(TensorObject, shared_runtime()->tensor);
    if (ISTHMUS_UNLIKELY(object == nullptr)) {
        drop(block);
        return nullptr;
    }
    object->block = block;
    object->weak_references = nullptr;
    auto* self = reinterpret_cast<PyObject*>(object);
    if (ISTHMUS_UNLIKELY(!show(block, self, seen))) {
        retain(block);  // the object ends with its own reference
        Py_DECREF(self);
        return object_of_block(block);
    }
    note_consumer(block, "isthmus.Tensor");
    // Only an owner in Python can be part of a cycle; the collector need not visit the others.
    if (root_of(block)->ops->source != nullptr) PyObject_GC_Track(object);
    return self;
}

/// The isthmus.Tensor that shows this block, existing or new; takes over one reference to the block. The Python types
/// must have been made.
inline PyObject* object_of_block(Block* block) {
    PyObject* seen = nullptr;
    PyObject* shown = hold_wrapper(block, (*shared_state)->tensor, seen);
    if (shown == nullptr) return new_tensor_object(block, seen);
    drop(block);
    return shown;
}

/// The isthmus.Tensor that shows this block, a new reference; NULL if none does, or none of this session.
inline PyObject* hold_wrapper(Block* block) noexcept {
    if (wrapper_of(block) == nullptr) return nullptr;
    const SharedRuntime* shared = shared_runtime();
    if (shared == nullptr) PyErr_Clear();
    PyObject* seen = nullptr;
    return shared != nullptr ? hold_wrapper(block, shared->tensor, seen) : nullptr;
}

/// alias_block() for Python: also holds the isthmus.Tensor that shows the root, if there is one, so that the garbage
/// collector can follow the references from object to object.
inline Block* alias_wrapped_block(Block* block, const DLTensor& t, Flags flags,
                                  const OwnerOps& ops = python_owners->wrapper_alias) noexcept {
    Block* root = root_of(block);
    PyObject* shown = hold_wrapper(root);
    if (shown == nullptr) return alias_block(block, t, flags);
    Block* alias = alias_block(block, t, flags | wrapper_alias_flag, ops);
    if (alias != nullptr)
        count_shared(root->wrapper_aliases, 1);
    else
        Py_DECREF(shown);
    return alias;
}

/// The block of an isthmus.Tensor; NULL with a Python exception set when the garbage collector has cleared it.
inline Block* block_of(PyObject* self) {
    Block* block = reinterpret_cast<TensorObject*>(self)->block;
    if (ISTHMUS_UNLIKELY(block == nullptr))
        set_python_error(Error(ErrorCode::null_data, "this isthmus.Tensor was cleared by the garbage collector"));
    return block;
}

/// The array object that this block was made from, a new reference; NULL when it was made from none.
inline PyObject* array_of(const Block* block) noexcept {
    return block->ops->array != nullptr ? static_cast<PyObject*>(block->ops->array(block->owner)) : nullptr;
}

}  // namespace detail

ISTHMUS_END
