// The Python type of an operator, which module.f is, and the operator's facts for isthmus.operators.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <structmember.h>

#include <isthmus/python/arguments.h>
#include "../runtime/errors.h"
#include "../runtime/lookups.h"
#include "../runtime/names.h"

ISTHMUS_BEGIN

namespace detail {

Ref all_operators() {
    PyObject* dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    const Ref list(dict != nullptr ? PyList_New(0) : nullptr);
    return list ? dict_item_or(dict, "isthmus.operators", list.get()) : Ref();
}

PyObject* operators_module() {
    PyObject* module = PyImport_ImportModule("isthmus.operators");
    if (module == nullptr && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) PyErr_Clear();
    return module;
}

namespace {

constexpr const char* parameter_kind_names[] = {"tensor",  "in_out",  "out",     "number",  "integer",
                                                "boolean", "text",    "stream",  "dtype",   "sizes",
                                                "random",  "tensors", "in_outs", "integers"};

/// (3, "n", "n+1", "c/(h*w)", "b...", None), or None if the sizes are free. `more`: of them there are that many and a
/// 0.
PyObject* table_sizes(const Requirement& r, int more) {
    if (r.size_count == -1) Py_RETURN_NONE;
    const int count = spec_count(r);
    Ref tuple(PyTuple_New(count + more));
    for (int i = 0; tuple && i < more; ++i) PyTuple_SET_ITEM(tuple.get(), count + i, PyLong_FromLong(0));
    for (int i = 0; tuple && i < count; ++i) {
        const SizeSpec& spec = r.sizes[i];
        const std::string text = words_of_size(spec);
        PyObject* item = !text.empty()      ? PyUnicode_FromString(text.c_str())
                         : spec.size == dyn ? Py_NewRef(Py_None)
                                            : PyLong_FromLongLong(spec.size);
        if (item == nullptr) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), i, item);
    }
    return tuple.release();
}

/// ("float32", "float64"): the dtypes that some function of the operator takes, of those that a framework may have.
PyObject* table_dtypes(const OperatorDefinition& op, int parameter) {
    Ref list(PyList_New(0));
    for (const DType dtype : {boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16,
                              float32, float64, complex64, complex128}) {
        bool taken = false;
        for (int o = 0; o < op.overload_count; ++o)
            taken = taken || op.overloads[o].parameters[parameter].requirement->takes(dtype);
        if (!list || !taken) continue;
        const Ref name(PyUnicode_FromString(dtype.name().c_str()));
        if (!name || PyList_Append(list.get(), name.get()) != 0) return nullptr;
    }
    return list ? PyList_AsTuple(list.get()) : nullptr;
}

PyObject* default_value(const OperatorDefinition& op, const OperatorInput& input) {
    switch (op.parameters()[input.parameter].kind) {
        case ParameterKind::number:
            return PyFloat_FromDouble(input.default_value.number);
        case ParameterKind::integer:
            return PyLong_FromLongLong(input.default_value.integer);
        case ParameterKind::boolean:
            return PyBool_FromLong(input.default_value.boolean);
        case ParameterKind::dtype:
            return PyUnicode_FromString(DType(input.default_value.dtype).name().c_str());
        default:
            return PyUnicode_FromStringAndSize(input.default_text.data(),
                                               static_cast<Py_ssize_t>(input.default_text.size()));
    }
}

PyObject* as_bool(bool value) { return value ? Py_True : Py_False; }

PyObject* table_row(const OperatorDefinition& op, const std::string& name, int parameter) {
    const ParameterFacts& facts = op.parameters()[parameter];
    const char* kind = parameter_kind_names[static_cast<int>(facts.kind)];
    Ref row(Py_BuildValue("{s:s,s:s,s:O}", "name", name.c_str(), "kind", kind, "optional", as_bool(facts.optional)));
    if (!row || facts.requirement == nullptr) return row.release();
    const Requirement& r = *facts.requirement;
    const int more = facts.kind == ParameterKind::sizes ? 1 : 0;
    const bool good = put(row.get(), "sizes", table_sizes(r, more)) &&
                      put(row.get(), "dtypes", table_dtypes(op, parameter)) &&
                      put(row.get(), "contiguous", PyBool_FromLong(r.order == Order::c)) &&
                      put(row.get(), "packed", PyBool_FromLong(r.converts == Converts::orders)) &&
                      put(row.get(), "rank", PyLong_FromLong(r.min_rank == r.max_rank ? r.min_rank + more : -1));
    return good ? row.release() : nullptr;
}

