// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <isthmus/python/protocol/import_request.h>
#include <isthmus/python/framework/torch/refusals.h>

ISTHMUS_BEGIN

namespace detail {

/// libtorch's stable C shims, found in the libtorch that the process has loaded: the tensor pointer without compiling against
/// torch. Declared in torch/csrc/stable/c/shim.h and torch/csrc/inductor/aoti_torch/c/shim.h, which PyTorch promises to keep.
/// A handle is a pointer to an at::Tensor on the heap; a status other than 0 is a failure.
struct TorchShims {
    using Handle = void*;

    // PyTorch 2.14
    int (*from_pyobject)(void*, Handle*);
    int (*to_pyobject)(Handle, void*, void**);
    const char* (*what)();
    // PyTorch 2.11
    int (*from_blob)(void*, std::int64_t, const std::int64_t*, const std::int64_t*, std::int64_t, std::int32_t, std::int32_t,
                     std::int32_t, Handle*, std::int32_t, const std::uint8_t*, std::int64_t, void (*)(void*, void*), void*);
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

    // Exported by libtorch but not promised: each is NULL where it is missing, and asked of Python then.
    bool (*is_neg)(Handle);        ///< at::native::is_neg(const at::Tensor&)
    bool (*is_conj)(Handle);       ///< at::native::is_conj(const at::Tensor&)
    bool (*requires_grad)(void*);  ///< c10::TensorImpl::requires_grad() const
    bool (*is_leaf)(Handle);       ///< at::TensorBase::is_leaf() const
    void (*bump_version)(Handle);  ///< torch::autograd::impl::bump_version(const at::Tensor&)
    PyObject* (*wrap)(Handle);     ///< THPVariable_Wrap(at::TensorBase&&), without the lock and the count of to_pyobject

    /// A torch.Tensor's PyObject holds its at::Tensor, which a handle may as well point to: no lookup, no lock, no allocation.
    /// That struct is private, so the first tensor must show it, and without a class to check types against it is never used.
    PyTypeObject* tensor_class;  ///< torch.Tensor as libtorch knows it; NULL where it does not say
    std::ptrdiff_t inside;       ///< where the at::Tensor lies; 0 while unknown, -1 where it is not where we look
    /// False when torch does not take this object.
    bool find_inside(PyObject* object) noexcept {
        Handle handle = nullptr;
        if (from_pyobject(object, &handle) != 0) return false;
        void* found = nullptr;
        std::memcpy(&found, reinterpret_cast<const char*>(object) + sizeof(PyObject), sizeof found);
        inside = found == *static_cast<void**>(handle) ? static_cast<std::ptrdiff_t>(sizeof(PyObject)) : -1;
        delete_handle(handle);
        return true;
    }

    std::int32_t layout_strided;
    std::int32_t device_cpu, device_cuda, device_meta;
    std::int32_t cuda_is;  ///< kDLCUDA, or kDLROCM in a ROCm build, which calls its devices "cuda"
    static constexpr int dtype_slots = 64;
    DLDataType dtypes[dtype_slots];  ///< by torch's own code; bits 0 where DLPack has no counterpart
    std::int8_t codes[256];          ///< the way back, by DLPack's code and width; -1 where torch has none
    static constexpr unsigned code_slot(DType dtype) noexcept {
        return (dtype.code * 8u + static_cast<unsigned>(__builtin_ctz(dtype.bit_count | 0x80u))) % 256u;
    }
    /// torch's code of a dtype; -1 when it has none.
    std::int32_t code_of(DType dtype) const noexcept {
        const std::int8_t code = codes[code_slot(dtype)];
        return code >= 0 && DType(dtypes[code]) == dtype ? code : -1;
    }

