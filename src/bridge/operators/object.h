// The Python type of an operator: what module.f is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <structmember.h>

#include "eager.h"
#include "jax.h"
#include "registry.h"
#include "table.h"
#include "torch.h"
#include "ufunc.h"

ISTHMUS_BEGIN

namespace detail {

struct OperatorObject {
    PyObject_HEAD vectorcallfunc call;
    OperatorDefinition* op;
    PyObject* dict;
    PyObject* weak_references;
    PyObject* ufunc;   ///< NULL until somebody asks
    PyObject* traced;  ///< the same
};

/// A new reference to a Python object of the operator, or NULL with a Python exception set.
PyObject* make_operator_object(OperatorDefinition* op);

inline OperatorObject* as_operator(PyObject* self) noexcept { return reinterpret_cast<OperatorObject*>(self); }

inline PyObject* operator_vectorcall(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
    return call_operator(*as_operator(self)->op, self, args, PyVectorcall_NARGS(nargsf), kwnames);
}
inline PyObject* operator_eager(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
    return call_operator(*as_operator(self)->op, self, args, positional, kwnames);
}
inline PyObject* operator_infer(PyObject* self, PyObject* args) {
    PyObject* arguments = nullptr;
    int batch_dims = -1;
    if (!PyArg_ParseTuple(args, "O|i", &arguments, &batch_dims)) return nullptr;
    return infer_operator(*as_operator(self)->op, arguments, batch_dims);
}
inline PyObject* operator_implement_torch(PyObject* self, PyObject* key) {
    const char* text = PyUnicode_AsUTF8(key);
    if (text == nullptr) return nullptr;
    auto done = implement_in_torch(*as_operator(self)->op, text);
    if (!done) return set_python_error(done.error()), nullptr;
    return PyBool_FromLong(*done);
}
inline PyObject* operator_get_table(PyObject* self, void*) { return operator_table(*as_operator(self)->op); }
inline PyObject* operator_get_gradient(PyObject* self, void*) {
    OperatorDefinition* gradient = as_operator(self)->op->gradient;
    if (gradient == nullptr) Py_RETURN_NONE;
    return make_operator_object(gradient);
}

/// Identifies the functions that frameworks call; the same after a module was imported again and has registered again.
inline PyObject* operator_get_identity(PyObject* self, void*) {
    return PyLong_FromVoidPtr(reinterpret_cast<void*>(as_operator(self)->op->entries.torch));
}
/// What `make` makes when first needed, then kept in `place`: a new reference, or NULL with a Python exception set.
template <class F>
PyObject* kept_once(PyObject*& place, F&& make) {
    if (load_shared(place) == nullptr) {
        PyObject* made = make();
        if (made == nullptr) return nullptr;
        if (!store_first(place, made)) Py_DECREF(made);
    }
    return Py_NewRef(load_shared(place));
}
inline PyObject* operator_get_ufunc(PyObject* self, void*) {
    OperatorObject* object = as_operator(self);
    return kept_once(object->ufunc, [&] { return make_ufunc(*object->op); });
}
/// What jax.ffi.register_ffi_target takes.
inline PyObject* operator_get_xla_target(PyObject* self, void*) {
    return PyCapsule_New(reinterpret_cast<void*>(as_operator(self)->op->entries.xla), nullptr, nullptr);
}
/// The same for CUDA; None where the operator has no function for it.
inline PyObject* operator_get_xla_cuda_target(PyObject* self, void*) {
    const OperatorDefinition& op = *as_operator(self)->op;
    if (!op.has_device()) Py_RETURN_NONE;
    return PyCapsule_New(reinterpret_cast<void*>(op.entries.xla_cuda), nullptr, nullptr);
}
/// Whether Python runs `__call__` itself, because it was called by its name, and no compiler is inlining it.
inline bool is_called_by_name(PyTypeObject* type) {
    PyFrameObject* frame = PyEval_GetFrame();
    if (frame == nullptr) return false;
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const Ref call = dict_item(type->tp_dict, "__call__");
    return call && PyFunction_Check(call.get()) && PyFunction_GetCode(call.get()) == code.get();
}
/// What torch.compile puts into its graph. Kept, because its guards read it again before each run.
inline PyObject* operator_get_traced(PyObject* self, void*) {
    OperatorObject* object = as_operator(self);
    if (is_called_by_name(Py_TYPE(self))) return PyObject_GetAttrString(self, "eager");
    return kept_once(object->traced, [&]() -> PyObject* {
        Ref module(PyImport_ImportModule("isthmus.operators"));
        return module ? PyObject_CallMethod(module.get(), "_traced", "O", self) : nullptr;
    });
}

/// "a, b, k=2.0, *, out=None": made by a Python expression, since only the module inspect can make a Signature.
inline PyObject* operator_get_signature(PyObject* self, void*) {
    const OperatorDefinition& op = *as_operator(self)->op;
    std::string text = "lambda ";
    Ref globals(PyDict_New()), inspect(PyImport_ImportModule("inspect"));
    if (!globals || !inspect) return nullptr;
    bool had_default = false, by_name = false;
    for (int i = 0; i < op.input_count; ++i) {
        const bool has_default = op.inputs[i].has_default || op.parameters()[op.inputs[i].parameter].optional;
        // A parameter without a default after one with a default is a syntax error: what follows is then keyword-only.
        const bool turns = had_default && !has_default && !by_name;
        by_name = by_name || turns;
        had_default = had_default || has_default;
        text += concat({i != 0 ? ", " : "", turns ? "*, " : "", op.inputs[i].name});
        if (!has_default) continue;
        Ref value(op.inputs[i].has_default ? default_value(op, op.inputs[i]) : Py_NewRef(Py_None));
        const std::string name = concat({"default_", i});  // a name, since inf cannot be written as an expression
        if (!value || PyDict_SetItemString(globals.get(), name.c_str(), value.get()) != 0) return nullptr;
        text += concat({"=", name});
    }
    text += op.out_count == 0 ? ": None" : by_name ? ", out=None: None" : ", *, out=None: None";
    Ref function(PyRun_String(text.c_str(), Py_eval_input, globals.get(), globals.get()));
    return function ? PyObject_CallMethod(inspect.get(), "signature", "O", function.get()) : nullptr;
}
inline PyObject* operator_repr(PyObject* self) {
    return PyUnicode_FromFormat("<isthmus operator %s>", as_operator(self)->op->name.c_str());
}

inline int operator_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as_operator(self)->dict);
    Py_VISIT(as_operator(self)->ufunc);
    Py_VISIT(as_operator(self)->traced);
    return 0;
}
inline int operator_clear(PyObject* self) {
    Py_CLEAR(as_operator(self)->dict);
    Py_CLEAR(as_operator(self)->ufunc);
    Py_CLEAR(as_operator(self)->traced);
    return 0;
}
inline void operator_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (as_operator(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    operator_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/// torch.compile looks up a class's `__call__` in its dictionary and inlines it if it is a Python function; Python itself calls
/// by the slot, which stays ours. So the same object is fast to call and is traced as the operator that torch knows.
inline bool let_compilers_inline(PyTypeObject* type) {
    Ref names(PyDict_New());
    static const char* const source = "def __call__(self, /, *args, **kwargs):\n    return self._traced(*args, **kwargs)\n";
    if (!names || PyDict_SetItemString(names.get(), "__builtins__", PyEval_GetBuiltins()) != 0) return false;
    if (!put(names.get(), "__name__", PyUnicode_FromString("isthmus.operators"))) return false;
    Ref done(PyRun_String(source, Py_file_input, names.get(), names.get()));
    const Ref call = done ? dict_item(names.get(), "__call__") : Ref();
    if (!call || PyDict_SetItemString(type->tp_dict, "__call__", call.get()) != 0) return false;
    PyType_Modified(type);
    return true;
}

/// It does not bind to a class or an instance, as a built-in function does not.
inline PyTypeObject* make_operator_type() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(OperatorObject, call), READONLY, nullptr},
        {"__dictoffset__", T_PYSSIZET, offsetof(OperatorObject, dict), READONLY, nullptr},
        {"__weaklistoffset__", T_PYSSIZET, offsetof(OperatorObject, weak_references), READONLY, nullptr},
        {}};
    static PyMethodDef methods[] = {{"eager", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(operator_eager)),
                                     METH_FASTCALL | METH_KEYWORDS, "The call itself, whatever compiler is at work."},
                                    {"_infer", operator_infer, METH_VARARGS, nullptr},
                                    {"_implement_torch", operator_implement_torch, METH_O, nullptr},
                                    {}};
    static PyGetSetDef getset[] = {
        {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
        {"__signature__", operator_get_signature, nullptr, nullptr, nullptr},
        {"ufunc", operator_get_ufunc, nullptr,
         "The operator as a numpy.ufunc, with the signature that its named sizes make. Raises where it cannot be one.",
         nullptr},
        {"_table", operator_get_table, nullptr, nullptr, nullptr},
        {"_gradient", operator_get_gradient, nullptr, nullptr, nullptr},
        {"_identity", operator_get_identity, nullptr, nullptr, nullptr},
        {"_xla_target", operator_get_xla_target, nullptr, nullptr, nullptr},
        {"_xla_cuda_target", operator_get_xla_cuda_target, nullptr, nullptr, nullptr},
        {"_traced", operator_get_traced, nullptr, nullptr, nullptr},
        {}};
    static PyType_Slot type_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(operator_dealloc)},
                                  {Py_tp_traverse, reinterpret_cast<void*>(operator_traverse)},
                                  {Py_tp_clear, reinterpret_cast<void*>(operator_clear)},
                                  {Py_tp_repr, reinterpret_cast<void*>(operator_repr)},
                                  {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                  {Py_tp_members, members},
                                  {Py_tp_methods, methods},
                                  {Py_tp_getset, getset},
                                  {Py_tp_doc, const_cast<char*>("A C++ function that is an operator of every framework.")},
                                  {0, nullptr}};
    static PyType_Spec spec{
        "isthmus.Operator", sizeof(OperatorObject), 0,
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, type_slots};
    auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (type != nullptr && !let_compilers_inline(type)) Py_CLEAR(type);
    return type;
}
ISTHMUS_STATE PerLife<PyTypeObject*> operator_type;

PyObject* make_operator_object(OperatorDefinition* op) {
    if (*operator_type == nullptr) {
        PyTypeObject* made = start_life() ? make_operator_type() : nullptr;
        if (made == nullptr) return nullptr;
        if (!operator_type.keep(made)) Py_DECREF(made);
    }
    auto* object = PyObject_GC_New(OperatorObject, *operator_type);
    if (object == nullptr) return nullptr;
    object->call = operator_vectorcall;
    object->op = op;
    object->weak_references = nullptr;
    object->ufunc = nullptr;
    object->traced = nullptr;
    object->dict = PyDict_New();
    PyObject_GC_Track(object);
    Ref self(reinterpret_cast<PyObject*>(object));
    const bool good = object->dict != nullptr && put(object->dict, "__name__", PyUnicode_FromString(op->function.c_str())) &&
                      put(object->dict, "__qualname__", PyUnicode_FromString(op->function.c_str()));
    return good ? self.release() : nullptr;
}

}  // namespace detail

ISTHMUS_END
