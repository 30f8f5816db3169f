// Records, dates and fixed strings: NumPy's dtypes compared with what a C++ type says, and made of it.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/records.h>

#include <exception>

#include "export.h"
#include "framework/numpy/import.h"
#include "object/tensor_type.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

std::string words_of(const NumpyType& type) {
    Words counted;
    spell_numpy(counted, type);
    std::string text(counted.size, ' ');
    Words written{text.data(), false};
    spell_numpy(written, type);
    return text;
}

/// A question to NumPy that failed ends the comparison: the exception stays set.
struct Unanswered : std::exception {};

Ref answered(PyObject* answer) {
    if (answer == nullptr) throw Unanswered();
    return Ref(answer);
}
Ref attribute(PyObject* object, const char* name) { return answered(PyObject_GetAttrString(object, name)); }
std::int64_t integer(const Ref& number) {
    const long long value = PyLong_AsLongLong(number.get());
    if (value == -1 && PyErr_Occurred() != nullptr) throw Unanswered();
    return value;
}
std::string text(PyObject* object) {
    const Ref words = answered(PyObject_Str(object));
    return std::string(utf8_of(words.get()));
}

/// Compares a dtype of NumPy's with a NumpyType; `why` says what differs.
class DtypeComparison {
public:
    /// `path` is that of a field; empty for the element itself.
    bool same(PyObject* dtype, const NumpyType& type, const std::string& path = {}) {
        const auto* descr = reinterpret_cast<const NumpyDescr*>(dtype);
        if (descr->kind != kind_of(type)) return differs(path, text(dtype), words_of(type));
        if (!has_native_order(descr))
            return fail(path, concat({text(dtype), ", which is not in this machine's byte order"}));
        switch (type.kind) {
            case 'n':
                return has_number(descr, type.dtype) || differs(path, text(dtype), words_of(type));
            case 'V':
                return same_record(dtype, type, path);
            case 'M':
            case 'm':
                return same_unit(dtype, type) || differs(path, text(dtype), words_of(type));
            default:
                return integer(attribute(dtype, "itemsize")) == type.itemsize ||
                       differs(path, text(dtype), words_of(type));
        }
    }
    const std::string& why() const noexcept { return why_; }

private:
    static char kind_of(const NumpyType& type) noexcept {
        if (type.kind != 'n') return type.kind;
        switch (type.dtype.code) {
            case kDLInt:
                return 'i';
            case kDLUInt:
                return 'u';
            case kDLFloat:
                return 'f';
            case kDLComplex:
                return 'c';
            case kDLBool:
                return 'b';
            default:
                return 'V';  // ml_dtypes
        }
    }
    static bool has_number(const NumpyDescr* descr, DType expected) {
        const auto number = static_cast<unsigned>(descr->type_num);
        DLDataType found{};
        if (numpy_shifts.has(number))
            found = numpy_dtypes[number];
        else if (!find_ml_dtype(descr, found))
            return false;
        return DType(found) == expected;
    }
    /// The typestr has it, "<M8[ns]": numpy.datetime_data() gives half a tuple if there is no memory.
    static bool same_unit(PyObject* dtype, const NumpyType& type) {
        const std::string typestr = text(attribute(dtype, "str").get());
        const std::size_t unit = typestr.find('[');
        return unit != std::string::npos && typestr.substr(unit) == concat({"[", type.text, "]"});
    }
    bool same_record(PyObject* dtype, const NumpyType& type, const std::string& path) {
        const Ref names = attribute(dtype, "names");
        if (!PyTuple_Check(names.get())) return differs(path, text(dtype), words_of(type));
        const Ref fields = attribute(dtype, "fields");
        for (std::uint32_t i = 0; i < type.field_count; ++i)
            if (!same_field(fields.get(), type.fields[i], within(path, type.fields[i].name))) return false;
        if (PyTuple_Size(names.get()) != static_cast<Py_ssize_t>(type.field_count)) {
            const std::string more = first_unknown(names.get(), type);
            return fail(within(path, more.c_str()), concat({"not a member of ", type.text}));
        }
        const std::int64_t itemsize = integer(attribute(dtype, "itemsize"));
        if (itemsize == type.itemsize) return true;
        why_ = concat({path.empty() ? "an element" : "field '", path, path.empty() ? "" : "'", " has ", itemsize,
                       " bytes, expected ", type.itemsize, layout_hint(type)});
        return false;
    }
    bool same_field(PyObject* fields, const NumpyField& field, const std::string& path) {
        const Ref entry(PyMapping_GetItemString(fields, field.name));
        if (!entry && PyErr_ExceptionMatches(PyExc_KeyError) == 0) throw Unanswered();
        if (!entry) {
            PyErr_Clear();
            why_ = concat({"there is no field '", path, "'"});
            return false;
        }
        Ref dtype = Ref::borrow(PyTuple_GetItem(entry.get(), 0));
        if (!same_shape(dtype, field, path) || !same(dtype.get(), *field.type, path)) return false;
        const std::int64_t offset = integer(Ref::borrow(PyTuple_GetItem(entry.get(), 1)));
        if (offset == field.offset) return true;
        why_ = concat({"field '", path, "' begins at byte ", offset, ", expected ", field.offset,
                       "; numpy.dtype(…, align=True) lays fields out as C++ does"});
        return false;
    }
    /// Of an array in the record, whose dtype becomes that of its elements.
    bool same_shape(Ref& dtype, const NumpyField& field, const std::string& path) {
        const Ref parts = attribute(dtype.get(), "subdtype");
        const bool is_array = PyTuple_Check(parts.get());
        bool same = is_array == (field.ndim != 0);
        if (same && is_array) {
            PyObject* shape = PyTuple_GetItem(parts.get(), 1);
            same = PyTuple_Size(shape) == field.ndim;
            for (std::int32_t d = 0; same && d < field.ndim; ++d)
                same = integer(Ref::borrow(PyTuple_GetItem(shape, d))) == field.shape[d];
        }
        if (!same) return differs(path, text(dtype.get()), concat({words_of(*field.type), sizes_of(field)}));
        if (is_array) dtype = Ref::borrow(PyTuple_GetItem(parts.get(), 0));
        return true;
    }
    static std::string sizes_of(const NumpyField& field) {
        std::string sizes = field.ndim != 0 ? "[" : "";
        for (std::int32_t d = 0; d < field.ndim; ++d)
            sizes += concat({d != 0 ? ", " : "", static_cast<long long>(field.shape[d])});
        return field.ndim != 0 ? sizes + "]" : sizes;
    }
    static std::string first_unknown(PyObject* names, const NumpyType& type) {
        for (Py_ssize_t i = 0; i < PyTuple_Size(names); ++i) {
            const std::string_view name = utf8_of(PyTuple_GetItem(names, i));
            bool known = false;
            for (std::uint32_t k = 0; k < type.field_count; ++k) known = known || name == type.fields[k].name;
            if (!known) return std::string(name);
        }
        return {};
    }
    static const char* layout_hint(const NumpyType& type) noexcept {
        return type.alignment > 1 ? "; numpy.dtype(…, align=True) pads a record as C++ does" : "";
    }
    static std::string within(const std::string& path, const char* name) {
        return path.empty() ? std::string(name) : concat({path, ".", name});
    }
    bool differs(const std::string& path, const std::string& found, const std::string& expected) {
        return fail(path, concat({found, ", expected ", expected}));
    }
    bool fail(const std::string& path, const std::string& what) {
        why_ = path.empty() ? concat({"the dtype is ", what}) : concat({"field '", path, "' is ", what});
        return false;
    }

