// isthmus.shared: tensors over memory that other processes map (isthmus/shared.h), for Python.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/shared.h>

#include <climits>
#include <cmath>

#include "../shared/messages.h"
#include "package.h"

namespace {

using namespace package;
namespace shared = isthmus::shared;

constexpr char pool_name[] = "isthmus.shared.Pool";

/// An Error that is also the builtin exception for the system's error; made when first needed.
PyObject* error_class(const char* name, const char* doc, PyObject* builtin) {
    Ref bases(PyTuple_Pack(2, isthmus::detail::shared_types()->error, builtin));
    return bases ? PyErr_NewExceptionWithDoc(name, doc, bases.get(), nullptr) : nullptr;
}

/// Of one interpreter session: NULL until first needed.
using ErrorClass = isthmus::detail::PerSession<PyObject*>;
ErrorClass out_of_memory, system_failed, peer_closed;

PyObject* class_of(ErrorCode code) {
    const auto once = [](ErrorClass& type, const char* name, const char* doc, PyObject* builtin) {
        if (*type == nullptr) {
            PyObject* made = error_class(name, doc, builtin);
            if (made != nullptr && !type.keep(made)) Py_DECREF(made);
        }
        return *type;
    };
    switch (code) {
        case ErrorCode::out_of_memory:
            return once(out_of_memory, "isthmus.shared.OutOfMemory", "No memory, or no more than the limit.",
                        PyExc_MemoryError);
        case ErrorCode::system_failed:
            return once(system_failed, "isthmus.shared.SystemFailed", "The operating system refused a call.",
                        PyExc_OSError);
        case ErrorCode::peer_closed:
            return once(peer_closed, "isthmus.shared.PeerClosed", "Nobody is left to take what is sent.",
                        PyExc_BrokenPipeError);
        default:
            return nullptr;
    }
}

}  // namespace

void package::raise_system(const Error& error) {
    PyObject* type = class_of(error.code());
    if (type == nullptr) return isthmus::set_python_error(error);
    Ref exception(PyObject_CallFunction(type, "s", error.what()));
    Ref code(PyUnicode_FromString(isthmus::error_code_name(error.code())));
    if (!exception || !code || PyObject_SetAttrString(exception.get(), "code", code.get()) != 0) return;
    PyErr_SetObject(type, exception.get());
}

namespace {

/// Releases the GIL while the system is called, and takes it again to check for signals.
struct Unlocked {
    PyThreadState* state = PyEval_SaveThread();
    bool raised = false;
    ~Unlocked() {
        // A destructor that the end of the interpreter unwinds would end the process.
        if (state != nullptr) isthmus::detail::surviving_exit([this] { PyEval_RestoreThread(state); });
    }
    void lock() { PyEval_RestoreThread(std::exchange(state, nullptr)); }
    static bool signals(void* context) {
        auto* self = static_cast<Unlocked*>(context);
        PyEval_RestoreThread(self->state);
        self->raised = PyErr_CheckSignals() != 0;
        self->state = PyEval_SaveThread();
        return self->raised;
    }
    shared::Wait wait(double seconds) {
        constexpr double most = 1e9;  // thirty years
        const double ms = std::ceil((seconds < most ? seconds : most) * 1000);
        return {seconds < 0 ? -1 : static_cast<std::int64_t>(ms), signals, this};
    }
};

/// A file descriptor; -1 with an exception set.
int read_descriptor(PyObject* object) {
    const long number = PyLong_AsLong(object);
    if (number >= 0 && number <= INT_MAX) return static_cast<int>(number);
    (void)isthmus::detail::raise_argument("sock", object, "an open socket");
    return -1;
}

/// A timeout as sockets have it: None, or seconds of 0 or more. -1 for None.
bool read_timeout(PyObject* object, double& seconds) {
    seconds = -1;
    if (object == Py_None) return true;
    seconds = PyFloat_AsDouble(object);
    if (PyErr_Occurred() == nullptr && seconds >= 0) return true;
    (void)isthmus::detail::raise_argument("timeout", object, "None, or seconds of 0 or more");
    return false;
}

}  // namespace

bool package::read_access(PyObject* object, shared::Access& access) {
    const std::string_view name = PyUnicode_Check(object) ? isthmus::detail::utf8_of(object) : std::string_view();
    if (shared::parse_access(name, access)) return true;
    (void)isthmus::detail::raise_argument("access", object, "'read_only', 'copy_on_write' or 'shared'",
                                          PyUnicode_Check(object) ? ErrorKind::value : ErrorKind::type);
    return false;
}

