// The guards of an interpreter without the GIL, each in the interleaving that it is there for.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/ref.h>

#include <atomic>
#include <chrono>
#include <thread>

#if defined(Py_GIL_DISABLED)

ISTHMUS_BEGIN
namespace detail {
/// What hold_wrapper() does between finding an object and counting it up.
inline void (*between)() = [] {};
inline bool try_reference_after_all(PyObject* object) noexcept {
    between();
    return try_reference(object);
}
}  // namespace detail
ISTHMUS_END

#define try_reference try_reference_after_all
#include "src/bridge/runtime/object_owner.h"
#undef try_reference

#endif

#include <isthmus/python.h>

#include "../../python/support/module.h"

#if defined(Py_GIL_DISABLED)

namespace {

namespace detail = isthmus::detail;

/// Entries of one type in one state, of which all bytes behind the state are the same.
detail::ProducerType entry_of(char fill) {
    static_assert(offsetof(detail::ProducerType, api) % sizeof(void*) == 0);
    detail::ProducerType entry;
    entry.type = &PyFloat_Type;
    entry.version = detail::version_of(&PyFloat_Type);
    auto* filled = reinterpret_cast<const char*>(static_cast<std::uintptr_t>(fill) * 0x0101010101010101U);
    entry.protocol = static_cast<detail::Protocol>(fill);
    entry.api = reinterpret_cast<const DLPackExchangeAPI*>(filled);
    entry.refusal = entry.hint = filled;
    entry.is_array = entry.immutable = entry.known_torch = fill % 2 != 0;
    return entry;
}
bool is_one_of_them(const detail::ProducerType& entry) {
    const detail::ProducerType whole = entry_of(static_cast<char>(entry.protocol));
    return entry.api == whole.api && entry.refusal == whole.refusal && entry.hint == whole.hint &&
           entry.is_array == whole.is_array && entry.immutable == whole.immutable &&
           entry.known_torch == whole.known_torch;
}

/// mixed_entries(writes): two threads write so many entries in one place of a cache, while this one reads: how many it
/// found that nobody had written.
PyObject* mixed_entries(PyObject*, PyObject* writes) {
    static detail::TypeCache cache;
    const long wanted = PyLong_AsLong(writes);
    std::atomic<int> writing{2};
    std::thread writers[2];
    for (int n = 0; n < 2; ++n)
        writers[n] = std::thread([&writing, wanted, n] {
            for (long i = 0; i < wanted; ++i) cache.remember(entry_of(static_cast<char>((2 * i + n) % 8 + 1)));
            --writing;
        });
    long mixed = 0;
    for (detail::TypeCopy copy; writing != 0;) {
        detail::ProducerType& entry = copy;
        if (cache.find(&PyFloat_Type, entry) && !is_one_of_them(entry)) ++mixed;
    }
    for (std::thread& writer : writers) writer.join();
    return PyLong_FromLong(mixed);
}

/// miscounted(times): two threads count aliases up and down so many times each; what is left.
PyObject* miscounted(PyObject*, PyObject* times) {
    static std::uint32_t aliases = 0;
    const long wanted = PyLong_AsLong(times);
    std::atomic<int> ready{0};
    const auto count = [&ready, wanted] {
        ++ready;
        while (ready < 2) {
        }
        for (long i = 0; i < wanted; ++i) {
            detail::count_shared(aliases, 1);
            detail::count_shared(aliases, std::uint32_t(-1));
        }
    };
    std::thread other(count);
    count();
    other.join();
    return PyLong_FromUnsignedLong(aliases);
}

std::atomic<bool> found{false}, taken_away{false}, too_early{false};

/// taken_away_too_early(): a thread finds the object that shows a block, and waits before it counts it up; whether this
/// one could take the object away meanwhile, after which it may be freed.
PyObject* taken_away_too_early(PyObject*, PyObject*) {
    static detail::Block block{};
    const isthmus::Ref object(PyList_New(0));
    if (!object || !detail::show(&block, object.get(), nullptr)) return nullptr;
    detail::between = [] {
        found = true;
        for (int i = 0; i < 100 && !taken_away; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        too_early = taken_away.load();
    };
    std::atomic<PyObject*> held{nullptr};
    std::thread finder([&held] {
        const PyGILState_STATE attached = PyGILState_Ensure();
        PyObject* seen = nullptr;
        held = detail::hold_wrapper(&block, &PyList_Type, seen);
        PyGILState_Release(attached);
    });
    // Detached while it waits: a new thread may stop those that are attached.
    Py_BEGIN_ALLOW_THREADS;
    while (!found) std::this_thread::yield();
    Py_END_ALLOW_THREADS;
    detail::hide(&block, object.get());
    taken_away = true;
    Py_BEGIN_ALLOW_THREADS;
    finder.join();
    Py_END_ALLOW_THREADS;
    const isthmus::Ref given_back(held.load());
    return PyBool_FromLong(too_early);
}

PyMethodDef methods[] = {{"taken_away_too_early", taken_away_too_early, METH_NOARGS, nullptr},
                         {"miscounted", miscounted, METH_O, nullptr},
                         {"mixed_entries", mixed_entries, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "guards", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_guards() { return create_module(definition); }

#endif
