// SPDX-License-Identifier: Apache-2.0
// The filters as a Python module. It is compiled against Python and Isthmus alone, and takes images of every framework.
#include <isthmus/python.h>

#include "filters.h"

namespace {

PyObject* fail(const isthmus::Error& error) { return isthmus::set_python_error(error), nullptr; }

/// Lends the image's own memory to `work` for the length of the call. `T const` is a promise to read only; without it, memory
/// that must not be written is refused before anything happens.
template <class T, class Work>
PyObject* with_image(PyObject* object, Work&& work) {
    const auto borrowed = isthmus::borrow_py(object, {.require_writable = !std::is_const_v<T>, .argument = "image"});
    if (!borrowed) return fail(borrowed.error());
    const auto view = borrowed->template view<T, 3>();
    if (!view) return fail(view.error().prefixed("argument 'image': "));
    if (view->extent(2) != 3)
        return fail(isthmus::Error(
            isthmus::ErrorCode::bad_layout, isthmus::ErrorKind::value,
            "argument 'image': found " + std::to_string(view->extent(2)) + " channels; wanted 3 (red, green, blue)"));
    return work(*view);
}

/// A new tensor, handed over as an array of the framework that `example` is of.
PyObject* in_framework_of(PyObject* example, const isthmus::Tensor& tensor) {
    const auto object = isthmus::to_py_like(tensor, example);
    return object ? *object : fail(object.error());
}

PyObject* sepia(PyObject*, PyObject* image) {
    return with_image<std::uint8_t>(image, [](photo::Image pixels) {
        photo::sepia(pixels);
        Py_RETURN_NONE;
    });
}

PyObject* blur(PyObject*, PyObject* arguments) {
    PyObject* image = nullptr;
    int radius = 0;
    if (!PyArg_ParseTuple(arguments, "Oi:blur", &image, &radius)) return nullptr;
    if (radius < 0) {
        PyErr_Format(PyExc_ValueError, "argument 'radius': found %d; wanted 0 or more", radius);
        return nullptr;
    }
    return with_image<std::uint8_t>(image, [radius](photo::Image pixels) {
        if (!pixels.empty()) photo::blur(pixels, radius);
        Py_RETURN_NONE;
    });
}

PyObject* sharpened(PyObject*, PyObject* arguments) {
    PyObject* image = nullptr;
    float amount = 0;
    if (!PyArg_ParseTuple(arguments, "Of:sharpened", &image, &amount)) return nullptr;
    return with_image<const std::uint8_t>(image, [&](photo::Pixels pixels) -> PyObject* {
        try {
            const auto result = isthmus::Tensor::empty(pixels.shape(), isthmus::uint8);
            photo::sharpen(pixels, *result.view<std::uint8_t, 3>(), amount);
            return in_framework_of(image, result);
        } catch (const isthmus::Error& error) {
            return fail(error);
        }
    });
}

PyObject* mean(PyObject*, PyObject* image) {
    return with_image<const std::uint8_t>(image, [&](photo::Pixels pixels) -> PyObject* {
        try {
            const auto means = photo::mean(pixels);
            const auto result = isthmus::Tensor::empty({3}, isthmus::float32);
            std::copy(means.begin(), means.end(), static_cast<float*>(result.data()));
            return in_framework_of(image, result);
        } catch (const isthmus::Error& error) {
            return fail(error);
        }
    });
}

PyMethodDef methods[] = {
    {"sepia", sepia, METH_O, "sepia(image)\n\nTone a uint8 image (rows, columns, 3) in place."},
    {"blur", blur, METH_VARARGS, "blur(image, radius)\n\nBlur a uint8 image in place; the radius counts pixels."},
    {"sharpened", sharpened, METH_VARARGS,
     "sharpened(image, amount)\n\nA sharper copy of a uint8 image, in the framework of the image."},
    {"mean", mean, METH_O, "mean(image)\n\nThe mean of each channel, as 3 float32 values in the framework of the image."},
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