    /// False when this libtorch is older than 2.14, or none is loaded.
    ISTHMUS_RARE bool load() noexcept;
};

template <class F>
bool find_symbol(void* library, const char* name, F& out) noexcept {
    out = reinterpret_cast<F>(dlsym(library, name));
    return out != nullptr;
}

inline bool TorchShims::load() noexcept {
    void* lib = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    void* c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
    if (lib == nullptr || c10 == nullptr) return false;
    const bool complete =
        find_symbol(lib, "torch_tensor_from_pyobject", from_pyobject) &&
        find_symbol(lib, "torch_tensor_to_pyobject", to_pyobject) &&
        find_symbol(lib, "torch_exception_get_what_without_backtrace", what) &&
        find_symbol(lib, "torch_from_blob", from_blob) && find_symbol(lib, "aoti_torch_delete_tensor_object", delete_handle) &&
        find_symbol(lib, "aoti_torch_get_dim", get_dim) && find_symbol(lib, "aoti_torch_get_sizes", get_sizes) &&
        find_symbol(lib, "aoti_torch_get_strides", get_strides) && find_symbol(lib, "aoti_torch_get_dtype", get_dtype) &&
        find_symbol(lib, "aoti_torch_get_layout", get_layout) &&
        find_symbol(lib, "aoti_torch_get_device_type", get_device_type) &&
        find_symbol(lib, "aoti_torch_get_device_index", get_device_index) &&
        find_symbol(lib, "torch_get_const_data_ptr", get_const_data_ptr) &&
        find_symbol(lib, "torch_get_mutable_data_ptr", get_mutable_data_ptr) &&
        find_symbol(lib, "aoti_torch_grad_mode_is_enabled", grad_mode_is_enabled);
    if (!complete) return false;
    void* python = dlopen("libtorch_python.so", RTLD_NOLOAD | RTLD_LAZY);
    wrap = nullptr;
    if (python != nullptr) find_symbol(python, "_Z16THPVariable_WrapON2at10TensorBaseE", wrap);
    PyTypeObject** known_class = nullptr;
    tensor_class = python != nullptr && find_symbol(python, "THPVariableClass", known_class) ? *known_class : nullptr;
    inside = 0;
    find_symbol(lib, "_ZN2at6native6is_negERKNS_6TensorE", is_neg);
    find_symbol(lib, "_ZN2at6native7is_conjERKNS_6TensorE", is_conj);
    find_symbol(c10, "_ZNK3c1010TensorImpl13requires_gradEv", requires_grad);
    find_symbol(lib, "_ZNK2at10TensorBase7is_leafEv", is_leaf);
    find_symbol(lib, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", bump_version);

    const auto constant = [lib](const char* name, std::int32_t missing) {
        std::int32_t (*get)() = nullptr;
        return find_symbol(lib, name, get) ? get() : missing;
    };
    layout_strided = constant("aoti_torch_layout_strided", -1);
    device_cpu = constant("aoti_torch_device_type_cpu", -1);
    device_cuda = constant("aoti_torch_device_type_cuda", -1);
    device_meta = constant("aoti_torch_device_type_meta", -2);
    if (layout_strided < 0 || device_cpu < 0) return false;
    cuda_is = dlopen("libtorch_hip.so", RTLD_NOLOAD | RTLD_LAZY) != nullptr ? kDLROCM : kDLCUDA;

    struct Row {
        const char* symbol;
        DType dtype;
    };
    static constexpr Row rows[] = {
        {"aoti_torch_dtype_uint8", uint8},
        {"aoti_torch_dtype_uint16", uint16},
        {"aoti_torch_dtype_uint32", uint32},
        {"aoti_torch_dtype_uint64", uint64},
        {"aoti_torch_dtype_int8", int8},
        {"aoti_torch_dtype_int16", int16},
        {"aoti_torch_dtype_int32", int32},
        {"aoti_torch_dtype_int64", int64},
        {"aoti_torch_dtype_bool", boolean},
        {"aoti_torch_dtype_float16", float16},
        {"aoti_torch_dtype_bfloat16", bfloat16},
        {"aoti_torch_dtype_float32", float32},
        {"aoti_torch_dtype_float64", float64},
        {"aoti_torch_dtype_complex32", complex32},
        {"aoti_torch_dtype_complex64", complex64},
        {"aoti_torch_dtype_complex128", complex128},
        {"aoti_torch_dtype_float8_e5m2", float8_e5m2},
        {"aoti_torch_dtype_float8_e4m3fn", float8_e4m3fn},
        {"aoti_torch_dtype_float8_e5m2fnuz", float8_e5m2fnuz},
        {"aoti_torch_dtype_float8_e4m3fnuz", float8_e4m3fnuz},
        {"torch_dtype_float8_e8m0fnu", float8_e8m0fnu},
        {"torch_dtype_float4_e2m1fn_x2", DType(kDLFloat4_e2m1fn, 4, 2)},
    };
    for (auto& slot : dtypes) slot = DLDataType{0, 0, 0};
    for (auto& slot : codes) slot = -1;
    for (const Row& row : rows) {
        const std::int32_t code = constant(row.symbol, -1);
        if (code < 0 || code >= dtype_slots) continue;
        dtypes[code] = row.dtype;
        codes[code_slot(row.dtype)] = static_cast<std::int8_t>(code);
    }
    return true;
}

/// A Python attribute or method of no arguments, as a bool; false when it raises.
ISTHMUS_COLD inline bool ask_python(PyObject* object, const char* name, bool call, bool& failed) {
    Ref value(call ? PyObject_CallMethod(object, name, nullptr) : PyObject_GetAttrString(object, name));
    const int truth = value ? PyObject_IsTrue(value.get()) : -1;
    failed = failed || truth < 0;
    return truth > 0;
}

/// The same of a function of the module torch.
ISTHMUS_COLD inline bool ask_torch(const char* name, bool& failed) {
    Ref torch(PyImport_ImportModule("torch"));
    failed = failed || !torch;
    return !failed && ask_python(torch.get(), name, true, failed);
}

/// Made in inference mode, and wanted for writing outside of it.
ISTHMUS_COLD inline bool is_closed_inference_tensor(PyObject* object, bool& failed) {
    return ask_python(object, "is_inference", true, failed) && !ask_torch("is_inference_mode_enabled", failed) && !failed;
}

/// Why this tensor's bytes cannot be had, in torch's own words and with what to call instead.
ISTHMUS_COLD inline bool explain_torch_layout(Import& import, const char* what) {
    PyObject* object = import.object;
    std::string found;
    Ref layout(PyObject_GetAttrString(object, "layout"));
    Ref text(layout ? PyObject_Str(layout.get()) : nullptr);
    if (const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr) found = utf8;
    PyErr_Clear();
    bool failed = false;
    const bool nested = ask_python(object, "is_nested", false, failed);
    const bool meta = ask_python(object, "is_meta", false, failed);
    PyErr_Clear();
    if (nested) return import.fail(ErrorCode::not_values, torch_words::nested);
    if (meta) return import.fail(ErrorCode::not_values, torch_words::meta);
    if (found == "torch._mkldnn") return import.fail(ErrorCode::not_values, torch_words::mkldnn);
    if (!found.empty() && found != "torch.strided")
        return import.fail(ErrorCode::not_values,
                           concat({"layout is ", found, "; wanted a dense tensor: call .to_dense() first"}));
    std::string message = concat({"torch refused to show the memory of this ", type_name(object)});
    if (what != nullptr && *what != '\0') message += concat({": ", what});
    return import.fail(ErrorCode::not_values, message);
}

ISTHMUS_COLD inline bool explain_torch_dtype(Import& import) {
    Ref dtype(PyObject_GetAttrString(import.object, "dtype"));
    Ref text(dtype ? PyObject_Str(dtype.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    const std::string name = utf8 != nullptr ? utf8 : "unknown";
    PyErr_Clear();
    if (name.find("torch.q") == 0)
        return import.fail(
            ErrorCode::not_values,
            concat({"dtype is ", name, ", whose bytes are not its values; call .dequantize() or .int_repr() first"}));
    return import.fail(ErrorCode::bad_dtype,
                       concat({"dtype ", name, " has no counterpart in DLPack; call .view(torch.uint8) for the bytes"}));
}

/// What autograd has to say: a leaf that requires grad must not be written while grad mode is on; reading is always allowed.
ISTHMUS_COLD inline bool check_grad(Import& import, const TorchShims& torch, void* handle, Flags& flags) {
    bool failed = false;
    const bool recording = torch.grad_mode_is_enabled();
    if (!recording) return true;
    if (!import.options.require_writable) {
        flags |= flag::read_only;
        return true;
    }
    const bool leaf = torch.is_leaf != nullptr ? torch.is_leaf(handle) : ask_python(import.object, "is_leaf", false, failed);
    if (failed) return import.fail_with_exception(ErrorCode::producer_failed, "is_leaf");
    if (!leaf) return true;
    return import.fail(ErrorCode::requires_grad, torch_words::leaf);
}

/// Tells autograd of a write to come, as an in-place operation would.
ISTHMUS_COLD inline bool announce_write(Import& import, const TorchShims& torch, void* handle) {
    try {
        if (torch.bump_version != nullptr) {
            torch.bump_version(handle);
            return true;
        }
    } catch (const std::exception& refused) {
        std::string text = refused.what();
        return import.fail(ErrorCode::requires_grad,
                           concat({"torch refuses a write to this tensor: ", text.substr(0, text.find('\n'))}));
    }
    bool failed = false;
    if (is_closed_inference_tensor(import.object, failed)) return import.fail(ErrorCode::requires_grad, torch_words::inference);
    Ref module(failed ? nullptr : PyImport_ImportModule("torch.autograd.graph"));
    Ref done(module ? PyObject_CallMethod(module.get(), "increment_version", "O", import.object) : nullptr);
    if (!done) return import.fail_with_exception(ErrorCode::requires_grad, "torch.autograd.graph.increment_version()");
    return true;
}

/// The bits that make the bytes something else than the values, and what autograd has to say. Only a real floating tensor can
/// carry the negative bit, only a complex one the conjugate bit.
ISTHMUS_ALWAYS_INLINE bool check_torch_values(Import& import, const TorchShims& torch, void* handle, int code, Flags& flags) {
    bool failed = false;
    const bool complex = code == kDLComplex;
    auto* asked = complex ? torch.is_conj : torch.is_neg;
    const bool lazy = ISTHMUS_LIKELY(asked != nullptr)
                          ? asked(handle)
                          : ask_python(import.object, complex ? "is_conj" : "is_neg", true, failed);
    if (ISTHMUS_UNLIKELY(lazy))
        return import.fail(ErrorCode::not_values, complex ? torch_words::conjugate : torch_words::negative);
    if (ISTHMUS_UNLIKELY(complex) &&
        (torch.is_neg != nullptr ? torch.is_neg(handle) : ask_python(import.object, "is_neg", true, failed)))
        return import.fail(ErrorCode::not_values, torch_words::negative);
    bool grad = false;
    if (!import.options.allow_grad) {
        void* impl = *static_cast<void**>(handle);  // an at::Tensor is one pointer to its TensorImpl
        grad = torch.requires_grad != nullptr ? torch.requires_grad(impl)
                                              : ask_python(import.object, "requires_grad", false, failed);
    }
    if (ISTHMUS_UNLIKELY(failed))
        return import.fail_with_exception(ErrorCode::producer_failed, concat({"asking this ", type_name(import.object)}));
    return ISTHMUS_LIKELY(!grad) || check_grad(import, torch, handle, flags);
}

/// A descriptor of torch's own that does not hold: a tensor without memory, most likely.
ISTHMUS_COLD inline bool explain_torch_unsound(Import& import, Flags flags) {
    Error error = explain_unsound(import.out.dl(), flags, import.options.argument);
    if (error.code() != ErrorCode::null_data) return import.fail(std::move(error));
    return import.fail(ErrorCode::null_data,
                       concat({"data is NULL with elements: this ", type_name(import.object),
                               " (a fake, zero or wrapper tensor) has no memory of its own; wanted a materialised tensor"}));
}

ISTHMUS_STATE TorchShims torch_shims{};

/// Runs what gives up a tensor of torch. libtorch takes the GIL for the last reference to a tensor that Python has seen, which
/// would end a thread that comes while the interpreter ends: such a tensor is left to the end of the process. Before and
/// after an interpreter's life libtorch does not touch Python.
template <class F>
void drop_torch(F&& give_up) {
    if (ISTHMUS_LIKELY(have_gil()) || Py_IsInitialized() == 0) return give_up();
    if (DoorPass pass; pass) give_up();
}
inline void drop_torch_handle(void* handle) {
    drop_torch([handle] { torch_shims.delete_handle(handle); });
}

/// For a handle that ends within the call that took it, the GIL held.
inline void drop_torch_handle_now(void* handle) { torch_shims.delete_handle(handle); }

/// The torch.Tensor of a handle, a new reference, or NULL. The handle may come from another extension, by way of an
/// isthmus.Tensor, before this one has met a tensor of torch.
inline PyObject* object_of_torch_handle(void* handle) {
    if (ISTHMUS_UNLIKELY(torch_shims.to_pyobject == nullptr) && !torch_shims.load()) return nullptr;
    void* object = nullptr;
    return torch_shims.to_pyobject(handle, nullptr, &object) == 0 ? static_cast<PyObject*>(object) : nullptr;
}

/// What `Block::owner` begins with where the tensor came from an at::Tensor (isthmus/torch.h): any extension may ask it for the
/// object, also one that knows nothing of libtorch. Part of the shared ABI; the at::Tensor follows.
struct AtTensorOwner {
    PyObject* (*object)(AtTensorOwner*) noexcept;  ///< a new reference, or NULL without an exception
};

/// The torch.Tensor that this block was made from, a new reference; NULL when it was made from something else.
inline PyObject* torch_object_of(const Block* block) {
    if (block->origin == Origin::torch_handle) return object_of_torch_handle(block->owner);
    if (block->origin != Origin::at_tensor) return nullptr;
    auto* owner = static_cast<AtTensorOwner*>(block->owner);
    return owner->object(owner);
}

ISTHMUS_COLD inline bool explain_torch_handle(Import& import) {
    return import.fail(ErrorCode::not_a_tensor,
                       concat({"torch does not take this ", type_name(import.object), " for a tensor: ", torch_shims.what()}));
}

/// A torch.Tensor by its handle: owns the object, or the TensorImpl that Python has, so the way back is the same object.
/// `torch` is what TorchShims::load() found. Returns false with `import.error` filled, or true.
/// `known_class`: the object's type is derived from torch.Tensor as libtorch knows it.
/// `handled` becomes false where this protocol does not apply (another device than CPU or CUDA) and the next should be tried.
ISTHMUS_ALWAYS_INLINE bool import_torch(Import& import, TorchShims& torch, bool known_class, bool& handled) {
    void* handle = nullptr;
    handled = true;
    if (ISTHMUS_UNLIKELY(known_class && torch.inside == 0) && !torch.find_inside(import.object))
        return explain_torch_handle(import);
    if (ISTHMUS_LIKELY(known_class && torch.inside > 0)) {
        handle = reinterpret_cast<char*>(import.object) + torch.inside;
        // A second handle would make libtorch take the GIL and count the object up; we have the one and can do the other.
        if (import.owning) import.out.hold_object(import.object);
    } else {
        if (ISTHMUS_UNLIKELY(torch.from_pyobject(import.object, &handle) != 0)) return explain_torch_handle(import);
        import.out.hold(handle, import.owning ? drop_torch_handle : drop_torch_handle_now, Origin::torch_handle);
    }

    std::int32_t layout = 0, dtype = 0, device_type = 0, device_index = 0;
    std::int64_t ndim = 0;
    DLTensor& t = import.out.dl();
    if (ISTHMUS_UNLIKELY(torch.get_layout(handle, &layout) != 0 || layout != torch.layout_strided ||
                         torch.get_device_type(handle, &device_type) != 0 || device_type == torch.device_meta))
        return explain_torch_layout(import, nullptr);
    if (ISTHMUS_LIKELY(device_type == torch.device_cpu)) {
        t.device = DLDevice{kDLCPU, 0};
    } else if (device_type == torch.device_cuda && !import.options.has_stream()) {
        torch.get_device_index(handle, &device_index);
        t.device = DLDevice{static_cast<DLDeviceType>(torch.cuda_is), device_index};
    } else {
        import.out.reset();
        return handled = false;
    }
    torch.get_dtype(handle, &dtype);
    if (ISTHMUS_UNLIKELY(static_cast<std::uint32_t>(dtype) >= TorchShims::dtype_slots || torch.dtypes[dtype].bits == 0))
        return explain_torch_dtype(import);
    t.dtype = torch.dtypes[dtype];

    Flags flags = 0;
    if (t.dtype.code >=
        kDLFloat) {  // integers and bool carry neither lazy bits nor gradients; bool's code is above, and answers no
        if (ISTHMUS_UNLIKELY(!check_torch_values(import, torch, handle, t.dtype.code, flags))) return false;
    }
    if (ISTHMUS_UNLIKELY(torch.get_dim(handle, &ndim) != 0 || torch.get_sizes(handle, &t.shape) != 0 ||
                         torch.get_strides(handle, &t.strides) != 0))
        return explain_torch_layout(import, torch.what());
    t.ndim = static_cast<std::int32_t>(ndim);
    // Copy-on-write storage must be made its own before it may be written; reading alone leaves it shared.
    const int status = (flags & flag::read_only) ? torch.get_const_data_ptr(handle, const_cast<const void**>(&t.data))
                                                 : torch.get_mutable_data_ptr(handle, &t.data);
    if (ISTHMUS_UNLIKELY(status != 0)) return explain_torch_layout(import, torch.what());
    t.byte_offset = 0;
    // Sizes, strides, dtype and device are torch's own, checked by it against the storage; what it does not promise is an
    // aligned address, or any.
    const auto address = reinterpret_cast<std::uintptr_t>(t.data);
    const bool plain =
        address != 0 && (address & static_cast<std::uintptr_t>(DType(t.dtype).itemsize() - 1)) == 0 && t.ndim <= max_ndim;
    if (ISTHMUS_UNLIKELY(!plain) && !is_sound(t, flags)) return explain_torch_unsound(import, flags);
    if (ISTHMUS_UNLIKELY(import.options.require_writable) && !announce_write(import, torch, handle)) return false;
    return import.accept_sound(flags);
}

}  // namespace detail

ISTHMUS_END
