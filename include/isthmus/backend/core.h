// The functions of <isthmus/isthmus.h> in a module of the stable ABI: each calls the backend.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(ISTHMUS_IMPLEMENTATION)
#error "ISTHMUS_BACKEND calls the backend's functions: no file defines ISTHMUS_IMPLEMENTATION beside it"
#endif

#include <isthmus/backend/call.h>
#include <isthmus/converted.h>

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
inline void Piece::append_c_text(TextBuffer& out, const void* text, Number) noexcept {
    out += static_cast<const char*>(text);
}
inline void Piece::append_text(TextBuffer& out, const void* text, Number length) noexcept {
    out.append(static_cast<const char*>(text), static_cast<std::size_t>(length));
}
inline void Piece::append_unsigned(TextBuffer& out, const void*, Number value) noexcept {
    backend::append_unsigned(out, value);
}
inline void Piece::append_signed(TextBuffer& out, const void*, Number value) noexcept {
    backend::append_signed(out, static_cast<long long>(value));
}
inline void Message::append(TextBuffer& out, const void* data, Piece::Number size) noexcept {
    backend::append_message(out, data, size);
}
inline Error make_error(ErrorCode code, Message text) noexcept {
    return Error(make_error_state(code, Error::kind_of(code), text));
}
inline Error make_error(ErrorCode code, const char* argument, Message text) noexcept {
    if (argument == nullptr || *argument == '\0') return make_error(code, text);
    return make_error(code, {"argument '", argument, "': ", text});
}

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
inline Error Error::prefixed(std::string_view prefix) const noexcept {
    return detail::backend::error_prefixed(*this, prefix);
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
inline Tensor Tensor::alias(const TensorSpec& spec) const { return detail::backend::tensor_alias(*this, spec); }

namespace layout {
inline std::string to_string(const std::int64_t* values, int ndim) {
    return to_string(std::span<const std::int64_t>(values, static_cast<std::size_t>(ndim)));
}
}  // namespace layout

ISTHMUS_END
