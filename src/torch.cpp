// isthmus::torch: at::Tensor, torch.Tensor and isthmus::Tensor, compiled with the headers of the linked torch.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/torch.h>  // Python.h must come before any standard header

#include "bridge/framework/torch/dtypes.h"
#include "bridge/framework/torch/rules.h"
#include "bridge/framework/torch/shims.h"
#include "bridge/runtime/session.h"
#include "core/managed_tensor.h"
#include "core/validate.h"

#include <isthmus/torch/link.h>

#include <c10/core/GradMode.h>

// As torch/csrc/autograd/variable.h declares them, which brings all of autograd as well.
namespace torch::autograd {
struct DifferentiableViewMeta;
TORCH_API void handle_view_on_rebase(DifferentiableViewMeta* view, bool indirect);
}  // namespace torch::autograd

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_STATE PerSession<LinkedTorch> linked_torch;

struct SessionLink {
    static const LinkedTorch& known() noexcept { return *linked_torch; }
    static bool begin() { return start_session(); }
    static void keep(const LinkedTorch& found) { (void)linked_torch.keep(found); }
    static PyObject* import_torch() { return detail::import_torch("torch"); }
    static Error failed(ErrorCode code, const char* argument, Message what) {
        return error_from_exception(code, argument, what);
    }
    static Piece name_of(PyObject* object) { return type_name(object); }
};
using Link = TorchLink<SessionLink>;

}  // namespace detail

Result<const at::Tensor*> borrow_py_torch(PyObject* object, const char* argument) noexcept {
    return detail::Link::borrow(object, argument);
}
Result<at::Tensor> from_py_torch(PyObject* object, const char* argument, Undefined undefined) noexcept {
    return detail::Link::from_py(object, argument, undefined);
}
Result<PyObject*> to_py(const at::Tensor& tensor, Undefined undefined) noexcept {
    return detail::Link::to_py(tensor, undefined);
}

namespace detail {

static_assert(static_cast<int>(at::kBool) == 11 && static_cast<int>(at::ScalarType::BFloat16) == 15 &&
                  static_cast<int>(at::ScalarType::Float8_e5m2) == 23 && static_cast<int>(at::ScalarType::UInt64) == 29,
              "isthmus: at::ScalarType has other numbers than isthmus/python/framework/torch/dtypes.h");

/// The owner of a block that was made from an at::Tensor. The storage is held beside it, since a tensor may exchange
/// its own.
struct AtTensorOwner {
    at::Tensor tensor;
    c10::Storage storage = tensor.storage();

    static void release(void* self) {
        auto* owner = static_cast<AtTensorOwner*>(self);
        if (ISTHMUS_LIKELY(interpreter_access() != InterpreterAccess::another))
            return drop_torch([](void* held) { static_cast<AtTensorOwner*>(held)->~AtTensorOwner(); }, self);
        // The block ends now, the tensor on another thread.
        if (auto* moved = new (std::nothrow) AtTensorOwner(std::move(*owner))) {
            owner->~AtTensorOwner();
            drop_torch([](void* held) { delete static_cast<AtTensorOwner*>(held); }, moved);
        }
    }
    /// The torch.Tensor, a new reference; NULL without an exception if it cannot be made.
    static void* array(void* self) noexcept {
        auto object = to_py(static_cast<AtTensorOwner*>(self)->tensor);
        return object ? *object : nullptr;
    }
    static const void* native(void* self) noexcept { return &static_cast<AtTensorOwner*>(self)->tensor; }
};
inline constexpr OwnerOps at_tensor_ops{.framework = static_cast<std::uint32_t>(Framework::torch),
                                        .release = AtTensorOwner::release,
                                        .array = AtTensorOwner::array,
                                        .native = AtTensorOwner::native,
                                        .producer = "torch.Tensor"};

/// The questions of torch's rules, answered by the at::Tensor.
struct AskAtTensor {
    const at::Tensor& tensor;

