// The functions of the reliability stories by tvm-ffi, which leaves dtype and device to the function.
// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/function.h>

#include <complex>
#include <optional>
#include <thread>
#include <utility>

namespace ffi = tvm::ffi;

static std::optional<ffi::Tensor>& kept() {
    static auto* tensor = new std::optional<ffi::Tensor>;
    return *tensor;
}

template <class T>
static const T& checked(const T& x) {
    const DLDataType dtype = x.dtype();
    if (dtype.code != kDLFloat || dtype.bits != 32 || dtype.lanes != 1) TVM_FFI_THROW(TypeError) << "expected float32";
    if (x.device().device_type != kDLCPU) TVM_FFI_THROW(ValueError) << "expected memory of the CPU";
    return x;
}

using Described = ffi::Tuple<int64_t, ffi::Shape>;

template <class T>
static float* elements(const T& x) {
    return reinterpret_cast<float*>(static_cast<char*>(checked(x).data_ptr()) + x.byte_offset());
}

template <class T>
static Described describe(const T& x) {
    const ffi::ShapeView shape = checked(x).shape();
    return Described(reinterpret_cast<int64_t>(elements(x)), ffi::Shape(shape.begin(), shape.end()));
}

static Described take(ffi::TensorView x) { return describe(x); }
static void write_first(ffi::TensorView x) { elements(x)[0] = 5; }
static void keep(ffi::Tensor x) { kept() = checked(x); }
static ffi::Tuple<Described, double> peek() {
    const double first = *elements(*kept());
    return ffi::Tuple<Described, double>(describe(*kept()), first);
}
static ffi::Tensor give() { return *kept(); }
static void drop() { kept().reset(); }
static void drop_on_thread() {
    std::thread([x = std::exchange(kept(), std::nullopt)]() mutable { x.reset(); }).detach();
}
static double imaginary(ffi::TensorView x) {
    const DLDataType dtype = x.dtype();
    if (dtype.code != kDLComplex || dtype.bits != 64) TVM_FFI_THROW(TypeError) << "expected complex64";
    return static_cast<const std::complex<float>*>(x.data_ptr())->imag();
}
static ffi::Tuple<int64_t, int64_t> dlpack_dtype(ffi::TensorView x) {
    return ffi::Tuple<int64_t, int64_t>(x.dtype().code, x.dtype().bits);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(take, take);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(write, write_first);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(keep, keep);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(peek, peek);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(give, give);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(drop, drop);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(drop_on_thread, drop_on_thread);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(imaginary, imaginary);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dlpack_dtype, dlpack_dtype);
