// The functions of the backend: one row for each, the only source of the table, its filling and its callers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A row: its number in the table, which never changes; its name; the result; the C++ function; parameters, arguments;
// whether it throws nothing. F is a function or a static member, M a member function, T one of a class template's
// specialisation, X an expression that has no name in C++. New rows go to the end with the next number, whatever group
// they belong to; docs/abi.md has the rules. The last column is false if the function may throw, else true, or `plain`
// if its result and its parameters cross as they are: then the call needs no template.

// clang-format off
#define ISTHMUS_BACKEND_CORE(F, M, T, X) \
    F(0, make_error_state, ErrorState*, detail::make_error_state, \
      (ErrorCode code, ErrorKind kind, Message text), (code, kind, text), plain) \
    F(1, drop_error_state, void, detail::drop_error_state, (ErrorState* state), (state), plain) \
    M(2, error_prefixed, Error, Error, prefixed, (std::string_view prefix), (prefix), const, true) \
    X(3, error_set_cause, void, (Error& error, void* cause, void (*drop_cause)(void*)), \
      (error, cause, drop_cause), ((void)error.set_cause(cause, drop_cause)), plain) \
    M(4, append_text, void, detail::TextBuffer, append, (const char* text, std::size_t size), (text, size), , plain) \
    F(5, append_message, void, detail::Message::append, \
      (TextBuffer& out, const void* data, Piece::Number size), (out, data, size), plain) \
    F(6, concat, std::string, detail::concat, (std::initializer_list<Piece> pieces), (pieces), false) \
    X(7, piece_of_dtype, Piece, (DType dtype), (dtype), (Piece(dtype)), plain) \
    X(8, piece_of_device, Piece, (Device device), (device), (Piece(device)), plain) \
    F(9, append_signed, void, detail::Piece::append_signed, \
      (TextBuffer& out, const void* data, Piece::Number value), (out, data, value), plain) \
    F(10, append_unsigned, void, detail::Piece::append_unsigned, \
      (TextBuffer& out, const void* data, Piece::Number value), (out, data, value), plain) \
    F(11, hex, Piece, detail::hex, (Piece::Number value), (value), plain) \
    F(12, sizes_text, Piece, detail::sizes_text, (const std::int64_t* values, int count), (values, count), plain) \
    F(13, is_utf8, bool, detail::is_utf8, (std::string_view text), (text), true) \
    M(14, dtype_name, std::string, DType, name, (), (), const, false) \
    F(15, parse_dtype, bool, DType::parse, (std::string_view name, DType& out), (name, out), true) \
    M(16, device_name, std::string, Device, name, (), (), const, false) \
    M(17, device_type_name, std::string, Device, type_name, (), (), const, false) \
    F(18, parse_device, bool, Device::parse, (std::string_view name, Device& out), (name, out), true) \
    F(19, is_dense, bool, layout::is_dense, \
      (const std::int64_t* shape, const std::int64_t* strides, int ndim), (shape, strides, ndim), plain) \
    F(20, search_overlap, bool, layout::search_overlap, \
      (const std::int64_t* shape, const std::int64_t* strides, int ndim), (shape, strides, ndim), plain) \
    F(21, addresses, layout::AddressRange, layout::addresses, (const DLTensor& t), (t), plain) \
    F(22, may_share, bool, layout::may_share, (const DLTensor& a, const DLTensor& b), (a, b), plain) \
    F(23, sizes_to_string, std::string, layout::to_string, (std::span<const std::int64_t> values), (values), false) \
    F(24, destroy_block, void, detail::destroy_block, (Block* block), (block), plain) \
    F(25, owns_memory, bool, detail::owns_memory, (const Block* block), (block), plain) \
    F(26, private_pages, Block*, detail::private_pages, (const Block* block), (block), plain) \
    F(27, notify_observer, void, detail::notify_observer, (Block* block), (block), plain) \
    F(28, alias_block, Block*, detail::alias_block, \
      (Block* block, const DLTensor& t, Flags flags, const OwnerOps& ops), (block, t, flags, ops), plain) \
    X(29, stop_thread, void, (), (), (stop_this_thread()), plain) \
    F(30, sleep_microseconds, void, detail::sleep_microseconds, (unsigned count), (count), plain) \
    F(31, around_forks, void, detail::around_forks, \
      (void (*before)(), void (*in_parent)(), void (*in_child)()), (before, in_parent, in_child), plain) \
    F(32, run_release, void, detail::run_release, (void (*release)(void*), void* owner), (release, owner), plain) \
    F(33, too_many_dims, Error, detail::too_many_dims, (std::size_t found), (found), false) \
    X(34, tensor_spec, TensorSpec, (void* data, DType dtype, const Shape& sizes), \
      (data, dtype, sizes), (TensorSpec(data, dtype, sizes)), false) \
    X(35, set_strides, void, (TensorSpec& spec, const Shape& steps), \
      (spec, steps), ((void)spec.set_strides(steps)), false) \
    F(36, no_memory_for_owner, Error, detail::no_memory_for_owner, (std::size_t bytes), (bytes), false) \
    M(37, complete_owned, void, detail::OwnedHead, complete, \
      (const TensorSpec& spec, Flags flags), (spec, flags), , false) \
    M(38, reserve_more_dims, void, detail::OwnedHead, reserve_more_dims, (int ndim), (ndim), , false) \
    M(39, check_row_major, void, detail::OwnedHead, check_row_major, (), (), const, false) \
    F(40, wrong_count, Error, detail::OwnedHead::wrong_count, \
      (const std::int64_t* sizes, int ndim, std::int64_t held), (sizes, ndim, held), false) \
    F(41, tensor_empty, Tensor, Tensor::empty, \
      (const Shape& shape, DType dtype, std::size_t alignment), (shape, dtype, alignment), false) \
    F(42, tensor_from_dlpack, Result<Tensor>, Tensor::from_dlpack, \
      (DLManagedTensorVersioned* managed), (managed), false) \
    F(43, tensor_from_dlpack_legacy, Result<Tensor>, Tensor::from_dlpack, \
      (DLManagedTensor* managed), (managed), false) \
    M(44, tensor_to_dlpack, DLManagedTensorVersioned*, Tensor, to_dlpack, (), (), const, plain) \
    M(45, tensor_to_dlpack_legacy, DLManagedTensor*, Tensor, to_dlpack_legacy, (), (), const, plain) \
    M(46, tensor_as_read_only, Tensor, Tensor, as_read_only, (), (), const, false) \
    M(47, tensor_as_strided, Tensor, Tensor, as_strided, (void* data, const Shape& shape, const Shape& strides, \
      DType dtype), (data, shape, strides, dtype), const, false) \
    M(48, tensor_select, Tensor, Tensor, select, (int dimension, std::int64_t i), (dimension, i), const, false) \
    M(49, tensor_slice, Tensor, Tensor, slice, (int dimension, std::int64_t start, std::int64_t stop, \
      std::int64_t step), (dimension, start, stop, step), const, false) \
    M(50, tensor_transpose, Tensor, Tensor, transpose, (const Shape& axes), (axes), const, false) \
    M(51, tensor_reshape, Tensor, Tensor, reshape, (const Shape& shape), (shape), const, false) \
    M(52, tensor_broadcast_to, Tensor, Tensor, broadcast_to, (const Shape& shape), (shape), const, false) \
    M(53, tensor_contiguous, Tensor, Tensor, contiguous, (), (), const, false) \
    F(54, tensor_spec_of, TensorSpec, Tensor::spec, (void* data, const Shape& shape, const Shape& strides, \
      DType dtype, Device device), (data, shape, strides, dtype, device), false) \
    F(55, tensor_spec_of_span, TensorSpec, Tensor::spec_of_span, \
      (void* data, const Shape& shape, DType dtype, std::size_t count), (data, shape, dtype, count), false) \
    M(56, tensor_alias, Tensor, Tensor, alias, (const TensorSpec& spec), (spec), const, false) \
    F(57, tensor_with_ops, Tensor, Tensor::with_ops, \
      (const TensorSpec& spec, const detail::OwnerOps& ops), (spec, ops), false) \
    F(58, describe_tensor, std::string, detail::describe_tensor, (const DLTensor& t), (t), false) \
    F(59, overlap_text, std::string, detail::overlap_text, (const DLTensor& t), (t), false) \
    F(60, explain_mismatch, Error, detail::explain_mismatch, (const DLTensor& t, Flags flags, const Requirement& r, \
      SizeNames& names, const char* argument), (t, flags, r, names, argument), false) \
    F(61, unvisited, Error, detail::unvisited, (DType dtype), (dtype), false) \
    F(62, not_of_type, Error, detail::not_of_type, (DType expected, DType found), (expected, found), false) \
    M(63, match_check_argument, Result<void>, Match, check_argument, (const char* argument, const DLTensor& t, \
      Flags flags, const detail::Requirement& r), (argument, t, flags, r), , false) \
    M(64, match_agree, Result<void>, Match, agree, (const char* argument, const detail::Requirement& r, \
      std::span<const std::int64_t> shape), (argument, r, shape), , false) \
    M(65, match_prefix, std::string, Match, prefix, (const char* argument), (argument), const, false) \
    F(66, call_prefix, std::string, detail::call_prefix, \
      (const char* function, const char* argument), (function, argument), false) \
    F(67, argument_prefix, std::string, detail::argument_prefix, (const char* argument), (argument), false) \
    F(68, copy_of, Result<Tensor>, copy_of, (const DLTensor& t, Flags flags), (t, flags), false) \
    F(69, copy_elements, void, detail::copy_elements, (const DLTensor& t, char* to), (t, to), plain) \
    F(70, convert_tensor, Result<Tensor>, detail::convert_tensor, \
      (const DLTensor& t, const Requirement& r), (t, r), false) \
    F(71, rearrange_error, Error, detail::rearrange_error, \
      (const char* call, std::string_view text, ErrorCode code), (call, text, code), false) \
    F(72, dimension_of, int, detail::dimension_of, \
      (const char* call, int dimension, int ndim), (call, dimension, ndim), false) \
    F(73, index_of, std::int64_t, detail::index_of, (const char* call, std::int64_t index, int dimension, \
      std::int64_t size), (call, index, dimension, size), false) \
    F(74, resolve_shape, void, detail::resolve_shape, (const std::int64_t* shape, int ndim, \
      const std::int64_t* given, int given_ndim, std::int64_t* out), (shape, ndim, given, given_ndim, out), false) \
    F(75, resolve_axes, void, detail::resolve_axes, \
      (std::span<const std::int64_t> axes, int ndim, int* out), (axes, ndim, out), false) \
    F(76, reshape_strides, void, detail::reshape_strides, (const std::int64_t* shape, const std::int64_t* strides, \
      int ndim, const std::int64_t* given, int given_ndim, std::int64_t* out), (shape, strides, ndim, given, \
      given_ndim, out), false) \
    F(77, broadcast_strides, void, detail::broadcast_strides, (const std::int64_t* shape, \
      const std::int64_t* strides, int ndim, const std::int64_t* given, int given_ndim, std::int64_t* out), (shape, \
      strides, ndim, given, given_ndim, out), false) \
    X(78, make_slice, Slice, (std::int64_t size, std::int64_t stride, std::int64_t start, std::int64_t stop, \
      std::int64_t step), (size, stride, start, stop, step), (Slice(size, stride, start, stop, step)), false) \
    X(79, make_iteration_plan, IterationPlan, (int ndim, const std::int64_t* shape, int count, \
      const std::int64_t* const* strides), (ndim, shape, count, strides), (IterationPlan(ndim, shape, count, \
      strides)), plain) \
    F(80, check_same_sizes, void, detail::check_same_sizes, \
      (const std::span<const std::int64_t>* shapes, int count), (shapes, count), false) \
    F(81, to_blob, Blob, to_blob, (const Tensor& tensor), (tensor), false) \
    F(82, blob_spec, TensorSpec, detail::blob_spec, (const Blob& blob), (blob), false) \
    F(83, from_blob, Result<Tensor>, from_blob, (const Blob& blob), (blob), false) \
    F(84, set_allocator, void, set_allocator, (const Allocator* allocator), (allocator), plain) \
    F(85, set_cached_memory, void, set_cached_memory, (std::size_t most), (most), plain) \
    F(86, trim, std::size_t, trim, (std::size_t keep), (keep), plain) \
    F(155, append_c_text, void, detail::Piece::append_c_text, \
      (TextBuffer& out, const void* text, Piece::Number length), (out, text, length), plain) \
    F(156, append_text_piece, void, detail::Piece::append_text, \
      (TextBuffer& out, const void* text, Piece::Number length), (out, text, length), plain) \
    F(157, make_error, Error, detail::make_error, (ErrorCode code, Message text), (code, text), true) \
    F(158, make_error_of_kind, Error, detail::make_error, \
      (ErrorCode code, ErrorKind kind, Message text), (code, kind, text), true) \
    F(159, make_argument_error, Error, detail::make_error, \
      (ErrorCode code, const char* argument, Message text), (code, argument, text), true) \
    F(160, values_to_string, std::string, layout::to_string, \
      (const std::int64_t* values, int ndim), (values, ndim), false)

