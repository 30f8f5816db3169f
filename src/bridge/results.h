// New memory in the caller's framework, on its device, of its allocator: empty_like(), and an operator's results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export.h"  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include <isthmus/core/shape.h>

ISTHMUS_BEGIN

namespace detail {

/// An array of a framework, new, and its description, which lasts as long as the array. `dims` holds sizes and strides.
struct MadeResult {
    Ref object;
    DLTensor t;
    std::int64_t dims[2 * max_ndim];

    MadeResult() noexcept {}

    void describe(void* data, Device device, DType dtype, const SizesList& shape) noexcept {
        const int ndim = static_cast<int>(shape.size());
        t = DLTensor{data, device, ndim, dtype, dims, dims + ndim, 0};
        for (int i = 0; i < ndim; ++i) dims[i] = shape[static_cast<std::size_t>(i)];
        (void)layout::row_major(dims, ndim, dims + ndim);
    }
};

/// May throw Error if the memory cannot be had.
Result<void> make_result(MadeResult& made, Framework framework, DType dtype, Device device, const SizesList& shape);

/// aoti_torch_empty_strided (torch/csrc/inductor/aoti_torch/c/shim.h), in the libtorch that the process has loaded;
/// NULL if it has none.
using TorchEmptyFunction = int (*)(std::int64_t, const std::int64_t*, const std::int64_t*, std::int32_t, std::int32_t,
                                   std::int32_t, TorchShims::Handle*);
TorchEmptyFunction find_torch_empty() noexcept;
/// A tensor of torch's allocator; `handle` is the caller's to delete. False if torch did not make it.
bool make_torch_handle(MadeResult& made, TorchShims::Handle& handle, DType dtype, Device device,
                       const SizesList& shape);

}  // namespace detail

ISTHMUS_END
