// A program whose second life of the interpreter begins without memory.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {
bool is_out = false;  // of memory, for those who ask whether there is some
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return is_out ? nullptr : std::malloc(size); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace {

/// The code of the error with which bytes are refused; -1 if they are taken.
int taken() {
    PyObject* bytes = PyBytes_FromString("eight");
    const auto tensor = isthmus::from_py(bytes);
    Py_DECREF(bytes);
    return tensor ? -1 : static_cast<int>(tensor.error().code());
}

}  // namespace

int main() {
    Py_Initialize();
    const int first = taken();
    Py_Finalize();
    Py_Initialize();
    is_out = true;
    isthmus::set_python_error(isthmus::Error(isthmus::ErrorCode::bad_argument, "not this"));
    const bool raises = PyErr_ExceptionMatches(PyExc_MemoryError) != 0;
    PyErr_Clear();
    const int second = taken();
    is_out = false;
    const int third = taken();
    Py_Finalize();
    const bool is_right =
        raises && first == -1 && second == static_cast<int>(isthmus::ErrorCode::out_of_memory) && third == -1;
    if (!is_right) std::fprintf(stderr, "%d %d %d %d\n", raises, first, second, third);
    return is_right ? 0 : 1;
}
