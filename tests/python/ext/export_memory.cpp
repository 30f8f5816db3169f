// SPDX-License-Identifier: Apache-2.0
// Memory of C++ that becomes an isthmus.Tensor: every kind of owner, counted when it goes.
#include "ext.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

namespace ext {
namespace {

std::atomic<long> made{0}, released{0};
std::atomic<bool> released_with_gil{false};

void count_release() {
    released += 1;
    released_with_gil = PyGILState_Check() != 0;
}

/// Pages of their own, given back when the owner goes: a later read crashes.
struct Pages {
    void* start;
    std::size_t length;
    void operator()() const {
        munmap(start, length);
        count_release();
    }
};

bool read_shape(PyObject* object, std::vector<std::int64_t>& out) {
    isthmus::Ref fast(PySequence_Fast(object, "expected a sequence of integers"));
    if (!fast) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
        out.push_back(PyLong_AsLongLong(PySequence_Fast_GET_ITEM(fast.get(), i)));
    return PyErr_Occurred() == nullptr;
}

PyObject* show(isthmus::Tensor tensor) {
    const auto object = isthmus::to_py(tensor);
    return object ? *object : raise(object.error());
}

/// pages(shape, dtype, *, strides, offset, data, device, read_only, padded, stream): fresh pages, zero save for `data`
/// at their start, with the work on them on that stream. The tensor starts `offset` bytes in. On another device than
/// the cpu the address is only a number to Isthmus.
PyObject* pages(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"shape",  "dtype",     "strides", "offset", "data",
                                  "device", "read_only", "padded",  "stream", nullptr};
    PyObject *shape_list = nullptr, *strides_list = Py_None;
    const char* dtype_name = "float32";
    Py_ssize_t offset = 0;
    Py_buffer data{};
    int type = kDLCPU, id = 0, read_only = 0, padded = 0;
    long long stream = isthmus::no_stream;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|s$Ony*(ii)ppL", const_cast<char**>(names), &shape_list,
                                     &dtype_name, &strides_list, &offset, &data, &type, &id, &read_only, &padded,
                                     &stream))
        return nullptr;
    struct Release {
        Py_buffer& view;
        ~Release() {
            if (view.obj != nullptr) PyBuffer_Release(&view);
        }
    } release{data};
    std::vector<std::int64_t> shape, strides;
    isthmus::DType dtype;
    if (!read_shape(shape_list, shape) || (strides_list != Py_None && !read_shape(strides_list, strides)))
        return nullptr;
    if (!isthmus::DType::parse(dtype_name, dtype)) return PyErr_Format(PyExc_ValueError, "no dtype '%s'", dtype_name);

    std::int64_t span = 1, numel = 1;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        numel *= shape[i];
        if (!strides.empty() && strides[i] > 0 && shape[i] > 0) span += (shape[i] - 1) * strides[i];
    }
    if (strides.empty()) span = numel;
    const auto bytes = static_cast<std::size_t>(offset + span * dtype.itemsize());
    const std::size_t length = (std::max(bytes, static_cast<std::size_t>(data.len)) + 4096) & ~std::size_t{4095};
    void* start = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return PyErr_NoMemory();
    if (data.len > 0) std::memcpy(start, data.buf, static_cast<std::size_t>(data.len));
    made += 1;
    try {
        isthmus::Tensor tensor = isthmus::Tensor::wrap_spec(
            [&] {
                const auto as_shape = [](const std::vector<std::int64_t>& v) {
                    return std::span<const std::int64_t>(v);
                };
                isthmus::TensorSpec spec(static_cast<char*>(start) + offset, dtype, as_shape(shape));
                if (!strides.empty()) spec.set_strides(as_shape(strides));
                spec.device = isthmus::Device(type, id);
                spec.read_only = read_only != 0;
                spec.padded = padded != 0;
                return spec;
            },
            Pages{start, length});
        if (stream != isthmus::no_stream) tensor.set_stream(stream);
        return show(std::move(tensor));
    } catch (const isthmus::Error& error) {
        return raise(error);
    }
}

/// Counts the elements' end, whatever holds them.
template <class T>
struct CountingDelete {
    void operator()(T* p) const {
        delete[] p;
        count_release();
    }
};

