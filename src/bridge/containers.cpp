// The sources of a container of views: a sequence, a mapping.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/containers.h>
#include "runtime/errors.h"

ISTHMUS_BEGIN

namespace detail {

Loaded hold_elements(PyObject* object, Ref& held, Py_ssize_t count) noexcept {
    if (PyUnicode_Check(object) || PyBytes_Check(object) || !PySequence_Check(object)) return Loaded::no;
    held = Ref(PySequence_Tuple(object));
    if (!held) return is_interrupted() ? Loaded::raised : Loaded::no;
    return count < 0 || PyTuple_GET_SIZE(held.get()) == count ? Loaded::yes : Loaded::no;
}

Loaded hold_items(PyObject* object, Ref& held) noexcept {
    if (PyDict_Check(object))
        held = Ref(PyDict_Items(object));
    else if (PyMapping_Check(object) && !PySequence_Check(object))
        held = Ref(PyMapping_Items(object));
    else
        return Loaded::no;
    if (!held) return is_interrupted() ? Loaded::raised : Loaded::no;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held.get()); ++i) {
        PyObject* item = PyList_GET_ITEM(held.get(), i);
        if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) return Loaded::no;
    }
    return Loaded::yes;
}

}  // namespace detail

ISTHMUS_END
