// Import of NumPy's arrays and scalars by their own structs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../protocol/buffer.h"  // Python.h must come before any standard header

#include <array>
#include <cstring>

#include "dtypes.h"

ISTHMUS_BEGIN

namespace detail {

/// ml_dtypes' types, by the name of their scalar type.
inline bool find_ml_dtype(const NumpyDescr* descr, DLDataType& out) noexcept {
    if (descr->typeobj == nullptr) return false;
    const char* name = descr->typeobj->tp_name;
    if (const char* dot = std::strrchr(name, '.')) name = dot + 1;
    DType found;
    if (!DType::parse(name, found)) return false;
    out = found;
    return true;
}

/// What gives the bytes of a void type without fields. That is also how NumPy saves the types of ml_dtypes. An
/// exception that passes_through() stays set, here and below.
ISTHMUS_COLD inline std::string view_of_void(PyObject* dtype) {
    const Ref size(PyObject_GetAttrString(dtype, "itemsize"));
    const long bytes = size ? PyLong_AsLong(size.get()) : -1;
    (void)is_interrupted();
    if (bytes == 1) return "x.view('uint8'), or x.view(ml_dtypes.float8_e4m3fn) if they are such";
    if (bytes == 2) return "x.view('uint16'), or x.view(ml_dtypes.bfloat16) if they are such";
    if (bytes == 4 || bytes == 8) return concat({"x.view('uint", 8 * bytes, "')"});
    return "numpy.ascontiguousarray(x).view('uint8')";
}
/// The first field of a structured dtype, as x[…] takes it; empty if it has none.
ISTHMUS_COLD inline std::string first_field(PyObject* dtype) {
    const Ref names(PyObject_GetAttrString(dtype, "names"));
    const Ref first(names && PyTuple_Check(names.get()) ? PySequence_GetItem(names.get(), 0) : nullptr);
    const Ref text(first ? PyObject_Repr(first.get()) : nullptr);
    return is_interrupted() ? std::string() : text_of(text.get());
}

/// `dtype` is NumPy's own, and `kind` its kind.
ISTHMUS_COLD inline bool explain_numpy_dtype(ImportRequest& request, PyObject* dtype, char kind,
                                             bool native_order = true) {
    Ref text(PyObject_Str(dtype));
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (utf8 == nullptr && is_interrupted())
        return request.fail_with_exception(ErrorCode::producer_failed, "reading the dtype's name");
    const TextBuffer found = compose({"dtype ", utf8 != nullptr ? utf8 : "unknown"});
    if (!native_order)
        return request.fail(
            ErrorCode::not_values,
            {found, " is not in this machine's byte order; call x.astype(x.dtype.newbyteorder('=')) first"});
    switch (kind) {
        case 'O':
            return request.fail(ErrorCode::bad_dtype, {found,
                                                       ": Python objects have no counterpart in DLPack; "
                                                       "convert to a numeric dtype first, x.astype('float64')"});
        case 'M':
        case 'm':
            return request.fail(ErrorCode::bad_dtype,
                                {found, " has no counterpart in DLPack; call x.view('int64') for the counts"});
        case 'S':
        case 'U':
            return request.fail(ErrorCode::bad_dtype, {found,
                                                       ": strings have no counterpart in DLPack; take "
                                                       "numpy.ascontiguousarray(x).view('uint8') for the bytes"});
        case 'T':
            return request.fail(ErrorCode::bad_dtype, {found,
                                                       ": strings have no counterpart in DLPack; take "
                                                       "numpy.array(x.tolist()).view('uint32') for the characters"});
        case 'V': {
            const std::string field = first_field(dtype);
            const std::string bytes = field.empty() && PyErr_Occurred() == nullptr ? view_of_void(dtype) : "";
            if (PyErr_Occurred() != nullptr)
                return request.fail_with_exception(ErrorCode::producer_failed, "reading the dtype's fields");
            if (!field.empty())
                return request.fail(
                    ErrorCode::bad_dtype,
                    {found, ": structured types have no counterpart in DLPack; take one field, x[", field, "]"});
            return request.fail(
                ErrorCode::bad_dtype,
                {found, ": void types without fields have no counterpart in DLPack; say what they are: ", bytes});
        }
        case 'c':
            return request.fail(ErrorCode::bad_dtype,
                                {found, " has no counterpart in DLPack; call x.astype('complex128') first"});
        default:
            return request.fail(ErrorCode::bad_dtype, {found, " has no counterpart in DLPack"});
    }
}

/// The dtype of an array whose type is not one of NumPy's own, or has no counterpart.
ISTHMUS_COLD inline bool unusual_numpy_dtype(const NumpyDescr* descr, DLDataType& out, Flags& flags) noexcept {
    if (!has_native_order(descr) || static_cast<unsigned>(descr->type_num) < static_cast<unsigned>(numpy_builtin_types))
        return false;
    if (!find_ml_dtype(descr, out)) return false;
    if (DType(out).is_subbyte()) flags |= flag::padded;  // ml_dtypes keeps one element a byte
    return true;
}

/// As NumPy's own buffer and `__dlpack__` treat it: an array that warns on write is not handed out for writing.
inline bool warns_on_write(int flags) noexcept { return (flags & numpy_flag::warn_on_write) != 0; }
inline bool is_writable(int flags) noexcept {
    return (flags & (numpy_flag::writeable | numpy_flag::warn_on_write)) == numpy_flag::writeable;
}

/// Writes the descriptor of an array whose items have 2^shift bytes. False if a stride is not a whole number of items.
/// A borrow copies sizes and strides: setting the array's shape frees its own.
ISTHMUS_ALWAYS_INLINE bool describe_numpy(const NumpyArray* array, DLDataType dtype, int shift, BorrowedBuilder out,
                                          bool owning) noexcept {
    static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
    const int ndim = array->nd;
    const Py_ssize_t* bytes = array->strides;
    std::int64_t* shape = out.shape();
    std::int64_t* strides = out.strides();
    DLTensor& t = out.dl();
    t.dtype = dtype;
    t.data = array->data;
    t.device = DLDevice{kDLCPU, 0};
    t.ndim = ndim;
    t.shape = owning ? reinterpret_cast<std::int64_t*>(array->dimensions) : shape;
    t.strides = strides;
    t.byte_offset = 0;
    Py_ssize_t rest = 0;
    for (int i = 0; i < ndim; ++i) {
        rest |= bytes[i];
        if (!owning) shape[i] = array->dimensions[i];  // a block copies them at once
        strides[i] = bytes[i] >> shift;
    }
    return (rest & ((Py_ssize_t{1} << shift) - 1)) == 0;
}

/// A numpy.ndarray (or a subclass other than a masked array) by its struct, without a call into NumPy.
inline bool import_numpy(ImportRequest& request) {
    const auto* array = reinterpret_cast<const NumpyArray*>(request.object);
    const NumpyDescr* descr = array->descr;
    if (ISTHMUS_UNLIKELY(request.options.require_writable) && warns_on_write(array->flags))
        return request.fail(ErrorCode::read_only,
                            {"NumPy warns of writing to this ", type_name(request.object),
                             ", which numpy.broadcast_arrays made; expected writable memory, so take a copy or set "
                             "x.flags.writeable = True"});
    Flags flags = is_writable(array->flags) ? 0 : flag::read_only;
    const auto number = static_cast<unsigned>(descr->type_num);
    DLDataType dtype{};
    if (ISTHMUS_LIKELY(numpy_shifts.has(number) && has_native_order(descr)))
        dtype = numpy_dtypes[number];
    else if (!unusual_numpy_dtype(descr, dtype, flags))
        return explain_numpy_dtype(request, reinterpret_cast<PyObject*>(array->descr), descr->kind,
                                   has_native_order(descr));
    const int shift = trailing_zeros(static_cast<std::uint64_t>(DType(dtype).itemsize()));
    if (!describe_numpy(array, dtype, shift, request.out, request.owning) &&
        !element_strides_that_matter(request, array->strides))
        return false;
    if (request.owning) request.out.hold_object(request.object);
    return request.accept(flags);
}

/// Most arrays: of NumPy's own types, and such that an aligned and contiguous array is as NumPy made it, while strides
/// of any other may have been set by hand. import_numpy() must look at the others.
ISTHMUS_ALWAYS_INLINE bool is_plain_numpy(const NumpyArray* array, bool require_writable) noexcept {
    const int state = array->flags;
    return numpy_shifts.has(static_cast<unsigned>(array->descr->type_num)) && has_native_order(array->descr) &&
           (state & (numpy_flag::aligned | numpy_flag::warn_on_write)) == numpy_flag::aligned &&
           (state & (numpy_flag::c_contiguous | numpy_flag::f_contiguous)) != 0 && array->data != nullptr &&
           (!require_writable || (state & numpy_flag::writeable) != 0);
}
inline Flags plain_numpy_flags(const NumpyArray* array) noexcept {
    return (array->flags & numpy_flag::writeable) ? 0 : flag::read_only;
}

/// import_numpy() of a plain array, for a borrow. False, and nothing held, for any other.
ISTHMUS_ALWAYS_INLINE bool borrow_numpy_fast(PyObject* object, bool require_writable, BorrowedBuilder out) noexcept {
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    const auto number = static_cast<unsigned>(array->descr->type_num);
    if (ISTHMUS_UNLIKELY(!is_plain_numpy(array, require_writable) ||
                         !describe_numpy(array, numpy_dtypes[number], numpy_shifts[number], out, false)))
        return false;
    out.flags() = plain_numpy_flags(array);
    return true;
}

/// The flags of plain arrays that meet a requirement: all of `all`, and one of `any`.
struct NumpyFlagsWanted {
    int all, any;

