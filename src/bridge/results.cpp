// New memory in the caller's framework, on its device, of its allocator: empty_like(), and an operator's results.
// SPDX-License-Identifier: Apache-2.0
#include "results.h"  // Python.h must come before any standard header

#include "dispatch/classify.h"

#include <isthmus/core/copy.h>

ISTHMUS_BEGIN

namespace detail {

TorchEmptyFunction find_torch_empty() noexcept {
    static const TorchEmptyFunction found = [] {
        TorchEmptyFunction function = nullptr;
        void* lib = find_library(ISTHMUS_LIBRARY("torch_cpu"));
        if (lib != nullptr) find_symbol(lib, "aoti_torch_empty_strided", function);
        return function;
    }();
    return found;
}

bool make_torch_handle(MadeResult& made, TorchShims::Handle& handle, DType dtype, Device device,
                       const SizesList& shape) {
    const TorchShims& torch = torch_shims;
    const TorchEmptyFunction empty = find_torch_empty();
    const int number = torch_dtype_table.number_of(dtype);
    if (empty == nullptr || number < 0) return false;
    made.describe(nullptr, device, dtype, shape);
    const std::int32_t type = device.is_host() ? torch.device_cpu : torch.device_cuda;
    if (empty(made.t.ndim, made.t.shape, made.t.strides, number, type, device.is_host() ? 0 : device.id, &handle) != 0)
        return false;
    if (torch.get_mutable_data_ptr(handle, &made.t.data) == 0) return true;
    torch.delete_handle(handle);
    return false;
}

namespace {

/// In NumPy's own memory. False if NumPy itself does not have the dtype, or with a Python exception set.
bool make_numpy_result(MadeResult& made, DType dtype, const SizesList& shape) {
    if (ISTHMUS_UNLIKELY(numpy_api->make == nullptr) && !load_numpy_api()) return false;
    const int number = numpy_type_number(dtype);
    if (number < 0) return false;
    PyObject* descr = Py_NewRef(numpy_api->dtypes[number]);
    const auto* sizes = reinterpret_cast<const Py_ssize_t*>(shape.data());
    made.object = Ref(numpy_api->make(numpy_api->array_type, descr, static_cast<int>(shape.size()), sizes, nullptr,
                                      nullptr, 0, nullptr));
    if (!made.object) return false;
    made.describe(reinterpret_cast<NumpyArray*>(made.object.get())->data, Device::cpu(), dtype, shape);
    return true;
}

bool make_torch_result(MadeResult& made, DType dtype, Device device, const SizesList& shape) {
    if (ISTHMUS_UNLIKELY(!torch_consumer->ready) && !load_torch_consumer()) return false;
    TorchShims::Handle handle = nullptr;
    if (!torch_has_shims() || !make_torch_handle(made, handle, dtype, device, shape)) return false;
    Result<PyObject*> object = wrap_torch_handle(handle);
    torch_shims.delete_handle(handle);
    if (object) made.object = Ref(*object);
    return object.has_value();
}

/// In CuPy's pool, on the device. False with a Python exception set, or if CuPy does not have the dtype.
ISTHMUS_COLD bool make_cupy_result(MadeResult& made, DType dtype, Device device, const SizesList& shape) {
    Ref module(PyImport_ImportModule("cupy"));
    Ref sizes(module ? tuple_of(shape.data(), static_cast<int>(shape.size())) : nullptr);
    Ref cuda(sizes ? PyObject_GetAttrString(module.get(), "cuda") : nullptr);
    Ref chosen(cuda ? PyObject_CallMethod(cuda.get(), "Device", "i", device.id) : nullptr);
    Ref entered(chosen ? PyObject_CallMethod(chosen.get(), "__enter__", nullptr) : nullptr);
    if (!entered) return false;
    const Ref name(unicode_of({dtype}));
    if (name) made.object = Ref(PyObject_CallMethod(module.get(), "empty", "OO", sizes.get(), name.get()));
    const PendingException pending;
    Ref left(PyObject_CallMethod(chosen.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!left && is_interrupted()) made.object = Ref();
    return static_cast<bool>(made.object);
}

Tensor make_host_tensor(DType dtype, const SizesList& shape) {
    return Tensor::empty(Shape(std::span<const std::int64_t>(shape.data(), shape.size())), dtype);
}

/// In the library's memory, which a framework takes over without a copy.
ISTHMUS_NOINLINE Result<void> make_own_result(MadeResult& made, Framework framework, DType dtype, Device device,
                                              const SizesList& shape) {
    if (!device.is_host())
        return make_error(ErrorCode::bad_device, {"a result of ", framework_name(framework), " on ", device,
                                                  " cannot be made here; bring it as out="});
    const Tensor tensor = make_host_tensor(dtype, shape);
    auto object = to_py(tensor, framework);
    if (!object) return object.error();
    made.object = Ref(*object);
    made.describe(tensor.data(), device, dtype, shape);
    return {};
}

/// torch and CuPy have their own allocators, and their tensor is returned unchanged; the others take over the
/// library's memory.
Result<Tensor> make_like(PyObject* example, const SizesList& shape, DType dtype, Device device) {
    const PendingException pending;
    const Framework framework = framework_of_example(example);
    const int ndim = static_cast<int>(shape.size());
    if (ndim > max_ndim)
        return make_error(ErrorCode::bad_layout, ErrorKind::value,
                          {"argument 'shape': ", ndim, " dimensions are more than ", max_ndim});
    (void)bytes_of_new(shape.data(), ndim, dtype, 0);
    MadeResult made;
    if (framework == Framework::cupy) {
        if (!make_cupy_result(made, dtype, device, shape))
            return error_from_exception(ErrorCode::consumer_failed, nullptr, "making an array of cupy");
    } else if (framework == Framework::torch || !device.is_host()) {
        if (auto result = make_result(made, framework, dtype, device, shape); !result) return std::move(result).error();
    } else {
        return make_host_tensor(dtype, shape);
    }
    return from_py(made.object.get());
}

}  // namespace

Result<void> make_result(MadeResult& made, Framework framework, DType dtype, Device device, const SizesList& shape) {
    if (ISTHMUS_LIKELY(framework == Framework::numpy && make_numpy_result(made, dtype, shape))) return {};
    if (framework == Framework::torch && make_torch_result(made, dtype, device, shape)) return {};
    if (PyErr_Occurred() != nullptr) return error_from_exception(ErrorCode::out_of_memory, nullptr, "making a result");
    return make_own_result(made, framework, dtype, device, shape);
}

/// On the example's own device if none is named. A binder may have released the GIL around the function that asks.
static Tensor make_like_anywhere(PyObject* example, const Shape& shape, DType dtype, const Device* device) {
    const SizesList sizes{std::span<const std::int64_t>(shape.data(), shape.size())};
    const auto make = [&](Device on) { return make_like(example, sizes, dtype, on.is_host() ? Device::cpu() : on); };
    auto made = with_gil(
        [&]() -> Result<Tensor> {
            try {
                if (device != nullptr) return make(*device);
                const Result<Borrowed> lives = borrow_py(example, {.allow_grad = true, .argument = "example"});
                if (!lives) return lives.error();
                return make(lives->device());
            } catch (const Error& error) {
                return error;
            } catch (const std::bad_alloc&) {
                return no_memory_error();
            }
        },
        []() -> Result<Tensor> { return explain_no_gil(nullptr, "memory for a result is made"); });
    return std::move(made).value();
}

}  // namespace detail

Tensor empty_like(PyObject* example, const Shape& shape, DType dtype, Device device) {
    return detail::make_like_anywhere(example, shape, dtype, &device);
}
Tensor empty_like(PyObject* example, const Shape& shape, DType dtype) {
    return detail::make_like_anywhere(example, shape, dtype, nullptr);
}

ISTHMUS_END
