// A module of structs and trees as somebody compiled it once: fields in every form, and returned in it.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/fields.h>  // Python.h must come before any standard header

#include <isthmus/tree.h>

using namespace isthmus;

namespace {

struct Csr {
    View<const int, 1, sizes<"rows+1">> indptr;
    View<const double, 1, sizes<"nnz">> values;
    using fields = isthmus::fields<"indptr", "values">;
};
struct Pair {
    Tensor indptr;
    Tensor values;
    using fields = isthmus::fields<"indptr", "values">;
};

PyObject* total(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    Arguments<Csr> in("total", {"matrix"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;
    double sum = 0;
    for (const double value : in.get<0>().values) sum += value;
    return PyFloat_FromDouble(sum);
}
PyObject* grown(PyObject*, PyObject* like) {
    const Pair pair{Tensor::empty({2}, int32), Tensor::empty({1}, float64)};
    return fields_to_py(FieldsReply<Pair>{pair, like});
}
PyObject* leaves(PyObject*, PyObject* root) {
    auto tree = Tree::from_py(root);
    if (!tree) return set_python_error(tree.error()), nullptr;
    std::string paths;
    for (const auto& leaf : tree->leaves()) paths += leaf.path + ";";
    return PyUnicode_FromString(paths.c_str());
}

#define FAST(f) {#f, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS, ""}
PyMethodDef methods[] = {
    FAST(total), {"grown", grown, METH_O, ""}, {"leaves", leaves, METH_O, ""}, {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "structs", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_structs() { return PyModule_Create(&definition); }