namespace {

bool read_pool(PyObject* object, shared::Pool*& pool) {
    pool = object == Py_None ? &shared::Pool::process()
                             : static_cast<shared::Pool*>(PyCapsule_GetPointer(object, pool_name));
    return pool != nullptr;
}

/// Raises the exception of sockets when a timeout ends; an exception that a signal handler has raised stays.
PyObject* fail(const Error& error, bool raised, double seconds) {
    if (raised) return nullptr;
    if (error.code() == ErrorCode::timed_out)
        PyErr_SetString(seconds == 0 ? PyExc_BlockingIOError : PyExc_TimeoutError, error.what());
    else
        raise_system(error);
    return nullptr;
}

/// What `f` makes without the GIL, as a new reference; None for a Result<void>. It gets how long it may wait.
template <class F>
PyObject* waiting(double seconds, F&& f) {
    return guarded([&]() -> PyObject* {
        Unlocked unlocked;
        const auto made = f(unlocked.wait(seconds));
        unlocked.lock();
        if (!made) return fail(made.error(), unlocked.raised, seconds);
        if constexpr (std::is_same_v<decltype(made), const isthmus::Result<Tensor>>)
            return to_object(*made);
        else
            Py_RETURN_NONE;
    });
}

/// _shared_empty(shape, dtype, access, pool, timeout)
PyObject* empty(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    std::int64_t sizes[isthmus::max_ndim];
    int ndim = 0;
    DType dtype;
    shared::Access access{};
    shared::Pool* pool = nullptr;
    double seconds = 0;
    if (!read_shape(arguments[0], sizes, ndim) || !read_dtype(arguments[1], "dtype", dtype) ||
        !read_access(arguments[2], access) || !read_pool(arguments[3], pool) || !read_timeout(arguments[4], seconds))
        return nullptr;
    const std::span<const std::int64_t> shape(sizes, static_cast<std::size_t>(ndim));
    return waiting(seconds, [&](shared::Wait wait) { return pool->empty(shape, dtype, access, wait); });
}

/// _shared_share(x, access, pool, timeout)
PyObject* share(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    shared::Access access{};
    shared::Pool* pool = nullptr;
    double seconds = 0;
    if (!read_access(arguments[1], access) || !read_pool(arguments[2], pool) || !read_timeout(arguments[3], seconds))
        return nullptr;
    const isthmus::Result<Tensor> given = isthmus::from_py(arguments[0], {.argument = "x"});
    if (!given) return isthmus::set_python_error(given.error()), nullptr;
    return waiting(seconds, [&](shared::Wait wait) { return shared::share(*given, access, *pool, wait); });
}

/// _shared_is_shared(x)
PyObject* is_shared(PyObject*, PyObject* x) {
    const isthmus::Result<Tensor> given = isthmus::from_py(x, {.argument = "x"});
    if (!given) return isthmus::set_python_error(given.error()), nullptr;
    return guarded([&] { return PyBool_FromLong(shared::is_shared(*given)); });
}

bool read_kind(PyObject* object, shared::impl::Kind& kind) {
    const long number = PyLong_AsLong(object);
    if (number == -1 && PyErr_Occurred() != nullptr) return false;
    if (number < 0 || number > static_cast<long>(shared::impl::Kind::tree)) {
        PyErr_Format(PyExc_ValueError, "argument 'kind': expected a number from 0 to 2, got %ld", number);
        return false;
    }
    kind = static_cast<shared::impl::Kind>(number);
    return true;
}

/// _shared_send(socket, tensor, access, timeout, kind)
PyObject* send(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    const int socket = read_descriptor(arguments[0]);
    if (socket < 0) return nullptr;
    shared::Access access{};
    double seconds = 0;
    shared::impl::Kind kind{};
    if (!read_access(arguments[2], access) || !read_timeout(arguments[3], seconds) || !read_kind(arguments[4], kind))
        return nullptr;
    const isthmus::Result<Tensor> tensor = isthmus::from_py(arguments[1], {.argument = "tensor"});
    if (!tensor) return isthmus::set_python_error(tensor.error()), nullptr;
    return waiting(seconds,
                   [&](shared::Wait wait) { return shared::impl::send_message(socket, *tensor, access, kind, wait); });
}

/// What `take` gets from the socket, without the GIL; EOFError when the sender is gone.
template <class F>
PyObject* received(PyObject* const* arguments, F&& take) {
    const int socket = read_descriptor(arguments[0]);
    if (socket < 0) return nullptr;
    shared::Access wanted{};
    double seconds = 0;
    if ((arguments[1] != Py_None && !read_access(arguments[1], wanted)) || !read_timeout(arguments[2], seconds))
        return nullptr;
    const std::optional<shared::Access> access = arguments[1] != Py_None ? std::optional(wanted) : std::nullopt;
    return guarded([&]() -> PyObject* {
        Unlocked unlocked;
        const isthmus::Result<Tensor> tensor = take(socket, access, unlocked.wait(seconds));
        unlocked.lock();
        if (!tensor && tensor.error().code() == ErrorCode::peer_closed) {
            PyErr_SetString(PyExc_EOFError, tensor.error().what());
            return nullptr;
        }
        return tensor ? to_object(*tensor) : fail(tensor.error(), unlocked.raised, seconds);
    });
}

/// _shared_receive(socket, access, timeout)
PyObject* receive(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    return received(arguments, [](auto... how) { return shared::receive(how...); });
}

/// _shared_receive_any(socket, access, timeout): (tensor, kind)
PyObject* receive_any(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    shared::impl::Kind kind{};
    PyObject* tensor = received(arguments, [&](int socket, std::optional<shared::Access> access, shared::Wait wait) {
        return shared::impl::receive_message_of(socket, access, kind, wait);
    });
    return tensor == nullptr ? nullptr : Py_BuildValue("Ni", tensor, static_cast<int>(kind));
}

/// _shared_pack(flat, offset, x): copies the elements of x there; (where the first one is, whether x's strides hold)
PyObject* pack(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    const isthmus::Result<Tensor> flat = isthmus::from_py(arguments[0], {.argument = "flat"});
    if (!flat) return isthmus::set_python_error(flat.error()), nullptr;
    const unsigned long long offset = PyLong_AsUnsignedLongLong(arguments[1]);
    if (PyErr_Occurred() != nullptr) return nullptr;
    const isthmus::Result<Tensor> x = isthmus::from_py(arguments[2], {.argument = "x"});
    if (!x) return isthmus::set_python_error(x.error()), nullptr;
    if (!x->device().is_host()) {
        isthmus::set_python_error(
            Error(ErrorCode::bad_device, "argument 'x': a tensor that is not in host memory; expected host memory"));
        return nullptr;
    }
    const auto size = static_cast<std::uint64_t>(flat->nbytes()), count = static_cast<std::uint64_t>(x->nbytes());
    if (offset > size || count > size - offset) {
        PyErr_SetString(PyExc_ValueError, "the elements do not fit");
        return nullptr;
    }
    return guarded([&]() -> PyObject* {
        std::int64_t first = 0;
        bool dense = false;
        {
            const Unlocked unlocked;
            dense = shared::impl::copy_elements_to(*x, static_cast<char*>(flat->data()) + offset, first);
        }
        return Py_BuildValue("LO", static_cast<long long>(offset) - (dense ? first : 0), dense ? Py_True : Py_False);
    });
}

/// _shared_view(flat, offset, dtype, shape, strides, padded): a tensor within received bytes
PyObject* view(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    const isthmus::Result<Tensor> flat = isthmus::from_py(arguments[0], {.argument = "flat"});
    if (!flat) return isthmus::set_python_error(flat.error()), nullptr;
    const unsigned long long offset = PyLong_AsUnsignedLongLong(arguments[1]);
    if (PyErr_Occurred() != nullptr) return nullptr;
    std::int64_t sizes[isthmus::max_ndim], steps[isthmus::max_ndim];
    int ndim = 0, count = 0;
    DType dtype;
    if (!read_dtype(arguments[2], "dtype", dtype) || !read_sizes(arguments[3], "shape", sizes, ndim) ||
        (arguments[4] != Py_None && !read_sizes(arguments[4], "strides", steps, count)))
        return nullptr;
    if (arguments[4] != Py_None && count != ndim) {
        PyErr_SetString(PyExc_ValueError, "as many strides as sizes");
        return nullptr;
    }
    const isthmus::Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(ndim)));
    const isthmus::Shape strides(std::span<const std::int64_t>(steps, static_cast<std::size_t>(count)));
    return guarded([&]() -> PyObject* {
        return to_object(shared::impl::view_within(*flat, offset, dtype, shape,
                                                   arguments[4] != Py_None ? &strides : nullptr,
                                                   PyObject_IsTrue(arguments[5]) == 1));
    });
}

