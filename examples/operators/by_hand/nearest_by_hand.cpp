// SPDX-License-Identifier: Apache-2.0
// The same search without Isthmus: a ufunc by NumPy's C API, two handlers by XLA's
// headers, two functions for torch.
#include <Python.h>

#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>
#include <xla/ffi/api/ffi.h>

#include <string>

#include "../nearest.h"

namespace ffi = xla::ffi;

namespace {

// For torch, called by ctypes: what was thrown, as text; NULL when all went well.

thread_local std::string what;
template <class F>
const char* text_of(F&& f) {
    try {
        return f(), nullptr;
    } catch (const std::exception& error) {
        return (what = error.what()).c_str();
    }
}

// For XLA.

using Matrix = ffi::BufferR2<ffi::F32>;
using Vector = ffi::BufferR1<ffi::F32>;
using Indices = ffi::BufferR1<ffi::S32>;

ffi::Error check(Matrix points, Matrix queries) {
    if (points.dimensions()[1] == queries.dimensions()[1]) return ffi::Error::Success();
    return ffi::Error::InvalidArgument(
        "nearest(): argument 'queries': the number of coordinates is not that of "
        "'points'");
}
ffi::Error find(Matrix points, Matrix queries, ffi::Result<Vector> distances,
                ffi::Result<Indices> indices) {
    if (ffi::Error error = check(points, queries); error.failure()) return error;
    const char* said = text_of([&] {
        nearest::search(points.typed_data(), queries.typed_data(),
                        points.dimensions()[0], queries.dimensions()[0],
                        points.dimensions()[1], distances->typed_data(),
                        indices->typed_data());
    });
    return said == nullptr ? ffi::Error::Success() : ffi::Error::InvalidArgument(said);
}
ffi::Error find_gradient(Vector grad, Matrix points, Matrix queries,
                         ffi::Result<Matrix> grad_points,
                         ffi::Result<Matrix> grad_queries) {
    if (ffi::Error error = check(points, queries); error.failure()) return error;
    if (grad.dimensions()[0] != queries.dimensions()[0])
        return ffi::Error::InvalidArgument(
            "nearest(): the gradient has not one element for each query");
    const char* said = text_of([&] {
        nearest::search_gradient(grad.typed_data(), points.typed_data(),
                                 queries.typed_data(), points.dimensions()[0],
                                 queries.dimensions()[0], points.dimensions()[1],
                                 grad_points->typed_data(), grad_queries->typed_data());
    });
    return said == nullptr ? ffi::Error::Success() : ffi::Error::InvalidArgument(said);
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    find_handler, find,
    ffi::Ffi::Bind().Arg<Matrix>().Arg<Matrix>().Ret<Vector>().Ret<Indices>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(find_gradient_handler, find_gradient,
                              ffi::Ffi::Bind()
                                  .Arg<Vector>()
                                  .Arg<Matrix>()
                                  .Arg<Matrix>()
                                  .Ret<Matrix>()
                                  .Ret<Matrix>());

// For NumPy: rows of any stride are copied, since the search wants them dense.

std::vector<float> dense(const char* data, npy_intp rows, npy_intp columns,
                         npy_intp row_step, npy_intp column_step) {
    std::vector<float> copy;
    copy.reserve(static_cast<std::size_t>(rows * columns));
    for (npy_intp i = 0; i < rows; ++i)
        for (npy_intp k = 0; k < columns; ++k)
            copy.push_back(
                *reinterpret_cast<const float*>(data + i * row_step + k * column_step));
    return copy;
}
void loop(char** data, const npy_intp* sizes, const npy_intp* steps, void*) {
    const npy_intp count = sizes[0], n = sizes[1], d = sizes[2], m = sizes[3];
    for (npy_intp i = 0; i < count; ++i) {
        const char* said = text_of([&] {
            const auto points = dense(data[0] + i * steps[0], n, d, steps[4], steps[5]);
            const auto queries =
                dense(data[1] + i * steps[1], m, d, steps[6], steps[7]);
            std::vector<float> distances(static_cast<std::size_t>(m));
            std::vector<nearest::Index> indices(static_cast<std::size_t>(m));
            nearest::search(points.data(), queries.data(), n, m, d, distances.data(),
                            indices.data());
            for (npy_intp k = 0; k < m; ++k) {
                *reinterpret_cast<float*>(data[2] + i * steps[2] + k * steps[8]) =
                    distances[static_cast<std::size_t>(k)];
                *reinterpret_cast<nearest::Index*>(data[3] + i * steps[3] +
                                                   k * steps[9]) =
                    indices[static_cast<std::size_t>(k)];
            }
        });
        if (said == nullptr) continue;
        const PyGILState_STATE state = PyGILState_Ensure();
        PyErr_SetString(PyExc_ValueError, said);
        PyGILState_Release(state);
        return;
    }
}
PyUFuncGenericFunction loops[] = {loop};
void* loop_data[] = {nullptr};
char loop_types[] = {NPY_FLOAT, NPY_FLOAT, NPY_FLOAT, NPY_INT32};

PyModuleDef definition{PyModuleDef_HEAD_INIT,
                       "nearest_by_hand_ext",
                       nullptr,
                       -1,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* nearest_find(
    const float* points, const float* queries, std::size_t n, std::size_t m,
    std::size_t d, float* distances, nearest::Index* indices) {
    return text_of(
        [&] { nearest::search(points, queries, n, m, d, distances, indices); });
}
extern "C" __attribute__((visibility("default"))) const char* nearest_find_gradient(
    const float* grad, const float* points, const float* queries, std::size_t n,
    std::size_t m, std::size_t d, float* grad_points, float* grad_queries) {
    return text_of([&] {
        nearest::search_gradient(grad, points, queries, n, m, d, grad_points,
                                 grad_queries);
    });
}

PyMODINIT_FUNC PyInit_nearest_by_hand_ext() {
    import_array();
    import_umath();
    PyObject* module = PyModule_Create(&definition);
    if (module == nullptr) return nullptr;
    PyObject* ufunc = PyUFunc_FromFuncAndDataAndSignature(
        loops, loop_data, loop_types, 1, 2, 2, PyUFunc_None, "nearest", "", 0,
        "(n,d),(m,d)->(m),(m)");
    const bool good =
        PyModule_AddObject(module, "ufunc", ufunc) == 0 &&
        PyModule_AddObject(module, "find",
                           PyCapsule_New(reinterpret_cast<void*>(find_handler), nullptr,
                                         nullptr)) == 0 &&
        PyModule_AddObject(module, "find_gradient",
                           PyCapsule_New(reinterpret_cast<void*>(find_gradient_handler),
                                         nullptr, nullptr)) == 0;
    return good ? module : nullptr;
}
