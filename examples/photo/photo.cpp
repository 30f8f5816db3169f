// SPDX-License-Identifier: Apache-2.0
// The filters as a Python module. It is compiled against Python and Isthmus alone, and
// takes images of every framework.
#include <isthmus/python.h>

#include <isthmus/python/arguments.h>

#include <algorithm>

#include "filters.h"

namespace {

// The types of each function are its checks: read-only memory, or an image of other
// sizes, is refused before the call, and the error names the argument. The images are
// borrowed for the length of the call.

PyObject* fail(const isthmus::Error& error) {
    isthmus::set_python_error(error);
    return nullptr;
}

PyObject* sepia(PyObject*, PyObject* const* args, Py_ssize_t count,
                PyObject* keywords) {
    isthmus::Arguments<photo::Image> in("sepia", {"image"});
    if (!in.parse(args, count, keywords)) return nullptr;
    photo::sepia(in.get<0>());
    Py_RETURN_NONE;
}

PyObject* blur(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
    isthmus::Arguments<photo::Image, std::int64_t> in("blur", {"image", "radius"});
    if (!in.parse(args, count, keywords)) return nullptr;
    auto [image, radius] = in.values();
    if (radius < 0) {
        PyErr_Format(PyExc_ValueError,
                     "argument 'radius': found %lld; expected 0 or more",
                     static_cast<long long>(radius));
        return nullptr;
    }
    // A larger radius takes in no more neighbours.
    if (!image.empty())
        photo::blur(image,
                    std::min(radius, std::max(image.extent(0), image.extent(1))));
    Py_RETURN_NONE;
}

PyObject* sharpened(PyObject*, PyObject* const* args, Py_ssize_t count,
                    PyObject* keywords) {
    isthmus::Arguments<photo::Pixels, double> in("sharpened", {"image", "amount"});
    if (!in.parse(args, count, keywords)) return nullptr;
    auto [image, amount] = in.values();
    try {
        const auto result = isthmus::Tensor::empty(image.shape(), isthmus::uint8);
        photo::sharpen(image, result.view<photo::Image>().value(),
                       static_cast<float>(amount));
        return in.reply(result);  // in the framework of the image
    } catch (const isthmus::Error& error) {
        return fail(error);
    }
}

PyObject* mean(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* keywords) {
    isthmus::Arguments<photo::Pixels> in("mean", {"image"});
    if (!in.parse(args, count, keywords)) return nullptr;
    try {
        const auto means = photo::mean(in.get<0>());
        const auto result = isthmus::Tensor::empty({3}, isthmus::float32);
        std::copy(means.begin(), means.end(), static_cast<float*>(result.data()));
        return in.reply(result);
    } catch (const isthmus::Error& error) {
        return fail(error);
    }
}

using Function = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

/// How the interpreter is told of a function that takes its arguments as an array.
PyMethodDef method(const char* name, Function function, const char* doc) {
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)),
            METH_FASTCALL | METH_KEYWORDS, doc};
}

PyMethodDef methods[] = {
    method("sepia", sepia,
           "sepia(image)\n\nTone a uint8 image (rows, columns, 3) in place."),
    method("blur", blur,
           "blur(image, radius)\n\nBlur a uint8 image in place; the radius counts "
           "pixels."),
    method("sharpened", sharpened,
           "sharpened(image, amount)\n\nA sharper copy of a uint8 image, in the "
           "framework of the image."),
    method("mean", mean,
           "mean(image)\n\nThe mean of each channel, as 3 float32 values in the "
           "framework of the image."),
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition{PyModuleDef_HEAD_INIT,
                       "photo",
                       "Image filters for images of every framework.",
                       -1,
                       methods,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_photo() { return PyModule_Create(&definition); }
