// torch's stable C shims, found in the libtorch of the process, and the streams that they tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <cstring>

#include "../../../core/libraries.h"
#include "../../protocol/exchange_api.h"
#include "../../runtime/lookups.h"
#include "../../runtime/session.h"
#include "dtypes.h"

ISTHMUS_BEGIN

namespace detail {

/// torch.Tensor as libtorch keeps it, once torch was imported in this process; borrowed, NULL before.
inline PyTypeObject* torch_class_of_library() noexcept {
    void* library = find_library(ISTHMUS_LIBRARY("torch_python"));
    if (library == nullptr) return nullptr;
    PyTypeObject** kept = nullptr;
    PyTypeObject* type = find_symbol(library, "THPVariableClass", kept) ? *kept : nullptr;
    release_library(library);
    return type;
}

/// Whether torch was imported but its module cannot be found, as when a test isolates sys.modules.
ISTHMUS_NOINLINE inline bool is_torch_hidden() {
    return !dict_item(PyImport_GetModuleDict(), "torch._C") && torch_class_of_library() != nullptr;
}

/// import `module`, which is torch or below it: a new reference, or NULL with a Python exception set. While torch is
/// hidden nothing is imported: a second initialisation of its C module overwrites the tables that its own methods live
/// in.
inline PyObject* import_torch(const char* module) {
    if (ISTHMUS_LIKELY(!is_torch_hidden())) return PyImport_ImportModule(module);
    if (PyErr_Occurred() != nullptr) return nullptr;  // there was no memory to look for it
    PyErr_SetString(PyExc_ImportError,
                    "torch was imported, but torch._C was taken out of sys.modules since; put it back");
    return nullptr;
}

/// libtorch's stable C shims, found in the libtorch that the process has loaded: the tensor pointer without compiling
/// against torch. Declared in torch/csrc/stable/c/shim.h and torch/csrc/inductor/aoti_torch/c/shim.h, which PyTorch
/// promises to keep. A handle is a pointer to an at::Tensor on the heap; a status other than 0 is a failure.
struct TorchShims {
    using Handle = void*;

    // PyTorch 2.14
    int (*from_pyobject)(void*, Handle*);
    int (*to_pyobject)(Handle, void*, void**);
    const char* (*what)();
    // PyTorch 2.11
    int (*from_blob)(void*, std::int64_t, const std::int64_t*, const std::int64_t*, std::int64_t, std::int32_t,
                     std::int32_t, std::int32_t, Handle*, std::int32_t, const std::uint8_t*, std::int64_t,
                     void (*)(void*, void*), void*);
    // older
    int (*delete_handle)(Handle);
    int (*get_dim)(Handle, std::int64_t*);
    int (*get_sizes)(Handle, std::int64_t**);
    int (*get_strides)(Handle, std::int64_t**);
    int (*get_dtype)(Handle, std::int32_t*);
    int (*get_layout)(Handle, std::int32_t*);
    int (*get_device_type)(Handle, std::int32_t*);
    int (*get_device_index)(Handle, std::int32_t*);
    int (*get_const_data_ptr)(Handle, const void**);
    int (*get_mutable_data_ptr)(Handle, void**);
    bool (*grad_mode_is_enabled)();

    // Exported by libtorch but not promised: each may be NULL, and Python takes its place.
    bool (*is_neg)(Handle);   ///< at::native::is_neg(const at::Tensor&)
    bool (*is_conj)(Handle);  ///< at::native::is_conj(const at::Tensor&)
    void* (*autograd_meta)(
        void*);  ///< c10::TensorImpl::autograd_meta() const: NULL if no gradient or tangent is possible
    bool (*requires_grad)(void*);  ///< c10::TensorImpl::requires_grad() const
    int (*get_storage_offset)(Handle, std::int64_t*);
    void (*cow_deleter)(void*);    ///< c10::impl::cow::cow_deleter(void*)
    bool (*is_cow)(const void*);   ///< c10::impl::cow::is_cow_data_ptr(const c10::DataPtr&)
    bool (*has_dual_level)();      ///< torch::autograd::ForwardADLevel::has_any_level()
    bool (*is_inference)(Handle);  ///< at::native::is_inference(const at::Tensor&)
    bool (*in_inference_mode)();   ///< c10::InferenceMode::is_enabled()
    void (*bump_version)(Handle);  ///< torch::autograd::impl::bump_version(const at::Tensor&)
    PyObject* (*wrap)(Handle);     ///< THPVariable_Wrap(at::TensorBase&&), without to_pyobject's lock and counting

