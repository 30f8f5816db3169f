// SPDX-License-Identifier: Apache-2.0
// What is measured along the axes on which a user grows. Each function times its loop, which callgrind counts by name.
#include <isthmus/python/arguments.h>
#include <isthmus/python/containers.h>

#include <malloc.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <isthmus/converted.h>
#include <isthmus/core/copy.h>
#include <isthmus/core/live.h>
#include <isthmus/isthmus.h>

using isthmus::Tensor;
using isthmus::View;

namespace {

void* volatile sink;

PyObject* raise(const isthmus::Error& error) {
    isthmus::set_python_error(error);
    return nullptr;
}

}  // namespace

/// What callgrind collects, by this name.
extern "C" [[gnu::noinline]] bool isthmus_growth_region(bool (*run)(void*), void* body) { return run(body); }

namespace {

/// Runs `body` in the region: the nanoseconds that one of `count` took, or NULL with an exception set.
template <class Body>
PyObject* timed(double count, Body&& body) {
    const auto start = std::chrono::steady_clock::now();
    const auto run = [](void* self) { return (*static_cast<std::remove_reference_t<Body>*>(self))(); };
    if (!isthmus_growth_region(run, &body)) return nullptr;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    return PyFloat_FromDouble(took.count() / count);
}

/// own(objects, rounds): from_py of each in turn.
PyObject* own(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<PyObject*, std::int64_t> in("own", {"objects", "rounds"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [objects, rounds] = in.values();
    const Py_ssize_t size = PyList_Size(objects);
    return timed(static_cast<double>(size * rounds), [&, objects = objects, rounds = rounds] {
        for (std::int64_t round = 0; round < rounds; ++round)
            for (Py_ssize_t i = 0; i < size; ++i) {
                const auto taken = isthmus::from_py(PyList_GET_ITEM(objects, i));
                if (!taken) return raise(taken.error()) != nullptr;
                sink = taken->data();
            }
        return true;
    });
}

/// by_index(image, rounds), by_element(image, rounds): a loop over the indices of an image of three channels, and
/// for_each over it.
using Image = View<float, 3, isthmus::sizes<"h w 3">, isthmus::c_contiguous>;
[[gnu::noinline]] void invert_by_index(const Image& x) {
    for (std::int64_t i = 0; i < x.extent(0); ++i)
        for (std::int64_t j = 0; j < x.extent(1); ++j)
            for (std::int64_t c = 0; c < x.extent(2); ++c) x(i, j, c) = 255 - x(i, j, c);
}
template <class V>
[[gnu::noinline]] void invert_by_element(const V& x) {
    isthmus::for_each([](float& v) { v = 255 - v; }, x);
}
template <class V, class Invert>
PyObject* inverted(PyObject* const* args, Py_ssize_t nargs, Invert invert) {
    isthmus::Arguments<V, std::int64_t> in("inverted", {"image", "rounds"});
    if (!in.parse(args, nargs)) return nullptr;
    return timed(static_cast<double>(in.template get<1>()), [&] {
        for (std::int64_t i = 0; i < in.template get<1>(); ++i) invert(in.template get<0>());
        return true;
    });
}
PyObject* by_index(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return inverted<Image>(args, nargs, invert_by_index);
}
PyObject* by_element(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    using Strided = View<float, 3>;
    return inverted<Strided>(args, nargs, invert_by_element<Strided>);
}

/// drop_listed(count): drops so many tensors of the list of live tensors; list_live(count): lists them.
PyObject* with_live(PyObject* const* args, Py_ssize_t nargs, bool drops) {
    isthmus::Arguments<std::int64_t> in("live", {"count"});
    if (!in.parse(args, nargs)) return nullptr;
    static float memory[4];
    const auto count = static_cast<std::size_t>(in.get<0>());
    std::vector<Tensor> tensors(count);
    isthmus::live_tracking(true);
    for (Tensor& tensor : tensors)
        tensor = Tensor::wrap(memory, {4}, {}, isthmus::float32, isthmus::Device::cpu(), nullptr);
    std::vector<isthmus::LiveTensor> listed;
    PyObject* ns = timed(static_cast<double>(count), [&] {
        if (drops)
            tensors.clear();
        else
            listed = isthmus::live();
        return true;
    });
    tensors.clear();
    isthmus::live_tracking(false);
    return ns;
}
PyObject* drop_listed(PyObject*, PyObject* const* args, Py_ssize_t nargs) { return with_live(args, nargs, true); }
PyObject* list_live(PyObject*, PyObject* const* args, Py_ssize_t nargs) { return with_live(args, nargs, false); }

using Row = View<const float, 1>;

/// eight(array, rounds): a call with eight views.
PyObject* eight(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<PyObject*, std::int64_t> in("eight", {"array", "rounds"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [array, rounds] = in.values();
    PyObject* arrays[] = {array, array, array, array, array, array, array, array};
    return timed(static_cast<double>(rounds), [&, rounds = rounds] {
        for (std::int64_t round = 0; round < rounds; ++round) {
            isthmus::Arguments<Row, Row, Row, Row, Row, Row, Row, Row> call("f",
                                                                            {"a", "b", "c", "d", "e", "f", "g", "h"});
            if (!call.parse(arrays, 8)) return false;
            sink = const_cast<float*>(call.get<7>().data());
        }
        return true;
    });
}

/// A binder with nothing of its own, so that what a container costs is measured alone.
struct Binder {
    struct How {
        const char* argument = nullptr;
        bool converts() const noexcept { return false; }
        How without_conversions() const noexcept { return {}; }
    };
    template <class E>
    struct Element {
        E value;
        isthmus::detail::ArgumentLoader<E> loader;
        Element() noexcept {}
        bool load(PyObject* object, const How&) {
            return loader.load(object, value, "f", "x", nullptr) == isthmus::detail::Loaded::yes;
        }
        E&& take() { return std::move(value); }
    };
    template <class E>
    static bool load(isthmus::detail::ArgumentLoader<E>& loader, PyObject* object, E& value, const How&) {
        return loader.try_load(object, value, true) == isthmus::detail::Loaded::yes;
    }
    static bool raise() { return false; }
};

/// (nanoseconds, bytes of malloc) of one element of a container as an argument.
template <class X>
PyObject* container(PyObject* objects) {
    auto loader = std::make_unique<isthmus::detail::ContainerLoader<Binder, X>>();
    const auto count = static_cast<double>(PyObject_Size(objects));
    const auto before = mallinfo2();
    PyObject* ns = timed(count, [&] {
        if (!loader->load(objects, {})) return false;
        sink = &loader->get();
        return true;
    });
    const auto after = mallinfo2();
    const auto bytes = static_cast<double>(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd);
    return Py_BuildValue("Nd", ns, bytes / count);
}
PyObject* vector_of_views(PyObject*, PyObject* objects) { return container<std::vector<Row>>(objects); }
PyObject* vector_of_borrowed(PyObject*, PyObject* objects) {
    return container<std::vector<isthmus::Borrowed>>(objects);
}
PyObject* map_of_views(PyObject*, PyObject* objects) { return container<std::map<std::string, Row>>(objects); }

/// results(count, bytes, rounds): (nanoseconds, faults of fresh pages) of one of `count` results that are alive at
/// once, filled, and made of what the round before has left.
PyObject* results(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<std::int64_t, std::int64_t, std::int64_t> in("results", {"count", "bytes", "rounds"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [count, bytes, rounds] = in.values();
    const auto round = [count = count, bytes = bytes] {
        std::vector<Tensor> made;
        made.reserve(static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < count; ++i) {
            made.push_back(Tensor::empty({bytes}, isthmus::uint8));
            std::memset(made.back().data(), 1, static_cast<std::size_t>(bytes));
        }
        return true;
    };
    const auto faults = [] {
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_minflt;
    };
    round();
    const auto before = faults();
    const auto all = static_cast<double>(count * rounds);
    PyObject* ns = timed(all, [&, rounds = rounds] {
        for (std::int64_t i = 0; i < rounds; ++i) round();
        return true;
    });
    return Py_BuildValue("Nd", ns, static_cast<double>(faults() - before) / all);
}

/// copied(array, rounds): a compact copy.
PyObject* copied(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<isthmus::Borrowed, std::int64_t> in("copied", {"array", "rounds"});
    if (!in.parse(args, nargs)) return nullptr;
    return timed(static_cast<double>(in.get<1>()), [&] {
        for (std::int64_t i = 0; i < in.get<1>(); ++i) {
            const auto copy = isthmus::copy_of(in.get<0>());
            if (!copy) return raise(copy.error()) != nullptr;
            sink = copy->data();
        }
        return true;
    });
}

/// converted(array, dtype, rounds): as the argument of a function that takes it as that dtype.
template <class T>
PyObject* converted_to(PyObject* array, std::int64_t rounds) {
    return timed(static_cast<double>(rounds), [&] {
        for (std::int64_t i = 0; i < rounds; ++i) {
            isthmus::Arguments<View<const T, isthmus::dynamic_rank, isthmus::converted>> in("f", {"x"});
            if (!in.parse(&array, 1)) return false;
            sink = const_cast<T*>(in.template get<0>().data());
        }
        return true;
    });
}
PyObject* converted(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<PyObject*, std::string_view, std::int64_t> in("converted", {"array", "dtype", "rounds"});
    if (!in.parse(args, nargs)) return nullptr;
    auto [array, dtype, rounds] = in.values();
    if (dtype == "float32") return converted_to<float>(array, rounds);
    if (dtype == "float64") return converted_to<double>(array, rounds);
    if (dtype == "int32") return converted_to<std::int32_t>(array, rounds);
    return converted_to<std::int64_t>(array, rounds);
}

#define FAST(function) \
    {#function, reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function)), METH_FASTCALL, nullptr}
PyMethodDef methods[] = {
    FAST(own),
    FAST(by_index),
    FAST(by_element),
    FAST(drop_listed),
    FAST(list_live),
    FAST(eight),
    FAST(results),
    FAST(copied),
    FAST(converted),
    {"vector_of_views", vector_of_views, METH_O, nullptr},
    {"vector_of_borrowed", vector_of_borrowed, METH_O, nullptr},
    {"map_of_views", map_of_views, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "bench_growth", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_bench_growth() { return PyModule_Create(&definition); }
