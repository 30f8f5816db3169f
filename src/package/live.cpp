// isthmus.live, over the list of isthmus/core/live.h.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

#include <isthmus/core/live.h>

namespace {

using namespace package;
namespace detail = isthmus::detail;

PyObject* enable(PyObject*, PyObject* tracing) {
    const int trace = PyObject_IsTrue(tracing);
    if (trace < 0) return nullptr;
    isthmus::live_tracking(true, trace != 0);
    Py_RETURN_NONE;
}

PyObject* disable(PyObject*, PyObject*) {
    isthmus::live_tracking(false);
    Py_RETURN_NONE;
}

PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(isthmus::live_tracking()); }

PyObject* describe(const isthmus::LiveTensor& live) {
    detail::SharedRuntime* shared = detail::shared_types();
    Ref shape(detail::tuple_of(live.shape.data(), static_cast<int>(live.shape.size())));
    Ref dtype(detail::new_value_object(shared->dtype, live.dtype)),
        device(detail::new_value_object(shared->device, live.device));
    Ref ptr(PyLong_FromVoidPtr(live.data));
    if (!shape || !dtype || !device || !ptr) return nullptr;
    return Py_BuildValue("(KOLOOOOOIssdss)", static_cast<unsigned long long>(live.serial), ptr.get(),
                         static_cast<long long>(live.nbytes), shape.get(), dtype.get(), device.get(),
                         live.read_only ? Py_True : Py_False, live.borrowed ? Py_True : Py_False,
                         static_cast<unsigned int>(live.handles), live.producer.c_str(), live.consumer.c_str(),
                         live.age, live.place.c_str(), live.cpp_place.c_str());
}

/// One tuple per tensor, the fields in the order of isthmus.LiveTensor.
PyObject* list(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        const std::vector<isthmus::LiveTensor> tensors = isthmus::live();
        Ref result(PyList_New(0));
        for (const isthmus::LiveTensor& live : tensors) {
            Ref item(result ? describe(live) : nullptr);
            if (!item || PyList_Append(result.get(), item.get()) != 0) return nullptr;
        }
        return result.release();
    });
}

}  // namespace

PyMethodDef package::live_methods[] = {
    {"_live_enable", enable, METH_O, "_live_enable($module, tracing, /)\n--\n\nKeep the list from now on."},
    {"_live_disable", disable, METH_NOARGS, "_live_disable($module, /)\n--\n\nStop keeping the list, and empty it."},
    {"_live_enabled", is_enabled, METH_NOARGS, "_live_enabled($module, /)\n--\n\nWhether somebody keeps the list."},
    {"_live_list", list, METH_NOARGS, "_live_list($module, /)\n--\n\nThe list, as tuples."},
    {nullptr, nullptr, 0, nullptr},
};
