// isthmus.DType, isthmus.Device and isthmus.DeviceType.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <cstring>

#include <isthmus/core/device.h>
#include <isthmus/core/dtype.h>
#include "../framework/numpy/export.h"
#include "../runtime/lookups.h"
#include "../runtime/names.h"
#include "../runtime/shared_runtime.h"

ISTHMUS_BEGIN

namespace detail {

/// isthmus.DType and isthmus.Device: small immutable values that equal their own kind and their name as name() writes
/// it, whose hash they have. Other spellings, and the tuple that DLPack uses for them, make one, but have other hashes
/// and so are not equal. A DType that NumPy has too is one of NumPy's to whoever asks: equal to its dtype, with its
/// hash. As with NumPy's own, that is another one than the equal name's.
template <class Value>
struct ValueObject {
    PyObject_HEAD Value value;
};

template <class Value>
Value& value_of(PyObject* self) noexcept {
    return reinterpret_cast<ValueObject<Value>*>(self)->value;
}

template <class Value>
PyObject* new_value_object(PyTypeObject* type, Value value) {
    PyObject* object = type->tp_alloc(type, 0);
    if (object != nullptr) value_of<Value>(object) = value;
    return object;
}

inline bool value_from_tuple(PyObject* tuple, DType& out) {
    int code = 0, bits = 0, lanes = 1;
    if (!PyArg_ParseTuple(tuple, "ii|i", &code, &bits, &lanes)) {
        (void)is_interrupted();
        return false;
    }
    if (code < 0 || code > 255 || bits < 1 || bits > 255 || lanes < 1 || lanes > 65535) return false;
    out = DType(code, bits, lanes);
    return out.is_valid();
}
inline bool value_from_tuple(PyObject* tuple, Device& out) {
    int type = 0, id = 0;
    if (!PyArg_ParseTuple(tuple, "ii", &type, &id)) {
        (void)is_interrupted();
        return false;
    }
    out = Device(type, id);
    return out.is_valid();
}

/// A scalar type of NumPy by the name that it calls itself: that of its dtype, or of a type of C if another has that.
ISTHMUS_COLD inline bool dtype_of_scalar(std::string_view name, DType& out) {
    struct OfC {
        std::string_view name;
        DType dtype;
    };
    constexpr OfC of_c[] = {{"intc", dtype_of<int>()},
                            {"uintc", dtype_of<unsigned>()},
                            {"longlong", DType(kDLInt, 8 * sizeof(long long))},
                            {"ulonglong", DType(kDLUInt, 8 * sizeof(long long))},
                            {"longdouble", DType(kDLFloat, 8 * sizeof(long double))}};
    for (const OfC& row : of_c)
        if (row.name == name) return out = row.dtype, true;
    return DType::parse(name, out);
}

/// A framework's own dtype: numpy.dtype('float32'), numpy.float32, jax.numpy.float32, torch.float32. In the machine's
/// byte order.
ISTHMUS_COLD inline bool value_of_framework(PyObject* object, DType& out) {
    if (PyType_Check(object)) {
        const ClassName said(reinterpret_cast<PyTypeObject*>(object));
        const std::string_view name = said.name.substr(0, said.name.find_last_not_of('_') + 1);  // numpy.bool_
        if (said.module == "numpy" || said.module.substr(0, 9) == "ml_dtypes") return dtype_of_scalar(name, out);
        Ref inner(PyObject_GetAttrString(object, "dtype"));
        if (!inner) (void)is_interrupted();
        return inner && !PyType_Check(inner.get()) && value_of_framework(inner.get(), out);
    }
    const std::string_view kind = ClassName(Py_TYPE(object)).name;
    if (kind.find("dtype") == std::string_view::npos && kind.find("DType") == std::string_view::npos) return false;
    Ref native(PyObject_GetAttrString(object, "isnative"));
    if (!native && is_interrupted()) return false;
    if (native && native.get() == Py_False) return false;
    Ref name(PyObject_GetAttrString(object, "name"));
    if (name && !PyUnicode_Check(name.get())) name = Ref();
    if (const std::string_view said = utf8_of(name.get()); !said.empty()) return DType::parse(said, out);
    if (is_interrupted()) return false;
    std::string text = text_of(object);  // "torch.float32", "torch.float4_e2m1fn_x2"
    text.erase(0, text.rfind('.') + 1);
    if (const std::size_t lanes = text.find("_x"); lanes != std::string::npos) text.erase(lanes, 1);
    return DType::parse(text, out);
}
inline bool value_of_framework(PyObject*, Device&) { return false; }

/// A dtype or device said in Python: one of ours, its name, DLPack's tuple, or a framework's dtype. False for anything
/// else, with no exception but one that passes_through().
template <class Value>
ISTHMUS_COLD bool value_from_python(PyObject* object, PyTypeObject* type, Value& out) {
    if (PyObject_TypeCheck(object, type)) {
        out = value_of<Value>(object);
        return true;
    }
    if (PyUnicode_Check(object)) {
        const std::string_view text = utf8_of(object);
        if (text.data() == nullptr) (void)is_interrupted();
        return text.data() != nullptr && Value::parse(text, out);
    }
    if (PyTuple_Check(object)) return value_from_tuple(object, out);
    return with_memory([&] { return value_of_framework(object, out); }, false);
}

/// The numbers of a tuple of two integers or more, as many as fit; -1 for anything else.
template <std::size_t N>
int read_numbers(PyObject* tuple, int (&out)[N]) {
    std::int64_t wide[N];
    int count = 0;
    if (!PyTuple_Check(tuple) || read_integers(tuple, wide, int{N}, count) != Integers::ok || count < 2) return -1;
    for (int i = 0; i < count; ++i)
        if ((out[i] = static_cast<int>(wide[i])) != wide[i]) return -1;
    return count;
}

/// The expected value, for the error: of a tuple of the right form, what is wrong with its numbers.
ISTHMUS_COLD inline TextBuffer wanted_value(PyObject* found, const DType&) noexcept {
    int numbers[3] = {0, 0, 1};
    if (read_numbers(found, numbers) < 0)
        return compose({"a name such as 'float32', a dtype of isthmus or a framework, or (code, bits, lanes)"});
    return compose({"numbers that DLPack 1.3 defines: code ", numbers[0], " with bits ", numbers[1], " and lanes ",
                    numbers[2], " is no dtype"});
}
ISTHMUS_COLD inline TextBuffer wanted_value(PyObject* found, const Device&) noexcept {
    int numbers[2] = {};
    if (read_numbers(found, numbers) != 2)
        return compose({"a name such as 'cuda:0', an isthmus.Device, or (type, id)"});
    if (!Device(numbers[0], 0).is_valid())
        return compose({"a device type that DLPack 1.3 defines, which ", numbers[0], " is not"});
    return compose({"a device id of 0 or more, which ", numbers[1], " is not"});
}

template <class Value>
PyObject* value_str(PyObject* self) {
    return unicode_of({value_of<Value>(self)});
}
template <class Value>
PyObject* value_repr(PyObject* self) {
    const char* dot = std::strrchr(Py_TYPE(self)->tp_name, '.');
    return unicode_of(
        {"isthmus.", dot != nullptr ? dot + 1 : Py_TYPE(self)->tp_name, "('", value_of<Value>(self), "')"});
}
/// `text == name`, or `!=`; the name has no character but ASCII's.
inline PyObject* compare_text(PyObject* text, const TextBuffer& name, int operation) {
    const Ref other(unicode_of(name));
    if (!other) return nullptr;
    const bool equal = PyUnicode_Compare(text, other.get()) == 0;
    return PyErr_Occurred() != nullptr ? nullptr : PyBool_FromLong(equal == (operation == Py_EQ));
}
/// NumPy's dtype, or ml_dtypes' one; empty without an exception if there is none, or NumPy is not installed. Not of
/// elements of less than a byte, which NumPy keeps in a byte each.
ISTHMUS_COLD inline Ref numpy_dtype_of(DType dtype) {
    Ref found;
    const int number = numpy_type_number(dtype);
    if (number >= 0 && (numpy_api->make != nullptr || load_numpy_api()))
        found = Ref::borrow(numpy_api->dtypes[number]);
    else if (number < 0 && dtype.lanes() == 1 && !dtype.is_subbyte() && dtype.code >= kDLBfloat)
        found = find_ml_descr(dtype);
    if (!found && PyErr_Occurred() != nullptr &&
        (PyErr_ExceptionMatches(PyExc_ImportError) || PyErr_ExceptionMatches(PyExc_AttributeError)))
        PyErr_Clear();
    return found;
}
inline PyObject* numpy_dtype_or_error(DType dtype) {
    Ref found = numpy_dtype_of(dtype);
    if (!found && PyErr_Occurred() == nullptr)
        PyErr_Format(PyExc_AttributeError, "%s has no counterpart in NumPy", dtype.name().c_str());
    return found.release();
}
inline PyObject* dtype_as_numpy(PyObject* self, void*) { return numpy_dtype_or_error(value_of<DType>(self)); }
/// What NumPy's dtype says under this name.
inline PyObject* dtype_of_numpy_says(PyObject* self, void* name) {
    const Ref same(numpy_dtype_or_error(value_of<DType>(self)));
    return same ? PyObject_GetAttrString(same.get(), static_cast<const char*>(name)) : nullptr;
}
constexpr PyGetSetDef said_by_numpy(const char* name) {
    return {name, dtype_of_numpy_says, nullptr, "As of NumPy's dtype; an AttributeError if NumPy has none.",
            const_cast<char*>(name)};
}

/// Whether an object that is neither a DType nor a name is the same dtype: one of NumPy's, or a scalar type. -1 with a
/// Python exception set; -2 if it is not a dtype.
ISTHMUS_COLD inline int equals_foreign(DType value, PyObject* other) {
    if (!PyType_Check(other) && !has_base_called(Py_TYPE(other), "numpy.dtype")) return -2;
    DType found;
    if (!value_of_framework(other, found)) return PyErr_Occurred() != nullptr ? -1 : -2;
    if (found != value) return 0;
    const Ref known = numpy_dtype_of(value);
    return known ? 1 : PyErr_Occurred() != nullptr ? -1 : 0;
}
inline int equals_foreign(Device, PyObject*) { return -2; }

template <class Value>
PyObject* value_compare(PyObject* self, PyObject* other, int operation) {
    if (operation != Py_EQ && operation != Py_NE) Py_RETURN_NOTIMPLEMENTED;
    bool equal = false;
    if (PyObject_TypeCheck(other, Py_TYPE(self)))
        equal = value_of<Value>(other) == value_of<Value>(self);
    else if (PyUnicode_Check(other))
        return compare_text(other, compose({value_of<Value>(self)}), operation);
    else if (const int same = equals_foreign(value_of<Value>(self), other); same >= 0)
        equal = same != 0;
    else if (same == -1)
        return nullptr;
    else
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(equal == (operation == Py_EQ));
}
/// As the name's, since a value equals its name.
template <class Value>
Py_hash_t value_hash(PyObject* self) {
    Ref name(value_str<Value>(self));
    return name ? PyObject_Hash(name.get()) : -1;
}
template <>
inline Py_hash_t value_hash<DType>(PyObject* self) {
    Ref same = numpy_dtype_of(value_of<DType>(self));
    if (!same && PyErr_Occurred() == nullptr) same = Ref(value_str<DType>(self));
    return same ? PyObject_Hash(same.get()) : -1;
}
template <class Value>
ISTHMUS_COLD PyObject* value_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    Value value{};
    if (keywords != nullptr && PyDict_Size(keywords) != 0) {
        PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments", type->tp_name);
        return nullptr;
    }
    const bool one = PyTuple_GET_SIZE(arguments) == 1;
    const bool good =
        one ? value_from_python(PyTuple_GET_ITEM(arguments, 0), type, value) : value_from_tuple(arguments, value);
    if (good) return new_value_object(type, value);
    if (PyErr_Occurred() != nullptr) return nullptr;
    Ref text(PyObject_Repr(one ? PyTuple_GET_ITEM(arguments, 0) : arguments));
    const std::string_view utf8 = utf8_of(text.get());
    if (utf8.data() == nullptr) return nullptr;
    set_python_error(make_error(
        std::is_same_v<Value, DType> ? ErrorCode::bad_dtype : ErrorCode::bad_device, ErrorKind::value,
        {"found ", utf8, "; expected ", wanted_value(one ? PyTuple_GET_ITEM(arguments, 0) : arguments, value)}));
    return nullptr;
}
template <class Value>
PyObject* value_reduce(PyObject* self, PyObject*) {
    const Ref name(value_str<Value>(self));
    return name ? Py_BuildValue("(O(O))", Py_TYPE(self), name.get()) : nullptr;
}

