// The rows of the backend's table as modules of the stable ABI call them: their numbers, names and C signatures.
// SPDX-License-Identifier: Apache-2.0
//
// The table is append-only (docs/abi.md): a line here never changes. Whoever adds a row adds its line, at the end.
#pragma once

#include "layouts.h"

ISTHMUS_BEGIN

namespace detail {

/// A row as isthmus/backend/functions.h has it.
template <int number>
struct RowFound;

#define FOUND_ROW(n, row, signature, quiet)                        \
    template <>                                                    \
    struct RowFound<n> {                                           \
        using Type = typename BackendSlot<signature, quiet>::Type; \
        static constexpr std::string_view name = #row;             \
    };
#define FOUND_F(n, row, R, name, params, args, quiet) FOUND_ROW(n, row, auto params->R, quiet)
#define FOUND_M(n, row, R, C, name, params, args, cv, quiet) \
    FOUND_ROW(n, row, auto ISTHMUS_BACKEND_SELF(cv C, UNPACK params)->R, quiet)
#define FOUND_X(n, row, R, params, args, expression, quiet) FOUND_ROW(n, row, auto params->R, quiet)
#define FIND_ROWS(group) group(FOUND_F, FOUND_M, FOUND_M, FOUND_X)

#define ROW(n, row, ...)                                                                          \
    static_assert(RowFound<n>::name == #row, "row " #n " was " #row ": rows keep their numbers"); \
    static_assert(std::is_same_v<RowFound<n>::Type, __VA_ARGS__>, #row ": a row keeps its result and parameters");

FIND_ROWS(ISTHMUS_BACKEND_CORE)
FIND_ROWS(ISTHMUS_BACKEND_LIVE)
FIND_ROWS(ISTHMUS_BACKEND_LOAD)
FIND_ROWS(ISTHMUS_BACKEND_SHARED)

// clang-format off
ROW(0, make_error_state, ErrorState* (*)(ErrorCode, ErrorKind, Message))
ROW(1, drop_error_state, void (*)(ErrorState*))
ROW(2, error_prefixed, ErrorState* (*)(const Error*, TextRef))
ROW(3, error_set_cause, void (*)(Error*, void*, void (*)(void*)))
ROW(4, append_text, void (*)(TextBuffer*, const char*, std::size_t))
ROW(5, append_message, void (*)(TextBuffer*, const void*, Piece::Number))
ROW(6, concat, void (*)(std::initializer_list<Piece>, TextBuffer*, ErrorState**))
ROW(7, piece_of_dtype, Piece (*)(DType))
ROW(8, piece_of_device, Piece (*)(Device))
ROW(9, append_signed, void (*)(TextBuffer*, const void*, Piece::Number))
ROW(10, append_unsigned, void (*)(TextBuffer*, const void*, Piece::Number))
ROW(11, hex, Piece (*)(Piece::Number))
ROW(12, sizes_text, Piece (*)(const std::int64_t*, int))
ROW(13, is_utf8, bool (*)(TextRef))
ROW(14, dtype_name, void (*)(const DType*, TextBuffer*, ErrorState**))
ROW(15, parse_dtype, bool (*)(TextRef, DType*))
ROW(16, device_name, void (*)(const Device*, TextBuffer*, ErrorState**))
ROW(17, device_type_name, void (*)(const Device*, TextBuffer*, ErrorState**))
ROW(18, parse_device, bool (*)(TextRef, Device*))
ROW(19, is_dense, bool (*)(const std::int64_t*, const std::int64_t*, int))
ROW(20, search_overlap, bool (*)(const std::int64_t*, const std::int64_t*, int))
ROW(21, addresses, layout::AddressRange (*)(const DLTensor*))
ROW(22, may_share, bool (*)(const DLTensor*, const DLTensor*))
ROW(23, sizes_to_string, void (*)(std::span<const std::int64_t>, TextBuffer*, ErrorState**))
ROW(24, destroy_block, void (*)(Block*))
ROW(25, owns_memory, bool (*)(const Block*))
ROW(26, private_pages, Block* (*)(const Block*))
ROW(27, notify_observer, void (*)(Block*))
ROW(28, alias_block, Block* (*)(Block*, const DLTensor*, Flags, const OwnerOps*))
ROW(29, stop_thread, void (*)())
ROW(30, sleep_microseconds, void (*)(unsigned))
ROW(31, around_forks, void (*)(void (*)(), void (*)(), void (*)()))
ROW(32, run_release, void (*)(void (*)(void*), void*))
ROW(33, too_many_dims, ErrorState* (*)(std::size_t, ErrorState**))
ROW(34, tensor_spec, TensorSpec (*)(void*, DType, const Shape*, ErrorState**))
ROW(35, set_strides, void (*)(TensorSpec*, const Shape*, ErrorState**))
ROW(36, no_memory_for_owner, ErrorState* (*)(std::size_t, ErrorState**))
ROW(37, complete_owned, void (*)(OwnedHead*, const TensorSpec*, Flags, ErrorState**))
ROW(38, reserve_more_dims, void (*)(OwnedHead*, int, ErrorState**))
ROW(39, check_row_major, void (*)(const OwnedHead*, ErrorState**))
ROW(40, wrong_count, ErrorState* (*)(const std::int64_t*, int, std::int64_t, ErrorState**))
ROW(41, tensor_empty, Tensor (*)(const Shape*, DType, std::size_t, ErrorState**))
ROW(42, tensor_from_dlpack, Result<Tensor> (*)(DLManagedTensorVersioned*, ErrorState**))
ROW(43, tensor_from_dlpack_legacy, Result<Tensor> (*)(DLManagedTensor*, ErrorState**))
ROW(44, tensor_to_dlpack, DLManagedTensorVersioned* (*)(const Tensor*))
ROW(45, tensor_to_dlpack_legacy, DLManagedTensor* (*)(const Tensor*))
ROW(46, tensor_as_read_only, Tensor (*)(const Tensor*, ErrorState**))
ROW(47, tensor_as_strided, Tensor (*)(const Tensor*, void*, const Shape*, const Shape*, DType, ErrorState**))
ROW(48, tensor_select, Tensor (*)(const Tensor*, int, std::int64_t, ErrorState**))
ROW(49, tensor_slice, Tensor (*)(const Tensor*, int, std::int64_t, std::int64_t, std::int64_t, ErrorState**))
ROW(50, tensor_transpose, Tensor (*)(const Tensor*, const Shape*, ErrorState**))
ROW(51, tensor_reshape, Tensor (*)(const Tensor*, const Shape*, ErrorState**))
ROW(52, tensor_broadcast_to, Tensor (*)(const Tensor*, const Shape*, ErrorState**))
ROW(53, tensor_contiguous, Tensor (*)(const Tensor*, ErrorState**))
ROW(54, tensor_spec_of, TensorSpec (*)(void*, const Shape*, const Shape*, DType, Device, ErrorState**))
ROW(55, tensor_spec_of_span, TensorSpec (*)(void*, const Shape*, DType, std::size_t, ErrorState**))
ROW(56, tensor_alias, Tensor (*)(const Tensor*, const TensorSpec*, ErrorState**))
ROW(57, tensor_with_ops, Tensor (*)(const TensorSpec*, const OwnerOps*, ErrorState**))
ROW(58, describe_tensor, void (*)(const DLTensor*, TextBuffer*, ErrorState**))
ROW(59, overlap_text, void (*)(const DLTensor*, TextBuffer*, ErrorState**))
ROW(60, explain_mismatch, ErrorState* (*)(const DLTensor*, Flags, const Requirement*, SizeNames*, const char*,
    ErrorState**))
ROW(61, unvisited, ErrorState* (*)(DType, ErrorState**))
ROW(62, not_of_type, ErrorState* (*)(DType, DType, ErrorState**))
ROW(63, match_check_argument, ErrorState* (*)(Match*, const char*, const DLTensor*, Flags, const Requirement*,
    ErrorState**))
ROW(64, match_agree, ErrorState* (*)(Match*, const char*, const Requirement*, std::span<const std::int64_t>,
    ErrorState**))
ROW(65, match_prefix, void (*)(const Match*, const char*, TextBuffer*, ErrorState**))
ROW(66, call_prefix, void (*)(const char*, const char*, TextBuffer*, ErrorState**))
ROW(67, argument_prefix, void (*)(const char*, TextBuffer*, ErrorState**))
ROW(68, copy_of, Result<Tensor> (*)(const DLTensor*, Flags, ErrorState**))
ROW(69, copy_elements, void (*)(const DLTensor*, char*))
ROW(70, convert_tensor, Result<Tensor> (*)(const DLTensor*, const Requirement*, ErrorState**))
ROW(71, rearrange_error, ErrorState* (*)(const char*, TextRef, ErrorCode, ErrorState**))
ROW(72, dimension_of, int (*)(const char*, int, int, ErrorState**))
ROW(73, index_of, std::int64_t (*)(const char*, std::int64_t, int, std::int64_t, ErrorState**))
ROW(74, resolve_shape, void (*)(const std::int64_t*, int, const std::int64_t*, int, std::int64_t*, ErrorState**))
ROW(75, resolve_axes, void (*)(std::span<const std::int64_t>, int, int*, ErrorState**))
ROW(76, reshape_strides, void (*)(const std::int64_t*, const std::int64_t*, int, const std::int64_t*, int,
    std::int64_t*, ErrorState**))
ROW(77, broadcast_strides, void (*)(const std::int64_t*, const std::int64_t*, int, const std::int64_t*, int,
    std::int64_t*, ErrorState**))
ROW(78, make_slice, Slice (*)(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, ErrorState**))
ROW(79, make_iteration_plan, IterationPlan (*)(int, const std::int64_t*, int, const std::int64_t* const*))
ROW(80, check_same_sizes, void (*)(const std::span<const std::int64_t>*, int, ErrorState**))
ROW(81, to_blob, Blob (*)(const Tensor*, ErrorState**))
ROW(82, blob_spec, TensorSpec (*)(const Blob*, ErrorState**))
ROW(83, from_blob, Result<Tensor> (*)(const Blob*, ErrorState**))
ROW(84, set_allocator, void (*)(const Allocator*))
ROW(85, set_cached_memory, void (*)(std::size_t))
ROW(86, trim, std::size_t (*)(std::size_t))
ROW(155, append_c_text, void (*)(TextBuffer*, const void*, Piece::Number))
ROW(156, append_text_piece, void (*)(TextBuffer*, const void*, Piece::Number))
ROW(157, make_error, ErrorState* (*)(ErrorCode, Message))
ROW(158, make_error_of_kind, ErrorState* (*)(ErrorCode, ErrorKind, Message))
ROW(159, make_argument_error, ErrorState* (*)(ErrorCode, const char*, Message))
ROW(160, values_to_string, void (*)(const std::int64_t*, int, TextBuffer*, ErrorState**))
ROW(162, is_live_tracking, bool (*)())
ROW(163, set_live_tracking, void (*)(bool, bool))
ROW(164, each_live, bool (*)(void*, bool (*)(void*, LiveFacts const&), ErrorState**))
ROW(165, open_file, void* (*)(const char*, shared::Access, ErrorState**))
ROW(166, close_file, void (*)(void*))
ROW(167, file_counts, void (*)(const void*, std::size_t*, std::size_t*))
ROW(168, file_entry, FileEntry (*)(const void*, std::size_t))
ROW(169, file_text, void (*)(const void*, std::size_t, TextRef*, TextRef*))
ROW(170, file_contains, bool (*)(const void*, TextRef))
ROW(171, file_tensor, Result<Tensor> (*)(const void*, TextRef, bool, ErrorState**))
ROW(174, create_segment, Result<shared::Segment> (*)(std::size_t, shared::Access, ErrorState**))
ROW(175, hold_segment, void (*)(shared::impl::SegmentState*))
ROW(176, drop_segment, void (*)(shared::impl::SegmentState*))
ROW(177, segment_data, void* (*)(const shared::Segment*))
ROW(178, segment_size, std::size_t (*)(const shared::Segment*))
ROW(179, segment_descriptor, int (*)(const shared::Segment*))
ROW(180, segment_allows_writers, bool (*)(const shared::Segment*))
ROW(181, segment_tensor, Result<Tensor> (*)(const shared::Segment*, const Shape*, DType, std::size_t, ErrorState**))
ROW(182, make_pool, shared::impl::PoolState* (*)(const shared::PoolOptions*, ErrorState**))
ROW(183, end_pool, void (*)(shared::impl::PoolState*))
ROW(184, pool_empty, Result<Tensor> (*)(shared::Pool*, const Shape*, DType, shared::Access, const shared::Wait*,
    ErrorState**))
ROW(185, pool_share, Result<Tensor> (*)(shared::Pool*, const Tensor*, shared::Access, const shared::Wait*,
    ErrorState**))
ROW(186, pool_stats, shared::PoolStats (*)(const shared::Pool*, ErrorState**))
ROW(187, pool_trim, void (*)(shared::Pool*, ErrorState**))
ROW(188, pool_of_process, shared::Pool* (*)(ErrorState**))
ROW(189, shared_empty, Result<Tensor> (*)(const Shape*, DType, shared::Access, ErrorState**))
ROW(190, is_shared, bool (*)(const Tensor*, ErrorState**))
ROW(191, shared_share, Result<Tensor> (*)(const Tensor*, shared::Access, shared::Pool*, const shared::Wait*,
    ErrorState**))
ROW(192, shared_send, ErrorState* (*)(int, const Tensor*, shared::Access, const shared::Wait*, ErrorState**))
ROW(193, shared_receive, Result<Tensor> (*)(int, const shared::Access*, const shared::Wait*, ErrorState**))
// clang-format on

#if defined(Py_PYTHON_H)

FIND_ROWS(ISTHMUS_BACKEND_BRIDGE)
FIND_ROWS(ISTHMUS_BACKEND_BINDING)
FIND_ROWS(ISTHMUS_BACKEND_CONTAINERS)
FIND_ROWS(ISTHMUS_BACKEND_ARGUMENTS)
FIND_ROWS(ISTHMUS_BACKEND_CAPTURED)
FIND_ROWS(ISTHMUS_BACKEND_TREE)
FIND_ROWS(ISTHMUS_BACKEND_OVERLOADS)
FIND_ROWS(ISTHMUS_BACKEND_FIELDS)
FIND_ROWS(ISTHMUS_BACKEND_ARRAY_LIKE)
FIND_ROWS(ISTHMUS_BACKEND_OPERATORS)
FIND_ROWS(ISTHMUS_BACKEND_RECORDS)
FIND_ROWS(ISTHMUS_BACKEND_VALUES)
FIND_ROWS(ISTHMUS_BACKEND_TORCH)
FIND_ROWS(ISTHMUS_BACKEND_TENSOR_PROTOCOL)
FIND_ROWS(ISTHMUS_BACKEND_DISTINCT)
FIND_ROWS(ISTHMUS_BACKEND_OWNED)

// clang-format off
ROW(87, drop_ref, void (*)(PyObject*, ErrorState**))
ROW(88, thread_state, PyThreadState* (*)())
ROW(89, set_python_error, void (*)(const Error*))
ROW(90, framework_name, const char* (*)(Framework))
ROW(91, parse_framework, bool (*)(TextRef, Framework*))
ROW(92, move_buffer, void (*)(Py_buffer*, const Py_buffer*))
ROW(93, end_borrowed, void (*)(Borrowed*))
ROW(94, lend, Borrowed (*)(Tensor*))
ROW(95, from_py, Result<Tensor> (*)(PyObject*, const ImportOptions*))
ROW(96, borrow_py, Result<Borrowed> (*)(PyObject*, const ImportOptions*))
ROW(97, roll_back_borrowed, void (*)(PyObject*, Borrowed*))
ROW(98, roll_back_tensor, void (*)(PyObject*, Tensor*))
ROW(99, announce_write, ErrorState* (*)(PyObject*, const char*))
ROW(100, to_py, Result<PyObject*> (*)(const Tensor*, Framework, const ExportOptions*))
ROW(101, to_py_given, Result<PyObject*> (*)(Tensor*, Framework, const ExportOptions*))
ROW(102, to_py_like, Result<PyObject*> (*)(const Tensor*, PyObject*, const ExportOptions*))
ROW(103, empty_like, Tensor (*)(PyObject*, const Shape*, DType, ErrorState**))
ROW(104, empty_like_on, Tensor (*)(PyObject*, const Shape*, DType, Device, ErrorState**))
ROW(105, py_owner_checked, PyObject* (*)(PyObject*, ErrorState**))
ROW(106, py_owner_keeper, const OwnerOps* (*)())
ROW(107, run_once, void (*)(Atomic<bool>*, void (*)(), ErrorState**))
ROW(108, is_no_tensor, bool (*)(PyObject*))
ROW(109, error_passes_through, bool (*)(const Error*))
ROW(110, raise_in_call, Loaded (*)(const Error*))
ROW(111, pass_on, Loaded (*)(const Error*, bool))
ROW(112, argument_error, ErrorState* (*)(const Error*, const char*, ErrorState**))
ROW(113, slot_try_load, Loaded (*)(BorrowSlot*, PyObject*, const Requirement*, bool))
ROW(114, slot_load, Loaded (*)(BorrowSlot*, PyObject*, const Requirement*, const char*, const char*, Match*))
ROW(115, slot_roll_back, void (*)(BorrowSlot*, PyObject*))
ROW(116, slot_commit_now, ErrorState* (*)(BorrowSlot*, const char*, const char*))
ROW(117, slot_commit_or_raise, bool (*)(BorrowSlot*, const char*, const char*))
ROW(118, slot_end, void (*)(BorrowSlot*))
ROW(119, load_borrowed, Loaded (*)(HandleLoader<Borrowed>*, PyObject*, Borrowed*, const char*, const char*, Match*))
ROW(120, try_load_borrowed, Loaded (*)(HandleLoader<Borrowed>*, PyObject*, Borrowed*, bool))
ROW(121, roll_back_loaded_borrowed, void (*)(HandleLoader<Borrowed>*, PyObject*, Borrowed*))
ROW(122, load_tensor, Loaded (*)(HandleLoader<Tensor>*, PyObject*, Tensor*, const char*, const char*, Match*))
ROW(123, try_load_tensor, Loaded (*)(HandleLoader<Tensor>*, PyObject*, Tensor*, bool))
ROW(124, roll_back_loaded_tensor, void (*)(HandleLoader<Tensor>*, PyObject*, Tensor*))
ROW(125, finish, PyObject* (*)(Result<PyObject*>*))
ROW(126, to_result, PyObject* (*)(const Tensor*, Framework, PyObject*))
ROW(127, to_default_result, PyObject* (*)(DefaultResult, const Tensor*, PyObject*, PyObject*))
ROW(128, reply_to_result, PyObject* (*)(const Reply*, PyObject*))
ROW(129, hold_elements, Loaded (*)(PyObject*, Ref*, std::int64_t))
ROW(130, hold_items, Loaded (*)(PyObject*, Ref*))
ROW(131, raise_type, bool (*)(const char*, const char*, const char*, PyObject*))
ROW(132, raise_missing, bool (*)(const char*, const char*))
ROW(133, read_double, bool (*)(PyObject*, double*, const char*, const char*))
ROW(134, read_integer, bool (*)(PyObject*, std::int64_t*, const char*, const char*))
ROW(135, read_bool, bool (*)(PyObject*, bool*, const char*, const char*))
ROW(136, read_counted_text, bool (*)(PyObject*, CountedText*, const char*, const char*))
ROW(137, sort_by_name, bool (*)(const char*, const char* const*, int, PyObject* const*, std::int64_t, PyObject*,
    PyObject**))
ROW(138, raise_overloads, void (*)(const RefusedCall*, const BoundOverload*, std::size_t, ErrorState**))
ROW(139, fields_load, Loaded (*)(const FieldsTable*, const FieldsTarget*, PyObject*, const FieldsCall*))
ROW(140, fields_load_from, Loaded (*)(const FieldsTable*, const FieldsTarget*, const FieldSource*, const FieldsCall*))
ROW(141, fields_commit, bool (*)(const FieldsTable*, const FieldsTarget*, const char*))
ROW(142, fields_roll_back, void (*)(const FieldsTable*, const FieldsTarget*))
ROW(143, pass_on_fields, Loaded (*)(Loaded))
ROW(144, throw_exception, void (*)(const char*, ErrorState**))
ROW(145, load_integers, bool (*)(PyObject*, std::int64_t*, std::size_t, const char*, const char*))
ROW(146, struct_to_py, Ref (*)(const ReplyTable*, const void*, PyObject*, ErrorState**))
ROW(147, member_to_py, Ref (*)(const Tensor*, PyObject*, FieldForm, ErrorState**))
ROW(148, integers_to_py, Ref (*)(std::span<const std::int64_t>, ErrorState**))
ROW(149, run_in_torch, void (*)(const OperatorDefinition*, std::uint64_t*, std::uint64_t, ErrorState**))
ROW(150, run_for_xla, void* (*)(const OperatorDefinition*, void*, bool))
ROW(151, begin_registration, void (*)(OperatorRegistration*, const OperatorFunctions*, PyObject*, bool,
    std::initializer_list<InputSpec>, const OperatorOptions*, ErrorState**))
ROW(152, end_registration, void (*)(OperatorRegistration*))
ROW(153, add_gradient, void (*)(OperatorRegistration*, const OperatorFunctions*, ErrorState**))
ROW(154, add_device, void (*)(OperatorRegistration*, const OverloadFacts*, int, bool, ErrorState**))
ROW(161, raise_captured, void (*)(const char*, const CapturedException*))
ROW(172, walk_tree, ErrorState* (*)(PyObject*, const ImportOptions*, void*, bool (*)(void*, TextRef, Tensor&)))
ROW(173, rebuild_tree, Result<PyObject*> (*)(PyObject*, std::size_t, std::span<const Tensor>))
ROW(194, read_text, bool (*)(PyObject*, TextRef*, const char*, const char*))
ROW(195, add_function, void (*)(PyObject*, const char*, const char* const*, int, const bool*, const char*,
                                PyCFunction))
ROW(196, raise_error, void (*)(ErrorCode, TextRef))
ROW(197, raise_error_state, void (*)(ErrorState*))
ROW(198, traverse, int (*)(const Tensor*, int (*)(PyObject*, void*), void*))
ROW(199, borrow_numpy_as, Result<Borrowed> (*)(PyObject*, const NumpyType*, const ImportOptions*))
ROW(200, to_numpy_as, PyObject* (*)(const Tensor*, const NumpyType*))
ROW(201, convert_array_like, Result<Tensor> (*)(const DLTensor*, const Requirement*, ErrorState**))
ROW(202, try_dtype, Loaded (*)(PyObject*, DType*, bool))
ROW(203, try_device, Loaded (*)(PyObject*, Device*, bool))
ROW(204, load_dtype, Loaded (*)(PyObject*, DType*, const char*, const char*))
ROW(205, load_device, Loaded (*)(PyObject*, Device*, const char*, const char*))
ROW(206, dtype_to_py, PyObject* (*)(DType))
ROW(207, device_to_py, PyObject* (*)(Device))
ROW(208, note_like, void (*)(const void*, PyObject*, const void*))
ROW(209, find_like, PyObject* (*)(const void*))
ROW(210, end_loaded_borrowed, void (*)(HandleLoader<Borrowed>*))
ROW(211, end_loaded_tensor, void (*)(HandleLoader<Tensor>*))
ROW(212, add_tensor_protocol, bool (*)(PyObject*))
ROW(213, add_method, bool (*)(PyObject*, PyMethodDef*))
ROW(214, check_distinct,
    ErrorState* (*)(const char*, const char*, const DLTensor*, const char*, const DLTensor*))
ROW(215, own_slot_try_load, Loaded (*)(TensorSlot<Tensor>*, PyObject*, const Requirement*, bool))
ROW(216, own_slot_load,
    Loaded (*)(TensorSlot<Tensor>*, PyObject*, const Requirement*, const char*, const char*, Match*))
ROW(217, own_slot_roll_back, void (*)(TensorSlot<Tensor>*, PyObject*))
ROW(218, own_slot_commit_now, ErrorState* (*)(TensorSlot<Tensor>*, const char*, const char*))
ROW(219, own_slot_commit_or_raise, bool (*)(TensorSlot<Tensor>*, const char*, const char*))
ROW(220, own_slot_end, void (*)(TensorSlot<Tensor>*))
ROW(221, own_numpy_as, Result<Tensor> (*)(PyObject*, const NumpyType*, const ImportOptions*))
ROW(222, extend_operator, void (*)(OperatorRegistration*, const OperatorExtension*, ErrorState**))
ROW(223, error_from_exception, ErrorState* (*)(ErrorCode, const char*, Message))
ROW(224, piece_of_type, Piece (*)(PyObject*))
ROW(225, import_torch, PyObject* (*)())
ROW(226, take_gil_for, bool (*)(void (*)(void*), void*))
ROW(227, show_array, bool (*)(PyObject*, const detail::Requirement*, detail::ArrayParts*))
// clang-format on

#endif

static_assert(ISTHMUS_BACKEND_COUNT == 228, "a new row has its line above");

}  // namespace detail

ISTHMUS_END

#undef FIND_ROWS
#undef FOUND_F
#undef FOUND_M
#undef FOUND_X
#undef FOUND_ROW
#undef ROW
#undef UNPACK