#define ISTHMUS_BACKEND_BRIDGE(F, M, T, X) \
    F(87, drop_ref, void, Ref::drop, (PyObject* object), (object), false) \
    X(88, thread_state, PyThreadState*, (), (), (holding_thread_state()), plain) \
    F(89, set_python_error, void, set_python_error, (const Error& error), (error), plain) \
    F(90, framework_name, const char*, framework_name, (Framework framework), (framework), plain) \
    F(91, parse_framework, bool, parse_framework, (std::string_view name, Framework& out), (name, out), true) \
    F(92, move_buffer, void, detail::move_buffer, (Py_buffer& to, const Py_buffer& from), (to, from), plain) \
    M(93, end_borrowed, void, Borrowed, end, (), (), , plain) \
    F(94, lend, Borrowed, detail::lend, (Tensor tensor), (tensor), true) \
    F(95, from_py, Result<Tensor>, from_py, (PyObject* object, const ImportOptions& options), (object, options), true) \
    F(96, borrow_py, Result<Borrowed>, borrow_py, \
      (PyObject* object, const ImportOptions& options), (object, options), true) \
    F(97, roll_back_borrowed, void, roll_back, (PyObject* object, Borrowed& borrowed), (object, borrowed), plain) \
    F(98, roll_back_tensor, void, roll_back, (PyObject* object, Tensor& tensor), (object, tensor), plain) \
    F(99, announce_write, Result<void>, announce_write, \
      (PyObject* object, const char* argument), (object, argument), true) \
    F(100, to_py, Result<PyObject*>, to_py, \
      (const Tensor& tensor, Framework framework, const ExportOptions& options), (tensor, framework, options), true) \
    F(101, to_py_given, Result<PyObject*>, to_py, \
      (Tensor&& tensor, Framework framework, const ExportOptions& options), (tensor, framework, options), true) \
    F(102, to_py_like, Result<PyObject*>, to_py_like, \
      (const Tensor& tensor, PyObject* example, const ExportOptions& options), (tensor, example, options), true) \
    F(103, empty_like, Tensor, empty_like, \
      (PyObject* example, const Shape& shape, DType dtype), (example, shape, dtype), false) \
    F(104, empty_like_on, Tensor, empty_like, \
      (PyObject* example, const Shape& shape, DType dtype, Device device), (example, shape, dtype, device), false) \
    F(105, py_owner_checked, PyObject*, PyOwner::checked, (PyObject* object), (object), false) \
    F(106, py_owner_keeper, const detail::OwnerOps*, PyOwner::keeper, (), (), plain) \
    F(198, traverse, int, traverse, \
      (const Tensor& tensor, visitproc visit, void* arg), (tensor, visit, arg), plain)