    std::string why_;
};

bool is_numpy_array(PyObject* object) {
    ProducerType scratch;
    const ProducerType* type = find_type(Py_TYPE(object), scratch);
    if (type == nullptr) throw Unanswered();
    return type->protocol == Protocol::numpy;
}

Error not_an_array(PyObject* object, const NumpyType& type, const char* argument) {
    return make_error(ErrorCode::not_a_tensor, argument,
                      {"expected a numpy.ndarray of ", words_of(type), ", got ", type_name(object),
                       ": NumPy alone has such elements"});
}

/// The array's memory as elements of that type; an Error if a step is a fraction of one.
Result<void> describe(const NumpyArray* array, const NumpyType& type, const char* argument, BorrowedBuilder out) {
    DLTensor& t = out.dl();
    t = DLTensor{array->data, DLDevice{kDLCPU, 0}, array->nd, type.dtype, out.shape(), out.strides(), 0};
    for (int i = 0; i < array->nd; ++i) t.shape[i] = array->dimensions[i];
    (void)layout::row_major(t.shape, t.ndim, t.strides);
    const bool empty = layout::numel(t) == 0;
    for (int i = 0; i < array->nd; ++i) {
        if (empty || t.shape[i] == 1) continue;
        const Py_ssize_t step = array->strides[i];
        if (step % static_cast<Py_ssize_t>(type.itemsize) != 0)
            return make_error(ErrorCode::needs_copy, argument,
                              {"the stride of dimension ", i, " is ", static_cast<long long>(step),
                               " bytes, no multiple of the ", type.itemsize, "-byte element; copy it first, x.copy()"});
        t.strides[i] = step / static_cast<Py_ssize_t>(type.itemsize);
    }
    out.flags() = is_writable(array->flags) ? 0 : flag::read_only;
    return {};
}

