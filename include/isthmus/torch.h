// Isthmus: at::Tensor, torch.Tensor and isthmus::Tensor, each one pointer from the others. Needs libtorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define ISTHMUS_WITH_TORCH 1  // <isthmus/nanobind.h> and <isthmus/pybind11.h> then take at::Tensor

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <isthmus/python/runtime/life.h>
#include <isthmus/python/framework/torch/import.h>

// The least of libtorch that does the job; docs/torch.md has what each header costs to compile.
#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/Export.h>
#include <torch/version.h>

// As torch/csrc/autograd/python_variable.h declares them. That header brings pybind11 and the whole of autograd.
TORCH_PYTHON_API extern PyObject* THPVariableClass;
TORCH_PYTHON_API extern PyObject* ParameterClass;
TORCH_PYTHON_API PyObject* THPVariable_Wrap(const at::TensorBase& var);

ISTHMUS_BEGIN

/// What becomes of an at::Tensor that holds nothing, whose counterpart in Python is None.
enum class Undefined : std::uint8_t {
    error,  ///< it is refused
    none,   ///< at::Tensor() and None stand for each other
};

namespace detail {

/// The torch that this process runs, once it was found to be the one that this file was compiled for.
struct LinkedTorch {
    PyInterpreterState* interpreter;  ///< of the running one, or NULL: nothing is known yet
    PyTypeObject* tensor;             ///< torch.Tensor
    PyTypeObject* parameter;          ///< torch.nn.Parameter
    std::ptrdiff_t offset;            ///< of the at::Tensor inside a torch.Tensor's PyObject

    bool ready() const noexcept { return interpreter != nullptr && interpreter == local_runtime.interpreter; }
    bool is_tensor(PyTypeObject* type) const noexcept {
        return type == tensor || type == parameter || PyType_IsSubtype(type, tensor);
    }
    const at::Tensor& tensor_of(PyObject* object) const noexcept {
        return *reinterpret_cast<const at::Tensor*>(reinterpret_cast<const char*>(object) + offset);
    }

