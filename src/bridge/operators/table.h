// An operator's facts for Python, from which isthmus.operators makes torch's schema and JAX's call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/raise.h"  // Python.h must come before any standard header

#include <isthmus/python/arguments.h>
#include "call.h"
#include "../runtime/tuples.h"

ISTHMUS_BEGIN

namespace detail {

/// {"name": …, "inputs": [{"name", "kind", "optional", "sizes", "rank", "contiguous", "floating"[, "default"]}, …], "outs":
/// […], "batch", "cuda", "writes"}: a new reference, or NULL with a Python exception set. `kind` is "tensor", "in_out",
/// "number", "integer", "boolean" or "text"; `rank` is -1 and `sizes` None where they are free.
PyObject* operator_table(const OperatorDefinition& op);

/// The results of a call with tensors of these dtypes and sizes, [(dtype, sizes), …], or NULL with the exception that the call
/// would raise. `arguments`: by input, (dtype, sizes) for a tensor, None for one that is not given, a number for a scalar.
PyObject* infer_operator(const OperatorDefinition& op, PyObject* arguments, int batch_dims);


inline constexpr const char* parameter_kind_names[] = {"tensor",  "in_out",  "out",  "number",
                                                       "integer", "boolean", "text", "stream"};

/// (3, "n", None), or None if the sizes are free.
inline PyObject* table_sizes(const Requirement& r) {
    if (r.size_count < 0) Py_RETURN_NONE;
    Ref tuple(PyTuple_New(r.size_count));
    for (int i = 0; tuple && i < r.size_count; ++i) {
        const SizeSpec& spec = r.sizes[i];
        PyObject* item = !spec.name.empty()
                             ? PyUnicode_FromStringAndSize(spec.name.data(), static_cast<Py_ssize_t>(spec.name.size()))
                         : spec.size == dyn ? Py_NewRef(Py_None)
                                            : PyLong_FromLongLong(spec.size);
        if (item == nullptr) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), i, item);
    }
    return tuple.release();
}

inline PyObject* default_value(const OperatorDefinition& op, const OperatorInput& input) {
    switch (op.parameters()[input.parameter].kind) {
        case ParameterKind::number:
            return PyFloat_FromDouble(input.default_value.number);
        case ParameterKind::integer:
            return PyLong_FromLongLong(input.default_value.integer);
        case ParameterKind::boolean:
            return PyBool_FromLong(input.default_value.boolean);
        default:
            return PyUnicode_FromStringAndSize(input.default_text.data(), static_cast<Py_ssize_t>(input.default_text.size()));
    }
}