Result<Borrowed> borrow_checked(PyObject* object, const NumpyType& type, const ImportOptions& options) {
    if (!is_numpy_array(object)) return not_an_array(object, type, options.argument);
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    DtypeComparison comparison;
    if (!comparison.same(reinterpret_cast<PyObject*>(array->descr), type))
        return make_error(
            ErrorCode::bad_dtype, ErrorKind::value,
            {of_argument(options.argument), "expected an array of ", words_of(type), ": ", comparison.why()});
    Borrowed borrowed;
    if (auto described = describe(array, type, options.argument, {borrowed}); !described)
        return std::move(described).error();
    if (options.require_writable && (borrowed.flags() & flag::read_only) != 0)
        return make_error(ErrorCode::read_only, options.argument,
                          {"the memory of this ", type_name(object), " is read-only; expected writable memory"});
    return borrowed;
}

Ref numpy_dtype(const NumpyType& type);

Ref number_dtype(DType dtype) {
    const int number = numpy_type_number(dtype);
    if (number >= 0) return Ref::borrow(numpy_api->dtypes[number]);
    Ref descr = find_ml_descr(dtype);
    if (!descr && PyErr_Occurred() == nullptr)
        set_exception(PyExc_TypeError, {"dtype ", dtype, " has no counterpart in NumPy"});
    return answered(descr.release());
}
void append(const Ref& list, Ref item) {
    if (!item || PyList_Append(list.get(), item.get()) != 0) throw Unanswered();
}
Ref field_dtype(const NumpyField& field) {
    Ref element = numpy_dtype(*field.type);
    if (field.ndim == 0) return element;
    const Ref shape = answered(tuple_of(field.shape, field.ndim));
    return answered(PyTuple_Pack(2, element.get(), shape.get()));
}
/// numpy.dtype({"names": […], "formats": […], "offsets": […], "itemsize": n})
Ref record_dtype(PyObject* make, const NumpyType& type) {
    const Ref names = answered(PyList_New(0)), formats = answered(PyList_New(0)), offsets = answered(PyList_New(0));
    for (std::uint32_t i = 0; i < type.field_count; ++i) {
        const NumpyField& field = type.fields[i];
        append(names, Ref(PyUnicode_FromString(field.name)));
        append(formats, field_dtype(field));
        append(offsets, Ref(PyLong_FromUnsignedLong(field.offset)));
    }
    return answered(PyObject_CallFunction(make, "{sOsOsOsk}", "names", names.get(), "formats", formats.get(), "offsets",
                                          offsets.get(), "itemsize", static_cast<unsigned long>(type.itemsize)));
}
Ref numpy_dtype(const NumpyType& type) {
    if (type.kind == 'n') return number_dtype(type.dtype);
    const Ref numpy = answered(PyImport_ImportModule("numpy"));
    const Ref make = attribute(numpy.get(), "dtype");
    if (type.kind == 'V') return record_dtype(make.get(), type);
    return answered(PyObject_CallFunction(make.get(), "s", words_of(type).c_str()));
}

PyObject* array_of(const Tensor& tensor, const NumpyType& type) {
    if (shared_types() == nullptr || (numpy_api->make == nullptr && !load_numpy_api())) return nullptr;
    if (!tensor.device().is_host())
        return raise(ErrorCode::bad_device, ErrorKind::buffer,
                     {"the records are on ", tensor.device(), ", which NumPy cannot see; copy them to the cpu first"});
    Ref dtype = numpy_dtype(type);
    return finish(numpy_array_over(tensor.block(), dtype.release()));
}

}  // namespace

Result<Borrowed> borrow_numpy_as(PyObject* object, const NumpyType& type, const ImportOptions& options) noexcept {
    if (object == nullptr)
        return make_error(ErrorCode::not_a_tensor, options.argument, "expected a numpy.ndarray, got a NULL PyObject*");
    if (!have_gil()) return explain_no_gil(options.argument, "Python objects are imported");
    const PendingException pending;
    try {
        if (!start_session()) throw Unanswered();
        return borrow_checked(object, type, options);
    } catch (const Unanswered&) {
        return error_from_exception(ErrorCode::producer_failed, options.argument, "reading the dtype");
    } catch (const std::bad_alloc&) {
        return no_memory_error();
    }
}

Result<Tensor> own_numpy_as(PyObject* object, const NumpyType& type, const ImportOptions& options) noexcept {
    Result<Borrowed> borrowed = borrow_numpy_as(object, type, options);
    if (!borrowed) return std::move(borrowed).error();
    const BorrowedBuilder held{*borrowed};
    held.hold_object(object);
    Block* block = nullptr;
    if (!held.into_block(block, nullptr)) return no_memory_error();
    return Tensor::steal(block);
}

PyObject* to_numpy_as(const Tensor& tensor, const NumpyType& type) noexcept {
    if (!tensor) Py_RETURN_NONE;
    return surviving_exit([&]() -> PyObject* {
        try {
            return with_memory([&] { return array_of(tensor, type); }, nullptr);
        } catch (const Unanswered&) {
            return nullptr;
        }
    });
}

}  // namespace detail

ISTHMUS_END
