// A library that is no Python module, uses Isthmus, and is closed while Python lives.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

extern "C" __attribute__((visibility("default"))) PyObject* back(PyObject* x) {
    const auto t = isthmus::from_py(x);
    auto made = t ? isthmus::to_py(*t, isthmus::Framework::tensor) : isthmus::Result<PyObject*>(t.error());
    return made ? *made : (isthmus::set_python_error(made.error()), nullptr);
}