/// A user's own type, its elements inside the object.
struct Image {
    std::array<std::uint8_t, 24> pixels;
    bool alive = true;
    Image() { pixels.fill(7); }
    Image(Image&& other) noexcept : pixels(other.pixels), alive(std::exchange(other.alive, false)) {}
    Image& operator=(Image&&) = delete;
    ~Image() {
        if (alive) count_release();
    }
};

}  // namespace
}  // namespace ext

template <>
struct isthmus::tensor_traits<ext::Image> {
    static TensorSpec describe(ext::Image& image) { return {image.pixels.data(), isthmus::uint8, {2, 4, 3}}; }
};

namespace ext {
namespace {

/// owned(kind): 24 elements of 0, 1, 2, … (7 in the image) owned as the kind says.
PyObject* owned(PyObject*, PyObject* args) {
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "s", &name)) return nullptr;
    const std::string_view kind = name;
    const auto fill = [](auto* p) {
        for (int i = 0; i < 24; ++i) p[i] = static_cast<std::remove_reference_t<decltype(*p)>>(i);
    };
    made += 1;
    try {
        if (kind == "vector") {
            std::vector<float> v(24);
            fill(v.data());
            const void* before = v.data();
            isthmus::Tensor tensor = isthmus::Tensor::own(std::move(v), {4, 6});
            if (tensor.data() != before) return PyErr_Format(PyExc_AssertionError, "the elements moved");
            count_release();  // a vector cannot be asked when it goes
            return show(std::move(tensor));
        }
        if (kind == "unique_ptr") {
            std::unique_ptr<double[], CountingDelete<double>> p(new double[24]);
            fill(p.get());
            return show(isthmus::Tensor::own(std::move(p), {2, 12}));
        }
        if (kind == "shared_ptr") {
            std::shared_ptr<std::int64_t> p(new std::int64_t[24], CountingDelete<std::int64_t>{});
            fill(p.get());
            std::span<std::int64_t> all(p.get(), 24);
            return show(isthmus::Tensor::own(std::move(p), all, {24}));
        }
        if (kind == "array") {
            std::array<std::int16_t, 24> a{};
            fill(a.data());
            count_release();
            return show(isthmus::Tensor::own(std::move(a), {24}));
        }
        if (kind == "traits") return show(isthmus::Tensor::own(Image()));
        if (kind == "empty") {
            isthmus::Tensor tensor = isthmus::Tensor::empty({24}, isthmus::float32);
            fill(static_cast<float*>(tensor.data()));
            count_release();
            return show(std::move(tensor));
        }
        if (kind == "const") {
            static const float constant[24] = {1.0F, 2.0F};
            return show(isthmus::Tensor::wrap(static_cast<const void*>(constant), {24}, {}, isthmus::float32,
                                              isthmus::Device::cpu(), [] { count_release(); }));
        }
        if (kind == "throws") {  // an owner whose end throws: nobody may ever see it
            static float memory[24];
            return show(isthmus::Tensor::wrap(memory, {24}, {}, isthmus::float32, isthmus::Device::cpu(), [] {
                count_release();
                throw 7;
            }));
        }
        return PyErr_Format(PyExc_ValueError, "no kind '%s'", name);
    } catch (const isthmus::Error& error) {
        return raise(error);
    }
}

/// nothing(kind): no elements, at NULL, owned as the kind says.
PyObject* nothing(PyObject*, PyObject* args) {
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "s", &name)) return nullptr;
    const std::string_view kind = name;
    struct Nothing : std::vector<float> {
        bool alive = true;
        Nothing() = default;
        Nothing(Nothing&& other) noexcept : alive(std::exchange(other.alive, false)) {}
        ~Nothing() {
            if (alive) count_release();
        }
    };
    const auto managed = [](auto* of) {
        static std::int64_t shape[2] = {3, 0};
        of->dl_tensor = DLTensor{nullptr, {kDLCPU, 0}, 2, isthmus::float32, shape, nullptr, 0};
        of->manager_ctx = nullptr;
        of->deleter = [](auto* self) {
            count_release();
            delete self;
        };
        return isthmus::Tensor::from_dlpack(of).value();
    };
    try {
        if (kind == "container") return show(isthmus::Tensor::own(Nothing(), {0}));
        if (kind == "shared_ptr")
            return show(isthmus::Tensor::own(std::shared_ptr<float>(nullptr, CountingDelete<float>{}),
                                             std::span<float>(), {2, 0, 3}));
        if (kind == "function")
            return show(isthmus::Tensor::wrap(static_cast<void*>(nullptr), {0, 4}, {}, isthmus::float32,
                                              isthmus::Device::cpu(), [] { count_release(); }));
        if (kind == "const")
            return show(isthmus::Tensor::wrap(static_cast<const void*>(nullptr), {0}, {}, isthmus::float32,
                                              isthmus::Device::cpu(), [] { count_release(); }));
        if (kind == "with strides")
            return show(isthmus::Tensor::wrap(static_cast<void*>(nullptr), {0, 4}, {8, 1}, isthmus::float32,
                                              isthmus::Device::cpu(), [] { count_release(); }));
        if (kind == "managed") return show(managed(new DLManagedTensor));
        if (kind == "managed, versioned") {
            auto* made = new DLManagedTensorVersioned;
            made->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
            made->flags = 0;
            return show(managed(made));
        }
        if (kind == "part") return show(isthmus::Tensor::own(Nothing(), {0}).reshape({4, 0}).select(0, 1));
        return PyErr_Format(PyExc_ValueError, "no kind '%s'", name);
    } catch (const isthmus::Error& error) {
        return raise(error);
    }
}

