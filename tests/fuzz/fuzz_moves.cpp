// SPDX-License-Identifier: Apache-2.0
// Borrows of every protocol moved about in any order: each says what it said at first, and its exporter gets all of it
// back.
#include <isthmus/python.h>  // Python.h must come before any standard header

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "fuzz.h"

namespace {

using namespace isthmus;

// Exporters that fill in shapes of every kind: inside the Py_buffer, of their own, none; and those that are asked by a
// method.
const char* const sources_code = R"(
import array, ctypes
class Interface:
    def __init__(self):
        self.memory = array.array('f', range(6))
        self.__array_interface__ = dict(
            version=3, shape=(2, 3), typestr='<f4', data=(self.memory.buffer_info()[0], False), strides=(12, 4))
resizable = [bytearray(n) for n in (1, 5, 24)]
sources = [
    b'12345', b'', *resizable, memoryview(bytearray(24)), memoryview(bytearray(24)).cast('f', [2, 3]),
    memoryview(bytearray(24)).cast('f')[::-2], memoryview(bytearray(48)).cast('d', [1, 2, 3]), array.array('h', range(7)),
    (ctypes.c_int * 3 * 2)(), Interface(),
]
)";

/// A borrow, and what it said when it was made.
struct Slot {
    std::unique_ptr<Borrowed> borrowed;  // of its own allocation, so that a sanitizer sees who reads a dead one
    const void* data = nullptr;
    DLDataType dtype{};
    std::vector<std::int64_t> shape, strides;

    void take(Borrowed&& made) {
        const DLTensor& t = made.descriptor();
        data = t.data;
        dtype = t.dtype;
        shape.assign(t.shape, t.shape + t.ndim);
        strides.assign(t.strides, t.strides + t.ndim);
        borrowed = std::make_unique<Borrowed>(std::move(made));
    }
    void check() const {
        if (borrowed == nullptr) return;
        const DLTensor& t = borrowed->descriptor();
        CHECK(t.data == data && std::memcmp(&t.dtype, &dtype, sizeof dtype) == 0);
        CHECK(t.ndim == static_cast<int>(shape.size()));
        for (int i = 0; i < t.ndim; ++i) {
            const auto at = static_cast<std::size_t>(i);
            CHECK(t.shape[i] == shape[at] && t.strides[i] == strides[at]);
        }
    }
};

struct Python {
    PyObject* globals;
    Python() {
        Py_InitializeEx(0);
        globals = PyDict_New();
        PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins());
        run(sources_code);
    }
    void run(const char* code) const {
        PyObject* done = PyRun_String(code, Py_file_input, globals, globals);
        if (done == nullptr) PyErr_Print();
        CHECK(done != nullptr);
        Py_DECREF(done);
    }
    PyObject* source(std::size_t i) const {
        PyObject* list = PyDict_GetItemString(globals, "sources");
        return PyList_GetItem(list, static_cast<Py_ssize_t>(i) % PyList_GET_SIZE(list));
    }
};

void move_through_a_vector(std::vector<Slot>& slots) {
    std::vector<Borrowed> many;  // which moves all of them each time it grows
    for (Slot& slot : slots)
        if (slot.borrowed != nullptr) many.push_back(std::move(*std::exchange(slot.borrowed, nullptr)));
    std::size_t at = 0;
    for (Slot& slot : slots)
        if (!slot.shape.empty() || slot.data != nullptr) {
            if (at == many.size()) break;
            Slot back = std::move(slot);
            back.borrowed = std::make_unique<Borrowed>(std::move(many[at++]));
            slot = std::move(back);
        }
}

void step(std::vector<Slot>& slots, PyObject* source, unsigned what, Slot& a, Slot& b) {
    switch (what % 7) {
        case 0:
        case 1: {
            auto made = borrow_py(source);
            CHECK(made.has_value());
            a.take(std::move(made).value());
            break;
        }
        case 2:  // into memory of its own
            if (a.borrowed != nullptr) a.borrowed = std::make_unique<Borrowed>(std::move(*a.borrowed));
            break;
        case 3:  // over another, which ends
            if (&a == &b || a.borrowed == nullptr || b.borrowed == nullptr) break;
            *b.borrowed = std::move(*a.borrowed);
            a.borrowed = std::exchange(b.borrowed, nullptr);
            b = Slot{};
            break;
        case 4:
            std::swap(a, b);
            if (a.borrowed != nullptr && b.borrowed != nullptr && &a != &b) {
                std::swap(*a.borrowed, *b.borrowed);
                std::swap(a.borrowed, b.borrowed);
            }
            break;
        case 5:
            a = Slot{};
            break;
        default:
            // Empty slots would shift the order.
            for (const Slot& slot : slots)
                if (slot.borrowed == nullptr) return;
            move_through_a_vector(slots);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Python python;
    {
        std::vector<Slot> slots(4);
        for (std::size_t i = 0; i + 2 < size; i += 3) {
            step(slots, python.source(data[i + 2]), data[i], slots[data[i + 1] % 4], slots[data[i + 1] / 4 % 4]);
            for (const Slot& slot : slots) slot.check();
        }
    }
    python.run("for b in resizable: b.append(0); b.pop()");  // which a buffer that was not given back forbids
    return 0;
}
