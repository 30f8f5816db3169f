// Lists, tuples and other objects that numpy.asarray() makes an array of: the tensor that ArrayLike<V> takes of them.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/array_like.h>

#include <isthmus/core/copy.h>

#include "../core/numbers.h"
#include "object_argument.h"
#include "runtime/errors.h"
#include "runtime/lookups.h"
#include "runtime/names.h"

ISTHMUS_BEGIN

namespace detail {

/// Where in nested sequences an element is.
struct ElementPlace {
    std::int64_t index[max_ndim];
    int depth = 0;
};
static ISTHMUS_COLD void append_place(TextBuffer& out, const void* of, Piece::Number) noexcept {
    const auto& place = *static_cast<const ElementPlace*>(of);
    for (int d = 0; d < place.depth; ++d) Message({"[", place.index[d], "]"}).append_to(out);
}

/// An object as part of an array: a number, a sequence, or a tensor.
struct ArrayItem {
    Ref sequence;  ///< its items as they are now, a tuple: code of an item may change a list
    Borrowed tensor;
    Ref array;  ///< what `__array__` gave, which keeps the tensor's memory
    bool is_tensor = false;

    Py_ssize_t size() const noexcept { return PyTuple_GET_SIZE(sequence.get()); }
    bool is_number() const noexcept { return !is_tensor && !sequence; }
};

inline bool is_number(PyObject* object) noexcept {
    return PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object);
}

/// The dtypes that a view of a set of them is asked for, in this order: from the kind of what was found on.
inline constexpr DType dtypes_to_try[] = {int64, int32,   int16,   int8,    uint64,   uint32,     uint16,
                                          uint8, float64, float32, float16, bfloat16, complex128, complex64};
inline constexpr int first_real = 8, first_complex = 12;
/// 0: truths, 1: integers, 2: real, 3: complex numbers.
inline int rank_of_kind(DType dtype, const NumberType* type) noexcept {
    if (dtype == boolean || type == nullptr) return 0;
    return type->kind == NumberKind::complex ? 3 : type->kind == NumberKind::real ? 2 : 1;
}

/// Reads an object twice: for the sizes, and the dtype if the view leaves it open, then for the numbers. An
/// element that no longer fits the second time is refused.
class ArrayReader {
public:
    ArrayReader(const ObjectArgument& from, const Requirement& r) : from_(from), r_(r) {}

    /// Throws Error.
    Tensor read() {
        ArrayItem whole = look_at(from_.object);
        if (whole.is_tensor) return fitted(whole.tensor.descriptor());
        measure(whole);
        const DType dtype = r_.accepts != nullptr ? choose_dtype(whole) : r_.dtype;
        wanted_ = find_number_type(dtype);
        if (wanted_ == nullptr) refuse({"a ", type_name(from_.object), " does not become ", dtype});
        std::int64_t strides[max_ndim];
        if (!layout::row_major(shape_, ndim_, strides)) refuse("it has too many elements");
        DLTensor made{nullptr, Device::cpu(), ndim_, dtype, shape_, strides, 0};
        Tensor tensor = new_converted(made, r_.alignment);
        start_ = next_ = static_cast<char*>(made.data);
        scanning_ = false;
        take(from_.object, whole);
        flush();
        return has_order(tensor.descriptor(), r_.order) ? tensor : fitted(tensor.descriptor());
    }

private:
    /// "f(): argument 'x', element [3][1]: "
    ISTHMUS_COLD TextBuffer prefix() const {
        TextBuffer text = compose({from_.where});
        if (place_.depth == 0) return text;
        const Piece place(append_place, &place_, 0);
        if (!from_.has_argument) return compose({text, "element ", place, ": "});
        return compose({text.view().substr(0, text.view().size() - 2), ", element ", place, ": "});
    }
    [[noreturn]] ISTHMUS_COLD void refuse(Message why, ErrorCode code = ErrorCode::bad_dtype) const {
        throw make_error(code, ErrorKind::value, {prefix(), why});
    }
    [[noreturn]] ISTHMUS_COLD void refuse_object(PyObject* object, const char* expected) const {
        throw make_error(ErrorCode::not_a_tensor, {prefix(), "expected ", expected, ", got ", type_name(object)});
    }
    /// The exception that is set, as the cause.
    [[noreturn]] ISTHMUS_COLD void refuse_with_exception(Message doing) const {
        throw error_from_exception(ErrorCode::producer_failed, nullptr, {prefix(), doing});
    }
    [[noreturn]] ISTHMUS_COLD void refuse_cast(DType found) const {
        refuse({found, " does not become ", wanted_->dtype, " (numpy.can_cast, 'same_kind')"});
    }
    const char* what_is_expected() const noexcept {
        return place_.depth == 0 ? "an array, a sequence of numbers or a number" : "a number";
    }

