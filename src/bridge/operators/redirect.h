// Calls that must go through a framework's own machinery: where a gradient or a graph is being recorded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../framework/torch/shims.h"  // Python.h must come before any standard header

#include <isthmus/python/operator/definition.h>
#include <isthmus/python/runtime/classes.h>
#include <isthmus/python/runtime/errors.h>

ISTHMUS_BEGIN

namespace detail {

/// The Python module that makes operators of the frameworks from ours: NULL with a Python exception set, or without one if the
/// package is not installed.
inline PyObject* operators_module() {
    PyObject* module = PyImport_ImportModule("isthmus.operators");
    if (module == nullptr && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) PyErr_Clear();
    return module;
}

/// Calls `isthmus.operators.<function>(op, {name: value}, out)`: a new reference, or NULL without an exception if it cannot
/// make this call.
ISTHMUS_COLD inline PyObject* redirect_operator(const OperatorDefinition& op, PyObject* self, PyObject* const* objects,
                                                PyObject* out) {
    Ref arguments(PyDict_New());
    for (int i = 0; arguments && i < op.input_count; ++i)
        if (objects[i] != nullptr && PyDict_SetItemString(arguments.get(), op.inputs[i].name.c_str(), objects[i]) != 0)
            return nullptr;
    Ref module(arguments ? operators_module() : nullptr);
    if (!module) return nullptr;
    Ref result(PyObject_CallMethod(module.get(), "_redirect", "OOO", self, arguments.get(), out != nullptr ? out : Py_None));
    return result.get() == Py_NotImplemented ? nullptr : result.release();
}

/// Called with an exception set: an argument that could not be borrowed may be one that its framework traces. If the call
/// cannot be redirected the exception stays.
ISTHMUS_COLD inline PyObject* redirect_after_error(const OperatorDefinition& op, PyObject* self, PyObject* const* objects,
                                                   PyObject* out) {
    const auto may_trace = [](PyObject* object) {
        return object != nullptr &&
               (has_base_of_package(Py_TYPE(object), "torch") || has_base_of_package(Py_TYPE(object), "jax") ||
                has_base_of_package(Py_TYPE(object), "jaxlib"));
    };
    bool any = false;
    for (int i = 0; i < op.input_count; ++i) any = any || may_trace(objects[i]);
    if (!any || !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyObject* exception = take_exception();
    PyObject* result = redirect_operator(op, self, objects, out);
    if (result == nullptr && PyErr_Occurred() == nullptr)
        restore_exception(exception);
    else
        Py_DECREF(exception);
    return result;
}

/// c10::impl::dispatch_mode_enabled(): whether something in this thread records what torch does (FakeTensorMode, make_fx, a
/// profiler of operations). Exported by libc10 but not promised; if it is missing the answer is no.
inline bool torch_is_recorded() noexcept {
    using Function = bool (*)();
    static const Function enabled = [] {
        Function function = nullptr;
        void* lib = find_library(ISTHMUS_LIBRARY("c10"));
        if (lib != nullptr) find_symbol(lib, "_ZN3c104impl21dispatch_mode_enabledEv", function);
        return function;
    }();
    return enabled != nullptr && enabled();
}

/// The first call with a torch tensor registers the operator there. Without the package only eager calls are available.
ISTHMUS_COLD inline void offer_to_torch(OperatorDefinition& op, PyObject* self) {
    store_shared(op.offered_to_torch, true);
    Ref module(operators_module());
    Ref done(module ? PyObject_CallMethod(module.get(), "_offer", "Os", self, "torch") : nullptr);
    if (!done && is_interrupted()) store_shared(op.offered_to_torch, false);
}

/// Whether the call must go through torch itself. May set a Python exception.
inline bool torch_must_see(OperatorDefinition& op, PyObject* self) {
    if (ISTHMUS_UNLIKELY(!load_shared(op.offered_to_torch))) offer_to_torch(op, self);
    return ISTHMUS_UNLIKELY(torch_is_recorded());
}

}  // namespace detail

ISTHMUS_END
