// tensor_protocol(): a bound class whose instances every framework takes as a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

#include <functional>
#include <type_traits>
#include <utility>

#include <isthmus/python/captured.h>

ISTHMUS_BEGIN

namespace detail {

/// Adds the protocols to a class whose instances have a method __isthmus_tensor__(), which returns their tensor. False
/// with the exception set.
bool add_tensor_protocol(PyObject* type) noexcept;
/// Adds a method to a class; the definition outlives it.
bool add_method(PyObject* type, PyMethodDef* method) noexcept;

template <class Class>
struct BoundType {};
template <class Class>
    requires requires { typename Class::Type; }  // nanobind::class_
struct BoundType<Class> : std::type_identity<typename Class::Type> {};
template <class Class>
    requires requires { typename Class::type; }  // pybind11::class_
struct BoundType<Class> : std::type_identity<typename Class::type> {};

}  // namespace detail

/// Makes the instances of a class of nanobind or pybind11 tensors to every framework: numpy.asarray(grid),
/// torch.from_dlpack(grid), memoryview(grid), isthmus.from_dlpack(grid) share the memory of the Tensor that `get`
/// returns, which is a member function, a member, or a function of the instance. It is asked each time, and an array
/// made of it keeps the instance alive, unless the Tensor is known to keep its memory. Adds `__dlpack__`,
/// `__dlpack_device__`, `__array__`, `__array_interface__`, `__cuda_array_interface__` and the buffer protocol; include
/// the binder's header, isthmus/nanobind.h or isthmus/pybind11.h, too. Throws Error if the class refuses an attribute.
///
///     nb::class_<Grid> grid(m, "Grid");
///     isthmus::tensor_protocol(grid, &Grid::tensor);
template <class Class, class Get>
    requires requires { typename detail::BoundType<Class>::type; }
void tensor_protocol(Class& cls, Get get) {
    using Instance = typename detail::BoundType<Class>::type;
    static_assert(std::is_invocable_r_v<Tensor, Get, Instance&>,
                  "isthmus: tensor_protocol() expects a function of the instance that returns a Tensor");
    cls.def("__isthmus_tensor__",
            [get = std::move(get)](Instance& self) -> As<Framework::tensor> { return Tensor(std::invoke(get, self)); });
    if (!detail::add_tensor_protocol(cls.ptr())) {
        const bool no_memory = PyErr_ExceptionMatches(PyExc_MemoryError) != 0;
        PyErr_Clear();
        if (no_memory) throw Error(ErrorCode::out_of_memory, "isthmus: no memory for tensor_protocol()");
        throw Error(ErrorCode::bad_argument, "isthmus: tensor_protocol(): the class does not take attributes");
    }
}

/// The same of a class of the bare CPython API, made by PyType_FromSpec() and not immutable: `get` returns the Tensor
/// of an instance, and may throw. False with the exception set.
///
///     isthmus::tensor_protocol<tensor_of>(type);  // isthmus::Tensor tensor_of(PyObject* self)
template <Tensor (*get)(PyObject*)>
bool tensor_protocol(PyObject* type) noexcept {
    static PyMethodDef method{"__isthmus_tensor__",
                              [](PyObject* self, PyObject*) -> PyObject* {
                                  return detail::raising<PyObject*>("__isthmus_tensor__", nullptr, [self] {
                                      return detail::to_result(get(self), Framework::tensor, self);
                                  });
                              },
                              METH_NOARGS, "The tensor of the instance."};
    return detail::add_method(type, &method) && detail::add_tensor_protocol(type);
}

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_TENSOR_PROTOCOL)
#endif

#if defined(ISTHMUS_IMPLEMENTATION)
#include <isthmus/python.h>  // last: it brings the sources, which need the above
#endif