    Result<void> check_version();
    Result<void> find_offset();
    Result<void> start(bool import);
};
ISTHMUS_STATE LinkedTorch linked_torch{};

/// libtorch's exceptions have a C++ backtrace below the first line; a Python exception is kept as the cause.
ISTHMUS_COLD inline Error torch_error(ErrorCode code, const char* argument, const std::string& what, const char* text) {
    if (Py_IsInitialized() != 0 && have_gil() && PyErr_Occurred() != nullptr) return error_from_exception(code, argument, what);
    const std::string all = text;
    return make_error(code, argument, what + ": " + all.substr(0, all.find('\n')));
}

/// libtorch promises no layout across versions, so another one than that of the headers must not be touched.
ISTHMUS_COLD inline Result<void> LinkedTorch::check_version() {
    const std::string wanted = std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
    Ref torch(PyImport_ImportModule("torch"));
    Ref version(torch ? PyObject_GetAttrString(torch.get(), "__version__") : nullptr);
    Ref text(version ? PyObject_Str(version.get()) : nullptr);
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (utf8 == nullptr) return error_from_exception(ErrorCode::unavailable, nullptr, "importing torch");
    const std::string found = utf8;
    if (found.compare(0, wanted.size() + 1, wanted + ".") == 0) return {};
    return Error(ErrorCode::unavailable, "torch is " + found + ", and this extension was compiled for " + wanted +
                                             "; compile it against the installed one");
}

/// The struct behind a torch.Tensor is private, and has changed: up to 2.9 a flag stood before the at::Tensor. A tensor of our
/// own tells where it lies.
ISTHMUS_COLD inline Result<void> LinkedTorch::find_offset() {
    float element = 0;
    const at::Tensor probe = at::from_blob(&element, {1});
    Ref object(THPVariable_Wrap(probe));
    if (!object) return error_from_exception(ErrorCode::unavailable, nullptr, "making a torch.Tensor");
    const auto* bytes = reinterpret_cast<const char*>(object.get());
    for (const std::size_t at : {sizeof(PyObject), sizeof(PyObject) + sizeof(void*)}) {
        void* found = nullptr;
        std::memcpy(&found, bytes + at, sizeof found);
        if (found != probe.unsafeGetTensorImpl()) continue;
        offset = static_cast<std::ptrdiff_t>(at);
        return {};
    }
    return Error(ErrorCode::unavailable, "this torch keeps the at::Tensor of a torch.Tensor in an unknown place");
}

/// Makes the link ready; without `import`, only when somebody else has imported torch.
ISTHMUS_COLD inline Result<void> LinkedTorch::start(bool import) {
    if (!start_runtime()) return error_from_exception(ErrorCode::unavailable, nullptr, "starting isthmus");
    if (THPVariableClass == nullptr && !import) return Error(ErrorCode::unavailable, "torch is not imported");
    try {
        if (auto version = check_version(); !version) return version;
        if (THPVariableClass == nullptr)
            return Error(ErrorCode::unavailable,
                         "the torch that Python imports is not the libtorch that this extension is linked to");
        tensor = reinterpret_cast<PyTypeObject*>(THPVariableClass);
        parameter = ParameterClass != nullptr ? reinterpret_cast<PyTypeObject*>(ParameterClass) : tensor;
        if (auto found = find_offset(); !found) return found;
    } catch (const std::exception& thrown) {
        return torch_error(ErrorCode::unavailable, nullptr, "torch cannot be used", thrown.what());
    }
    interpreter = local_runtime.interpreter;
    return {};
}

ISTHMUS_COLD inline Error explain_not_torch(PyObject* object, const char* argument) {
    if (object == nullptr) return make_error(ErrorCode::not_a_tensor, argument, "expected torch.Tensor, got a NULL PyObject*");
    return make_error(ErrorCode::not_a_tensor, argument, "expected torch.Tensor, got " + type_name(object));
}

/// The slow half of borrow_py_torch(): the first call, a subclass, and what is refused.
ISTHMUS_COLD inline Result<const at::Tensor*> look_at_torch(PyObject* object, const char* argument) {
    if (object == nullptr) return explain_not_torch(object, argument);
    if (!linked_torch.ready()) {
        if (auto started = linked_torch.start(false); !started) {
            // Without torch in the process nothing is a torch.Tensor; the object is what is wrong.
            if (THPVariableClass == nullptr)
                return make_error(ErrorCode::not_a_tensor, argument,
                                  std::string(explain_not_torch(object, nullptr).what()) + " (torch is not imported)");
            return std::move(started).error();
        }
    }
    // By the type itself: isinstance() would believe a mock that claims to be a tensor, and its memory is something else.
    if (!linked_torch.is_tensor(Py_TYPE(object))) return explain_not_torch(object, argument);
    const at::Tensor& tensor = linked_torch.tensor_of(object);
    if (!tensor.defined())
        return make_error(ErrorCode::null_data, argument,
                          "this " + type_name(object) + " was cleared by the garbage collector");
    return &tensor;
}

}  // namespace detail

/// The at::Tensor inside a torch.Tensor (exact or a subclass): valid as long as the caller keeps the object. The GIL must be
/// held.
inline Result<const at::Tensor*> borrow_py_torch(PyObject* object, const char* argument = nullptr) noexcept {
    const detail::LinkedTorch& torch = detail::linked_torch;
    if (ISTHMUS_LIKELY(object != nullptr && torch.ready() &&
                       (Py_TYPE(object) == torch.tensor || Py_TYPE(object) == torch.parameter))) {
        const at::Tensor& tensor = torch.tensor_of(object);
        if (ISTHMUS_LIKELY(tensor.defined())) return &tensor;
    }
    return detail::surviving_exit([&] { return detail::look_at_torch(object, argument); });
}

/// The at::Tensor of a torch.Tensor: the same TensorImpl, so autograd, hooks and subclass are untouched. `argument` is its
/// name, for the error. The GIL must be held.
inline Result<at::Tensor> from_py_torch(PyObject* object, const char* argument = nullptr,
                                        Undefined undefined = Undefined::error) noexcept {
    if (ISTHMUS_UNLIKELY(object == Py_None) && undefined == Undefined::none) return at::Tensor();
    auto found = borrow_py_torch(object, argument);
    if (ISTHMUS_UNLIKELY(!found)) return std::move(found).error();
    return at::Tensor(**found);
}

