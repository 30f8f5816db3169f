// Every public header that needs nothing but Python, in one shared object: which of its symbols others can see.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <isthmus/core/live.h>
#include <isthmus/isthmus.h>

#include <vector>

#include "../../python/support/module.h"

namespace {

PyObject* use(PyObject*, PyObject* x) {
    try {
        auto taken = isthmus::from_py(x);
        if (!taken) return isthmus::set_python_error(taken.error()), nullptr;
        const isthmus::Tensor made = isthmus::Tensor::own(std::vector<float>(taken->shape().size() + 1));
        const isthmus::Blob blob = isthmus::to_blob(made.as_strided(made.data(), {1}, {1}, isthmus::float32).as_read_only());
        auto copy = isthmus::copy_of(made.descriptor());
        isthmus::DType dtype;
        isthmus::Device device;
        if (!isthmus::DType::parse(taken->dtype().name(), dtype) || !isthmus::Device::parse("cpu", device))
            throw isthmus::Error(isthmus::ErrorCode::bad_dtype, blob.dtype.name());
        auto* managed = copy->to_dlpack();
        auto again = isthmus::Tensor::from_dlpack(managed);
        isthmus::live_tracking(!isthmus::live_tracking());
        if (auto borrowed = isthmus::borrow_py(x); borrowed && again && isthmus::live().empty())
            return *isthmus::to_py_like(*again, x);
        return *isthmus::to_py(*again, isthmus::Framework::numpy);
    } catch (const isthmus::Error& error) {
        return isthmus::set_python_error(error), nullptr;
    }
}

PyMethodDef methods[] = {{"use", use, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "exports", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_exports() { return create_module(definition); }