#define ISTHMUS_BACKEND_BINDING(F, M, T, X) \
    F(107, run_once, void, detail::run_once, (Atomic<bool>& done, void (*function)()), (done, function), false) \
    F(108, is_no_tensor, bool, detail::is_no_tensor, (PyObject* object), (object), plain) \
    F(109, error_passes_through, bool, detail::passes_through, (const Error& error), (error), plain) \
    F(110, raise_in_call, Loaded, detail::raise_in_call, (const Error& error), (error), plain) \
    F(111, pass_on, Loaded, detail::pass_on, (const Error& error, bool last), (error, last), plain) \
    F(112, argument_error, Error, detail::argument_error, \
      (const Error& error, const char* function), (error, function), false) \
    T(113, slot_try_load, Loaded, detail::TensorSlot<Borrowed>, try_load, \
      (PyObject* object, const Requirement& r, bool last), (object, r, last), , plain) \
    T(114, slot_load, Loaded, detail::TensorSlot<Borrowed>, load, (PyObject* object, const Requirement& r, \
      const char* function, const char* argument, Match* match), (object, r, function, argument, match), , plain) \
    T(115, slot_roll_back, void, detail::TensorSlot<Borrowed>, roll_back, (PyObject* object), (object), , plain) \
    T(116, slot_commit_now, Result<void>, detail::TensorSlot<Borrowed>, commit_now, \
      (const char* function, const char* argument), (function, argument), , true) \
    T(117, slot_commit_or_raise, bool, detail::TensorSlot<Borrowed>, commit_or_raise, \
      (const char* function, const char* argument), (function, argument), , plain) \
    T(118, slot_end, void, detail::TensorSlot<Borrowed>, end, (), (), , plain) \
    T(119, load_borrowed, Loaded, detail::HandleLoader<Borrowed>, load, (PyObject* object, Borrowed& value, \
      const char* function, const char* argument, Match* match), (object, value, function, argument, match), , plain) \
    T(120, try_load_borrowed, Loaded, detail::HandleLoader<Borrowed>, try_load, \
      (PyObject* object, Borrowed& value, bool last), (object, value, last), , plain) \
    T(121, roll_back_loaded_borrowed, void, detail::HandleLoader<Borrowed>, roll_back, \
      (PyObject* object, Borrowed& value), (object, value), , plain) \
    T(122, load_tensor, Loaded, detail::HandleLoader<Tensor>, load, (PyObject* object, Tensor& value, \
      const char* function, const char* argument, Match* match), (object, value, function, argument, match), , plain) \
    T(123, try_load_tensor, Loaded, detail::HandleLoader<Tensor>, try_load, \
      (PyObject* object, Tensor& value, bool last), (object, value, last), , plain) \
    T(124, roll_back_loaded_tensor, void, detail::HandleLoader<Tensor>, roll_back, \
      (PyObject* object, Tensor& value), (object, value), , plain) \
    F(125, finish, PyObject*, detail::finish, (Result<PyObject*> result), (result), true) \
    F(126, to_result, PyObject*, detail::to_result, \
      (const Tensor& tensor, Framework framework, PyObject* parent), (tensor, framework, parent), plain) \
    F(127, to_default_result, PyObject*, detail::to_default_result, (DefaultResult form, const Tensor& tensor, \
      PyObject* like, PyObject* parent), (form, tensor, like, parent), plain) \
    F(128, reply_to_result, PyObject*, detail::to_result, (const Reply& reply, PyObject* parent), (reply, parent), \
      plain) \
    F(208, note_like, void, detail::note_like, (const void* loader, PyObject* object, const void* call), \
      (loader, object, call), plain) \
    F(209, find_like, PyObject*, detail::find_like, (const void* call), (call), plain) \
    T(210, end_loaded_borrowed, void, detail::HandleLoader<Borrowed>, end, (), (), , plain) \
    T(211, end_loaded_tensor, void, detail::HandleLoader<Tensor>, end, (), (), , plain) \
    F(227, show_array, bool, detail::show_array, (PyObject* object, const Requirement& r, ArrayParts& parts), \
      (object, r, parts), plain) \
    X(196, raise_error, void, (ErrorCode code, std::string_view text), \
      (code, text), (set_python_error(Error(code, text))), true) \
    X(197, raise_error_state, void, (ErrorState* state), (state), (set_python_error(Error(state))), plain)