    /// A tensor of the right dtype, order and alignment.
    Tensor fitted(const DLTensor& t) const {
        Result<Tensor> made = convert_tensor(t, r_);
        if (!made) throw prefixed(made.error(), {prefix()});
        return std::move(*made);
    }

    ArrayItem look_at(PyObject* object) {
        ArrayItem item;
        if (is_number(object)) return item;
        if (PyList_Check(object) || PyTuple_Check(object)) {
            item.sequence = snapshot_of(object);
            if (!item.sequence) refuse_with_exception("reading a list");
            return item;
        }
        if (object == Py_None || PyUnicode_Check(object) || PyBytes_Check(object) || PyDict_Check(object))
            refuse_object(object, what_is_expected());
        if (borrow(object, item)) return item;
        item.array = call_array(object);
        if (item.array && borrow(item.array.get(), item)) return item;
        if (item.array || !PySequence_Check(object)) refuse_object(object, what_is_expected());
        item.sequence = Ref(PySequence_Tuple(object));
        if (!item.sequence) refuse_with_exception({"reading this ", type_name(object)});
        return item;
    }
    /// False if it offers no protocol.
    bool borrow(PyObject* object, ArrayItem& item) {
        ImportOptions options;
        options.allow_grad = r_.allow_grad;
        options.refuse_grad = true;
        Result<Borrowed> borrowed = borrow_py(object, options);
        if (!borrowed && is_no_array(borrowed.error())) return false;
        if (!borrowed) throw prefixed(borrowed.error(), {prefix()});
        item.tensor = std::move(*borrowed);
        item.is_tensor = true;
        const Device device(item.tensor.descriptor().device);
        if (!device.is_host()) refuse({"this tensor is on ", device, "; expected host memory"}, ErrorCode::bad_device);
        return true;
    }
    /// What `__array__` of its class returns; empty if there is none.
    Ref call_array(PyObject* object) const {
        if (PyType_Check(object)) return {};
        if (!type_item(Py_TYPE(object), interned().array)) return {};
        Ref array(PyObject_CallMethodNoArgs(object, interned().array));
        if (!array) refuse_with_exception({"__array__ of this ", type_name(object)});
        return array;
    }

    /// The sizes, by the first element of each sequence.
    void measure(const ArrayItem& whole) {
        ArrayItem inner;
        for (const ArrayItem* item = &whole; item->sequence;) {
            if (ndim_ == r_.max_rank) {
                place_.depth = 0;
                refuse({"expected ", r_.words, ", got a ", type_name(from_.object), " with more levels than that"},
                       ErrorCode::bad_layout);
            }
            shape_[ndim_++] = item->size();
            if (item->size() == 0) break;
            place_.index[place_.depth++] = 0;
            ArrayItem next = look_at(PyTuple_GET_ITEM(item->sequence.get(), 0));
            inner = std::move(next);
            item = &inner;
        }
        if (inner.is_tensor)
            for (const std::int64_t size : inner.tensor.shape()) {
                if (ndim_ == max_ndim) refuse("it has too many dimensions", ErrorCode::bad_layout);
                shape_[ndim_++] = size;
            }
        place_.depth = 0;
    }

    /// The dtype that NumPy would find, or the nearest that the view takes.
    DType choose_dtype(const ArrayItem& whole) {
        scanning_ = true;
        take(from_.object, whole);
        const DType natural = is_empty_ ? float64 : found_;
        if (r_.accepts(natural)) return natural;
        const int rank = is_empty_ ? 0 : rank_of_kind(natural, find_number_type(natural));
        constexpr int count = sizeof(dtypes_to_try) / sizeof(dtypes_to_try[0]);
        for (int i = rank == 3 ? first_complex : rank == 2 ? first_real : 0; i < count; ++i)
            if (r_.accepts(dtypes_to_try[i])) return dtypes_to_try[i];
        refuse({"expected ", r_.words, ", got a ", type_name(from_.object), " of ", natural});
    }
    void note(DType dtype) noexcept {
        if (std::exchange(is_empty_, false)) {
            found_ = dtype;
            return;
        }
        if (dtype == found_) return;
        const NumberType *a = find_number_type(found_), *b = find_number_type(dtype);
        const int first = rank_of_kind(found_, a), second = rank_of_kind(dtype, b);
        const int rank = first > second ? first : second;
        if (first == second && a != nullptr && b != nullptr && a->kind == b->kind)
            found_ = dtype.bits() > found_.bits() ? dtype : found_;
        else if (rank == 1 && (found_ == uint64 || dtype == uint64))
            found_ = has_negative_ ? float64 : uint64;
        else
            found_ = rank == 3 ? complex128 : rank == 2 ? float64 : int64;
    }