inline PyObject* dtype_iter(PyObject* self) {
    const DType d = value_of<DType>(self);
    Ref tuple(Py_BuildValue("(iii)", int{d.code}, d.bits(), d.lanes()));
    return tuple ? PyObject_GetIter(tuple.get()) : nullptr;
}
inline PyObject* device_iter(PyObject* self) {
    const Device d = value_of<Device>(self);
    Ref tuple(Py_BuildValue("(ii)", d.type, d.id));
    return tuple ? PyObject_GetIter(tuple.get()) : nullptr;
}

template <class Value>
void value_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

template <class Value>
ISTHMUS_COLD PyTypeObject* make_value_type(const char* name, const char* doc, PyGetSetDef* getset, getiterfunc iter) {
    static PyMethodDef methods[] = {{"__reduce__", value_reduce<Value>, METH_NOARGS, "Pickled by name."},
                                    {nullptr, nullptr, 0, nullptr}};
    PyType_Slot type_slots[] = {
        {Py_tp_doc, const_cast<char*>(doc)},
        {Py_tp_dealloc, reinterpret_cast<void*>(value_dealloc<Value>)},
        {Py_tp_new, reinterpret_cast<void*>(value_new<Value>)},
        {Py_tp_str, reinterpret_cast<void*>(value_str<Value>)},
        {Py_tp_repr, reinterpret_cast<void*>(value_repr<Value>)},
        {Py_tp_richcompare, reinterpret_cast<void*>(value_compare<Value>)},
        {Py_tp_hash, reinterpret_cast<void*>(value_hash<Value>)},
        {Py_tp_iter, reinterpret_cast<void*>(iter)},
        {Py_tp_getset, getset},
        {Py_tp_methods, methods},
        {0, nullptr},
    };
    PyType_Spec spec{name, sizeof(ValueObject<Value>), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, type_slots};
    return make_class(spec);
}