/// Takes over `stolen`, which is NULL if making it failed. False with a Python exception set.
inline bool put(PyObject* dict, const char* key, PyObject* stolen) {
    Ref value(stolen);
    return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

inline PyObject* table_row(const OperatorDefinition& op, const std::string& name, int parameter) {
    const ParameterFacts& facts = op.parameters()[parameter];
    Ref row(PyDict_New());
    bool good = row && put(row.get(), "name", PyUnicode_FromString(name.c_str())) &&
                put(row.get(), "kind", PyUnicode_FromString(parameter_kind_names[static_cast<int>(facts.kind)])) &&
                put(row.get(), "optional", PyBool_FromLong(facts.optional));
    if (good && facts.is_tensor()) {
        const Requirement& r = *facts.requirement;
        good = put(row.get(), "sizes", table_sizes(r)) && put(row.get(), "contiguous", PyBool_FromLong(r.order == Order::c)) &&
               put(row.get(), "rank", PyLong_FromLong(r.least_rank == r.most_rank ? r.least_rank : -1));
    }
    return good ? row.release() : nullptr;
}

PyObject* operator_table(const OperatorDefinition& op) {
    Ref table(PyDict_New()), inputs(PyList_New(0)), outs(PyList_New(0));
    bool good = table && inputs && outs;
    for (int i = 0; good && i < op.input_count; ++i) {
        Ref row(table_row(op, op.inputs[i].name, op.inputs[i].parameter));
        good = row && (!op.inputs[i].has_default || put(row.get(), "default", default_value(op, op.inputs[i]))) &&
               PyList_Append(inputs.get(), row.get()) == 0;
    }
    for (int i = 0; good && i < op.out_count; ++i) {
        Ref row(table_row(op, op.out_names[i], op.outs[i]));
        good = row && put(row.get(), "gradient_of", PyLong_FromLong(op.gradient_of[i])) &&
               PyList_Append(outs.get(), row.get()) == 0;
    }
    good = good && put(table.get(), "name", PyUnicode_FromString(op.name.c_str())) &&
           put(table.get(), "space", PyUnicode_FromString(op.space.c_str())) &&
           put(table.get(), "function", PyUnicode_FromString(op.function.c_str())) &&
           put(table.get(), "batch", PyBool_FromLong(op.batch)) && put(table.get(), "cuda", PyBool_FromLong(op.has_device())) &&
           put(table.get(), "writes", PyBool_FromLong(op.writes_inputs)) && put(table.get(), "inputs", inputs.release()) &&
           put(table.get(), "outs", outs.release());
    return good ? table.release() : nullptr;
}

/// A tensor given by its dtype and sizes alone. The address is never read.
struct SaidTensor {
    DLTensor t;
    std::int64_t dims[2 * max_ndim];

    bool read(PyObject* said, const char* argument) {
        const char* name = nullptr;
        PyObject* sizes = nullptr;
        if (!PyTuple_Check(said) || !PyArg_ParseTuple(said, "sO!", &name, &PyTuple_Type, &sizes)) return false;
        DType dtype;
        if (!DType::parse(name, dtype)) {
            raise(ErrorCode::bad_dtype, ErrorKind::value,
                  {argument_prefix(argument), "found dtype ", name, ", which is not one that DLPack 1.3 defines"});
            return false;
        }
        const auto ndim = static_cast<int>(PyTuple_GET_SIZE(sizes));
        if (ndim > max_ndim) return PyErr_Format(PyExc_ValueError, "%d dimensions", ndim) != nullptr;
        for (int i = 0; i < ndim; ++i) dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
        if (PyErr_Occurred() != nullptr) return false;
        if (!layout::row_major(dims, ndim, dims + ndim))
            for (int i = 0; i < ndim; ++i) dims[ndim + i] = 1;
        constexpr std::uintptr_t aligned_address = 4096;
        t = DLTensor{reinterpret_cast<void*>(aligned_address), Device::cpu(), ndim, dtype, dims, dims + ndim, 0};
        return true;
    }
};

inline bool say_argument(OperatorCall& call, const OperatorInput& input, PyObject* said, SaidTensor& tensor) {
    const OperatorDefinition& op = call.definition();
    const ParameterFacts& facts = op.parameters()[input.parameter];
    if (facts.is_tensor() && said == Py_None && facts.optional) {
        call.set_absent(input.parameter);
    } else if (facts.is_tensor()) {
        if (!tensor.read(said, input.name.c_str())) {
            if (PyErr_Occurred() == nullptr) raise_type(op.function.c_str(), input.name.c_str(), "a tensor", said);
            return false;
        }
        call.set_tensor(input.parameter, tensor.t, 0);
    } else if (facts.kind == ParameterKind::integer) {
        call.value(input.parameter).integer = PyLong_Check(said) ? PyLong_AsLongLong(said) : 0;
        return PyErr_Occurred() == nullptr;
    }
    return true;
}

PyObject* infer_operator(const OperatorDefinition& op, PyObject* arguments, int batch_dims) {
    OperatorCall call(op, batch_dims);
    call.say_only();
    SaidTensor tensors[max_parameters];
    Ref sequence(PySequence_Fast(arguments, "expected a sequence"));
    if (!sequence) return nullptr;
    if (PySequence_Fast_GET_SIZE(sequence.get()) != op.input_count)
        return PyErr_Format(PyExc_ValueError, "%s(): expected %d arguments", op.function.c_str(), op.input_count);
    for (int i = 0; i < op.input_count; ++i) {
        const Ref item = sequence_item(sequence.get(), i);
        if (!item || !say_argument(call, op.inputs[i], item.get(), tensors[i])) return nullptr;
    }
    if (auto chosen = call.choose(); !chosen) return set_python_error(chosen.error()), nullptr;
    Ref results(PyList_New(0));
    for (int i = 0; results && i < op.out_count; ++i) {
        SizesList shape;
        if (auto told = call.shape_of(i, shape); !told) return set_python_error(told.error()), nullptr;
        Ref sizes(tuple_of(shape.data(), static_cast<int>(shape.size())));
        Ref row(sizes ? Py_BuildValue("(sO)", call.dtype_of(i).name().c_str(), sizes.get()) : nullptr);
        if (!row || PyList_Append(results.get(), row.get()) != 0) return nullptr;
    }
    return results.release();
}

}  // namespace detail

ISTHMUS_END
