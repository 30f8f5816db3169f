// Every public header that needs nothing but Python, in one shared object: which of its symbols others can see.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <isthmus/converted.h>
#include <isthmus/core/live.h>
#include <isthmus/fields.h>
#include <isthmus/isthmus.h>
#include <isthmus/load.h>
#include <isthmus/op.h>
#include <isthmus/python/arguments.h>
#include <isthmus/shared.h>
#include <isthmus/small_floats.h>
#include <isthmus/tree.h>
#include <isthmus/visit.h>

#include <vector>

#include "../../python/support/module.h"

namespace {

struct Scaled {
    isthmus::View<const float, 1, isthmus::sizes<"n">> x;
    isthmus::Tensor factor;
    using fields = isthmus::fields<"x", "factor">;
};

void scale(isthmus::View<const float, 1, isthmus::sizes<"n">> x, double k,
           isthmus::Out<float, 1, isthmus::sizes<"n">> y) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) y(i) = static_cast<float>(k * x(i));
}

PyObject* parsed(PyObject*, PyObject* const* values, Py_ssize_t count) {
    using Converted = isthmus::Converted<isthmus::View<const float, 1>>;
    isthmus::Arguments<Converted, isthmus::View<isthmus::any_dtype, isthmus::dynamic_rank>, Scaled> arguments(
        "parsed", {"x", "any", "scaled"});
    if (!arguments.parse(values, count)) return nullptr;
    return PyLong_FromLongLong(arguments.get<0>().extent(0) + static_cast<long long>(arguments.get<1>().nbytes()));
}

PyObject* stored(PyObject*, PyObject* path) {
    const auto file = isthmus::load(PyUnicode_AsUTF8(path));
    const auto segment = isthmus::shared::Pool::process().empty({2}, isthmus::bfloat16);
    return file && segment ? PyLong_FromSize_t(file->size()) : nullptr;
}

PyObject* use(PyObject*, PyObject* x) {
    try {
        auto taken = isthmus::from_py(x);
        if (!taken) return isthmus::set_python_error(taken.error()), nullptr;
        const isthmus::Tensor made = isthmus::Tensor::own(std::vector<float>(taken->shape().size() + 1));
        const isthmus::Blob blob =
            isthmus::to_blob(made.as_strided(made.data(), {1}, {1}, isthmus::float32).as_read_only());
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

PyMethodDef methods[] = {{"use", use, METH_O, nullptr},
                         {"stored", stored, METH_O, nullptr},
                         {"parsed", reinterpret_cast<PyCFunction>(parsed), METH_FASTCALL, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "exports", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_exports() {
    PyObject* module = create_module(definition);
    return module && isthmus::op<"exports::scale", scale>(module, {"x", "k"}) ? module : nullptr;
}
