// The functions of the bridge, from_py, borrow_py, to_py, and what they take: Framework, options, Borrowed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <string_view>

#include <isthmus/core/tensor.h>
#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

/// The frameworks that have an export path (src/bridge/framework/facts.h lists the facts about each). The numbers
/// are part of the shared ABI: new ones go to the end.
enum class Framework : std::uint8_t {
    none,            ///< no framework
    tensor,          ///< isthmus.Tensor, which every framework takes
    capsule,         ///< a bare DLPack capsule, versioned
    capsule_legacy,  ///< the same in the layout before DLPack 1.0
    numpy,           ///< numpy.ndarray
    torch,           ///< torch.Tensor
    jax,             ///< jax.Array
    cupy,            ///< cupy.ndarray
    tensorflow,      ///< tensorflow.Tensor
    paddle,          ///< paddle.Tensor
    mlx,             ///< mlx.core.array: always a copy, which must be allowed
    pyarrow,         ///< pyarrow.Tensor
    warp,            ///< warp.array
    onnxruntime,     ///< onnxruntime.OrtValue
    tvm_ffi,         ///< tvm_ffi.Tensor
};

namespace detail {

/// Whether the number has a name in its enum, so that a table can tell that its last row is missing: the compilers
/// write
/// "(Framework)99" for one that has none.
template <auto value>
constexpr bool is_enumerator() {
    constexpr std::string_view said = __PRETTY_FUNCTION__, mark = "value = ";
    static_assert(said.find(mark) != std::string_view::npos);
    return said[said.find(mark) + mark.size()] != '(';
}
static_assert(is_enumerator<Framework::torch>() && !is_enumerator<static_cast<Framework>(255)>());

/// The array class of a framework, as a stub writes it; NULL if it has none: a capsule is of no class.
constexpr const char* array_class(Framework framework) noexcept {
    switch (framework) {
        case Framework::tensor:
            return "isthmus.Tensor";
        case Framework::numpy:
            return "numpy.ndarray";
        case Framework::torch:
            return "torch.Tensor";
        case Framework::jax:
            return "jax.Array";
        case Framework::cupy:
            return "cupy.ndarray";
        case Framework::tensorflow:
            return "tensorflow.Tensor";
        case Framework::paddle:
            return "paddle.Tensor";
        case Framework::mlx:
            return "mlx.core.array";
        case Framework::pyarrow:
            return "pyarrow.Tensor";
        case Framework::warp:
            return "warp.array";
        case Framework::onnxruntime:
            return "onnxruntime.capi.onnxruntime_pybind11_state.OrtValue";
        case Framework::tvm_ffi:
            return "tvm_ffi.Tensor";
        case Framework::none:
        case Framework::capsule:
        case Framework::capsule_legacy:
            break;
    }
    return nullptr;
}

}  // namespace detail

/// Raises `error` as the Python exception that fits: isthmus.Error and TypeError, ValueError or BufferError by its
/// kind, with `code` set and the producer's own exception as `__cause__`. A producer's KeyboardInterrupt and its like
/// pass unchanged. A thread without the GIL takes it for the call.
void set_python_error(const Error& error) noexcept;

/// "torch"
const char* framework_name(Framework framework) noexcept;
/// The framework called `name`; false when there is none.
bool parse_framework(std::string_view name, Framework& out) noexcept;

/// When the elements may be copied. A copy that nobody asked for is an error.
enum class Copy : std::uint8_t {
    never,          ///< share the memory, or fail
    if_needed,      ///< share if possible, else a writable copy: of memory that is not aligned, is read-only with
                    ///< require_writable, or that the producer had to copy
    always,         ///< a writable copy
    from_producer,  ///< share the memory, or take a copy that the producer had to make
};

/// How to import. The default shares the memory, accepts read-only memory (and says so), and waits for no stream.
struct ImportOptions {
    /// No stream is named.
    static constexpr std::int64_t no_stream = isthmus::no_stream;

