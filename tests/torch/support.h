// SPDX-License-Identifier: Apache-2.0
// What both test extensions, with libtorch and without, do with handles that outlive a call.
#pragma once

#include <isthmus/python.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace support {

inline PyObject* raise(const isthmus::Error& error) {
    isthmus::set_python_error(error);
    return nullptr;
}

/// The object, or the error raised.
inline PyObject* give(isthmus::Result<PyObject*> result) { return result ? *result : raise(result.error()); }

inline PyCFunction keywords(PyCFunctionWithKeywords f) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

/// f(x, *, require_writable=False, allow_grad=False, argument=None)
struct Options {
    PyObject* object = nullptr;
    isthmus::ImportOptions import;

    bool parse(PyObject* args, PyObject* kwargs) {
        static const char* names[] = {"", "require_writable", "allow_grad", "argument", nullptr};
        int require_writable = 0, allow_grad = 0;
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$ppz", const_cast<char**>(names), &object, &require_writable,
                                         &allow_grad, &import.argument))
            return false;
        import.require_writable = require_writable != 0;
        import.allow_grad = allow_grad != 0;
        return true;
    }
};

/// Memory of C++ that counts how many of its kind live.
struct Buffer {
    static inline std::atomic<long> alive{0};
    std::vector<float> elements;

    explicit Buffer(std::size_t n) : elements(n) {
        for (std::size_t i = 0; i < n; ++i) elements[i] = static_cast<float>(i);
        alive += 1;
    }
    Buffer(Buffer&& other) noexcept : elements(std::move(other.elements)) { alive += 1; }
    ~Buffer() { alive -= 1; }
};

inline isthmus::Tensor make_buffer(std::int64_t n) {
    auto buffer = std::make_shared<Buffer>(static_cast<std::size_t>(n));
    float* data = buffer->elements.data();
    return isthmus::Tensor::wrap(data, {n}, {}, isthmus::float32, isthmus::Device::cpu(), std::move(buffer));
}

inline PyObject* count_buffers(PyObject*, PyObject*) { return PyLong_FromLong(Buffer::alive.load()); }

/// Handles of C++ by a number, dropped wherever the test wants them to be.
template <class Handle>
class Keeper {
public:
    static PyObject* add(Handle handle) {
        const std::scoped_lock lock(mutex_);
        kept()[next_] = std::move(handle);
        return PyLong_FromLong(next_++);
    }
    /// NULL with KeyError set.
    static Handle* find(PyObject* number) {
        const std::scoped_lock lock(mutex_);
        const auto found = kept().find(PyLong_AsLong(number));
        if (found != kept().end()) return &found->second;
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_KeyError, "no such handle");
        return nullptr;
    }

    static PyObject* drop(PyObject*, PyObject* number) {
        Handle handle;
        if (!take(number, handle)) return nullptr;
        Py_RETURN_NONE;
    }
    static PyObject* drop_without_gil(PyObject*, PyObject* number) {
        Handle handle;
        if (!take(number, handle)) return nullptr;
        Py_BEGIN_ALLOW_THREADS handle = Handle();
        Py_END_ALLOW_THREADS Py_RETURN_NONE;
    }
    /// On a thread that Python never saw.
    static PyObject* drop_on_thread(PyObject*, PyObject* number) {
        Handle handle;
        if (!take(number, handle)) return nullptr;
        Py_BEGIN_ALLOW_THREADS std::thread([&] { handle = Handle(); }).join();
        Py_END_ALLOW_THREADS Py_RETURN_NONE;
    }
    /// drop_later(number, microseconds): detached, whatever the interpreter does by then.
    static PyObject* drop_later(PyObject*, PyObject* args) {
        PyObject* number = nullptr;
        long delay = 0;
        Handle handle;
        if (!PyArg_ParseTuple(args, "Ol", &number, &delay) || !take(number, handle)) return nullptr;
        std::thread([handle = std::move(handle), delay]() mutable {
            std::this_thread::sleep_for(std::chrono::microseconds(delay));
            handle = Handle();
        }).detach();
        Py_RETURN_NONE;
    }
    /// Into a static that the C++ runtime destroys, long after the interpreter.
    static PyObject* keep_until_exit(PyObject*, PyObject* number) {
        Handle handle;
        if (!take(number, handle)) return nullptr;
        until_exit().push_back(std::move(handle));
        Py_RETURN_NONE;
    }

private:
    static bool take(PyObject* number, Handle& out) {
        Handle* found = find(number);
        if (found == nullptr) return false;
        out = std::move(*found);
        const std::scoped_lock lock(mutex_);
        kept().erase(PyLong_AsLong(number));
        return true;
    }
    // Never destroyed, so that only the test decides when a handle goes.
    static std::map<long, Handle>& kept() {
        static auto* map = new std::map<long, Handle>;
        return *map;
    }
    static std::vector<Handle>& until_exit() {
        static std::vector<Handle> handles;
        return handles;
    }
    static inline long next_ = 1;
    static inline std::mutex mutex_;  // of the map: no GIL guards it in a free-threaded build
};

}  // namespace support
