// isthmus.Tensor.to() and as_read_only(): the same memory as another object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include "../framework/facts.h"
#include "../runtime/tensor_object.h"
#include "../runtime/raise.h"

ISTHMUS_BEGIN

namespace detail {

inline PyObject* tensor_to(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"", "allow_read_only_loss", "allow_copy", nullptr};
    const char* name = nullptr;
    int read_only_loss = 0, copy = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$pp:to", const_cast<char**>(names), &name, &read_only_loss, &copy))
        return nullptr;
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    Framework framework = Framework::none;
    if (!parse_framework(name, framework)) {
        std::string known;
        for (const auto& facts : framework_facts) known += concat({(known.empty() ? "" : ", "), facts.name});
        return raise(ErrorCode::bad_argument, ErrorKind::value,
                     {"argument 'framework': found '", name, "'; wanted one of ", known});
    }
    retain(block);
    Result<PyObject*> result = to_py(Tensor::steal(block), framework, ExportOptions{read_only_loss != 0, copy != 0});
    if (result) return *result;
    set_python_error(result.error());
    return nullptr;
}

inline PyObject* tensor_as_read_only(PyObject* self, PyObject*) {
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    if (block->flags & flag::read_only) return Py_NewRef(self);
    Block* alias = alias_shown_block(block, block->dl, (block->flags & flag::dlpack_known) | flag::read_only);
    return alias != nullptr ? new_tensor_object(alias) : PyErr_NoMemory();
}

}  // namespace detail

ISTHMUS_END
