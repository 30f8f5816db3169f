// The Python type isthmus.Tensor: its slots, and how it is made at the first need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any other header

#include <structmember.h>

#include <array>

#include "../protocol/array_interface.h"
#include "../protocol/arrow_export.h"
#include "../protocol/buffer.h"
#include "../protocol/dlpack_method/export.h"
#include "../protocol/exchange_api.h"
#include "tensor_index.h"
#include "tensor_methods.h"

ISTHMUS_BEGIN

namespace detail {

inline void tensor_hide(TensorObject* object) noexcept {
    if (object->block != nullptr) hide(object->block, reinterpret_cast<PyObject*>(object));
}
inline void tensor_drop_block(TensorObject* object) {
    tensor_hide(object);
    Block* block = std::exchange(object->block, nullptr);
    if (block != nullptr) drop(block);
}

/// Without a GIL the last weak reference may end on another thread at this moment: CPython looks, with its lock.
inline bool may_have_weak_references([[maybe_unused]] const TensorObject* object) noexcept {
#if defined(Py_GIL_DISABLED)
    return true;
#else
    return object->weak_references != nullptr;
#endif
}

inline void tensor_dealloc(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    // First of all: the callbacks of weak references are Python, which may ask for the object that shows the block.
    tensor_hide(object);
    if (may_have_weak_references(object)) PyObject_ClearWeakRefs(self);
    tensor_drop_block(object);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

inline int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    PyObject* next = reached_by(reinterpret_cast<TensorObject*>(self)->block);
    Py_VISIT(next);
    return 0;
}
/// Breaks the cycles that tensor_traverse() shows, and no others: a handle elsewhere may still ask for this very
/// object, and so may an alias, whose own turn comes first.
inline int tensor_clear(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    if (reached_by(object->block) != nullptr && load_shared(object->block->wrapper_aliases) == 0)
        tensor_drop_block(object);
    return 0;
}

inline PyObject* tensor_no_new(PyTypeObject*, PyObject*, PyObject*) {
    PyErr_SetString(PyExc_TypeError,
                    "isthmus.Tensor has no constructor; use isthmus.from_dlpack(x) or isthmus.from_blob(...)");
    return nullptr;
}

ISTHMUS_COLD inline PyTypeObject* make_tensor_class() {
    constexpr int common = sizeof(tensor_getset) / sizeof(tensor_getset[0]) - 1;  // the last row ends the table
    static std::array<PyGetSetDef, common + 4> getset = [] {
        std::array<PyGetSetDef, common + 4> rows{};
        for (std::size_t i = 0; i < common; ++i) rows[i] = tensor_getset[i];
        rows[common] = {"__array_interface__", getter<host_interface>, nullptr,
                        "NumPy's array interface, version 3; host memory only.", nullptr};
        rows[common + 1] = {"__cuda_array_interface__", getter<cuda_interface>, nullptr,
                            "The CUDA array interface, version 3; CUDA memory only.", nullptr};
        rows[common + 2] = {"ctypes", getter<block_ctypes>, nullptr,
                            "As of a numpy.ndarray over the same memory; host memory only.", nullptr};
        return rows;
    }();
    static PyMemberDef members[] = {
        {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    static PyMethodDef methods[] = {
        {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_dlpack)),
         METH_FASTCALL | METH_KEYWORDS,
         "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule "
         "(array API "
         "standard 2024.12, DLPack 1.3)."},
        {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
         "__dlpack_device__($self, /)\n--\n\n(device type, device id) as DLPack numbers them."},
        {"__arrow_c_array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_arrow_array)),
         METH_VARARGS | METH_KEYWORDS,
         "__arrow_c_array__($self, /, requested_schema=None)\n--\n\nAn Arrow array over the same memory: of numbers, "
         "or of tensors of one shape (arrow.fixed_shape_tensor) if\n"
         "there is more than one dimension. Host memory, row-major."},
        {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_array)),
         METH_VARARGS | METH_KEYWORDS,
         "__array__($self, /, dtype=None, copy=None)\n--\n\nA numpy.ndarray over the same memory, or a copy if "
         "requested."},
        {"ravel", tensor_ravel, METH_NOARGS,
         "ravel($self, /)\n--\n\nA numpy.ndarray of one dimension: the same memory if it is row-major, else a copy."},
        {"__reduce_ex__", tensor_reduce, METH_O,
         "__reduce_ex__($self, protocol, /)\n--\n\nPickled by value; out of band from protocol 5 on."},
        {"to", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_to)), METH_VARARGS | METH_KEYWORDS,
         "to($self, framework, /, *, allow_read_only_loss=False, allow_copy=False)\n--\n\nThe same memory as an array "
         "of "
         "`framework` ('numpy', 'torch', 'jax', … or the module), or an error that "
         "says\nwhy not."},
        {"as_read_only", tensor_as_read_only, METH_NOARGS,
         "as_read_only($self, /)\n--\n\nThe same memory, to be read only."},
        {nullptr, nullptr, 0, nullptr},
    };
    PyType_Slot type_slots[] = {
        {Py_tp_doc,
         const_cast<char*>("A tensor of any framework, or of C++, that every framework accepts without a copy.\n\n"
                           "Made by isthmus.from_dlpack(x) and isthmus.from_blob(...), and by C++ extensions.")},
        {Py_tp_new, reinterpret_cast<void*>(tensor_no_new)},
        {Py_tp_dealloc, reinterpret_cast<void*>(tensor_dealloc)},
        {Py_tp_traverse, reinterpret_cast<void*>(tensor_traverse)},
        {Py_tp_clear, reinterpret_cast<void*>(tensor_clear)},
        {Py_tp_repr, reinterpret_cast<void*>(tensor_repr)},
        {Py_tp_getset, getset.data()},
        {Py_tp_methods, methods},
        {Py_tp_members, members},
        {Py_mp_subscript, reinterpret_cast<void*>(tensor_subscript)},
        {Py_mp_length, reinterpret_cast<void*>(tensor_length)},
        {Py_sq_item, reinterpret_cast<void*>(tensor_item)},
        {Py_sq_length, reinterpret_cast<void*>(tensor_length)},
        {Py_sq_contains, reinterpret_cast<void*>(tensor_contains)},
        {Py_tp_iter, reinterpret_cast<void*>(PySeqIter_New)},
        {Py_nb_bool, reinterpret_cast<void*>(tensor_bool)},
        {Py_nb_float, reinterpret_cast<void*>(tensor_number)},
        {Py_nb_int, reinterpret_cast<void*>(tensor_number)},
        {Py_bf_getbuffer, reinterpret_cast<void*>(tensor_get_buffer)},
        {Py_bf_releasebuffer, reinterpret_cast<void*>(tensor_release_buffer)},
        {0, nullptr},
    };
    PyType_Spec spec{"isthmus.Tensor", sizeof(TensorObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, type_slots};
    Ref type(reinterpret_cast<PyObject*>(make_class(spec)));
    Ref api(PyCapsule_New(const_cast<DLPackExchangeAPI*>(exchange_table()), "dlpack_exchange_api", nullptr));
    if (!type || !api || PyObject_SetAttr(type.get(), interned().exchange_api, api.get()) != 0) return nullptr;
    return reinterpret_cast<PyTypeObject*>(type.release());
}

/// Into `place`, unless somebody (code that the collector ran, another thread) was there first.
inline bool make_type_once(PyTypeObject*& place, PyTypeObject* (*make)()) {
    if (load_shared(place) != nullptr) return true;
    PyTypeObject* type = make();
    if (type == nullptr) return false;
    if (store_first(place, type))
        stop_counting(type);
    else
        Py_DECREF(type);
    return true;
}

/// The tensor's own is the last: whoever finds it finds them all.
ISTHMUS_COLD inline bool make_types(SharedRuntime& shared) {
    return make_type_once(shared.device_type, make_device_type_class) &&
           make_type_once(shared.dtype, make_dtype_class) && make_type_once(shared.device, make_device_class) &&
           make_type_once(shared.tensor, make_tensor_class);
}

/// The shared part with the Python types made. NULL with a Python exception set.
inline SharedRuntime* shared_types() {
    SharedRuntime* shared = shared_runtime();
    if (ISTHMUS_UNLIKELY(shared != nullptr && load_shared(shared->tensor) == nullptr) && !make_types(*shared))
        return nullptr;
    return shared;
}

}  // namespace detail

ISTHMUS_END