/// The torch.Tensor of an at::Tensor: the object it has in Python already, else a new one; a new reference. The GIL must be
/// held.
inline Result<PyObject*> to_py(const at::Tensor& tensor, Undefined undefined = Undefined::error) noexcept {
    return detail::surviving_exit([&]() -> Result<PyObject*> {
        if (ISTHMUS_UNLIKELY(!tensor.defined())) {
            if (undefined == Undefined::error)
                return Error(ErrorCode::null_data, "the at::Tensor is undefined; wanted one with values, or Undefined::none");
            Py_INCREF(Py_None);
            return Py_None;
        }
        if (ISTHMUS_UNLIKELY(!detail::linked_torch.ready()))
            if (auto started = detail::linked_torch.start(true); !started) return std::move(started).error();
        try {
            if (PyObject* object = THPVariable_Wrap(tensor); ISTHMUS_LIKELY(object != nullptr)) return object;
        } catch (const std::exception& thrown) {
            return detail::torch_error(ErrorCode::consumer_failed, nullptr, "torch made no object of the tensor",
                                       thrown.what());
        }
        return detail::error_from_exception(ErrorCode::consumer_failed, nullptr, "making a torch.Tensor");
    });
}

namespace detail {

/// DLPack's dtypes by at::ScalarType, whose numbers are those of saved files and do not change; bits 0 where there is none.
inline constexpr struct TorchTypes {
    static constexpr int slots = 64;
    DLDataType dtypes[slots] = {};

    constexpr TorchTypes() {
        const DType types[] = {uint8,   int8,    int16,     int32,     int64,      float16,
                               float32, float64, complex32, complex64, complex128, boolean};
        for (int i = 0; i < 12; ++i) dtypes[i] = types[i];
        const DType small[] = {float8_e5m2, float8_e4m3fn, float8_e5m2fnuz, float8_e4m3fnuz, uint16, uint32, uint64};
        for (int i = 0; i < 7; ++i) dtypes[23 + i] = small[i];
        dtypes[15] = bfloat16;
        dtypes[44] = float8_e8m0fnu;
        dtypes[45] = DType(kDLFloat4_e2m1fn, 4, 2);
    }
    constexpr DType dtype(at::ScalarType type) const {
        const auto number = static_cast<unsigned>(type);
        return number < slots ? DType(dtypes[number]) : DType(DLDataType{0, 0, 0});
    }
    /// -1 where torch has none.
    constexpr int number(DType wanted) const {
        for (int i = 0; i <= 45; ++i)
            if (dtypes[i].code == wanted.code && dtypes[i].bits == wanted.bit_count && dtypes[i].lanes == wanted.lane_count &&
                wanted.bit_count != 0)
                return i;
        return -1;
    }
} torch_types{};
static_assert(static_cast<int>(at::ScalarType::Bool) == 11 && static_cast<int>(at::ScalarType::BFloat16) == 15 &&
              static_cast<int>(at::ScalarType::Float8_e5m2) == 23 && static_cast<int>(at::ScalarType::UInt64) == 29);

/// A ROCm build of torch calls its devices "cuda".
inline DLDeviceType torch_gpu() noexcept {
    static const bool rocm = dlopen("libtorch_hip.so", RTLD_NOLOAD | RTLD_LAZY) != nullptr;
    return rocm ? kDLROCM : kDLCUDA;
}

/// The owner of a block that was made from an at::Tensor.
struct AtTensorHolder : AtTensorOwner {
    at::Tensor tensor;

