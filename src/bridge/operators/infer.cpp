// What a call's results would be, by the dtypes and sizes of its arguments alone: for the tracers of torch and JAX.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <deque>

#include <isthmus/python/arguments.h>
#include "../runtime/errors.h"
#include "../runtime/lookups.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

/// A tensor given by its dtype and sizes alone. The address is never read.
struct AbstractTensor {
    DLTensor t;
    std::int64_t dims[2 * max_ndim];
    bool is_symbolic = false;  ///< there are no strides for such sizes

    bool read(PyObject* spec, const char* argument) {
        const char* name = nullptr;
        PyObject* sizes = nullptr;
        if (!PyTuple_Check(spec) || !PyArg_ParseTuple(spec, "sO!", &name, &PyTuple_Type, &sizes)) return false;
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
        is_symbolic = !layout::row_major(dims, ndim, dims + ndim);
        for (int i = 0; is_symbolic && i < ndim; ++i) dims[ndim + i] = 1;
        constexpr std::uintptr_t aligned_address = 4096;
        t = DLTensor{reinterpret_cast<void*>(aligned_address), Device::cpu(), ndim, dtype, dims, dims + ndim, 0};
        return true;
    }
};

/// The elements of a list by their dtypes and sizes.
bool set_list(OperatorCall& call, const OperatorInput& input, PyObject* specs, std::deque<AbstractTensor>& tensors) {
    const Ref elements(PySequence_Tuple(specs));
    for (Py_ssize_t k = 0; elements && k < PyTuple_GET_SIZE(elements.get()); ++k) {
        AbstractTensor& tensor = tensors.emplace_back();
        if (!tensor.read(PyTuple_GET_ITEM(elements.get(), k), input.name.c_str())) return false;
        call.list(input.parameter).add(tensor.t, 0);
        if (tensor.is_symbolic) call.set_symbolic();
    }
    return static_cast<bool>(elements);
}

bool set_argument(OperatorCall& call, const OperatorInput& input, PyObject* spec, std::deque<AbstractTensor>& tensors) {
    const OperatorDefinition& op = call.definition();
    const ParameterFacts& facts = op.parameters()[input.parameter];
    if (facts.is_list()) {
        if (set_list(call, input, spec, tensors)) return true;
        if (PyErr_Occurred() == nullptr) raise_type(op.function.c_str(), input.name.c_str(), "a list of tensors", spec);
        return false;
    }
    if (facts.is_tensor() && spec == Py_None && facts.optional) {
        call.set_absent(input.parameter);
    } else if (facts.is_tensor()) {
        AbstractTensor& tensor = tensors.emplace_back();
        if (!tensor.read(spec, input.name.c_str())) {
            if (PyErr_Occurred() == nullptr) raise_type(op.function.c_str(), input.name.c_str(), "a tensor", spec);
            return false;
        }
        if (facts.kind == ParameterKind::sizes)
            call.set_sizes(input.parameter, tensor.t, 0);
        else
            call.set_tensor(input.parameter, tensor.t, 0);
        if (tensor.is_symbolic) call.set_symbolic();
    } else if (facts.kind == ParameterKind::integer) {
        call.value(input.parameter).integer = PyLong_Check(spec) ? PyLong_AsLongLong(spec) : 0;
        return PyErr_Occurred() == nullptr;
    } else if (facts.kind == ParameterKind::dtype && spec != Py_None) {
        DType dtype;
        if (!read_dtype(spec, dtype, op, input.name)) return false;
        call.value(input.parameter).dtype = dtype;
    }
    return true;
}

}  // namespace

PyObject* infer_operator(const OperatorDefinition& op, PyObject* arguments, int batch_ndim, bool leaves_formulas) {
    OperatorCall call(op, batch_ndim);
    call.set_abstract();
    if (leaves_formulas) call.leave_formulas();
    std::deque<AbstractTensor> tensors;  // at addresses that stay
    Ref sequence(PySequence_Fast(arguments, "expected a sequence"));
    if (!sequence) return nullptr;
    if (PySequence_Fast_GET_SIZE(sequence.get()) != op.input_count)
        return PyErr_Format(PyExc_ValueError, "%s(): expected %d arguments", op.function.c_str(), op.input_count);
    for (int i = 0; i < op.input_count; ++i) {
        const Ref item = sequence_item(sequence.get(), i);
        if (!item || !set_argument(call, op.inputs[i], item.get(), tensors)) return nullptr;
    }
    if (auto chosen = call.choose(); !chosen) return set_python_error(chosen.error()), nullptr;
    Ref results(PyList_New(0));
    for (int i = 0; results && i < op.out_count; ++i) {
        SizesList shape;
        if (auto shaped = call.shape_of(i, shape); !shaped) return set_python_error(shaped.error()), nullptr;
        Ref sizes(tuple_of(shape.data(), static_cast<int>(shape.size())));
        Ref row(sizes ? Py_BuildValue("(sO)", call.dtype_of(i).name().c_str(), sizes.get()) : nullptr);
        if (!row || PyList_Append(results.get(), row.get()) != 0) return nullptr;
    }
    return results.release();
}

}  // namespace detail

ISTHMUS_END
