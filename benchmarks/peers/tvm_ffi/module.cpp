// SPDX-License-Identifier: Apache-2.0
#include <tvm/ffi/container/tensor.h>
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