PyObject* list_of(const std::vector<int>& numbers) {
    Ref list(PyList_New(0));
    for (const int number : numbers) {
        const Ref item(PyLong_FromLong(number));
        if (!list || !item || PyList_Append(list.get(), item.get()) != 0) return nullptr;
    }
    return list.release();
}

/// {"sources": [("grad", 0), ("result", 1), ("input", 2), ("sizes", 0), ("size", "n"), ("needed", None)], "of": [0],
/// "named": None}: what the gradient takes, by its inputs, and the inputs that it is of, by its results; None if there
/// is none.
PyObject* table_plan(const OperatorDefinition& op) {
    static const char* const kinds[] = {"grad", "result", "input", "sizes", "size", "needed"};
    if (op.plan.sources.empty() && op.plan.of.empty()) Py_RETURN_NONE;
    Ref sources(PyList_New(0)), of(list_of(op.plan.of));
    for (const GradientSource& source : op.plan.sources) {
        const char* kind = kinds[static_cast<int>(source.kind)];
        Ref item(source.index >= 0 ? Py_BuildValue("(si)", kind, source.index)
                                   : Py_BuildValue("(sz)", kind, source.size.empty() ? nullptr : source.size.c_str()));
        if (!sources || !item || PyList_Append(sources.get(), item.get()) != 0) return nullptr;
    }
    if (!sources || !of) return nullptr;
    return Py_BuildValue("{s:O,s:O,s:z}", "sources", sources.get(), "of", of.get(), "named",
                         op.plan.named.empty() ? nullptr : op.plan.named.c_str());
}

/// {"name": …, "inputs": [{"name", "kind", "optional", "sizes", "dtypes", "rank", "contiguous", "packed"[, "default"]},
/// …], "outs": […], "batch", "cuda", "writes", "lists", "plan", "tangents", "is_jvp", "autocast"}: a new reference, or
/// NULL with a Python exception set. `kind` is "tensor", "in_out", "number", "integer", "boolean", "text", "dtype",
/// "sizes", "random", "tensors", "in_outs" or "integers"; `rank` is -1 and `sizes` None if they are free.
PyObject* operator_table(const OperatorDefinition& op) {
    Ref inputs(PyList_New(0)), outs(PyList_New(0));
    bool good = inputs && outs;
    for (int i = 0; good && i < op.input_count; ++i) {
        Ref row(table_row(op, op.inputs[i].name, op.inputs[i].parameter));
        good = row && (!op.inputs[i].has_default || put(row.get(), "default", default_value(op, op.inputs[i]))) &&
               PyList_Append(inputs.get(), row.get()) == 0;
    }
    for (int i = 0; good && i < op.out_count; ++i) {
        Ref row(table_row(op, op.out_names[i], op.outs[i]));
        good = row && put(row.get(), "gradient_of", PyLong_FromLong(op.gradient_of[i])) &&
               PyList_Append(outs.get(), row.get()) == 0;
    }
    const Ref plan(good ? table_plan(op) : nullptr);
    const Ref of(list_of(op.tangents_of)), gives(list_of(op.tangents));
    const Ref tangents(op.jvp != nullptr && of && gives ? Py_BuildValue("(OO)", of.get(), gives.get())
                                                        : Py_NewRef(Py_None));
    if (!plan || !of || !gives || !tangents) return nullptr;
    const std::string autocast = op.autocast.bits() != 0 ? op.autocast.name() : std::string();
    return Py_BuildValue("{s:s,s:s,s:s,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:O,s:z}", "name", op.name.c_str(), "space",
                         op.space.c_str(), "function", op.function.c_str(), "batch", as_bool(op.batch), "cuda",
                         as_bool(op.has_device()), "writes", as_bool(op.writes_inputs), "lists", as_bool(op.has_lists),
                         "inputs", inputs.get(), "outs", outs.get(), "plan", plan.get(), "tangents", tangents.get(),
                         "is_jvp", as_bool(op.is_jvp), "autocast", autocast.empty() ? nullptr : autocast.c_str());
}