/// _shared_pool(limit, idle_limit): a capsule
PyObject* pool(PyObject*, PyObject* arguments) {
    unsigned long long limit = 0, idle_limit = 0;
    if (!PyArg_ParseTuple(arguments, "KK:_shared_pool", &limit, &idle_limit)) return nullptr;
    return guarded([&]() -> PyObject* {
        auto made = std::make_unique<shared::Pool>(
            shared::PoolOptions{static_cast<std::size_t>(limit), static_cast<std::size_t>(idle_limit)});
        PyObject* capsule = PyCapsule_New(made.get(), pool_name, [](PyObject* self) {
            delete static_cast<shared::Pool*>(PyCapsule_GetPointer(self, pool_name));
        });
        shared::Pool* held = made.release();  // the capsule's, if there is one
        if (capsule == nullptr) delete held;
        return capsule;
    });
}

/// _shared_stats(pool): (segments, reserved, free, lent)
PyObject* stats(PyObject*, PyObject* capsule) {
    shared::Pool* pool = nullptr;
    if (!read_pool(capsule, pool)) return nullptr;
    const shared::PoolStats s = pool->stats();
    return Py_BuildValue("nnnn", static_cast<Py_ssize_t>(s.segments), static_cast<Py_ssize_t>(s.reserved),
                         static_cast<Py_ssize_t>(s.free), static_cast<Py_ssize_t>(s.lent));
}