/// isthmus.DeviceType: an int, DLPack's number, that also compares with its name and prints as it. It has no hash: that
/// would have to be the number's and the name's at once.
inline PyObject* new_device_type(int type) {
    return PyObject_CallFunction(reinterpret_cast<PyObject*>(shared_runtime()->device_type), "i", type);
}

inline TextBuffer device_type_name(PyObject* number) noexcept {
    int overflow = 0;
    const long long wide = PyLong_AsLongLongAndOverflow(number, &overflow);
    const int type = static_cast<int>(wide);
    return compose({name_of_device_type(overflow == 0 && type == wide ? type : -1)});
}

ISTHMUS_COLD inline PyTypeObject* make_device_type_class() {
    PyType_Slot type_slots[] = {
        {Py_tp_doc,
         const_cast<char*>(
             "DLPack's device type, an int that equals its name. It has no hash: use int(x) or str(x) as a key.")},
        {Py_tp_str, reinterpret_cast<void*>(+[](PyObject* self) { return unicode_of(device_type_name(self)); })},
        {Py_tp_repr, reinterpret_cast<void*>(+[](PyObject* self) {
             const Ref digits(PyLong_Type.tp_repr(self));
             const std::string_view number = digits ? utf8_of(digits.get()) : std::string_view();
             return number.data() != nullptr ? unicode_of({"<DeviceType.", device_type_name(self), ": ", number, ">"})
                                             : nullptr;
         })},
        {Py_tp_richcompare, reinterpret_cast<void*>(+[](PyObject* self, PyObject* other, int operation) -> PyObject* {
             if (!PyUnicode_Check(other)) return PyLong_Type.tp_richcompare(self, other, operation);
             if (operation != Py_EQ && operation != Py_NE) Py_RETURN_NOTIMPLEMENTED;
             return compare_text(other, device_type_name(self), operation);
         })},
        {Py_tp_hash, reinterpret_cast<void*>(PyObject_HashNotImplemented)},
        {0, nullptr},
    };
    PyType_Spec spec{"isthmus.DeviceType", 0, 0, Py_TPFLAGS_DEFAULT, type_slots};
    Ref bases(PyTuple_Pack(1, &PyLong_Type));
    return bases ? make_class(spec, bases.get()) : nullptr;
}

