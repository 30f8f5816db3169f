// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

static const void* volatile sink;

TVM_FFI_DLL_EXPORT_TYPED_FUNC(borrow, [](ffi::TensorView x) { sink = x.data_ptr(); });
TVM_FFI_DLL_EXPORT_TYPED_FUNC(own, [](ffi::Tensor x) { sink = x.data_ptr(); });
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kernel, [](ffi::TensorView x, ffi::TensorView y, ffi::TensorView out) {
    sink = x.data_ptr();
    sink = y.data_ptr();
    sink = out.data_ptr();
});
TVM_FFI_DLL_EXPORT_TYPED_FUNC(round_trip, [](ffi::Tensor x) { return x; });
static ffi::Tensor add_floats(ffi::TensorView x, ffi::TensorView y) {
    const DLDataType dtype = x.dtype();
    if (dtype.code != kDLFloat || dtype.bits != 32 || x.ndim() != 1 || x.device().device_type != kDLCPU)
        TVM_FFI_THROW(TypeError) << "expected float32 of one dimension on the CPU";
    if (y.ndim() != 1 || y.size(0) != x.size(0)) TVM_FFI_THROW(ValueError) << "the sizes differ";
    ffi::Tensor sum = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), dtype, x.device());
    const auto *a = static_cast<const float*>(x.data_ptr()), *b = static_cast<const float*>(y.data_ptr());
    for (int64_t i = 0; i < x.size(0); ++i) static_cast<float*>(sum.data_ptr())[i] = a[i] + b[i];
    return sum;
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add_floats);
