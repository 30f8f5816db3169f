// def() of a function of a module: what Python sees of it, and what owns it.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/call_arguments.h>

#include <memory>
#include <string>
#include <vector>

ISTHMUS_BEGIN

namespace detail {

namespace {

struct OwnedFunction {
    BoundFunction bound{};  ///< first: the capsule points to it
    PyMethodDef method{};
    std::vector<const char*> parameters;
    std::string doc;

    static void destroy(PyObject* capsule) {
        delete static_cast<OwnedFunction*>(PyCapsule_GetPointer(capsule, nullptr));
    }
};

/// "scale(x, k=None)\n--\n\nThe doc": from the first line inspect.signature() reads the parameters.
std::string signature_and_doc(const OwnedFunction& function, const bool* optional, const char* doc) {
    std::string text = std::string(function.bound.name) + "(";
    for (std::size_t i = 0; i < function.parameters.size(); ++i) {
        if (i > 0) text += ", ";
        text += function.parameters[i];
        if (optional[i]) text += "=None";
    }
    return text + ")\n--\n\n" + doc;
}

}  // namespace

ISTHMUS_COLD void add_function(PyObject* module, const char* name, const char* const* parameters, int count,
                               const bool* optional, const char* doc, PyCFunction call) noexcept {
    if (PyErr_Occurred() != nullptr) return;
    try {
        auto made = std::make_unique<OwnedFunction>();
        made->parameters.assign(parameters, parameters + count);
        made->bound = {name, made->parameters.data()};
        made->doc = signature_and_doc(*made, optional, doc);
        made->method = {name, call, METH_FASTCALL | METH_KEYWORDS, made->doc.c_str()};
        OwnedFunction* owned = made.release();
        const Ref self(PyCapsule_New(&owned->bound, nullptr, OwnedFunction::destroy));
        if (!self) return delete owned;
        const Ref module_name(PyModule_GetNameObject(module));
        if (!module_name) return;
        const Ref function(PyCFunction_NewEx(&owned->method, self.get(), module_name.get()));
        if (function) PyModule_AddObjectRef(module, name, function.get());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
}

}  // namespace detail

ISTHMUS_END