    explicit AtTensorHolder(at::Tensor&& held) : AtTensorOwner{make_object}, tensor(std::move(held)) {}
    static PyObject* make_object(AtTensorOwner* self) noexcept {
        auto object = to_py(static_cast<AtTensorHolder*>(self)->tensor);
        return object ? *object : nullptr;
    }
    static void release(void* self) {
        drop_torch([self] { static_cast<AtTensorHolder*>(self)->~AtTensorHolder(); });
    }
};

ISTHMUS_COLD inline Error explain_at_tensor(const at::Tensor& tensor, const char* argument) {
    const auto refuse = [&](const std::string& text) { return make_error(ErrorCode::not_values, argument, text); };
    if (tensor.is_nested()) return refuse(torch_words::nested);
    if (tensor.is_meta()) return refuse(torch_words::meta);
    if (tensor.is_mkldnn()) return refuse(torch_words::mkldnn);
    if (tensor.layout() != at::kStrided)
        return refuse("layout is not torch.strided (sparse); wanted a dense tensor: call .to_dense() first");
    if (tensor.is_quantized())
        return refuse("a quantised tensor's bytes are not its values; call .dequantize() or .int_repr() first");
    if (tensor.is_conj()) return refuse(torch_words::conjugate);
    return refuse(torch_words::negative);
}

/// What autograd has to say of this use: true to go on, with read_only set where only reading is allowed.
inline Result<void> check_at_grad(const at::Tensor& tensor, const ImportOptions& options, Flags& flags) {
    if (options.allow_grad || !tensor.requires_grad() || !at::GradMode::is_enabled()) return {};
    if (!options.require_writable) {
        flags |= flag::read_only;
        return {};
    }
    if (tensor.is_leaf()) return make_error(ErrorCode::requires_grad, options.argument, torch_words::leaf);
    return {};
}

inline Result<Tensor> block_from_torch(at::Tensor&& tensor, const ImportOptions& options) {
    const char* argument = options.argument;
    if (!tensor.defined())
        return make_error(ErrorCode::null_data, argument, "the at::Tensor is undefined; wanted one with values");
    if (options.copy != Copy::never || options.has_stream() || options.device.type != 0)
        return make_error(ErrorCode::bad_argument, argument,
                          "an at::Tensor copies and moves itself: call .clone() or .to() instead of copy, device or stream");
    constexpr c10::DispatchKeySet lazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
    if (tensor.key_set().has_any(lazy) || tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_nested() ||
        tensor.is_meta())
        return explain_at_tensor(tensor, argument);
    const DType dtype = torch_types.dtype(tensor.scalar_type());
    if (dtype.bits() == 0)
        return make_error(ErrorCode::bad_dtype, argument,
                          std::string("dtype ") + c10::toString(tensor.scalar_type()) +
                              " has no counterpart in DLPack; call .view(at::kByte) for the bytes");
    DLTensor t{};
    if (tensor.is_cpu())
        t.device = DLDevice{kDLCPU, 0};
    else if (tensor.is_cuda())
        t.device = DLDevice{torch_gpu(), tensor.device().index()};
    else
        return make_error(ErrorCode::bad_device, argument, "device is " + tensor.device().str() + "; wanted cpu or cuda");
    Flags flags = 0;
    if (auto allowed = check_at_grad(tensor, options, flags); !allowed) return std::move(allowed).error();
    t.ndim = static_cast<std::int32_t>(tensor.dim());
    t.shape = const_cast<std::int64_t*>(tensor.sizes().data());
    t.strides = const_cast<std::int64_t*>(tensor.strides().data());
    t.dtype = dtype;
    // Copy-on-write storage must be made its own before it may be written; reading alone leaves it shared.
    t.data = (flags & flag::read_only) ? const_cast<void*>(tensor.const_data_ptr()) : tensor.mutable_data_ptr();
    if (!is_sound(t, flags)) return explain_unsound(t, flags, argument);
    if (options.require_writable) tensor.unsafeGetTensorImpl()->bump_version();  // as an in-place operation would

    Block* block = allocate_block(t.ndim, sizeof(AtTensorHolder));
    if (block == nullptr) return Error(ErrorCode::out_of_memory, "no memory for a tensor handle");
    describe(block, t, flags);
    block->owner = ::new (block->dims() + 2 * t.ndim) AtTensorHolder(std::move(tensor));
    block->release = AtTensorHolder::release;
    block->origin = Origin::at_tensor;
    return Tensor::steal(announce(block));
}

}  // namespace detail

/// A tensor over an at::Tensor's own memory, which it keeps alive; no Python is needed. Refused where the bytes are not the
/// values. As for from_py(): with `require_writable` autograd is told of the write (the version counter moves, a leaf that
/// requires grad is refused); without it a tensor that requires grad is read-only while grad mode is on.
inline Result<Tensor> try_from_torch(at::Tensor tensor, const ImportOptions& options = {}) noexcept {
    try {
        return detail::block_from_torch(std::move(tensor), options);
    } catch (const std::exception& thrown) {
        return detail::torch_error(ErrorCode::not_values, options.argument, "torch refused to show the memory of this tensor",
                                   thrown.what());
    }
}
/// The same, which throws the Error.
inline Tensor from_torch(at::Tensor tensor, const ImportOptions& options = {}) {
    return try_from_torch(std::move(tensor), options).value();
}