#define ISTHMUS_BACKEND_CONTAINERS(F, M, T, X) \
    F(129, hold_elements, Loaded, detail::hold_elements, \
      (PyObject* object, Ref& held, Py_ssize_t count), (object, held, count), plain) \
    F(130, hold_items, Loaded, detail::hold_items, (PyObject* object, Ref& held), (object, held), plain)

#define ISTHMUS_BACKEND_ARGUMENTS(F, M, T, X) \
    F(131, raise_type, bool, detail::raise_type, (const char* function, const char* argument, const char* expected, \
      PyObject* found), (function, argument, expected, found), plain) \
    F(132, raise_missing, bool, detail::raise_missing, \
      (const char* function, const char* argument), (function, argument), plain) \
    F(133, read_double, bool, detail::read_scalar, (PyObject* object, double& value, const char* function, \
      const char* argument), (object, value, function, argument), plain) \
    F(134, read_integer, bool, detail::read_scalar, (PyObject* object, std::int64_t& value, const char* function, \
      const char* argument), (object, value, function, argument), plain) \
    F(135, read_bool, bool, detail::read_scalar, (PyObject* object, bool& value, const char* function, \
      const char* argument), (object, value, function, argument), plain) \
    X(136, read_counted_text, bool, (PyObject* object, CountedText& text, const char* function, \
      const char* argument), (object, text, function, argument), (read_text(object, text, function, argument)), plain) \
    X(194, read_text, bool, (PyObject* object, TextRef& text, const char* function, const char* argument), \
      (object, text, function, argument), (read_text(object, text, function, argument)), plain) \
    F(137, sort_by_name, bool, detail::sort_by_name, (const char* function, const char* const* names, int count, \
      PyObject* const* args, Py_ssize_t positional, PyObject* kwnames, PyObject** out), (function, names, count, \
      args, positional, kwnames, out), plain) \
    F(195, add_function, void, detail::add_function, (PyObject* module, const char* name, \
      const char* const* parameters, int count, const bool* optional, const char* doc, PyCFunction call), \
      (module, name, parameters, count, optional, doc, call), plain)