    /// Reads what is at place_: all of it has the sizes that were measured.
    void take(PyObject* object, const ArrayItem& item) {
        const int depth = place_.depth;
        if (item.is_tensor) return take_tensor(item.tensor.descriptor());
        if (item.is_number()) {
            if (depth != ndim_) refuse_ragged(object, nullptr);
            return take_number(object);
        }
        if (depth == ndim_) refuse_ragged(object, nullptr);
        if (item.size() != shape_[depth]) refuse_ragged(object, &item);
        place_.depth = depth + 1;
        for (Py_ssize_t i = 0; i < item.size(); ++i) {
            place_.index[depth] = i;
            PyObject* next = PyTuple_GET_ITEM(item.sequence.get(), i);
            if (depth + 1 == ndim_ && is_number(next)) {
                take_number(next);
            } else {
                const ArrayItem looked_at = look_at(next);
                take(next, looked_at);
            }
        }
        place_.depth = depth;
    }
    [[noreturn]] ISTHMUS_COLD void refuse_ragged(PyObject* object, const ArrayItem* item) const {
        const int depth = place_.depth;
        if (depth == ndim_)
            refuse({"expected a number like the first, got ", type_name(object)}, ErrorCode::bad_layout);
        if (item == nullptr)
            refuse({"expected a sequence of ", shape_[depth], " elements like the first, got ", type_name(object)},
                   ErrorCode::bad_layout);
        refuse({"expected ", shape_[depth], " elements like the first, got ", static_cast<std::int64_t>(item->size())},
               ErrorCode::bad_layout);
    }

    void take_tensor(const DLTensor& t) {
        const int depth = place_.depth;
        bool same = t.ndim == ndim_ - depth;
        for (int d = 0; same && d < t.ndim; ++d) same = t.shape[d] == shape_[depth + d];
        if (!same)
            refuse({"expected the shape ", sizes_text(shape_ + depth, ndim_ - depth), " like the first, got ",
                    described(t)},
                   ErrorCode::bad_layout);
        const DType dtype = t.dtype;
        const NumberType* from = find_number_type(dtype);
        if (from == nullptr) refuse({"expected numbers, got ", described(t)});
        if (scanning_) {
            has_negative_ = has_negative_ || from->kind == NumberKind::signed_integer;
            if (layout::numel(t) != 0) note(dtype);
            return;
        }
        if (layout::numel(t) == 0) return;
        flush();
        if (t.ndim == 0) return take_scalar(t, *from);
        const WriteNumbers write = wanted_->write[static_cast<int>(from->kind)];
        if (from != wanted_ && write == nullptr) refuse_cast(dtype);
        if (from == wanted_)
            copy_elements(t, next_);
        else if (const std::int64_t at = convert_elements(t, *from, *wanted_, write, next_); at >= 0)
            refuse_at(at);
        next_ += layout::numel(t) * wanted_->dtype.itemsize();
    }
    /// As a number of Python's of its kind.
    void take_scalar(const DLTensor& t, const NumberType& from) {
        from.read(static_cast<const char*>(t.data), 0, 1, block_);
        if (from.kind != NumberKind::signed_integer) return keep(from.dtype, from.kind);
        const std::int64_t integer = block_.signed_integers[0];
        take_integer(integer, from.dtype);
    }

