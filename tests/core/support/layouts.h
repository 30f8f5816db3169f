// Every struct that a module of the stable ABI and its backend both read, frozen: sizes, offsets, numbers of
// enumerators. SPDX-License-Identifier: Apache-2.0
//
// A module that was compiled years ago runs with the backend of today. A row that no longer holds breaks it, unless
// docs/abi.md says that the struct may grow: write a new struct and a new row of isthmus/backend/functions.h instead.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <isthmus/backend/border.h>
#include <isthmus/backend/functions.h>
#include <isthmus/converted.h>
#include <isthmus/core/live.h>
#include <isthmus/load.h>
#include <isthmus/shared.h>

ISTHMUS_BEGIN

namespace frozen {

static_assert(sizeof(void*) == 8, "frozen for 64-bit systems");

/// Whether a type may cross: its layout is in the table below, or it is of the language itself.
template <class T>
inline constexpr bool is_frozen = std::is_arithmetic_v<T> || std::is_void_v<T>;
template <class T>
struct Crossing {
    static constexpr bool value = is_frozen<T>;
};
template <class T>
inline constexpr bool may_cross = Crossing<T>::value;
template <class T>
struct Crossing<const T> : Crossing<T> {};
template <class T>
struct Crossing<T&> : Crossing<T> {};
template <class T>
struct Crossing<T&&> : Crossing<T> {};
template <class T>
struct Crossing<T*> : Crossing<T> {};
template <class T, std::size_t n>
struct Crossing<T[n]> : Crossing<T> {};
template <class R, class... A>
struct Crossing<R(A...)> {
    static constexpr bool value = may_cross<R> && (may_cross<A> && ...);
};
template <class R, class... A>
struct Crossing<R(A...) noexcept> : Crossing<R(A...)> {};
/// Two words in each C++ library: the address and the number.
template <class T>
struct Crossing<std::span<T>> : Crossing<T> {};
template <class T>
struct Crossing<std::initializer_list<T>> : Crossing<T> {};
/// What isthmus/backend/border.h turns into something else on the way: a std::string_view into a TextRef, a std::string
/// that is a result into a TextBuffer, an Error or a Result<void> that is one into its ErrorState.
template <class T>
inline constexpr bool is_parameter = may_cross<T> || std::is_same_v<T, std::string_view>;
template <class T>
inline constexpr bool is_result = may_cross<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Result<void>>;
template <class F>
inline constexpr bool row_may_cross = false;
template <class R, class... A>
inline constexpr bool row_may_cross<R(A...)> = is_result<R> && (is_parameter<A> && ...);

// The names in the arguments of an explicit instantiation are not checked for access, so that private members are
// compared as well.
template <class T, class Member, int place, std::size_t found, std::size_t expected>
struct Offset {
    static_assert(found == expected, "a member has moved");
    static_assert(may_cross<Member>, "the layout of a member's type is not in the table");
};
template <class T, auto found, int expected>
struct Number {
    static_assert(static_cast<int>(found) == expected, "an enumerator has another number");
};

#define FOR_EACH(F, T, ...) __VA_OPT__(EXPAND(FOR_EACH_STEP(F, T, __VA_ARGS__)))
#define FOR_EACH_STEP(F, T, pair, ...) F(T, UNPACK pair) __VA_OPT__(FOR_EACH_AGAIN PARENTHESES(F, T, __VA_ARGS__))
#define FOR_EACH_AGAIN() FOR_EACH_STEP
#define PARENTHESES ()
#define UNPACK(...) __VA_ARGS__
#define EXPAND(...) EXPAND_4(EXPAND_4(EXPAND_4(__VA_ARGS__)))
#define EXPAND_4(...) EXPAND_3(EXPAND_3(EXPAND_3(__VA_ARGS__)))
#define EXPAND_3(...) EXPAND_2(EXPAND_2(EXPAND_2(__VA_ARGS__)))
#define EXPAND_2(...) __VA_ARGS__

#define CHECK_OFFSET(T, pair) CHECK_OFFSET_OF(T, pair)
#define CHECK_OFFSET_OF(T, member, offset) \
    template struct Offset<T, decltype(T::member), __COUNTER__, offsetof(T, member), offset>;
#define CHECK_NUMBER(T, pair) CHECK_NUMBER_OF(T, pair)
#define CHECK_NUMBER_OF(T, name, number) template struct Number<T, T::name, number>;

#define OPAQUE(T) \
    template <>   \
    inline constexpr bool is_frozen<T> = true;
#define LAYOUT(T, size, alignment, ...) \
    OPAQUE(T)                           \
    KNOWN(T, size, alignment, __VA_ARGS__)
#define KNOWN(T, size, alignment, ...)                                                                        \
    static_assert(sizeof(T) == size && alignof(T) == alignment, #T " has another size or another alignment"); \
    FOR_EACH(CHECK_OFFSET, T, __VA_ARGS__)
#define GROWS(T, size, alignment, ...)                                                         \
    OPAQUE(T)                                                                                  \
    static_assert(sizeof(T) >= size && alignof(T) == alignment, #T " grows at its end alone"); \
    FOR_EACH(CHECK_OFFSET, T, __VA_ARGS__)
#define NUMBERS(T, ...) \
    OPAQUE(T)           \
    FOR_EACH(CHECK_NUMBER, T, __VA_ARGS__)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"

using ObserverPlace = detail::Atomic<const detail::Observer*>;

// clang-format off
// Of DLPack, known by their addresses alone, or named before their layout is given.
OPAQUE(detail::Block) OPAQUE(DLDevice) OPAQUE(DLDataType) OPAQUE(DLTensor) OPAQUE(DLPackVersion) OPAQUE(DLManagedTensor)
OPAQUE(DLManagedTensorVersioned) OPAQUE(shared::impl::SegmentState) OPAQUE(shared::impl::PoolState)

NUMBERS(ErrorCode, (not_a_tensor, 1), (bad_capsule, 2), (consumed_capsule, 3), (unsupported_version, 4), (bad_dtype, 5),
       (bad_layout, 6), (bad_device, 7), (read_only, 8), (null_data, 9), (overflow, 10), (producer_failed, 11),
       (needs_copy, 12), (not_values, 13), (requires_grad, 14), (bad_argument, 15), (consumer_failed, 16),
       (unavailable, 17), (bad_thread, 18), (out_of_memory, 19), (system_failed, 20), (bad_message, 21),
       (peer_closed, 22), (timed_out, 23), (bad_file, 24))
NUMBERS(ErrorKind, (type, 0), (value, 1), (buffer, 2))
NUMBERS(detail::Order, (any, 0), (c, 1), (f, 2), (inner, 3))
LAYOUT(detail::Atomic<bool>, 1, 1, (value_, 0))
LAYOUT(detail::Atomic<int>, 4, 4, (value_, 0))
LAYOUT(detail::Atomic<std::uint32_t>, 4, 4, (value_, 0))
LAYOUT(detail::Atomic<void*>, 8, 8, (value_, 0))
LAYOUT(DType, 4, 2, (code, 0), (bit_count, 1), (lane_count, 2))
LAYOUT(Device, 8, 4, (type, 0), (id, 4))
LAYOUT(detail::TextRef, 16, 8, (data, 0), (size, 8))
LAYOUT(detail::TextBuffer, 32, 8, (data_, 0), (size_, 8), (capacity_, 16), (failed_, 24))
LAYOUT(detail::Piece, 24, 8, (append_, 0), (data_, 8), (value_, 16))
LAYOUT(detail::Message, 16, 8, (data_, 0), (size_, 8))
LAYOUT(detail::ErrorState, 48, 8, (refs, 0), (code, 4), (kind, 8), (text, 16), (cause, 24), (drop_cause, 32),
       (cause_holder, 40))
LAYOUT(Error, 16, 8, (state_, 8))
LAYOUT(Shape, 528, 8, (data_, 0), (size_, 8), (own_, 16))
LAYOUT(SizesList, 520, 8, (size_, 0), (values_, 8))
LAYOUT(TensorSpec, 1064, 8, (data, 0), (dtype, 8), (ndim, 12), (shape, 16), (strides, 528), (has_strides, 1040),
       (device, 1044), (read_only, 1052), (padded, 1053), (byte_offset, 1056))
LAYOUT(detail::StreamSource, 8, 8, (number, 0), (producer, 0))
GROWS(detail::OwnerOps, 72, 8, (size, 0), (framework, 4), (release, 8), (source, 16), (array, 24), (native, 32),
       (producer, 40), (release_shared, 48), (owns_memory, 56), (private_pages, 64))
KNOWN(detail::Block, 96, 8, (dl, 0), (refs, 48), (wrapper_aliases, 52), (flags, 56), (ops, 64), (owner, 72),
       (wrapper, 80), (stream, 88))
LAYOUT(detail::OwnedHead, 232, 8, (block, 0), (more_dims, 96), (dims, 104))
LAYOUT(detail::LiveRecord, 64, 8, (block, 0), (serial, 8), (age, 16), (producer, 24), (consumer, 32), (place, 40),
       (frames, 48), (frame_count, 56))
LAYOUT(detail::Observer, 48, 8, (created, 0), (destroyed, 8), (consumed, 16), (visit, 24), (listen, 32), (forget, 40))
LAYOUT(ObserverPlace, 8, 8, (value_, 0))
LAYOUT(Tensor, 8, 8, (block_, 0))
LAYOUT(Result<Tensor>, 24, 8, (value_, 0), (error_, 0), (has_value_, 16))
LAYOUT(layout::AddressRange, 16, 8, (begin, 0), (end, 8))
LAYOUT(detail::Slice, 24, 8, (offset, 0), (size, 8), (stride, 16))
LAYOUT(detail::IterationPlan, 4680, 8, (ndim, 0), (views, 4), (sizes, 8), (strides, 520), (starts, 4616))
LAYOUT(detail::SizeSpec, 32, 8, (size, 0), (name, 8), (more, 24))
NUMBERS(detail::Converts, (nothing, 0), (tensors, 1), (objects, 2), (orders, 3))
LAYOUT(detail::Requirement, 80, 8, (accepts, 0), (dtype, 8), (writable, 12), (allow_grad, 13), (no_grad, 14),
       (order, 15), (min_rank, 16), (max_rank, 20), (sizes, 24), (size_count, 32), (device_type, 36), (alignment, 40),
       (words, 48), (convert, 64), (converts, 72), (orders_clash, 73), (sizes_clash, 74), (ranks_clash, 75),
       (devices_clash, 76), (grads_clash, 77), (distinct, 78))
LAYOUT(detail::SizeNames::Entry, 40, 8, (name, 0), (size, 16), (argument, 24), (dimension, 32))
LAYOUT(detail::SizeNames, 5128, 8, (entries, 0), (count, 5120))
LAYOUT(Match, 5136, 8, (function_, 0), (names_, 8))
LAYOUT(Blob, 1088, 8, (ptr, 0), (shape, 8), (strides, 528), (dtype, 1048), (device, 1052), (element_size, 1064),
       (read_only, 1072), (padded, 1073), (owner, 1080))
LAYOUT(Allocator, 24, 8, (allocate, 0), (release, 8), (context, 16))
LAYOUT(detail::LiveFacts, 136, 8, (serial, 0), (data, 8), (nbytes, 16), (shape, 24), (ndim, 32), (dtype, 40),
       (device, 44), (read_only, 52), (borrowed, 53), (handles, 56), (producer, 64), (consumer, 80), (age, 96),
       (place, 104), (cpp_place, 120))
LAYOUT(detail::FileEntry, 56, 8, (name, 0), (dtype, 16), (shape, 24), (ndim, 32), (begin, 40), (end, 48))
LAYOUT(detail::CountedText, 16, 8, (size, 0), (data, 8))
LAYOUT(detail::BackendTable, 32, 8, (count, 0), (version, 4), (version_text, 8), (observer, 16), (functions, 24))
NUMBERS(shared::Access, (read_only, 0), (copy_on_write, 1), (shared, 2))
LAYOUT(shared::Segment, 8, 8, (state_, 0))
LAYOUT(Result<shared::Segment>, 24, 8, (value_, 0), (error_, 0), (has_value_, 16))
LAYOUT(shared::Pool, 8, 8, (state_, 0))
LAYOUT(shared::PoolOptions, 16, 8, (limit, 0), (idle_limit, 8))
LAYOUT(shared::PoolStats, 32, 8, (segments, 0), (reserved, 8), (free, 16), (lent, 24))
LAYOUT(shared::Wait, 24, 8, (timeout_ms, 0), (interrupted, 8), (context, 16))
// clang-format on

#define CHECK_F(n, row, R, name, params, args, quiet) \
    static_assert(row_may_cross<auto params->R>, #row ": a type whose layout is not in the table");
#define CHECK_M(n, row, R, C, name, params, args, cv, quiet)                        \
    static_assert(row_may_cross<auto ISTHMUS_BACKEND_SELF(cv C, UNPACK params)->R>, \
                  #row ": a type whose layout is not in the table");
#define CHECK_X(n, row, R, params, args, expression, quiet) CHECK_F(n, row, R, , params, args, quiet)
#define CHECK_ROWS(group) group(CHECK_F, CHECK_M, CHECK_M, CHECK_X)

}  // namespace frozen

namespace detail {
using frozen::row_may_cross;
CHECK_ROWS(ISTHMUS_BACKEND_CORE)
CHECK_ROWS(ISTHMUS_BACKEND_LIVE)
CHECK_ROWS(ISTHMUS_BACKEND_LOAD)
CHECK_ROWS(ISTHMUS_BACKEND_SHARED)
}  // namespace detail

#if defined(Py_PYTHON_H)

namespace frozen {

// clang-format off
OPAQUE(detail::ReplyTable) OPAQUE(PyObject) OPAQUE(PyThreadState) OPAQUE(PyMethodDef)
OPAQUE(detail::FieldSource)
OPAQUE(detail::OperatorDefinition)

NUMBERS(Framework, (none, 0), (tensor, 1), (capsule, 2), (capsule_legacy, 3), (numpy, 4), (torch, 5), (jax, 6),
       (cupy, 7), (tensorflow, 8), (paddle, 9), (mlx, 10), (pyarrow, 11), (warp, 12), (onnxruntime, 13), (tvm_ffi, 14))
NUMBERS(Copy, (never, 0), (if_needed, 1), (always, 2), (from_producer, 3))
NUMBERS(detail::Loaded, (yes, 0), (no, 1), (raised, 2))
NUMBERS(detail::FieldForm, (mapping, 0), (attributes, 1), (sequence, 2), (methods, 3), (columns, 4))
NUMBERS(detail::ParameterKind, (tensor, 0), (in_out, 1), (out, 2), (number, 3), (integer, 4), (boolean, 5), (text, 6),
       (stream, 7), (dtype, 8), (sizes, 9), (random, 10))
NUMBERS(detail::CapturedException::Kind, (none, 0), (error, 1), (memory, 2), (value, 3), (index, 4), (overflow, 5),
       (other, 6))
LAYOUT(Py_buffer, 80, 8, (buf, 0), (obj, 8), (len, 16), (itemsize, 24), (readonly, 32), (ndim, 36), (format, 40),
       (shape, 48), (strides, 56), (suboffsets, 64), (internal, 72))
LAYOUT(Ref, 8, 8, (object_, 0))
LAYOUT(ImportOptions, 40, 8, (require_writable, 0), (announce, 1), (allow_grad, 2), (refuse_grad, 3), (copy, 4),
       (stream, 8), (max_version, 16), (argument, 24), (device, 32))
LAYOUT(ExportOptions, 2, 1, (allow_read_only_loss, 0), (allow_copy, 1))
LAYOUT(Borrowed, 1184, 8, (dl_, 0), (flags_, 48), (ops_, 56), (owner_, 64), (stream_, 72), (buffer_, 80), (shape_, 160),
       (strides_, 672))
LAYOUT(Result<Borrowed>, 1192, 8, (value_, 0), (error_, 0), (has_value_, 1184))
LAYOUT(Result<PyObject*>, 24, 8, (value_, 0), (error_, 0), (has_value_, 16))
LAYOUT(PyOwner, 16, 8, (object_, 0), (ops_, 8))
LAYOUT(detail::CapturedException, 16, 8, (kind_, 0), (state_, 8))
LAYOUT(detail::BorrowSlot, 1208, 8, (result_, 0), (made_, 1192), (noted_, 1193), (pending_, 1200))
LAYOUT(detail::ArrayParts, 24, 8, (data, 0), (sizes, 8), (strides, 16))
LAYOUT(detail::TensorSlot<Tensor>, 40, 8, (result_, 0), (made_, 24), (noted_, 25), (pending_, 32))
LAYOUT(detail::HandleLoader<Borrowed>, 16, 8, (capsule_, 0), (taken_, 8))
LAYOUT(detail::HandleLoader<Tensor>, 16, 8, (capsule_, 0), (taken_, 8))
LAYOUT(Reply, 16, 8, (tensor, 0), (like, 8))
LAYOUT(detail::DefaultResult, 2, 1, (reply, 0), (framework, 1))
LAYOUT(detail::ParameterName, 16, 8, (name, 0), (has_default, 8))
LAYOUT(detail::RefusedCall, 40, 8, (function, 0), (args, 8), (kwargs, 16), (names, 24))
LAYOUT(detail::BoundOverload, 16, 8, (checks, 0), (count, 8))
LAYOUT(detail::LoadedField, 48, 8, (object, 0), (path, 8), (loaded, 40))
LAYOUT(detail::FieldsTarget, 24, 8, (loaders, 0), (value, 8), (states, 16))
LAYOUT(detail::FieldsCall, 24, 8, (function, 0), (argument, 8), (match, 16))
LAYOUT(detail::FieldFacts, 40, 8, (is_optional, 0), (load, 8), (load_from, 16), (commit, 24), (roll_back, 32))
LAYOUT(detail::FieldsTable, 40, 8, (names, 0), (rows, 8), (count, 16), (sparse_format, 24))
LAYOUT(detail::ReplyRow, 24, 8, (to_py, 0), (member, 8), (within, 16))
KNOWN(detail::ReplyTable, 40, 8, (names, 0), (rows, 8), (count, 16), (sparse_format, 24))
LAYOUT(Stream, 16, 8, (device_, 0), (number_, 8))
LAYOUT(detail::ParameterFacts, 16, 8, (kind, 0), (optional, 1), (is_like, 2), (requirement, 8))
LAYOUT(detail::LikeRequirement, 96, 8, (requirement, 0), (dtype_like, 80))
LAYOUT(detail::ParameterValue, 16, 8, (tensor, 0), (number, 0), (integer, 0), (boolean, 0), (text, 0), (stream, 0),
       (dtype, 0))
LAYOUT(detail::OverloadFacts, 24, 8, (parameters, 0), (count, 8), (call, 16))
LAYOUT(OperatorOptions, 16, 8, (batch, 0), (doc, 8))
LAYOUT(detail::InputSpec, 32, 8, (name, 0), (kind, 8), (value, 16))
LAYOUT(detail::OperatorFunctions, 56, 8, (name, 0), (overloads, 8), (count, 16), (torch, 24), (xla, 32), (xla_cuda, 40),
       (definition, 48))
NUMBERS(detail::OperatorExtension::Kind, (gradient, 0), (autocast, 1))
LAYOUT(GradientOptions, 32, 8, (takes, 0), (of, 16))
LAYOUT(detail::OperatorExtension, 64, 8, (kind, 0), (functions, 8), (named, 16), (options, 24), (dtype, 56))
LAYOUT(detail::OperatorRegistration, 24, 8, (op_, 0), (object_, 8), (sets_error_, 16))
LAYOUT(detail::BoundFunction, 16, 8, (name, 0), (parameters, 8))
OPAQUE(detail::NumpyField)
LAYOUT(detail::NumpyType, 40, 8, (kind, 0), (dtype, 2), (itemsize, 8), (alignment, 12), (text, 16), (fields, 24),
       (field_count, 32))
KNOWN(detail::NumpyField, 32, 8, (name, 0), (type, 8), (offset, 16), (ndim, 20), (shape, 24))
// clang-format on

}  // namespace frozen

namespace detail {
CHECK_ROWS(ISTHMUS_BACKEND_BRIDGE)
CHECK_ROWS(ISTHMUS_BACKEND_BINDING)
CHECK_ROWS(ISTHMUS_BACKEND_CONTAINERS)
CHECK_ROWS(ISTHMUS_BACKEND_ARGUMENTS)
CHECK_ROWS(ISTHMUS_BACKEND_CAPTURED)
CHECK_ROWS(ISTHMUS_BACKEND_TREE)
CHECK_ROWS(ISTHMUS_BACKEND_OVERLOADS)
CHECK_ROWS(ISTHMUS_BACKEND_FIELDS)
CHECK_ROWS(ISTHMUS_BACKEND_ARRAY_LIKE)
CHECK_ROWS(ISTHMUS_BACKEND_OPERATORS)
CHECK_ROWS(ISTHMUS_BACKEND_RECORDS)
CHECK_ROWS(ISTHMUS_BACKEND_VALUES)
CHECK_ROWS(ISTHMUS_BACKEND_TENSOR_PROTOCOL)
CHECK_ROWS(ISTHMUS_BACKEND_DISTINCT)
CHECK_ROWS(ISTHMUS_BACKEND_OWNED)
CHECK_ROWS(ISTHMUS_BACKEND_TORCH)
}  // namespace detail

#endif

#pragma GCC diagnostic pop

ISTHMUS_END

// UNPACK stays for rows.h.
#undef CHECK_F
#undef CHECK_M
#undef CHECK_X
#undef CHECK_ROWS
#undef CHECK_NUMBER
#undef CHECK_NUMBER_OF
#undef CHECK_OFFSET
#undef CHECK_OFFSET_OF
#undef EXPAND
#undef EXPAND_2
#undef EXPAND_3
#undef EXPAND_4
#undef FOR_EACH
#undef FOR_EACH_AGAIN
#undef FOR_EACH_STEP
#undef GROWS
#undef KNOWN
#undef LAYOUT
#undef NUMBERS
#undef OPAQUE
#undef PARENTHESES