#define ISTHMUS_BACKEND_CAPTURED(F, M, T, X) \
    F(161, raise_captured, void, detail::raise_captured, \
      (const char* function, const CapturedException& captured), (function, captured), plain)

#define ISTHMUS_BACKEND_LIVE(F, M, T, X) \
    F(162, is_live_tracking, bool, live_tracking, (), (), plain) \
    F(163, set_live_tracking, void, live_tracking, (bool on, bool tracing), (on, tracing), plain) \
    X(164, each_live, bool, (void* to, bool (*add)(void* to, const LiveFacts& facts)), (to, add), \
      (show_live(to, add)), false)

#define ISTHMUS_BACKEND_LOAD(F, M, T, X) \
    X(165, open_file, void*, (const char* path, shared::Access access), \
      (path, access), (new TensorFile(load(path, access).value())), false) \
    X(166, close_file, void, (void* file), (file), (delete static_cast<TensorFile*>(file)), plain) \
    X(167, file_counts, void, (const void* file, std::size_t* entries, std::size_t* texts), \
      (file, entries, texts), (count_file(file, entries, texts)), plain) \
    X(168, file_entry, FileEntry, (const void* file, std::size_t i), (file, i), (entry_of_file(file, i)), plain) \
    X(169, file_text, void, (const void* file, std::size_t i, TextRef* key, TextRef* text), \
      (file, i, key, text), (text_of_file(file, i, key, text)), plain) \
    X(170, file_contains, bool, (const void* file, std::string_view name), \
      (file, name), (as_file(file).contains(name)), true) \
    X(171, file_tensor, Result<Tensor>, (const void* file, std::string_view name, bool copied), \
      (file, name, copied), (copied ? as_file(file).copy(name) : as_file(file).at(name)), false)