    /// A torch.Tensor's PyObject contains its at::Tensor, so a handle may point there: no lookup, no lock, no
    /// allocation. That struct is private: it is used only after a first tensor has confirmed its layout, and only if
    /// there is a class to check types against.
    std::ptrdiff_t inside;  ///< offset of the at::Tensor; 0 while unknown, -1 if it was not found
    /// False if torch does not accept this object.
    bool find_inside(PyObject* object) noexcept {
        Handle handle = nullptr;
        if (from_pyobject(object, &handle) != 0) return false;
        void* found = nullptr;
        std::memcpy(&found, reinterpret_cast<const char*>(object) + sizeof(PyObject), sizeof found);
        store_shared(inside,
                     found == *static_cast<void**>(handle) ? static_cast<std::ptrdiff_t>(sizeof(PyObject)) : -1);
        delete_handle(handle);
        find_plain();
        return true;
    }

    /// From a TensorImpl to its storage, and from a StorageImpl to its c10::DataPtr, which begins with the address.
    /// That layout is private, and so is the place of a DataPtr's deleter: the first tensor must confirm the former,
    /// is_cow() the latter.
    static constexpr std::size_t behind_counts = 2 * sizeof(void*);
    std::size_t deleter_at;  ///< in a StorageImpl; 0 while unknown
    static char* storage_of(Handle handle) noexcept {
        char* storage = nullptr;
        std::memcpy(&storage, *static_cast<char**>(handle) + behind_counts, sizeof storage);
        return storage;
    }
    /// Whether a storage is shared until it is written: its deleter tells. Only once `deleter_at` is known.
    bool is_shared_until_written(const char* storage) const noexcept {
        return std::memcmp(storage + load_shared(deleter_at), &cow_deleter, sizeof cow_deleter) == 0;
    }

    /// Whether libtorch alone answers all questions about a tensor that is only read.
    bool plain;
    void find_plain() noexcept {
        store_shared(plain, load_shared(inside) > 0 && load_shared(deleter_at) != 0 && is_neg != nullptr &&
                                is_conj != nullptr && autograd_meta != nullptr);
    }

    std::int32_t layout_strided;
    std::int32_t device_cpu, device_cuda, device_meta;
    void** storage_functions;     ///< the virtual table of c10::StorageImpl; NULL if libtorch does not export it
    PyTypeObject** tensor_class;  ///< libtorch's pointer to torch.Tensor; NULL if it has none
    bool loaded;
    StateMutex loading;