namespace detail {

/// The at::Tensor of an object that a block holds; NULL where it is none, or torch was never met here and the GIL is not held.
inline const at::Tensor* at_tensor_of_source(PyObject* source) noexcept {
    if (!linked_torch.ready() &&
        (Py_IsInitialized() == 0 || !have_gil() || THPVariableClass == nullptr || !linked_torch.start(false)))
        return nullptr;
    if (!linked_torch.is_tensor(Py_TYPE(source))) return nullptr;
    const at::Tensor& tensor = linked_torch.tensor_of(source);
    return tensor.defined() ? &tensor : nullptr;
}

/// The at::Tensor that this block was made from; NULL when it was made from something else, or that cannot be told now.
inline const at::Tensor* original_at_tensor(const Block* block) noexcept {
    switch (block->origin) {
        case Origin::torch_handle:
            return static_cast<const at::Tensor*>(block->owner);
        case Origin::at_tensor:
            return &static_cast<const AtTensorHolder*>(static_cast<const AtTensorOwner*>(block->owner))->tensor;
        case Origin::python_object:
            return at_tensor_of_source(static_cast<PyObject*>(block->owner));
        case Origin::sourced:
            return at_tensor_of_source(static_cast<Sourced*>(block->owner)->source);
        default:
            return nullptr;
    }
}

ISTHMUS_COLD inline Error explain_to_torch(const Block* block) {
    const DLTensor& t = block->dl;
    const DType dtype = t.dtype;
    for (int i = 0; i < t.ndim; ++i)
        if (t.strides[i] < 0)
            return Error(ErrorCode::bad_layout,
                         "strides " + layout::to_string(t.strides, t.ndim) +
                             " are negative, which torch has not; copy it first (numpy: np.ascontiguousarray)");
    if (torch_types.number(dtype) < 0 || (dtype.is_subbyte() && (block->flags & flag::padded)))
        return Error(ErrorCode::bad_dtype, "dtype " + dtype.name() + " has no counterpart in torch; nearest is uint" +
                                               std::to_string(8 * dtype.itemsize()));
    return Error(ErrorCode::bad_device,
                 "device is " + Device(t.device).name() + "; libtorch takes cpu and " + Device(torch_gpu(), 0).type_name());
}

inline Result<at::Tensor> block_to_at_tensor(Block* block, const ExportOptions& allowed) {
    if (const at::Tensor* original = original_at_tensor(block)) return at::Tensor(*original);
    if (ISTHMUS_UNLIKELY(block->flags & flag::read_only) && !allowed.allow_read_only_loss)
        return Error(ErrorCode::read_only,
                     "the memory is read-only, and torch would let it be written; copy it first, or say allow_read_only_loss");
    const DLTensor& t = block->dl;
    const int number = torch_types.number(t.dtype);
    const bool host = Device(t.device).is_host();
    std::int64_t signs = 0;
    for (int i = 0; i < t.ndim; ++i) signs |= t.strides[i];
    if (ISTHMUS_UNLIKELY(number < 0 || signs < 0 || ((block->flags & flag::padded) && DType(t.dtype).is_subbyte())))
        return explain_to_torch(block);
    const auto dims = static_cast<std::size_t>(t.ndim);
    auto maker = at::for_blob(t.data, {t.shape, dims});
    at::TensorOptions options(static_cast<at::ScalarType>(number));
    // torch takes its time over strides and devices, so it is told of them only where it would not assume the same.
    if (!layout::is_contiguous(t.shape, t.strides, t.ndim)) maker.strides(at::IntArrayRef{t.strides, dims});
    if (ISTHMUS_UNLIKELY(!host)) {
        if (t.device.device_type != torch_gpu() && t.device.device_type != kDLCUDAManaged) return explain_to_torch(block);
        const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(t.device.device_id));
        options = options.device(device);
        maker.target_device(device);
    }
    retain(block);
    // From here on the maker calls the deleter, also when it throws.
    return maker.context(block, [](void* held) { drop(static_cast<Block*>(held)); }).options(options).make_tensor();
}

}  // namespace detail

/// An at::Tensor over the same memory, which keeps the owner alive: the very TensorImpl where the tensor came from torch and is
/// unchanged. No Python is needed. Read-only memory is refused unless `options` allows its loss.
inline Result<at::Tensor> to_torch(const Tensor& tensor, const ExportOptions& options = {}) noexcept {
    if (ISTHMUS_UNLIKELY(!tensor))
        return Error(ErrorCode::bad_argument, "argument 'tensor': it is empty (default-made or moved from)");
    return detail::surviving_exit([&]() -> Result<at::Tensor> {
        try {
            return detail::block_to_at_tensor(tensor.block(), options);
        } catch (const std::exception& thrown) {
            return detail::torch_error(ErrorCode::consumer_failed, nullptr, "torch did not take the tensor", thrown.what());
        }
    });
}

ISTHMUS_END