#define ISTHMUS_BACKEND_TREE(F, M, T, X) \
    X(172, walk_tree, Result<void>, (PyObject* root, const ImportOptions& options, void* to, \
      bool (*add)(void* to, TextRef path, Tensor& tensor)), (root, options, to, add), \
      (show_tree(root, options, to, add)), true) \
    F(173, rebuild_tree, Result<PyObject*>, Tree::rebuild, (PyObject* root, std::size_t expected, \
      std::span<const Tensor> tensors), (root, expected, tensors), true)

#define ISTHMUS_BACKEND_SHARED(F, M, T, X) \
    F(174, create_segment, Result<shared::Segment>, shared::Segment::create, \
      (std::size_t nbytes, shared::Access max_access), (nbytes, max_access), false) \
    F(175, hold_segment, void, shared::impl::hold_segment, (shared::impl::SegmentState* segment), (segment), plain) \
    F(176, drop_segment, void, shared::impl::drop_segment, (shared::impl::SegmentState* segment), (segment), plain) \
    M(177, segment_data, void*, shared::Segment, data, (), (), const, plain) \
    M(178, segment_size, std::size_t, shared::Segment, size, (), (), const, plain) \
    M(179, segment_descriptor, int, shared::Segment, descriptor, (), (), const, plain) \
    M(180, segment_allows_writers, bool, shared::Segment, allows_writers, (), (), const, plain) \
    M(181, segment_tensor, Result<Tensor>, shared::Segment, tensor, (const Shape& shape, DType dtype, \
      std::size_t byte_offset), (shape, dtype, byte_offset), const, false) \
    F(182, make_pool, shared::impl::PoolState*, shared::impl::make_pool, \
      (const shared::PoolOptions& options), (options), false) \
    F(183, end_pool, void, shared::impl::end_pool, (shared::impl::PoolState* pool), (pool), plain) \
    M(184, pool_empty, Result<Tensor>, shared::Pool, empty, (const Shape& shape, DType dtype, \
      shared::Access max_access, const shared::Wait& wait), (shape, dtype, max_access, wait), , false) \
    M(185, pool_share, Result<Tensor>, shared::Pool, share, (const Tensor& tensor, shared::Access max_access, \
      const shared::Wait& wait), (tensor, max_access, wait), , false) \
    M(186, pool_stats, shared::PoolStats, shared::Pool, stats, (), (), const, false) \
    M(187, pool_trim, void, shared::Pool, trim, (), (), , false) \
    X(188, pool_of_process, shared::Pool*, (), (), (&shared::Pool::process()), false) \
    F(189, shared_empty, Result<Tensor>, shared::empty, \
      (const Shape& shape, DType dtype, shared::Access max_access), (shape, dtype, max_access), false) \
    F(190, is_shared, bool, shared::is_shared, (const Tensor& tensor), (tensor), false) \
    F(191, shared_share, Result<Tensor>, shared::share, (const Tensor& tensor, shared::Access max_access, \
      shared::Pool& pool, const shared::Wait& wait), (tensor, max_access, pool, wait), false) \
    F(192, shared_send, Result<void>, shared::send, (int socket, const Tensor& tensor, shared::Access access, \
      const shared::Wait& wait), (socket, tensor, access, wait), false) \
    X(193, shared_receive, Result<Tensor>, (int socket, const shared::Access* access, const shared::Wait& wait), \
      (socket, access, wait), (shared::receive(socket, access != nullptr ? std::optional(*access) : std::nullopt, \
      wait)), false)

