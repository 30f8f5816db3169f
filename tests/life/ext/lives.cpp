// A program that starts and ends Python again and again, and keeps tensors over every end.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <isthmus/core/live.h>

#include "src/bridge/runtime/object_owner.h"

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using isthmus::Tensor;

struct Kept {
    Tensor tensor;
    int life;
};
std::vector<Kept> kept;
std::vector<isthmus::Error> kept_errors;
std::vector<isthmus::PyOwner> kept_owners;
std::vector<Kept> kept_roots;  ///< each shown by an isthmus.Tensor that an alias holds
bool roots_shown_again = false;
int life = 0, ended = 0;

void drop_kept() {
    kept.clear();
    kept_errors.clear();
    kept_owners.clear();
}

/// Counted(name): 12 bytes as a buffer. Its memory is none of the interpreter's and stays, so that the references to it
/// can be counted in every life.
struct Counted {
    PyObject_HEAD int life;
    std::string name;
    Py_ssize_t at_the_end;  ///< references when its life was over
};
std::vector<Counted*> counted;
int used_too_late = 0;
float counted_memory[3] = {1, 2, 3};

bool is_too_late(int its_life) { return its_life != life && Py_IsInitialized() != 0; }

PyObject* new_counted(PyTypeObject* type, PyObject* arguments, PyObject*) {
    const char* name = nullptr;
    if (!PyArg_ParseTuple(arguments, "s", &name)) return nullptr;
    auto* made = new Counted{PyObject_HEAD_INIT(type) life, name, 0};
    counted.push_back(made);
    return reinterpret_cast<PyObject*>(made);
}
int lend_counted(PyObject* self, Py_buffer* view, int flags) {
    return PyBuffer_FillInfo(view, self, counted_memory, sizeof counted_memory, 0, flags);
}
PyTypeObject make_counted_type() {
    static PyBufferProcs buffer = {lend_counted, nullptr};
    PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
    type.tp_name = "lives.Counted";
    type.tp_basicsize = sizeof(Counted);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_new = new_counted;
    type.tp_dealloc = [](PyObject*) {};
    type.tp_as_buffer = &buffer;
    return type;
}
PyTypeObject counted_type = make_counted_type();

void count_at_the_end() {
    for (Counted* c : counted)
        if (c->life == life) c->at_the_end = Py_REFCNT(reinterpret_cast<PyObject*>(c));
}
/// Whether an object was gone before its life was over, or a later life has given references back.
bool any_touched() {
    for (Counted* c : counted)
        if (const auto now = Py_REFCNT(reinterpret_cast<PyObject*>(c)); c->at_the_end <= 0 || now != c->at_the_end) {
            std::printf("%s of life %d: %d references when it ended, %d at last\n", c->name.c_str(), c->life,
                        static_cast<int>(c->at_the_end), static_cast<int>(now));
            ++used_too_late;
        }
    for (const Kept& root : kept_roots)
        if (!roots_shown_again && isthmus::detail::wrapper_of(root.tensor.block()) == nullptr) {
            std::printf("the isthmus.Tensor that an alias held is gone\n");
            ++used_too_late;
        }
    return used_too_late != 0;
}

