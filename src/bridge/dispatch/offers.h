// How a type shows that its instances come in by a protocol.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <cstring>

#include "../framework/numpy/dtypes.h"
#include "../framework/torch/modules.h"
#include "../framework/torch/shims.h"
#include "../protocol/exchange_api/import.h"
#include "../protocol/protocol.h"
#include <isthmus/python/runtime/classes.h>

ISTHMUS_BEGIN

namespace detail {

/// numpy.ndarray or a subclass. Its struct is read directly, so a stand-in under NumPy's name must not pass.
inline bool is_numpy_array_type(ProducerType& type) {
    if (!is_of_class(type.type, "numpy.ndarray", type.complete)) return false;
    const Ref found = loaded_class("numpy.ndarray");
    const PyTypeObject* array = as_type(found);
    return found && !(array->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::strcmp(array->tp_name, "numpy.ndarray") == 0 &&
           array->tp_basicsize >= static_cast<Py_ssize_t>(sizeof(NumpyArray));
}

/// The base of torch.Tensor that C++ makes: in torch's own module, or where libtorch keeps torch.Tensor, which it still does
/// while a test has taken the module out of sys.modules.
inline Ref loaded_torch_base() {
    if (Ref base = loaded_class("torch._C.TensorBase")) return base;
    const PyTypeObject* tensor = torch_class_of_library();
    return tensor != nullptr ? Ref::borrow(reinterpret_cast<PyObject*>(tensor->tp_base)) : Ref();
}
inline bool is_torch(ProducerType& type) {
    if (!has_base_of_package(type.type, "torch")) return false;
    const Ref base = loaded_torch_base();
    if (!base) type.complete = false;
    return base && PyType_IsSubtype(type.type, as_type(base));
}

// Each answers for one row of isthmus/python/dispatch/protocols.h, and notes what its importer wants to know of the type.

inline bool offers_isthmus_tensor(ProducerType& type) {
    const PyTypeObject* tensor = load_shared(shared_runtime()->tensor);
    return tensor != nullptr && PyType_IsSubtype(type.type, const_cast<PyTypeObject*>(tensor));
}
inline bool offers_torch_stable(ProducerType& type) {
    if (!is_torch(type) || !torch_has_shims()) return false;
    type.known_torch = torch_life->tensor_class != nullptr && PyType_IsSubtype(type.type, torch_life->tensor_class);
    return true;
}
inline bool offers_exchange_api(ProducerType& type) { return (type.api = find_exchange_api(type.type)) != nullptr; }
inline bool offers_torch_exchange(ProducerType& type) { return is_torch(type) && offers_exchange_api(type); }
inline bool offers_torch_method(ProducerType& type) { return is_torch(type); }
inline bool offers_numpy(ProducerType& type) { return is_numpy_array_type(type); }
inline bool offers_numpy_scalar(ProducerType& type) { return has_base_called(type.type, "numpy.generic"); }
inline bool offers_buffer(ProducerType& type) {
    return type.type->tp_as_buffer != nullptr && type.type->tp_as_buffer->bf_getbuffer != nullptr;
}
inline bool offers_capsule(ProducerType& type) { return type.type == &PyCapsule_Type; }
/// Only what is known by its name (known_producers).
inline bool offers_nothing(ProducerType&) { return false; }

}  // namespace detail

ISTHMUS_END