#define ISTHMUS_BACKEND_OVERLOADS(F, M, T, X) \
    F(138, raise_overloads, void, detail::raise_overloads, \
      (const RefusedCall& call, const BoundOverload* overloads, std::size_t count), (call, overloads, count), false)

#define ISTHMUS_BACKEND_FIELDS(F, M, T, X) \
    M(139, fields_load, Loaded, detail::FieldsTable, load, \
      (const FieldsTarget& target, PyObject* object, const FieldsCall& call), (target, object, call), const, plain) \
    M(140, fields_load_from, Loaded, detail::FieldsTable, load_from, (const FieldsTarget& target, \
      const FieldSource& source, const FieldsCall& call), (target, source, call), const, plain) \
    M(141, fields_commit, bool, detail::FieldsTable, commit, \
      (const FieldsTarget& target, const char* function), (target, function), const, plain) \
    M(142, fields_roll_back, void, detail::FieldsTable, roll_back, \
      (const FieldsTarget& target), (target), const, plain) \
    F(143, pass_on_fields, Loaded, detail::pass_on_fields, (Loaded loaded), (loaded), plain) \
    X(144, throw_exception, void, (const char* argument), (argument), (throw_exception_of(argument)), false) \
    F(145, load_integers, bool, detail::load_integers, (PyObject* object, std::int64_t* out, std::size_t count, \
      const char* function, const char* argument), (object, out, count, function, argument), plain) \
    F(146, struct_to_py, Ref, detail::struct_to_py, \
      (const ReplyTable& table, const void* value, PyObject* like), (table, value, like), false) \
    F(147, member_to_py, Ref, detail::member_to_py, \
      (const Tensor& member, PyObject* like, FieldForm form), (member, like, form), false) \
    F(148, integers_to_py, Ref, detail::member_to_py, (std::span<const std::int64_t> member), (member), false)

#define ISTHMUS_BACKEND_OPERATORS(F, M, T, X) \
    F(149, run_in_torch, void, detail::run_in_torch, \
      (const OperatorDefinition& op, std::uint64_t* stack, std::uint64_t inputs), (op, stack, inputs), false) \
    F(150, run_for_xla, void*, detail::run_for_xla, \
      (const OperatorDefinition& op, void* frame, bool on_device), (op, frame, on_device), plain) \
    X(151, begin_registration, void, (OperatorRegistration& at, const OperatorFunctions& functions, \
      PyObject* module, bool sets_error, std::initializer_list<InputSpec> inputs, const OperatorOptions& options), \
      (at, functions, module, sets_error, inputs, options), ((void)::new (&at) OperatorRegistration(functions, \
      module, sets_error, inputs, options)), false) \
    X(152, end_registration, void, (OperatorRegistration& at), (at), (at.~OperatorRegistration()), plain) \
    M(153, add_gradient, void, detail::OperatorRegistration, add_gradient, \
      (const OperatorFunctions& functions), (functions), , false) \
    M(154, add_device, void, detail::OperatorRegistration, add_device, \
      (const OverloadFacts* overloads, int count, bool of_gradient), (overloads, count, of_gradient), , false) \
    M(222, extend_operator, void, detail::OperatorRegistration, extend, \
      (const OperatorExtension& more), (more), , false)