struct OperatorObject {
    PyObject_HEAD vectorcallfunc call;
    OperatorDefinition* op;
    PyObject* dict;
    PyObject* weak_references;
    PyObject* ufunc;       ///< NULL until somebody asks
    PyObject* traced;      ///< the same
    PyObject* traced_out;  ///< the same
};

OperatorObject* as_operator(PyObject* self) noexcept { return reinterpret_cast<OperatorObject*>(self); }
OperatorDefinition& definition_of(PyObject* self) noexcept { return *as_operator(self)->op; }

PyObject* operator_vectorcall(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
    return call_operator(definition_of(self), self, args, PyVectorcall_NARGS(nargsf), kwnames);
}
PyObject* operator_eager(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
    return call_operator(definition_of(self), self, args, positional, kwnames);
}
/// For a kernel of a framework that is made in Python: the framework has seen the call.
PyObject* operator_kernel(PyObject* self, PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
    return call_operator(definition_of(self), self, args, positional, kwnames, false);
}
PyObject* operator_infer(PyObject* self, PyObject* args) {
    PyObject* arguments = nullptr;
    int batch_ndim = -1, leaves_formulas = 0;
    if (!PyArg_ParseTuple(args, "O|ip", &arguments, &batch_ndim, &leaves_formulas)) return nullptr;
    return infer_operator(definition_of(self), arguments, batch_ndim, leaves_formulas != 0);
}
PyObject* operator_implement_torch(PyObject* self, PyObject* key) {
    const char* text = PyUnicode_AsUTF8(key);
    if (text == nullptr) return nullptr;
    auto done = implement_in_torch(definition_of(self), text);
    if (!done) return set_python_error(done.error()), nullptr;
    return PyBool_FromLong(*done);
}
PyObject* operator_get_table(PyObject* self) { return operator_table(definition_of(self)); }
PyObject* operator_get_gradient(PyObject* self) {
    OperatorDefinition* gradient = definition_of(self).gradient;
    if (gradient == nullptr) Py_RETURN_NONE;
    return make_operator_object(gradient);
}

PyObject* operator_get_jvp(PyObject* self) {
    OperatorDefinition* jvp = definition_of(self).jvp;
    if (jvp == nullptr) Py_RETURN_NONE;
    return make_operator_object(jvp);
}