    LazyBit lazy_bit() const {
        constexpr c10::DispatchKeySet lazy({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
        if (ISTHMUS_LIKELY(!tensor.key_set().has_any(lazy))) return LazyBit::none;
        return tensor.is_conj() ? LazyBit::conjugate : LazyBit::negative;
    }
    bool may_be_watched() const { return tensor.unsafeGetTensorImpl()->autograd_meta() != nullptr; }
    bool is_dual() const { return tensor._fw_grad(0).defined(); }
    bool requires_grad() const { return tensor.requires_grad(); }
    bool is_recording() const { return at::GradMode::is_enabled(); }
    bool is_transformed() const { return false; }  // a tensor of a transform has no storage, and was refused for that
    /// As torch/csrc/autograd/VariableTypeUtils.h has it (check_inplace).
    const char* in_place_refusal() const {
        if (tensor.is_leaf()) return torch_refusal::leaf;
        if (!tensor.is_view()) return nullptr;
        if (tensor._base().is_leaf()) return torch_refusal::view_of_leaf;
        try {  // whose metadata is that of a view, then
            auto* meta = tensor.unsafeGetTensorImpl()->autograd_meta();
            torch::autograd::handle_view_on_rebase(reinterpret_cast<torch::autograd::DifferentiableViewMeta*>(meta),
                                                   false);
            return nullptr;
        } catch (const c10::Error&) {
            return torch_refusal::fixed_view;
        }
    }
};

ISTHMUS_COLD inline Error explain_at_layout(const at::Tensor& tensor, const char* argument) {
    const auto refuse = [&](Message text) { return make_error(ErrorCode::not_values, argument, text); };
    if (tensor.is_nested()) return refuse(torch_refusal::nested);
    if (tensor.is_meta()) return refuse(torch_refusal::meta);
    if (tensor.is_mkldnn()) return refuse(torch_refusal::mkldnn);
    if (tensor.layout() != at::kStrided) return refuse(torch_refusal::sparse("not torch.strided (sparse)"));
    return refuse(torch_refusal::quantised(c10::toString(tensor.scalar_type())));
}

inline Result<DLDevice> device_of(const at::Tensor& tensor, const char* argument) {
    if (ISTHMUS_LIKELY(tensor.is_cpu())) return DLDevice{kDLCPU, 0};
    if (tensor.is_cuda()) return DLDevice{torch_gpu_type(), tensor.device().index()};
    return make_error(ErrorCode::bad_device, argument, {"device is ", tensor.device().str(), "; expected cpu or cuda"});
}

/// As an in-place operation would; torch may throw, and `block` is free then.
inline void bump_at_version(const at::Tensor& tensor, Block* block) {
    try {
        tensor.unsafeGetTensorImpl()->bump_version();
    } catch (...) {
        std::free(block);
        throw;
    }
}

inline Result<Tensor> block_from_torch(at::Tensor&& tensor, const ImportOptions& options) {
    const char* argument = options.argument;
    if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_nested() || tensor.is_meta())
        return explain_at_layout(tensor, argument);
    AskAtTensor ask{tensor};
    const TorchVerdict verdict = check_torch_rules(ask, options);
    if (ISTHMUS_UNLIKELY(verdict.refusal != nullptr)) return make_error(verdict.code, argument, verdict.refusal);
    const DType dtype = torch_dtype_table.dtype_of(static_cast<int>(tensor.scalar_type()));
    if (dtype.bits() == 0)
        return make_error(ErrorCode::bad_dtype, argument,
                          torch_refusal::unknown_dtype(c10::toString(tensor.scalar_type())));
    const Result<DLDevice> device = device_of(tensor, argument);
    if (!device) return device.error();
    const Flags flags = verdict.flags();
    DLTensor t{};
    t.device = *device;
    t.ndim = static_cast<std::int32_t>(tensor.dim());
    t.shape = const_cast<std::int64_t*>(tensor.sizes().data());
    t.strides = const_cast<std::int64_t*>(tensor.strides().data());
    t.dtype = dtype;
    // Copy-on-write storage must be made its own before it may be written; reading alone leaves it shared.
    t.data = (flags & flag::read_only) ? const_cast<void*>(tensor.const_data_ptr()) : tensor.mutable_data_ptr();
    const Flags known = flags & flag::dlpack_known;
    if (!is_sound(t, known)) return explain_unsound(t, known, argument);
    Block* block = allocate_block(t.ndim, sizeof(AtTensorOwner));
    if (block == nullptr) return Error(ErrorCode::out_of_memory, "no memory for a tensor handle");
    if (options.require_writable && options.announce) bump_at_version(tensor, block);
    tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->set_resizable(false);  // as x.numpy() does
    describe(block, t, flags);
    block->owner = ::new (block->dims() + 2 * t.ndim) AtTensorOwner{std::move(tensor)};
    block->ops = &at_tensor_ops;
    if (ISTHMUS_UNLIKELY(has_streams(t.device.device_type)))
        if (const std::int64_t stream = torch_stream_by_shim(t.device); stream != no_stream) set_stream(block, stream);
    return Tensor::steal(announce(block));
}

}  // namespace detail

Result<Tensor> try_from_torch(at::Tensor tensor, const ImportOptions& options) noexcept {
    return detail::Link::try_from(tensor, options,
                                  [&] { return detail::block_from_torch(std::move(tensor), options); });
}
namespace detail {

/// The at::Tensor of an object that a block holds; NULL if it is not one, or torch was never met here and the GIL is
/// not held.
inline const at::Tensor* at_tensor_of_source(PyObject* source) noexcept {
    if (!SessionLink::known().ready() &&
        (Py_IsInitialized() == 0 || !have_gil() || THPVariableClass == nullptr || !Link::start(false)))
        return nullptr;
    if (!SessionLink::known().is_tensor(Py_TYPE(source))) return nullptr;
    const at::Tensor& tensor = SessionLink::known().tensor_of(source);
    return tensor.defined() ? &tensor : nullptr;
}

/// The at::Tensor that this block was made from; NULL if it was made from something else, or that cannot be determined
/// now.
inline const at::Tensor* original_at_tensor(const Block* block) noexcept {
    const OwnerOps& ops = *block->ops;
    if (ops.native != nullptr && ops.framework == static_cast<std::uint32_t>(Framework::torch))
        return static_cast<const at::Tensor*>(ops.native(block->owner));
    auto* source = ops.array != nullptr ? static_cast<PyObject*>(source_of(block)) : nullptr;
    return source != nullptr ? at_tensor_of_source(source) : nullptr;
}

/// Has the producer order one of torch's streams after its own, with the GIL.
inline Result<void> ask_for_libtorch(const Block* block, std::int64_t after) {
    if (order_on_device(block, after)) return {};
    return fail_to_order();
}

/// Makes torch's current stream of this thread wait for the work on a block's memory, with or without the GIL.
ISTHMUS_NOINLINE inline Result<void> order_for_libtorch(const Block* block) {
    const Device device = block->dl.device;
    const std::int64_t current = torch_stream_by_shim(device),
                       after = current == no_stream ? legacy_stream(device) : current;
    if (!(block->flags & producer_flag)) {
        if (order_streams(device, stream_of(block), after)) return {};
        return explain_order(block, after);
    }
    const InterpreterGuard guard;
    const InterpreterAccess way = guard ? interpreter_access() : InterpreterAccess::another;
    if (way == InterpreterAccess::another)
        return Error(ErrorCode::bad_thread,
                     "the interpreter of the producer, which is asked for its stream, has ended or is not "
                     "the one that this thread runs");
    return surviving_exit([&]() -> Result<void> {
        if (way == InterpreterAccess::here) return ask_for_libtorch(block, after);
        const PyGILState_STATE state = PyGILState_Ensure();
        Result<void> ordered = ask_for_libtorch(block, after);
        PyGILState_Release(state);
        return ordered;
    });
}

inline Result<at::Tensor> block_to_at_tensor(Block* block, const ExportOptions& allowed) {
    if (ISTHMUS_UNLIKELY(has_streams(block->dl.device.device_type)))
        if (auto ordered = order_for_libtorch(block); !ordered) return std::move(ordered).error();
    if (const at::Tensor* original = original_at_tensor(block)) return at::Tensor(*original);
    if (ISTHMUS_UNLIKELY(block->flags & flag::read_only) && !allowed.allow_read_only_loss)
        return Error(
            ErrorCode::read_only,
            "the memory is read-only, and torch would let it be written; copy it first, or say allow_read_only_loss");
    const DLTensor& t = block->dl;
    const int number = torch_dtype_table.number_of(t.dtype);
    const bool known = number >= 0 && !((block->flags & flag::padded) && DType(t.dtype).is_subbyte());
    if (ISTHMUS_UNLIKELY(!known || layout::has_negative_stride(t))) return explain_torch_export(t, known, "");
    const auto dims = static_cast<std::size_t>(t.ndim);
    auto maker = at::for_blob(exported_data(t), {t.shape, dims});
    at::TensorOptions options(static_cast<at::ScalarType>(number));
    // torch takes its time over strides and devices, so they are passed only if it would not assume the same.
    if (!layout::is_contiguous(t.shape, t.strides, t.ndim)) maker.strides(at::IntArrayRef{t.strides, dims});
    if (ISTHMUS_UNLIKELY(!Device(t.device).is_host())) {
        if (t.device.device_type != torch_gpu_type() && t.device.device_type != kDLCUDAManaged)
            return make_error(ErrorCode::bad_device, {"device is ", Device(t.device), "; libtorch takes cpu and ",
                                                      Device(torch_gpu_type(), 0).type_name()});
        const at::Device device(at::kCUDA, static_cast<c10::DeviceIndex>(t.device.device_id));
        options = options.device(device);
        maker.target_device(device);
    }
    retain(block);
    // From here on the maker calls the deleter, also when it throws.
    return maker.context(block, [](void* held) { drop(static_cast<Block*>(held)); }).options(options).make_tensor();
}

}  // namespace detail

Result<at::Tensor> to_torch(const Tensor& tensor, const ExportOptions& options) noexcept {
    return detail::Link::to_at(tensor, [&] { return detail::block_to_at_tensor(tensor.block(), options); });
}

ISTHMUS_END
