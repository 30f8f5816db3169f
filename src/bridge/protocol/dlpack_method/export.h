// isthmus.Tensor's `__dlpack__` and `__dlpack_device__`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include "../../runtime/errors.h"
#include "../../runtime/lookups.h"
#include "../capsule.h"
#include "../export.h"

ISTHMUS_BEGIN

namespace detail {

/// A copy that only the caller of `__dlpack__` will see: in heap memory, whatever kind of host memory the original has.
inline PyObject* export_copy(Block* block, bool versioned) {
    Result<Tensor> copy = copy_of(block->dl, block->flags & flag::dlpack_known);
    if (!copy) {
        set_python_error(copy.error());
        return nullptr;
    }
    return versioned ? versioned_capsule(copy->block(), flag::copied) : legacy_capsule(copy->block());
}

/// The keywords of `__dlpack__`, NULL if one was left out or is None.
struct DLPackKeywords {
    PyObject *stream = nullptr, *max_version = nullptr, *dl_device = nullptr, *copy = nullptr;

    /// False with a TypeError in Python's own words.
    bool read(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
        if (count != 0) {
            PyErr_Format(PyExc_TypeError, "__dlpack__() takes keyword arguments only (%zd positional given)", count);
            return false;
        }
        const Py_ssize_t given = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
        for (Py_ssize_t i = 0; i < given; ++i) {
            PyObject** slot = find(PyTuple_GET_ITEM(keywords, i));
            if (slot == nullptr) {
                PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'",
                             PyTuple_GET_ITEM(keywords, i));
                return false;
            }
            *slot = arguments[i] == Py_None ? nullptr : arguments[i];
        }
        return true;
    }

private:
    PyObject** find(PyObject* name) noexcept {
        const Interned& names = interned();
        const auto is = [name](PyObject* known) { return name == known || PyUnicode_Compare(name, known) == 0; };
        if (is(names.max_version)) return &max_version;
        if (is(names.stream)) return &stream;
        if (is(names.dl_device)) return &dl_device;
        return is(names.copy) ? &copy : nullptr;
    }
};

/// The number of the consumer's stream: -1 for a tensor of the host, which takes no other. False with a Python
/// exception set.
inline bool read_stream(PyObject* stream, Device device, long long& number) {
    const bool whole = PyLong_Check(stream);
    number = whole ? PyLong_AsLongLong(stream) : 0;
    if (!whole || PyErr_Occurred() != nullptr) {
        raise_argument("stream", stream, "None or an integer", ErrorKind::type);
        return false;
    }
    const char* wanted = nullptr;
    if (has_streams(device.type))
        wanted = wanted_stream(device, number);
    else if (device.is_host() && number != -1)
        wanted = "-1: host memory has no streams";
    else if (number < -1)
        wanted = "-1 or a stream";
    if (wanted == nullptr) return true;
    raise_argument("stream", stream, {"None, ", wanted});
    return false;
}

/// The device that `dl_device` asks for: the tensor's own, or the CPU if the same memory may be called that. False with
/// a Python exception set.
inline bool read_wanted_device(PyObject* dl_device, Device here, bool copy, Device& wanted) {
    int type = 0, id = 0;
    if (!read_pair(dl_device, type, id)) {
        raise_argument("dl_device", dl_device, "None or a tuple (device type, device id)", ErrorKind::type);
        return false;
    }
    wanted = Device(type, id);
    if (wanted == Device::cpu() && here.is_host()) return true;  // pinned memory is the host's own
    if (wanted != here) {
        raise(ErrorCode::bad_device, ErrorKind::buffer,
              {"argument 'dl_device': the tensor is on ", here, " and cannot be exported to ", wanted,
               "; move it with its own framework"});
        return false;
    }
    if (!copy || !here.is_host()) return true;
    raise(ErrorCode::bad_device, ErrorKind::buffer,
          {"argument 'copy': True, but only ", Device::cpu(), " memory is allocated here, not ", wanted,
           "; copy it with its own framework"});
    return false;
}

/// `__dlpack__(*, stream, max_version, dl_device, copy)`: array API standard 2024.12, DLPack 1.3.
inline PyObject* tensor_dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    Block* block = block_of(self);
    DLPackKeywords given;
    if (block == nullptr || !given.read(arguments, count, keywords)) return nullptr;
    bool versioned = false;
    if (given.max_version != nullptr) {
        std::int64_t major = 0, minor = 0;
        if (!read_pair(given.max_version, major, minor))
            return raise_argument("max_version", given.max_version, "None or a tuple (major, minor)", ErrorKind::type);
        versioned = major >= DLPACK_MAJOR_VERSION;
    }
    if (given.copy != nullptr && !PyBool_Check(given.copy))
        return raise_argument("copy", given.copy, "None, True or False");
    const bool copy = given.copy == Py_True;
    Device wanted = block->dl.device;
    long long consumer = has_streams(wanted.type) ? legacy_stream(wanted) : -1;  // None is the legacy default stream
    if (given.stream != nullptr && !read_stream(given.stream, wanted, consumer)) return nullptr;
    if (given.dl_device != nullptr && !read_wanted_device(given.dl_device, wanted, copy, wanted)) return nullptr;
    if (!versioned && legacy_loses_padding(block))
        return raise(ErrorCode::bad_dtype, ErrorKind::buffer,
                     {DType(block->dl.dtype),
                      " with a byte for each element is what a capsule before DLPack 1.0 cannot say; ask with "
                      "max_version=(1, 0) or newer"});
    if (copy) return export_copy(block, versioned);
    if (refuse_tracked(block)) return nullptr;
    if (!versioned && (block->flags & flag::read_only))
        return raise(
            ErrorCode::read_only, ErrorKind::buffer,
            "the memory is read-only, which a capsule before DLPack 1.0 cannot say; ask with max_version=(1, 0) or "
            "newer, or for copy=True");
    if (!order_export(block, consumer)) return nullptr;
    note_consumer(block, "__dlpack__");
    const ExportGuard guard(block);
    if (ISTHMUS_UNLIKELY(guard.block() == nullptr)) return PyErr_NoMemory();
    return versioned ? versioned_capsule(guard.block(), wanted) : legacy_capsule(guard.block(), wanted);
}

inline PyObject* tensor_dlpack_device(PyObject* self, PyObject*) {
    Block* block = block_of(self);
    return block != nullptr ? Py_BuildValue("(ii)", static_cast<int>(block->dl.device.device_type),
                                            static_cast<int>(block->dl.device.device_id))
                            : nullptr;
}

}  // namespace detail

ISTHMUS_END