    /// Refuse memory that must not be written. For PyTorch this also notifies autograd of the write: what torch refuses
    /// for an in-place operation (a leaf that requires grad, or a view of it, while grad mode is on) is refused, and
    /// the version counter is bumped, as by that operation.
    bool require_writable = false;
    /// Off: the importing code notifies autograd with announce_write(), once the write is certain.
    bool announce = true;
    /// Take a torch tensor that requires grad, or has a tangent, as if it did not.
    bool allow_grad = false;
    /// Refuse a torch tensor that requires grad while grad mode is on, or has a tangent: for a function that makes a
    /// new result of the elements, which would have no gradient. Typed arguments do so. Without it such a tensor may be
    /// read.
    bool refuse_grad = false;
    Copy copy = Copy::never;  ///< whether the elements may be copied
    /// The consumer's stream, by the numbers of the array API standard's `__dlpack__(stream=)`: the producer makes the
    /// data safe to use there, and the tensor is on that stream. Without one nothing is ordered: device data is as its
    /// producer's own current stream leaves it, which Tensor::stream() returns if it is known (docs/devices.md).
    std::int64_t stream = no_stream;
    /// The newest DLPack version to ask for.
    DLPackVersion max_version{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    /// Name of the argument, for the error text.
    const char* argument = nullptr;
    /// The requested device: DLPack's `dl_device`. The type 0 leaves the data in place. Moving it is a copy, so that
    /// Copy::never accepts it only if it is there already.
    Device device{0, 0};

    /// Whether a stream is named.
    bool has_stream() const noexcept { return stream != no_stream; }
};

/// The defaults of from_py() and borrow_py().
inline constexpr ImportOptions default_import{};

/// The permissions of the caller for an export.
struct ExportOptions {
    /// Hand read-only memory to a framework that would let it be written (torch, paddle, …).
    bool allow_read_only_loss = false;
    /// Let the framework copy if it cannot share: JAX without 64-byte alignment, MLX always.
    bool allow_copy = false;
};

/// The defaults of to_py(): no copy, and no loss of read-only.
inline constexpr ExportOptions default_export{};

namespace detail {

struct BorrowedBuilder;
template <class H>
class TensorSlot;
/// Moves a Py_buffer, whose sizes and strides may lie inside it.
void move_buffer(Py_buffer& to, const Py_buffer& from) noexcept;

}  // namespace detail

/// A tensor borrowed from a Python object for the length of a call, with Tensor's accessors and without any allocation.
/// It must not outlive the call: the caller's reference to the object is what keeps the memory. What the protocol
/// itself had to hold (a buffer, a handle, a managed tensor) is released by the destructor, which needs the GIL.
class Borrowed : public detail::Accessors<Borrowed> {
public:
    Borrowed() noexcept {}
    Borrowed(Borrowed&& other) noexcept { take(other); }
    Borrowed& operator=(Borrowed&& other) noexcept {
        if (this != &other) {
            reset();
            take(other);
        }
        return *this;
    }
    ~Borrowed() { reset(); }

    /// As Tensor::view; valid as long as this object.
    template <class T, int N, class... C>
    Result<View<T, N, C...>> view() const& {
        return detail::make_view<View<T, N, C...>>(dl_, flags_);
    }
    template <class T, int N, class... C>
    Result<View<T, N, C...>> view() const&& = delete;  // the view would outlive what was borrowed
    template <class V>
        requires detail::is_view<V>
    Result<V> view() const& {
        return detail::make_view<V>(dl_, flags_);
    }
    template <class V>
        requires detail::is_view<V>
    Result<V> view() const&& = delete;

    /// As Tensor::stream.
    std::int64_t stream() const noexcept { return (flags_ & detail::stream_flag) ? stream_.number : no_stream; }
    /// As Tensor::descriptor().
    const DLTensor& descriptor() const noexcept { return dl_; }
    /// As Tensor::flags().
    Flags flags() const noexcept { return flags_; }

private:
    friend struct detail::BorrowedBuilder;
    template <class>
    friend class detail::TensorSlot;
    friend struct detail::BackendAccess;

    void reset() noexcept {
        if (ops_ != nullptr) end();
    }
    void end() noexcept;
    void take(Borrowed& other) noexcept {
        dl_ = other.dl_;
        flags_ = other.flags_;
        if (flags_ & detail::ordering_flags) stream_ = other.stream_;
        owner_ = other.owner_;
        ops_ = std::exchange(other.ops_, nullptr);
        if (ops_ != nullptr && owner_ == nullptr) detail::move_buffer(buffer_, other.buffer_);
        const auto move_dims = [&](std::int64_t*& dims, const std::int64_t* theirs, std::int64_t* ours) {
            if (dims != theirs) return;
            for (int i = 0; i < dl_.ndim; ++i) ours[i] = theirs[i];
            dims = ours;
        };
        move_dims(dl_.shape, other.shape_, shape_);
        move_dims(dl_.strides, other.strides_, strides_);
    }