ISTHMUS_COLD inline PyTypeObject* make_dtype_class() {
    static PyGetSetDef getset[] = {
        {"name", [](PyObject* s, void*) { return value_str<DType>(s); }, nullptr,
         "'float32', 'bfloat16', 'float8_e4m3fn', 'float32x4'", nullptr},
        {"code", [](PyObject* s, void*) { return PyLong_FromLong(value_of<DType>(s).code); }, nullptr,
         "DLPack's type code (DLDataTypeCode)", nullptr},
        {"bits", [](PyObject* s, void*) { return PyLong_FromLong(value_of<DType>(s).bits()); }, nullptr,
         "bits of one lane", nullptr},
        {"lanes", [](PyObject* s, void*) { return PyLong_FromLong(value_of<DType>(s).lanes()); }, nullptr,
         "lanes of a vector type, else 1", nullptr},
        {"itemsize", [](PyObject* s, void*) { return PyLong_FromLongLong(value_of<DType>(s).itemsize()); }, nullptr,
         "bytes of one element, rounded up", nullptr},
        {"dtype", dtype_as_numpy, nullptr, "NumPy's dtype, or ml_dtypes' one; an AttributeError if they have none",
         nullptr},
        {"__numpy_dtype__", dtype_as_numpy, nullptr, "What numpy.dtype(x) asks for: dtype", nullptr},
        // What libraries that write arrays ask of a dtype.
        said_by_numpy("kind"),
        said_by_numpy("char"),
        said_by_numpy("str"),
        said_by_numpy("type"),
        said_by_numpy("num"),
        said_by_numpy("byteorder"),
        said_by_numpy("isnative"),
        said_by_numpy("alignment"),
        said_by_numpy("hasobject"),
        said_by_numpy("names"),
        said_by_numpy("fields"),
        said_by_numpy("subdtype"),
        said_by_numpy("metadata"),
        said_by_numpy("descr"),
        said_by_numpy("newbyteorder"),
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    return make_value_type<DType>("isthmus.DType",
                                  "DType(name) or DType(code, bits, lanes=1)\n--\n\nThe type of one element: DLPack's "
                                  "code, bits and lanes. Equals its "
                                  "name and NumPy's dtype, whose hash it has.",
                                  getset, dtype_iter);
}

ISTHMUS_COLD inline PyTypeObject* make_device_class() {
    static PyGetSetDef getset[] = {
        {"name", [](PyObject* s, void*) { return value_str<Device>(s); }, nullptr, "'cpu', 'cuda:0'", nullptr},
        {"type", [](PyObject* s, void*) { return new_device_type(value_of<Device>(s).type); }, nullptr,
         "DLPack's device type: a number that equals its name, 'cuda'", nullptr},
        {"id", [](PyObject* s, void*) { return PyLong_FromLong(value_of<Device>(s).id); }, nullptr,
         "index of the device", nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    return make_value_type<Device>(
        "isthmus.Device", "Device(name) or Device(type, id)\n--\n\nWhere memory is: DLPack's device type and index.",
        getset, device_iter);
}

}  // namespace detail

ISTHMUS_END