/// Identifies the functions that frameworks call; the same after a module was imported again and has registered again.
PyObject* operator_get_identity(PyObject* self) {
    return PyLong_FromVoidPtr(reinterpret_cast<void*>(definition_of(self).functions.torch));
}
/// The object that `make` creates when first needed, then kept in `place`: a new reference, or NULL with a Python
/// exception set.
template <class F>
PyObject* kept_once(PyObject*& place, F&& make) {
    if (load_shared(place) == nullptr) {
        PyObject* made = make();
        if (made == nullptr) return nullptr;
        if (!store_first(place, made)) Py_DECREF(made);
    }
    return Py_NewRef(load_shared(place));
}
PyObject* operator_get_ufunc(PyObject* self) {
    OperatorObject* object = as_operator(self);
    return kept_once(object->ufunc, [&] { return make_ufunc(*object->op); });
}
/// The argument of jax.ffi.register_ffi_target.
PyObject* operator_get_xla_target(PyObject* self) {
    return PyCapsule_New(reinterpret_cast<void*>(definition_of(self).functions.xla), nullptr, nullptr);
}
/// The same for CUDA; None if the operator has no function for it.
PyObject* operator_get_xla_cuda_target(PyObject* self) {
    const OperatorDefinition& op = definition_of(self);
    if (!op.has_device()) Py_RETURN_NONE;
    return PyCapsule_New(reinterpret_cast<void*>(op.functions.xla_cuda), nullptr, nullptr);
}
/// Whether Python runs `__call__` itself, because it was called by its name, and no compiler is inlining it.
bool is_called_by_name(PyTypeObject* type) {
    PyFrameObject* frame = PyEval_GetFrame();
    if (frame == nullptr) return false;
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    const Ref call = dict_item(type->tp_dict, "__call__");
    return call && PyFunction_Check(call.get()) && PyFunction_GetCode(call.get()) == code.get();
}
/// The object that torch.compile puts into its graph. Kept, because its guards read it again before each run.
PyObject* get_traced(PyObject* self, PyObject*& place, const char* maker) {
    if (is_called_by_name(Py_TYPE(self))) return PyObject_GetAttrString(self, "eager");
    return kept_once(place, [&]() -> PyObject* {
        Ref module(PyImport_ImportModule("isthmus.operators"));
        return module ? PyObject_CallMethod(module.get(), maker, "O", self) : nullptr;
    });
}
PyObject* operator_get_traced(PyObject* self) { return get_traced(self, as_operator(self)->traced, "_traced"); }
/// The same for a call with out=.
PyObject* operator_get_traced_out(PyObject* self) {
    return get_traced(self, as_operator(self)->traced_out, "_traced_out");
}

/// "a, b, k=2.0, *, out=None": made by a Python expression, since only the module inspect can make a Signature.
PyObject* operator_get_signature(PyObject* self) {
    const OperatorDefinition& op = definition_of(self);
    std::string text = "lambda ";
    const Ref globals(PyDict_New()), inspect(globals ? PyImport_ImportModule("inspect") : nullptr);
    if (!inspect) return nullptr;
    bool had_default = false, by_name = false;
    for (int i = 0; i < op.input_count; ++i) {
        const bool has_default =
            op.inputs[i].has_default || op.input_facts(i).optional || op.input_facts(i).kind == ParameterKind::random;
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
    Ref function(run_python(text.c_str(), Py_eval_input, globals.get()));
    return function ? PyObject_CallMethod(inspect.get(), "signature", "O", function.get()) : nullptr;
}
/// pickle and copy find the operator by its module and name, as they find a function.
PyObject* operator_reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }
PyObject* operator_repr(PyObject* self) {
    return PyUnicode_FromFormat("<isthmus operator %s>", definition_of(self).name.c_str());
}

int operator_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(as_operator(self)->dict);
    Py_VISIT(as_operator(self)->ufunc);
    Py_VISIT(as_operator(self)->traced);
    Py_VISIT(as_operator(self)->traced_out);
    return 0;
}
int operator_clear(PyObject* self) {
    Py_CLEAR(as_operator(self)->dict);
    Py_CLEAR(as_operator(self)->ufunc);
    Py_CLEAR(as_operator(self)->traced);
    Py_CLEAR(as_operator(self)->traced_out);
    return 0;
}
void operator_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PyObject_ClearWeakRefs(self);  // always: without a GIL the last one may end on another thread at this moment
    operator_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/// torch.compile looks up a class's `__call__` in its dictionary and inlines it if it is a Python function; Python
/// itself calls by the slot, which stays ours. So the same object is fast to call and is traced as the operator that
/// torch knows.
bool let_compilers_inline(PyTypeObject* type) {
    static const char* const source =
        "def __call__(self, /, *args, out=None, **kwargs):\n"
        "    if out is None:\n"
        "        return self._traced(*args, **kwargs)\n"
        "    return self._traced_out(*args, out=out, **kwargs)\n";
    const Ref call = python_function(source, "__call__", "isthmus.operators");
    if (!call || PyDict_SetItemString(type->tp_dict, "__call__", call.get()) != 0) return false;
    PyType_Modified(type);
    return true;
}