    static constexpr NumpyFlagsWanted of(bool writable, Order order) noexcept {
        constexpr int c = numpy_flag::c_contiguous, f = numpy_flag::f_contiguous;
        return {numpy_flag::aligned | (writable ? numpy_flag::writeable : 0), order == Order::any ? c | f
                                                                              : order == Order::f ? f
                                                                                                  : c};
    }
};
inline constexpr auto numpy_flags_wanted = [] {
    std::array<std::array<NumpyFlagsWanted, 4>, 2> all{};
    for (const Order order : {Order::any, Order::c, Order::f, Order::inner})
        for (const bool writable : {false, true})
            all[writable][static_cast<std::size_t>(order)] = NumpyFlagsWanted::of(writable, order);
    return all;
}();
/// Whether a NumPy array is plain and meets the requirement of a view of one dtype and rank, whose sizes are any, its
/// strides aside. import_numpy() must look at the others.
ISTHMUS_ALWAYS_INLINE bool meets_plainly(const NumpyArray* array, const Requirement& r) noexcept {
    const auto number = static_cast<unsigned>(array->descr->type_num);
    const NumpyFlagsWanted wanted = numpy_flags_wanted[r.writable][static_cast<std::size_t>(r.order)];
    const int state = array->flags;
    return number < numpy_builtin_types && DType(numpy_dtypes[number]) == r.dtype && array->nd == r.min_rank &&
           has_native_order(array->descr) && (state & (wanted.all | numpy_flag::warn_on_write)) == wanted.all &&
           (state & wanted.any) != 0 && array->data != nullptr;
}

/// import_numpy() of a plain array as a new block, written at once. NULL, and nothing held, for any other array, and
/// when memory is out.
ISTHMUS_ALWAYS_INLINE Block* own_numpy_fast(PyObject* object, bool require_writable) noexcept {
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    if (ISTHMUS_UNLIKELY(!is_plain_numpy(array, require_writable))) return nullptr;
    const auto number = static_cast<unsigned>(array->descr->type_num);
    const int ndim = array->nd, shift = numpy_shifts[number];
    Py_ssize_t rest = 0;
    for (int i = 0; i < ndim; ++i) rest |= array->strides[i];
    if (ISTHMUS_UNLIKELY((rest & ((Py_ssize_t{1} << shift) - 1)) != 0)) return nullptr;
    Block* block = allocate_block(ndim);
    if (ISTHMUS_UNLIKELY(block == nullptr)) return nullptr;
    DLTensor& t = block->dl;
    t.data = array->data;
    t.device = DLDevice{kDLCPU, 0};
    t.dtype = numpy_dtypes[number];
    t.byte_offset = 0;
    for (int i = 0; i < ndim; ++i) {
        t.shape[i] = array->dimensions[i];
        t.strides[i] = array->strides[i] >> shift;
    }
    block->flags = plain_numpy_flags(array);
    Py_INCREF(object);
    block->owner = object;
    block->ops = &python_owners->array_object;
    return announce(block);
}

/// np.generic. The buffers of datetime64 and timedelta64 are bytes without a dtype, so the dtype is queried
/// first.
ISTHMUS_COLD inline bool import_numpy_scalar(ImportRequest& request) {
    request.keep_alive();
    Ref dtype(PyObject_GetAttrString(request.object, "dtype"));
    Ref kind(dtype ? PyObject_GetAttrString(dtype.get(), "kind") : nullptr);
    const char* text = kind && PyUnicode_Check(kind.get()) ? PyUnicode_AsUTF8(kind.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed,
                                           {"the dtype of this ", type_name(request.object)});
    if (*text == 'M' || *text == 'm') return explain_numpy_dtype(request, dtype.get(), *text);
    return import_buffer(request);
}

}  // namespace detail

ISTHMUS_END