/// keep(x): from_py, kept beyond the end of this life.
PyObject* keep(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    kept.push_back({*std::move(tensor), life});
    Py_RETURN_NONE;
}
/// give(): an isthmus.Tensor over memory of C++, and the same again.
PyObject* give(PyObject*, PyObject*) {
    const Tensor made = Tensor::own(std::vector<float>{1, 2, 3});
    return *isthmus::to_py(made);
}
/// to(x, framework)
PyObject* to_numpy(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    auto array = isthmus::to_py(*tensor, isthmus::Framework::numpy);
    if (!array) return isthmus::set_python_error(array.error()), nullptr;
    return *array;
}
/// Appends isthmus.Tensors to a new list, if they are of earlier lives: memory of C++ alone is handed out in this one.
PyObject* shown_again(const std::vector<Kept>& tensors) {
    PyObject* list = PyList_New(0);
    for (const Kept& k : tensors)
        if (k.life < life) {
            auto object = isthmus::to_py(k.tensor);
            if (!object) return isthmus::set_python_error(object.error()), nullptr;
            PyList_Append(list, *object);
            Py_DECREF(*object);
        }
    return list;
}
/// old(): the tensors of earlier lives.
PyObject* old(PyObject*, PyObject*) { return shown_again(kept); }
/// old_roots(): tensors of earlier lives whose isthmus.Tensors these left behind.
PyObject* old_roots(PyObject*, PyObject*) {
    roots_shown_again = true;
    return shown_again(kept_roots);
}
/// keep_error(x): what from_py says of it.
PyObject* keep_error(PyObject*, PyObject* x) {
    kept_errors.push_back(isthmus::from_py(x).error());
    return PyBool_FromLong(kept_errors.back().cause() != nullptr);
}
/// keep_owner(x): as a PyOwner that no tensor has taken, and as one that a tensor has.
PyObject* keep_owner(PyObject*, PyObject* x) {
    kept_owners.emplace_back(x);
    kept.push_back(
        {Tensor::wrap(counted_memory, {3}, {}, isthmus::float32, isthmus::Device::cpu(), isthmus::PyOwner(x)), life});
    Py_RETURN_NONE;
}
/// keep_capsule(): a bare capsule, whose end is counted if it comes in another life.
PyObject* keep_capsule(PyObject* self, PyObject*) {
    static std::int64_t shape[1] = {3};
    auto* managed = new DLManagedTensor{};
    managed->dl_tensor = {counted_memory, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    managed->manager_ctx = reinterpret_cast<void*>(static_cast<std::intptr_t>(life));
    managed->deleter = [](DLManagedTensor* ended_managed) {
        if (is_too_late(static_cast<int>(reinterpret_cast<std::intptr_t>(ended_managed->manager_ctx)))) {
            std::printf("the deleter of a capsule was called in a later life\n");
            ++used_too_late;
        }
        delete ended_managed;
    };
    PyObject* capsule = PyCapsule_New(managed, "dltensor", nullptr);
    PyObject* done = keep(self, capsule);
    Py_DECREF(capsule);
    return done;
}
/// keep_alias(): a tensor of an isthmus.Tensor's capsule, which holds that object.
PyObject* keep_alias(PyObject* self, PyObject*) {
    kept_roots.push_back({Tensor::own(std::vector<float>{1, 2, 3}), life});
    PyObject* shown = *isthmus::to_py(kept_roots.back().tensor, isthmus::Framework::tensor);
    PyObject* capsule = PyObject_CallMethod(shown, "__dlpack__", nullptr);
    PyObject* done = keep(self, capsule);
    Py_DECREF(capsule);
    Py_DECREF(shown);
    return done;
}
PyObject* drop_all(PyObject*, PyObject*) {
    drop_kept();
    Py_RETURN_NONE;
}
/// keep_with(x): memory of C++, which is released in any life, and an object beside it.
int with_objects = 0;
PyObject* keep_with(PyObject*, PyObject* x) {
    ++with_objects;
    const Tensor memory =
        Tensor::wrap(counted_memory, {3}, {}, isthmus::float32, isthmus::Device::cpu(), [] { --with_objects; });
    kept.push_back({Tensor::steal(isthmus::detail::block_kept_with(memory.block(), x)), life});
    Py_RETURN_NONE;
}
/// show(x): an isthmus.Tensor
PyObject* show(PyObject*, PyObject* x) {
    auto tensor = isthmus::from_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    return *isthmus::to_py(*tensor, isthmus::Framework::tensor);
}
PyObject* borrow(PyObject*, PyObject* x) {
    auto tensor = isthmus::borrow_py(x);
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    return PyLong_FromLongLong(tensor->numel());
}
PyObject* drop_on_threads(PyObject*, PyObject*) {
    for (Kept& k : kept)
        std::thread([t = std::move(k.tensor)]() mutable {
            std::this_thread::yield();
            t = {};
        }).detach();
    kept.clear();
    Py_RETURN_NONE;
}
PyObject* count(PyObject*, PyObject*) { return PyLong_FromSize_t(isthmus::live().size()); }

PyMethodDef methods[] = {{"keep", keep, METH_O, nullptr},
                         {"give", give, METH_NOARGS, nullptr},
                         {"to_numpy", to_numpy, METH_O, nullptr},
                         {"old", old, METH_NOARGS, nullptr},
                         {"old_roots", old_roots, METH_NOARGS, nullptr},
                         {"borrow", borrow, METH_O, nullptr},
                         {"drop_on_threads", drop_on_threads, METH_NOARGS, nullptr},
                         {"count", count, METH_NOARGS, nullptr},
                         {"keep_alias", keep_alias, METH_NOARGS, nullptr},
                         {"drop", drop_all, METH_NOARGS, nullptr},
                         {"keep_error", keep_error, METH_O, nullptr},
                         {"keep_owner", keep_owner, METH_O, nullptr},
                         {"keep_capsule", keep_capsule, METH_NOARGS, nullptr},
                         {"keep_with", keep_with, METH_O, nullptr},
                         {"show", show, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "lives", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyObject* make_module() {
    PyObject* module = PyModule_Create(&definition);
    if (module != nullptr && PyModule_AddType(module, &counted_type) != 0) return nullptr;
    return module;
}

bool start() {
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyConfig_SetBytesString(&config, &config.program_name, PYTHON);
    const PyStatus status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return !PyStatus_Exception(status);
}

}  // namespace

/// lives COUNT DROP CODE: runs the Python code in each life; what is kept goes "between" lives, "within" the next or
/// the "fifth", by "threads" between lives, "last", or where the code calls drop(). Prints how many lives there were
/// and how many bytes each one left behind, the first three aside.
int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const int lives = std::atoi(argv[1]);
    const std::string when = argv[2];
    PyImport_AppendInittab("lives", make_module);
    std::size_t left_by_three = 0;
    for (life = 1; life <= lives; ++life) {
        if (!start()) return 3;
        PyObject* module = PyImport_AddModule("__main__");
        PyObject_SetAttrString(module, "life", PyLong_FromLong(life));
        if (when == "within" || (when == "fifth" && life == 5)) drop_kept();
        if (PyRun_SimpleString(argv[3]) != 0) return 4;
        if (Py_FinalizeEx() != 0) return 5;
        ++ended;
        count_at_the_end();
        if (life == 3) left_by_three = mallinfo2().uordblks;
        if (when == "between") drop_kept();
        if (when == "threads") {
            std::vector<std::thread> threads;
            for (Kept& k : kept) threads.emplace_back([t = std::move(k.tensor)]() mutable { t = {}; });
            kept.clear();
            for (std::thread& thread : threads) thread.join();
        }
    }
    const std::size_t left = mallinfo2().uordblks - left_by_three;
    drop_kept();
    if (any_touched() || with_objects != 0) return 6;
    std::printf("%d lives\n", ended);
    if (std::getenv("LIVES_BYTES") != nullptr)
        std::printf("%zd bytes a life\n", static_cast<ssize_t>(left) / (lives - 3));
    return 0;
}
