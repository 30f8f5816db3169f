// The operators of all extensions in this process, for isthmus.operators.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

#include "../bridge/operators/definition.h"

namespace {

PyObject* operators(PyObject*, PyObject*) {
    const isthmus::Ref all = isthmus::detail::all_operators();
    return all ? PySequence_List(all.get()) : nullptr;
}

}  // namespace

PyMethodDef package::operator_methods[] = {
    {"_operators", operators, METH_NOARGS, "The operators of all extensions, in the order of their registration."}, {}};