/// own_by_python(x, owner, *, fail=False): x's memory, kept by a Python object of any kind. With `fail`, described
/// wrongly.
PyObject* own_by_python(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"", "", "fail", nullptr};
    PyObject *x = nullptr, *owner = nullptr;
    int fail = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|$p", const_cast<char**>(names), &x, &owner, &fail))
        return nullptr;
    const auto borrowed = isthmus::borrow_py(x);
    if (!borrowed) return raise(borrowed.error());
    try {
        const auto shape = fail != 0 ? isthmus::Shape({-1}) : isthmus::Shape(borrowed->shape());
        const auto strides = fail != 0 ? isthmus::Shape({}) : isthmus::Shape(borrowed->strides());
        return show(isthmus::Tensor::wrap(borrowed->data(), shape, strides, borrowed->dtype(), borrowed->device(),
                                          isthmus::PyOwner(owner)));
    } catch (const isthmus::Error& error) {
        return raise(error);
    }
}

/// A PyOwner of NULL, and one of a thread without the GIL: the codes of the errors.
PyObject* refused_owners(PyObject*, PyObject* object) {
    const auto code_of = [](PyObject* owner) {
        try {
            const isthmus::PyOwner made(owner);
            return "";
        } catch (const isthmus::Error& error) {
            return isthmus::error_code_name(error.code());
        }
    };
    const char *null = code_of(nullptr), *without_gil = nullptr;
    Py_BEGIN_ALLOW_THREADS without_gil = code_of(object);
    Py_END_ALLOW_THREADS return Py_BuildValue("(ss)", null, without_gil);
}

/// x's memory, which nothing keeps.
PyObject* without_owner(PyObject*, PyObject* x) {
    const auto borrowed = isthmus::borrow_py(x);
    if (!borrowed) return raise(borrowed.error());
    return show(isthmus::Tensor::wrap(borrowed->data(), borrowed->shape(), borrowed->strides(), borrowed->dtype(),
                                      borrowed->device(), nullptr));
}

/// (owners made, owners gone, whether the last one went with the GIL held)
PyObject* owners(PyObject*, PyObject*) {
    return Py_BuildValue("(llO)", made.load(), released.load(), released_with_gil.load() ? Py_True : Py_False);
}

}  // namespace

PyMethodDef export_memory_methods[] = {
    {"pages", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(pages)), METH_VARARGS | METH_KEYWORDS,
     "an isthmus.Tensor over fresh pages of C++"},
    {"owned", owned, METH_VARARGS, "an isthmus.Tensor whose 24 elements C++ owns in one way or another"},
    {"nothing", nothing, METH_VARARGS, "an isthmus.Tensor without elements, at NULL, owned in one way or another"},
    {"own_by_python", method(own_by_python), METH_VARARGS | METH_KEYWORDS,
     "an isthmus.Tensor over x's memory that keeps another object"},
    {"refused_owners", refused_owners, METH_O, "how PyOwner refuses NULL, and a thread without the GIL"},
    {"without_owner", without_owner, METH_O, "an isthmus.Tensor over x's memory, which nothing keeps"},
    {"owners", owners, METH_NOARGS, "(made, gone, the last one with the GIL)"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
