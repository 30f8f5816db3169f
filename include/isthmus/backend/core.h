// The functions of <isthmus/isthmus.h> in a module of the stable ABI: each calls the backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(ISTHMUS_IMPLEMENTATION)
#include "ISTHMUS_BACKEND calls the backend's functions: no file defines ISTHMUS_IMPLEMENTATION beside it"
#endif

#include <isthmus/backend/call.h>
#include <isthmus/converted.h>
#include <isthmus/core/blob.h>
#include <isthmus/core/copy.h>
#include <isthmus/core/memory.h>
#include <isthmus/core/rearrange.h>
#include <isthmus/core/tensor.h>
#include <isthmus/core/view/for_each.h>
#include <isthmus/core/view/match.h>

ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_CORE)

ISTHMUS_BEGIN

namespace detail {

inline Atomic<const Observer*>& current_observer() noexcept { return *backend_table->observer; }

inline void stop_this_thread() noexcept {
    backend::stop_thread();
    ISTHMUS_UNREACHABLE();
}

inline Piece::Piece(DType dtype) noexcept : Piece(backend::piece_of_dtype(dtype)) {}
inline Piece::Piece(Device device) noexcept : Piece(backend::piece_of_device(device)) {}

inline Slice::Slice(std::int64_t size_given, std::int64_t stride_given, std::int64_t start, std::int64_t stop,
                    std::int64_t step)
    : Slice(backend::make_slice(size_given, stride_given, start, stop, step)) {}
inline IterationPlan::IterationPlan(int ndim, const std::int64_t* shape, int count,
                                    const std::int64_t* const* strides) noexcept
    : IterationPlan(backend::make_iteration_plan(ndim, shape, count, strides)) {}

}  // namespace detail

inline Error::Error(ErrorCode code, std::string_view message) noexcept : Error(code, kind_of(code), message) {}
inline Error::Error(ErrorCode code, ErrorKind kind, std::string_view message) noexcept
    : Error(detail::make_error_state(code, kind, message)) {}
inline Error::~Error() {
    if (state_ != nullptr) detail::drop_error_state(state_);
}
inline Error& Error::set_cause(void* cause, void (*drop_cause)(void*)) & noexcept {
    detail::backend::error_set_cause(*this, cause, drop_cause);
    return *this;
}

inline TensorSpec::TensorSpec(void* data_, DType dtype_, const Shape& sizes)
    : TensorSpec(detail::backend::tensor_spec(data_, dtype_, sizes)) {}
inline TensorSpec::TensorSpec(const void* data_, DType dtype_, const Shape& sizes)
    : TensorSpec(const_cast<void*>(data_), dtype_, sizes) {
    read_only = true;
}
inline TensorSpec& TensorSpec::set_strides(const Shape& steps) {
    detail::backend::set_strides(*this, steps);
    return *this;
}

ISTHMUS_END