    DLTensor dl_;
    Flags flags_ = 0;
    /// NULL when there is nothing to release. Its functions get `owner_`, or the buffer when the owner is NULL.
    const detail::OwnerOps* ops_ = nullptr;
    void* owner_ = nullptr;
    // Left uninitialised: the protocols that need them write them, the others pay nothing.
    detail::StreamSource stream_;  // as Block::stream
    Py_buffer buffer_;
    std::int64_t shape_[max_ndim];
    std::int64_t strides_[max_ndim];
};

namespace detail {
/// A tensor that is not empty, borrowed for the lifetime of the Borrowed, which keeps it.
Borrowed lend(Tensor tensor) noexcept;
}  // namespace detail

/// Imports any array object as an owning handle, which may be stored and dropped on any thread, with or without the
/// GIL. The GIL must be held now. On failure the producer is as it was before.
Result<Tensor> from_py(PyObject* object, const ImportOptions& options = default_import) noexcept;

/// Borrows a tensor for the length of a call: shape, strides and address of `object`'s own memory, nothing allocated.
/// The GIL must be held, now and when the Borrowed ends; in between it may be released as long as the caller keeps
/// `object` alive.
Result<Borrowed> borrow_py(PyObject* object, const ImportOptions& options = default_import) noexcept;

/// For a caller that borrowed from `object`, looked at the tensor and does not want it: ends the Borrowed. A DLPack
/// capsule, which is taken once, is then whole again, as if nobody had asked. With or without the GIL.
void roll_back(PyObject* object, Borrowed& borrowed) noexcept;
/// The same for from_py(): the handle is empty afterwards. If it was shared since, the capsule stays consumed.
void roll_back(PyObject* object, Tensor& tensor) noexcept;
/// The former name of roll_back().
template <class T>
void give_back(PyObject* object, T& taken) noexcept {
    roll_back(object, taken);
}

/// For the tp_traverse of a type whose instances hold a Tensor: shows the collector the Python object that keeps the
/// tensor's memory, so that a cycle by way of it is found; the result is that of `visit`, or 0. A handle that shares
/// its memory with another one (a copy, a view, an export) shows nothing, since the other may be anybody's. tp_clear
/// drops the tensor: `self->tensor = {}`. O(1).
int traverse(const Tensor& tensor, visitproc visit, void* arg) noexcept;

/// Notifies autograd of a write to an object that was imported with `require_writable` and without `announce`: a torch
/// tensor's version counter moves. Nothing happens for an object of another framework. With or without the GIL, which
/// is taken. An error means that the framework refuses the write; `argument` is the argument's name, for its text.
Result<void> announce_write(PyObject* object, const char* argument = nullptr) noexcept;

/// Hands a tensor to Python as an array of `framework`: a new reference, over the same memory, with whatever is
/// cheapest there. A tensor that came from that framework and is unchanged is the same object again. The GIL must be
/// held. Refuses what the framework does not support, or would silently copy or make writable; `options` allows the
/// last two.
Result<PyObject*> to_py(const Tensor& tensor, Framework framework = Framework::tensor,
                        const ExportOptions& options = default_export) noexcept;

/// The same of a handle that is given away, and empty afterwards: a capsule takes its reference over, which nobody
/// counts.
Result<PyObject*> to_py(Tensor&& tensor, Framework framework = Framework::tensor,
                        const ExportOptions& options = default_export) noexcept;

/// The same, in the framework of `example`; an isthmus.Tensor when the example is of none.
Result<PyObject*> to_py_like(const Tensor& tensor, PyObject* example,
                             const ExportOptions& options = default_export) noexcept;

/// New memory for a result, not zeroed, in the framework of `example`: of torch's or CuPy's allocator and on its device
/// for their tensors, else of the library's, which NumPy, JAX and the others take over without a copy. to_py_like()
/// makes an array of the example's framework of it. `device`: another one than the example's. Throws Error. With or
/// without the GIL, which is taken.
Tensor empty_like(PyObject* example, const Shape& shape, DType dtype);
Tensor empty_like(PyObject* example, const Shape& shape, DType dtype, Device device);

ISTHMUS_END