/// For CPython, which no exception may enter.
template <PyObject* (*get)(PyObject* self)>
PyObject* guarded_getter(PyObject* self, void*) {
    return guarded([=] { return get(self); });
}
template <PyObject* (*method)(PyObject* self, PyObject* argument)>
PyObject* guarded_method(PyObject* self, PyObject* argument) {
    return guarded([=] { return method(self, argument); });
}

/// It does not bind to a class or an instance, as a built-in function does not.
PyTypeObject* make_operator_type() {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(OperatorObject, call), READONLY, nullptr},
        {"__dictoffset__", T_PYSSIZET, offsetof(OperatorObject, dict), READONLY, nullptr},
        {"__weaklistoffset__", T_PYSSIZET, offsetof(OperatorObject, weak_references), READONLY, nullptr},
        {}};
    static PyMethodDef methods[] = {
        {"eager", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(operator_eager)),
         METH_FASTCALL | METH_KEYWORDS, "The call itself, whatever compiler is at work."},
        {"_kernel", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(operator_kernel)),
         METH_FASTCALL | METH_KEYWORDS, nullptr},
        {"__reduce__", operator_reduce, METH_NOARGS, nullptr},
        {"_infer", guarded_method<operator_infer>, METH_VARARGS, nullptr},
        {"_implement_torch", guarded_method<operator_implement_torch>, METH_O, nullptr},
        {}};
    static PyGetSetDef getset[] = {
        {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
        {"__signature__", guarded_getter<operator_get_signature>, nullptr, nullptr, nullptr},
        {"ufunc", guarded_getter<operator_get_ufunc>, nullptr,
         "The operator as a numpy.ufunc, with the signature that its named sizes make. Raises if it cannot be one.",
         nullptr},
        {"_table", guarded_getter<operator_get_table>, nullptr, nullptr, nullptr},
        {"_gradient", guarded_getter<operator_get_gradient>, nullptr, nullptr, nullptr},
        {"_jvp", guarded_getter<operator_get_jvp>, nullptr, nullptr, nullptr},
        {"_identity", guarded_getter<operator_get_identity>, nullptr, nullptr, nullptr},
        {"_xla_target", guarded_getter<operator_get_xla_target>, nullptr, nullptr, nullptr},
        {"_xla_cuda_target", guarded_getter<operator_get_xla_cuda_target>, nullptr, nullptr, nullptr},
        {"_traced", guarded_getter<operator_get_traced>, nullptr, nullptr, nullptr},
        {"_traced_out", guarded_getter<operator_get_traced_out>, nullptr, nullptr, nullptr},
        {}};
    static PyType_Slot type_slots[] = {
        {Py_tp_dealloc, reinterpret_cast<void*>(operator_dealloc)},
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
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        type_slots};
    PyTypeObject* type = make_class(spec);
    if (type != nullptr && !let_compilers_inline(type)) Py_CLEAR(type);
    return type;
}
}  // namespace

ISTHMUS_STATE PerSession<PyTypeObject*> operator_type;

PyObject* make_operator_object(OperatorDefinition* op) {
    if (*operator_type == nullptr) {
        PyTypeObject* made = start_session() ? make_operator_type() : nullptr;
        if (made == nullptr) return nullptr;
        if (!operator_type.keep(made)) Py_DECREF(made);
    }
    auto* object = PyObject_GC_New(OperatorObject, *operator_type);
    if (object == nullptr) return nullptr;
    object->call = operator_vectorcall;
    object->op = op;
    object->weak_references = nullptr;
    object->ufunc = nullptr;
    object->traced = object->traced_out = nullptr;
    object->dict = PyDict_New();
    PyObject_GC_Track(object);
    Ref self(reinterpret_cast<PyObject*>(object));
    const bool good = object->dict != nullptr &&
                      put(object->dict, "__name__", PyUnicode_FromString(op->function.c_str())) &&
                      put(object->dict, "__qualname__", PyUnicode_FromString(op->function.c_str()));
    return good ? self.release() : nullptr;
}

}  // namespace detail

ISTHMUS_END