    ISTHMUS_ALWAYS_INLINE void take_number(PyObject* number) {
        if (PyFloat_Check(number)) {
            if (scanning_) return note(float64);
            room_for(NumberKind::real);
            block_.reals[count_] = PyFloat_AS_DOUBLE(number);
            return keep(float64, NumberKind::real);
        }
        if (PyLong_Check(number)) return take_long(number);
        if (scanning_) return note(complex128);
        room_for(NumberKind::complex);
        block_.complexes[2 * count_] = PyComplex_RealAsDouble(number);
        block_.complexes[2 * count_ + 1] = PyComplex_ImagAsDouble(number);
        keep(complex128, NumberKind::complex);
    }
    void take_long(PyObject* number) {
        int overflow = 0;
        const std::int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
        const DType dtype = PyBool_Check(number) ? boolean : int64;
        has_negative_ = has_negative_ || overflow < 0 || (overflow == 0 && value < 0);
        if (overflow == 0) return scanning_ ? note(dtype) : take_integer(value, dtype);
        const std::uint64_t large = overflow > 0 ? PyLong_AsUnsignedLongLong(number) : 0;
        const bool fits = overflow > 0 && PyErr_Occurred() == nullptr;
        PyErr_Clear();
        if (scanning_) return note(fits ? uint64 : float64);
        if (fits) {
            room_for(NumberKind::unsigned_integer);
            block_.unsigned_integers[count_] = large;
            return keep(uint64, NumberKind::unsigned_integer);
        }
        const double real = PyLong_AsDouble(number);
        const bool too_large = PyErr_Occurred() != nullptr;
        PyErr_Clear();
        if (too_large || wanted_->kind < NumberKind::real)
            refuse({"this integer is beyond what ", wanted_->dtype, " holds"});
        room_for(NumberKind::real);
        block_.reals[count_] = real;
        keep(float64, NumberKind::real);
    }
    /// Integers of Python have no sign of their dtype: they become every integer that holds them.
    void take_integer(std::int64_t value, DType dtype) {
        const bool is_unsigned = wanted_->kind == NumberKind::unsigned_integer;
        if (is_unsigned && value < 0 && wanted_->dtype != boolean)
            refuse({value, " is beyond what ", wanted_->dtype, " holds"});
        if (is_unsigned) {
            room_for(NumberKind::unsigned_integer);
            block_.unsigned_integers[count_] = static_cast<std::uint64_t>(value);
            return keep(dtype, NumberKind::unsigned_integer);
        }
        room_for(NumberKind::signed_integer);
        block_.signed_integers[count_] = value;
        keep(dtype, NumberKind::signed_integer);
    }

    /// Numbers are written in blocks of one kind.
    ISTHMUS_ALWAYS_INLINE void room_for(NumberKind kind) {
        if (count_ != 0 && (kind != kind_ || count_ == conversion_block)) flush();
    }
    ISTHMUS_ALWAYS_INLINE void keep(DType found, NumberKind kind) {
        if (ISTHMUS_UNLIKELY(kind > wanted_->kind || (wanted_->dtype == boolean && found != boolean)))
            refuse_cast(found);
        kind_ = kind;
        ++count_;
    }
    void flush() {
        if (count_ == 0) return;
        const std::int64_t count = std::exchange(count_, 0);
        const std::int64_t refused = write_block(count);
        if (refused >= 0) refuse_at(refused);
        next_ += count * wanted_->dtype.itemsize();
    }
    std::int64_t write_block(std::int64_t count) {
        if (wanted_->dtype == boolean) {
            for (std::int64_t i = 0; i < count; ++i) next_[i] = block_.unsigned_integers[i] != 0 ? 1 : 0;
            return -1;
        }
        return wanted_->write[static_cast<int>(kind_)](block_, count, next_);
    }
    /// The element so many places behind next_ cannot be held.
    [[noreturn]] ISTHMUS_COLD void refuse_at(std::int64_t at) {
        at += (next_ - start_) / wanted_->dtype.itemsize();
        place_.depth = ndim_;
        for (int d = ndim_ - 1; d >= 0; --d) {
            place_.index[d] = at % shape_[d];
            at /= shape_[d];
        }
        refuse({"this number is beyond what ", wanted_->dtype, " holds"});
    }

    const ObjectArgument& from_;
    const Requirement& r_;
    const NumberType* wanted_ = nullptr;
    std::int64_t shape_[max_ndim];
    int ndim_ = 0;
    ElementPlace place_;
    bool scanning_ = false, is_empty_ = true, has_negative_ = false;
    DType found_{};
    char *start_ = nullptr, *next_ = nullptr;
    NumberKind kind_{};
    std::int64_t count_ = 0;  // of the numbers in block_, which are not written yet
    WideBlock block_;
};

Result<Tensor> convert_array_like(const DLTensor& t, const Requirement& r) {
    if (t.ndim >= 0) return convert_tensor(t, r);
    const auto& from = *static_cast<const ObjectArgument*>(t.data);
    return surviving_exit([&] {
        return with_memory([&]() -> Result<Tensor> {
            try {
                return ArrayReader(from, r).read();
            } catch (Error& error) {
                return std::move(error);
            }
        });
    });
}

}  // namespace detail

ISTHMUS_END