    /// False when this libtorch is older than 2.14, or none is loaded.
    bool load() noexcept;
};
/// State of the process, not of an interpreter session: libtorch stays loaded.
ISTHMUS_STATE TorchShims torch_shims{};

/// aoti_torch_get_current_cuda_stream (torch/csrc/inductor/aoti_torch/c/shim.h): the current stream of this thread on a
/// GPU.
using TorchStreamFunction = int (*)(std::int32_t, void**);
ISTHMUS_STATE Atomic<TorchStreamFunction> torch_stream_function;

/// From the libtorch that the process has loaded; NULL if it was built without GPU support, or is old.
ISTHMUS_COLD inline TorchStreamFunction find_torch_stream() noexcept {
    if (const auto known = torch_stream_function.load_acquire(); known != nullptr) return known;
    for (const char* name : {ISTHMUS_LIBRARY("torch_cuda"), ISTHMUS_LIBRARY("torch_hip")}) {
        TorchStreamFunction found = nullptr;
        void* lib = find_library(name);
        if (lib == nullptr || !find_symbol(lib, "aoti_torch_get_current_cuda_stream", found)) continue;
        torch_stream_function.store(found);
        return found;
    }
    return nullptr;
}

ISTHMUS_COLD inline bool TorchShims::load() noexcept {
    const StateLock lock(loading);
    if (loaded) return true;
    void* lib = find_library(ISTHMUS_LIBRARY("torch_cpu"));
    void* c10 = find_library(ISTHMUS_LIBRARY("c10"));
    void* python = find_library(ISTHMUS_LIBRARY("torch_python"));
    if (lib == nullptr || c10 == nullptr) return false;
    const auto constant = [lib](const char* name, std::int32_t missing) {
        std::int32_t (*get)() = nullptr;
        return find_symbol(lib, name, get) ? get() : missing;
    };
    const bool complete =
        find_symbol(lib, "torch_tensor_from_pyobject", from_pyobject) &&
        find_symbol(lib, "torch_tensor_to_pyobject", to_pyobject) &&
        find_symbol(lib, "torch_exception_get_what_without_backtrace", what) &&
        find_symbol(lib, "torch_from_blob", from_blob) &&
        find_symbol(lib, "aoti_torch_delete_tensor_object", delete_handle) &&
        find_symbol(lib, "aoti_torch_get_dim", get_dim) && find_symbol(lib, "aoti_torch_get_sizes", get_sizes) &&
        find_symbol(lib, "aoti_torch_get_strides", get_strides) &&
        find_symbol(lib, "aoti_torch_get_dtype", get_dtype) && find_symbol(lib, "aoti_torch_get_layout", get_layout) &&
        find_symbol(lib, "aoti_torch_get_device_type", get_device_type) &&
        find_symbol(lib, "aoti_torch_get_device_index", get_device_index) &&
        find_symbol(lib, "torch_get_const_data_ptr", get_const_data_ptr) &&
        find_symbol(lib, "torch_get_mutable_data_ptr", get_mutable_data_ptr) &&
        find_symbol(lib, "aoti_torch_grad_mode_is_enabled", grad_mode_is_enabled);
    layout_strided = constant("aoti_torch_layout_strided", -1);
    device_cpu = constant("aoti_torch_device_type_cpu", -1);
    device_cuda = constant("aoti_torch_device_type_cuda", -1);
    device_meta = constant("aoti_torch_device_type_meta", -2);
    if (!complete || layout_strided < 0 || device_cpu < 0) return false;
    find_symbol(lib, "_ZN2at6native6is_negERKNS_6TensorE", is_neg);
    find_symbol(lib, "_ZN2at6native7is_conjERKNS_6TensorE", is_conj);
    find_symbol(c10, "_ZNK3c1010TensorImpl13autograd_metaEv", autograd_meta);
    find_symbol(c10, "_ZNK3c1010TensorImpl13requires_gradEv", requires_grad);
    find_symbol(lib, "aoti_torch_get_storage_offset", get_storage_offset);
    find_symbol(c10, "_ZN3c104impl3cow11cow_deleterEPv", cow_deleter);
    find_symbol(c10, "_ZN3c104impl3cow15is_cow_data_ptrERKNS_7DataPtrE", is_cow);
    find_symbol(lib, "_ZN5torch8autograd14ForwardADLevel13has_any_levelEv", has_dual_level);
    find_symbol(lib, "_ZN2at6native12is_inferenceERKNS_6TensorE", is_inference);
    find_symbol(c10, "_ZN3c1013InferenceMode10is_enabledEv", in_inference_mode);
    find_symbol(c10, "_ZTVN3c1011StorageImplE", storage_functions);
    find_symbol(lib, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", bump_version);
    if (python != nullptr) {
        find_symbol(python, "_Z16THPVariable_WrapON2at10TensorBaseE", wrap);
        find_symbol(python, "THPVariableClass", tensor_class);
    }
    return loaded = true;
}

/// The facts about torch that belong to one interpreter session.
struct TorchSession {
    enum class Way : std::uint8_t { unknown, stable, older };
    Way way = Way::unknown;
    PyTypeObject* tensor_class = nullptr;  ///< torch.Tensor as libtorch knows it; NULL if it does not say
};
ISTHMUS_STATE PerSession<TorchSession> torch_session;

/// Set (to anything but 0) in the environment, this hides libtorch's stable shims: the way to test what older versions
/// get.
inline constexpr const char* hide_torch_shims = "ISTHMUS_NO_TORCH_SHIMS";

/// Whether tensors are exchanged by the stable shims. torch must have been imported.
inline bool torch_has_shims() noexcept {
    using Way = TorchSession::Way;
    if (ISTHMUS_UNLIKELY(torch_session->way == Way::unknown)) {
        const char* hidden = std::getenv(hide_torch_shims);
        const bool hide = hidden != nullptr && std::strcmp(hidden, "0") != 0 && *hidden != '\0';
        TorchSession found;
        found.way = !hide && torch_shims.load() ? Way::stable : Way::older;
        if (found.way == Way::stable && torch_shims.tensor_class != nullptr)
            found.tensor_class = *torch_shims.tensor_class;
        (void)torch_session.keep(found);
    }
    return torch_session->way == Way::stable;
}

/// Runs what gives up a tensor of torch. libtorch takes the GIL for the last reference to a tensor that Python has
/// seen, which would end a thread that asks for it while the interpreter ends: such a tensor is leaked. Before and
/// after an interpreter's session libtorch does not touch Python. `give_up` may be called later, on another thread, so
/// the owner must be neither on this one's stack nor in the block.
inline void drop_torch(void (*give_up)(void*), void* owner) {
    if (ISTHMUS_LIKELY(runs_our_interpreter()) || Py_IsInitialized() == 0) return give_up(owner);
    const InterpreterAccess way = interpreter_access();
    if (way == InterpreterAccess::here) return give_up(owner);
    if (way == InterpreterAccess::another) return release_with_gil(give_up, owner);
    const InterpreterGuard guard;
    if (guard) give_up(owner);
}

/// By libtorch, without Python. no_stream if it cannot tell.
ISTHMUS_NOINLINE inline std::int64_t torch_stream_by_shim(Device device) noexcept {
    void* stream = nullptr;
    const auto ask = find_torch_stream();
    return ask != nullptr && ask(device.id, &stream) == 0 ? stream_number(device, stream) : no_stream;
}

/// By torch.cuda.current_stream(), which every version has. As current_stream() if it cannot tell.
ISTHMUS_NOINLINE inline std::int64_t torch_stream_by_python(Device device) {
    Ref module(import_torch("torch.cuda"));
    Ref stream(module ? PyObject_CallMethod(module.get(), "current_stream", "i", static_cast<int>(device.id))
                      : nullptr);
    Ref number(stream ? PyObject_GetAttrString(stream.get(), "cuda_stream") : nullptr);
    void* handle = number ? PyLong_AsVoidPtr(number.get()) : nullptr;
    const bool known = PyErr_Occurred() == nullptr;
    (void)is_interrupted();
    return known ? stream_number(device, handle) : no_stream;
}

/// The current stream of this thread on a device with streams. `api` is the exchange table of torch.Tensor; NULL if it
/// has none. Needs the GIL.
inline std::int64_t torch_current_stream(Device device, const DLPackExchangeAPI* api) {
    if (torch_has_shims())
        if (const std::int64_t stream = torch_stream_by_shim(device); stream != no_stream) return stream;
    return api != nullptr ? current_stream(api, device) : torch_stream_by_python(device);
}

/// Makes one of torch's streams wait for the work on a block's memory. False with a Python exception set.
inline bool order_for_torch(const Block* block, std::int64_t stream) {
    if (stream == no_stream && PyErr_Occurred() != nullptr) return false;
    return order_export(block, stream == no_stream ? legacy_stream(block->dl.device) : stream);
}

}  // namespace detail

ISTHMUS_END
