// The table of the import paths: what shows that a type offers a protocol, and who imports by it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include <cstring>

#include "../framework/numpy/dtypes.h"
#include "../framework/numpy/import.h"
#include "../framework/openvino.h"
#include "../framework/tensorflow.h"
#include "../framework/torch/import.h"
#include "../framework/torch/shims.h"
#include "../protocol/array_interface.h"
#include "../protocol/arrow.h"
#include "../protocol/buffer.h"
#include "../protocol/capsule.h"
#include "../protocol/dlpack_method/import.h"
#include "../protocol/exchange_api.h"
#include "../protocol/import_request.h"
#include "../protocol/isthmus_tensor.h"
#include "../runtime/shared_runtime.h"
#include "packages.h"

ISTHMUS_BEGIN

namespace detail {

/// numpy.ndarray or a subclass. Its struct is read directly, so a stand-in under NumPy's name must not pass.
inline bool is_numpy_array_type(ProducerType& type) {
    if (!has_base_of_known(type, "numpy", numpy_package)) return false;
    const Ref found = loaded_class("numpy.ndarray");
    if (!found) type.complete = false;
    if (!found || !PyType_IsSubtype(type.type, as_type(found))) return false;
    const PyTypeObject* array = as_type(found);
    return !(array->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::strcmp(array->tp_name, "numpy.ndarray") == 0 &&
           array->tp_basicsize >= static_cast<Py_ssize_t>(sizeof(NumpyArray));
}

/// The base of torch.Tensor that C++ makes: in torch's own module, or in libtorch's pointer to torch.Tensor, which it
/// still has while a test has taken the module out of sys.modules.
inline Ref loaded_torch_base() {
    if (Ref base = loaded_class("torch._C.TensorBase")) return base;
    const PyTypeObject* tensor = torch_class_of_library();
    return tensor != nullptr ? Ref::borrow(reinterpret_cast<PyObject*>(tensor->tp_base)) : Ref();
}
inline bool is_torch(ProducerType& type) {
    if (!has_base_of_known(type, "torch", torch_package)) return false;
    const Ref base = loaded_torch_base();
    if (!base) type.complete = false;
    return base && PyType_IsSubtype(type.type, as_type(base));
}

// Each answers for one row of isthmus/python/dispatch/protocols.h, and notes what its importer wants to know of the
// type.

inline bool offers_isthmus_tensor(ProducerType& type) {
    const PyTypeObject* tensor = load_shared(shared_runtime()->tensor);
    return tensor != nullptr && PyType_IsSubtype(type.type, const_cast<PyTypeObject*>(tensor));
}
inline bool offers_torch_stable(ProducerType& type) {
    if (!is_torch(type) || !torch_has_shims()) return false;
    type.known_torch =
        torch_session->tensor_class != nullptr && PyType_IsSubtype(type.type, torch_session->tensor_class);
    return true;
}
inline bool offers_exchange_api(ProducerType& type) { return (type.api = find_exchange_api(type.type)) != nullptr; }
inline bool offers_torch_exchange(ProducerType& type) { return is_torch(type) && offers_exchange_api(type); }
inline bool offers_torch_method(ProducerType& type) { return is_torch(type); }
inline bool offers_numpy(ProducerType& type) { return is_numpy_array_type(type); }
inline bool offers_numpy_scalar(ProducerType& type) {
    return may_be_of(type, numpy_package) && has_base_called(type.type, "numpy.generic");
}
inline bool offers_buffer(ProducerType& type) {
    return type.type->tp_as_buffer != nullptr && type.type->tp_as_buffer->bf_getbuffer != nullptr;
}
inline bool offers_capsule(ProducerType& type) { return type.type == &PyCapsule_Type; }
/// Only what is known by its name (known_producers).
inline bool offers_nothing(ProducerType&) { return false; }

/// One import path. Dispatch, the sentence that says what a tensor is, the search on instances, `isthmus probe` and the
/// table of docs/import.md are all made of these rows.
struct ProtocolFacts {
    Protocol protocol;
    const char* name;                                ///< as `isthmus probe` writes it
    PyObject* Interned::* attribute = nullptr;       ///< of the type, if having it is the offer
    bool (*offers)(ProducerType&) = offers_nothing;  ///< if no attribute decides
    const char* wanted = nullptr;                    ///< in the sentence that says what would have been taken
    /// The protocol is looked for on the type, as Python does for its own; an instance that carries it is taken all the
    /// same.
    bool on_instance = false;
    bool of_tables = false;  ///< offered by tables of many columns as well, which are not tensors (producers.h)
    /// Tried for an object whose `__dlpack__` said that it cannot. It names the dtype and the shape of the elements;
    /// the buffer of such an object may be the bare bytes of what was refused.
    bool after_dlpack = false;
    /// Fills the request, or leaves the error there. NULL: nothing is offered.
    bool (*import)(ImportRequest&) = nullptr;
};

inline constexpr ProtocolFacts protocols[] = {
    {.protocol = Protocol::none, .name = "none"},
    {.protocol = Protocol::isthmus_tensor,
     .name = "isthmus",
     .offers = offers_isthmus_tensor,
     .import = import_isthmus_tensor},
    {.protocol = Protocol::buffer_or_dlpack, .name = "buffer or __dlpack__", .import = import_buffer_or_dlpack},
    {.protocol = Protocol::torch_stable,
     .name = "torch stable C shims",
     .offers = offers_torch_stable,
     .import = import_torch},
    {.protocol = Protocol::torch_exchange,  // PyTorch 2.10 to 2.13
     .name = "torch C exchange API",
     .offers = offers_torch_exchange,
     .import = import_torch_exchange},
    {.protocol = Protocol::torch_method,
     .name = "torch __dlpack__",
     .offers = offers_torch_method,
     .import = import_torch_method},
    {.protocol = Protocol::numpy, .name = "numpy's struct", .offers = offers_numpy, .import = import_numpy},
    {.protocol = Protocol::numpy_scalar,
     .name = "numpy's scalar",
     .offers = offers_numpy_scalar,
     .import = import_numpy_scalar},
    {.protocol = Protocol::openvino, .name = "openvino's array", .import = import_openvino},
    {.protocol = Protocol::exchange_api,
     .name = "C exchange API",
     .offers = offers_exchange_api,
     .import = import_exchange},
    {.protocol = Protocol::dlpack_method,
     .name = "__dlpack__",
     .attribute = &Interned::dlpack,
     .wanted = "__dlpack__",
     .on_instance = true,
     .import = import_dlpack_method},
    {.protocol = Protocol::cuda_array_interface,
     .name = "cuda array interface",
     .attribute = &Interned::cuda_array_interface,
     .wanted = "__cuda_array_interface__",
     .on_instance = true,
     .after_dlpack = true,
     .import = import_cuda_array_interface},
    {.protocol = Protocol::buffer,
     .name = "buffer",
     .offers = offers_buffer,
     .wanted = "the buffer protocol",
     .import = import_buffer},
    {.protocol = Protocol::array_interface,
     .name = "array interface",
     .attribute = &Interned::array_interface,
     .wanted = "__array_interface__",
     .on_instance = true,
     .after_dlpack = true,
     .import = import_array_interface},
    {.protocol = Protocol::arrow_device_array,
     .name = "arrow device array",
     .attribute = &Interned::arrow_device_array,
     .wanted = "__arrow_c_device_array__",
     .on_instance = true,
     .of_tables = true,
     .after_dlpack = true,
     .import = import_arrow_device_array},
    {.protocol = Protocol::arrow_array,
     .name = "arrow array",
     .attribute = &Interned::arrow_array,
     .wanted = "__arrow_c_array__",
     .on_instance = true,
     .of_tables = true,
     .after_dlpack = true,
     .import = import_arrow_array},
    {.protocol = Protocol::arrow_stream,
     .name = "arrow stream",
     .attribute = &Interned::arrow_stream,
     .wanted = "__arrow_c_stream__",
     .on_instance = true,
     .of_tables = true,
     .after_dlpack = true,
     .import = import_arrow_stream},
    {.protocol = Protocol::capsule, .name = "capsule", .offers = offers_capsule, .import = import_capsule},
};
inline constexpr int protocol_count = sizeof(protocols) / sizeof(protocols[0]);

constexpr bool protocol_rows_are_in_order() {
    for (int i = 0; i < protocol_count; ++i)
        if (static_cast<int>(protocols[i].protocol) != i) return false;
    return true;
}
static_assert(protocol_rows_are_in_order(), "isthmus: one row per protocol, in the order of the enumerators");
static_assert(!is_enumerator<static_cast<Protocol>(protocol_count)>(), "isthmus: the last protocol has no row");

/// Assumed by the users of the table: an offer that is looked for on instances, or named to users, is an attribute. (A
/// function's address is not a constant under -fsanitize=undefined.)
constexpr bool protocol_rows_are_whole() {
    for (const ProtocolFacts& row : protocols) {
        if (row.name == nullptr) return false;
        if (row.attribute == nullptr ? row.on_instance : row.wanted == nullptr) return false;
    }
    return true;
}
static_assert(protocol_rows_are_whole(),
              "isthmus: a protocol needs a name; an attribute its word in `expected`; on_instance an attribute");

constexpr const ProtocolFacts& facts_of(Protocol protocol) noexcept { return protocols[static_cast<int>(protocol)]; }

inline bool offers(const ProtocolFacts& row, ProducerType& type) {
    return row.attribute != nullptr ? type_has(type.type, interned().*row.attribute) : row.offers(type);
}

/// "an object with __dlpack__, the buffer protocol or …, or a DLPack capsule"
ISTHMUS_COLD inline TextBuffer what_is_a_tensor() noexcept {
    const char* last = nullptr;
    TextBuffer text = compose({"an object with "});
    const std::size_t start = text.view().size();
    for (const ProtocolFacts& row : protocols) {
        if (row.wanted == nullptr) continue;
        if (last != nullptr) (text += text.view().size() == start ? "" : ", ") += last;
        last = row.wanted;
    }
    ((text += " or ") += last) += ", or a DLPack capsule";
    return text;
}

}  // namespace detail

ISTHMUS_END