#define ISTHMUS_BACKEND_RECORDS(F, M, T, X) \
    F(199, borrow_numpy_as, Result<Borrowed>, detail::borrow_numpy_as, (PyObject* object, const NumpyType& type, \
      const ImportOptions& options), (object, type, options), true) \
    F(200, to_numpy_as, PyObject*, detail::to_numpy_as, (const Tensor& tensor, const NumpyType& type), \
      (tensor, type), plain) \
    F(221, own_numpy_as, Result<Tensor>, detail::own_numpy_as, (PyObject* object, const NumpyType& type, \
      const ImportOptions& options), (object, type, options), true)

#define ISTHMUS_BACKEND_ARRAY_LIKE(F, M, T, X) \
    F(201, convert_array_like, Result<Tensor>, detail::convert_array_like, \
      (const DLTensor& t, const Requirement& r), (t, r), false)

#define ISTHMUS_BACKEND_VALUES(F, M, T, X) \
    F(202, try_dtype, Loaded, detail::try_value, (PyObject* object, DType& value, bool last), \
      (object, value, last), plain) \
    F(203, try_device, Loaded, detail::try_value, (PyObject* object, Device& value, bool last), \
      (object, value, last), plain) \
    F(204, load_dtype, Loaded, detail::load_value, (PyObject* object, DType& value, const char* function, \
      const char* argument), (object, value, function, argument), plain) \
    F(205, load_device, Loaded, detail::load_value, (PyObject* object, Device& value, const char* function, \
      const char* argument), (object, value, function, argument), plain) \
    F(206, dtype_to_py, PyObject*, detail::value_to_py, (DType value), (value), plain) \
    F(207, device_to_py, PyObject*, detail::value_to_py, (Device value), (value), plain)

#define ISTHMUS_BACKEND_TENSOR_PROTOCOL(F, M, T, X) \
    F(212, add_tensor_protocol, bool, detail::add_tensor_protocol, (PyObject* type), (type), plain) \
    F(213, add_method, bool, detail::add_method, (PyObject* type, PyMethodDef* method), (type, method), plain)

#define ISTHMUS_BACKEND_DISTINCT(F, M, T, X) \
    F(214, check_distinct, Result<void>, detail::check_distinct, (const char* function, const char* argument, \
      const DLTensor& t, const char* other, const DLTensor& u), (function, argument, t, other, u), true)

#define ISTHMUS_BACKEND_OWNED(F, M, T, X) \
    T(215, own_slot_try_load, Loaded, detail::TensorSlot<Tensor>, try_load, \
      (PyObject* object, const Requirement& r, bool last), (object, r, last), , plain) \
    T(216, own_slot_load, Loaded, detail::TensorSlot<Tensor>, load, (PyObject* object, const Requirement& r, \
      const char* function, const char* argument, Match* match), (object, r, function, argument, match), , plain) \
    T(217, own_slot_roll_back, void, detail::TensorSlot<Tensor>, roll_back, (PyObject* object), (object), , plain) \
    T(218, own_slot_commit_now, Result<void>, detail::TensorSlot<Tensor>, commit_now, \
      (const char* function, const char* argument), (function, argument), , true) \
    T(219, own_slot_commit_or_raise, bool, detail::TensorSlot<Tensor>, commit_or_raise, \
      (const char* function, const char* argument), (function, argument), , plain) \
    T(220, own_slot_end, void, detail::TensorSlot<Tensor>, end, (), (), , plain)

#define ISTHMUS_BACKEND_TORCH(F, M, T, X) \
    X(223, error_from_exception, Error, (ErrorCode code, const char* argument, Message what), (code, argument, what), \
      (error_from_exception(code, argument, what)), true) \
    X(224, piece_of_type, Piece, (PyObject* object), (object), (type_name(object)), plain) \
    X(225, import_torch, PyObject*, (), (), (import_torch("torch")), plain) \
    X(226, take_gil_for, bool, (void (*f)(void* of), void* of), (f, of), \
      (surviving_exit([=] { return take_gil_for(f, of); })), plain)
// clang-format on

/// How many rows there are.
#define ISTHMUS_BACKEND_COUNT 228
