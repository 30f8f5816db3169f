// Exchanges in a loop of C++, for several threads at once, which share nothing of this module.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

using isthmus::Tensor;

namespace {

/// Has the compiler make `value`, without a store that threads would share.
template <class T>
void use(T value) {
    asm volatile("" : : "r"(value) : "memory");
}

bool raise(const isthmus::Error& error) { return isthmus::set_python_error(error), false; }

bool nothing(PyObject* x) { return use(x), true; }

/// What an exchange of one array cannot do without: the references to it, taken and given back by CPython alone.
template <int references>
bool referenced(PyObject* x) {
    for (int i = 0; i < references; ++i) Py_INCREF(x);
    use(x);
    for (int i = 0; i < references; ++i) Py_DECREF(x);
    return true;
}

bool borrowed(PyObject* x) {
    auto t = isthmus::borrow_py(x);
    if (!t) return raise(t.error());
    return use(t->data()), true;
}

bool owned(PyObject* x) {
    auto t = isthmus::from_py(x);
    if (!t) return raise(t.error());
    return use(t->data()), true;
}

bool there_and_back(PyObject* x) {
    auto t = isthmus::from_py(x);
    if (!t) return raise(t.error());
    auto back = isthmus::to_py_like(*t, x);
    if (!back) return raise(back.error());
    return Py_DECREF(*back), true;
}

/// A new ndarray over memory of C++.
bool handed_out(PyObject*) {
    auto array = isthmus::to_py(Tensor::empty({4}, isthmus::float32), isthmus::Framework::numpy);
    if (!array) return raise(array.error());
    return Py_DECREF(*array), true;
}

/// The count of f(x, count); negative with a Python exception set.
long count_of(PyObject* const* args, Py_ssize_t n) {
    if (n == 2) return PyLong_AsLong(args[1]);
    return PyErr_SetString(PyExc_TypeError, "two arguments are wanted: x, count"), -1;
}

/// f(x, count)
template <auto exchange>
PyObject* repeated(PyObject*, PyObject* const* args, Py_ssize_t n) {
    const long count = count_of(args, n);
    if (count < 0) return nullptr;
    for (long i = 0; i < count; ++i)
        if (!exchange(args[0])) return nullptr;
    Py_RETURN_NONE;
}

/// What scales as well as the machine lets it: as long as an exchange, in registers alone, and without the GIL.
PyObject* arithmetic(PyObject*, PyObject* const* args, Py_ssize_t n) {
    const long count = count_of(args, n);
    if (count < 0) return nullptr;
    Py_BEGIN_ALLOW_THREADS std::uint64_t state = 88172645463325252;
    for (long i = 0; i < 16 * count; ++i) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        use(state);
    }
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

using Function = PyObject*(PyObject*, PyObject* const*, Py_ssize_t);
PyMethodDef method(const char* name, Function* function) {
    return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL, nullptr};
}

PyMethodDef methods[] = {
    method("nothing", repeated<nothing>),
    method("arithmetic", arithmetic),
    method("one_reference", repeated<referenced<1>>),
    method("two_references", repeated<referenced<2>>),
    method("borrowed", repeated<borrowed>),
    method("owned", repeated<owned>),
    method("there_and_back", repeated<there_and_back>),
    method("handed_out", repeated<handed_out>),
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "bench_isthmus_threads", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_bench_isthmus_threads() {
    PyObject* module = PyModule_Create(&definition);
#if defined(Py_GIL_DISABLED)
    if (module != nullptr && PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) != 0) Py_CLEAR(module);
#endif
    return module;
}