/// _shared_trim(pool)
PyObject* trim(PyObject*, PyObject* capsule) {
    shared::Pool* pool = nullptr;
    if (!read_pool(capsule, pool)) return nullptr;
    return guarded([&]() -> PyObject* {
        {
            Unlocked unlocked;
            pool->trim();
        }
        Py_RETURN_NONE;
    });
}

}  // namespace

PyMethodDef package::shared_methods[] = {
    {"_shared_empty", with_keywords(counted<empty, 5>), METH_FASTCALL,
     "_shared_empty($module, shape, dtype, access, pool, timeout, /)\n--\n\nWhat isthmus.shared.empty calls."},
    {"_shared_share", with_keywords(counted<share, 4>), METH_FASTCALL,
     "_shared_share($module, x, access, pool, timeout, /)\n--\n\nWhat isthmus.shared.share calls."},
    {"_shared_is_shared", is_shared, METH_O,
     "_shared_is_shared($module, x, /)\n--\n\nWhat isthmus.shared.is_shared calls."},
    {"_shared_send", with_keywords(counted<send, 5>), METH_FASTCALL,
     "_shared_send($module, socket, tensor, access, timeout, kind, /)\n--\n\nWhat isthmus.shared.send calls."},
    {"_shared_receive", with_keywords(counted<receive, 3>), METH_FASTCALL,
     "_shared_receive($module, socket, access, timeout, /)\n--\n\nWhat isthmus.shared.receive calls."},
    {"_shared_receive_any", with_keywords(counted<receive_any, 3>), METH_FASTCALL,
     "_shared_receive_any($module, socket, access, timeout, /)\n--\n\nA tensor and the kind of its message."},
    {"_shared_pack", with_keywords(counted<pack, 3>), METH_FASTCALL,
     "_shared_pack($module, flat, offset, x, /)\n--\n\nCopies x into flat bytes."},
    {"_shared_view", with_keywords(counted<view, 6>), METH_FASTCALL,
     "_shared_view($module, flat, offset, dtype, shape, strides, padded, /)\n--\n\nA tensor within flat bytes."},
    {"_shared_pool", pool, METH_VARARGS, "_shared_pool($module, limit, idle_limit, /)\n--\n\nA pool, as a capsule."},
    {"_shared_stats", stats, METH_O,
     "_shared_stats($module, pool, /)\n--\n\nSegments, bytes reserved and free, slots lent."},
    {"_shared_trim", trim, METH_O, "_shared_trim($module, pool, /)\n--\n\nUnused memory goes back to the system."},
    {nullptr, nullptr, 0, nullptr},
};
