// isthmus.Tensor's `__dlpack__` and `__dlpack_device__`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/tensor_object.h>  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include <isthmus/python/protocol/capsule/export.h>
#include <isthmus/python/protocol/watched.h>
#include <isthmus/python/runtime/cuda_driver.h>
#include <isthmus/python/runtime/tuples.h>

ISTHMUS_BEGIN

namespace detail {

/// A copy that only the caller of `__dlpack__` will see: memory of the heap, whatever kind of host memory it was made of.
inline PyObject* export_copy(Block* block, bool versioned) {
    Result<Tensor> copy = copy_of(block->dl, block->flags & flag::dlpack_known);
    if (!copy) {
        set_python_error(copy.error());
        return nullptr;
    }
    return versioned ? versioned_capsule(copy->block(), flag::copied) : legacy_capsule(copy->block());
}

/// The keywords of `__dlpack__`, NULL where one was left out or is None.
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

/// Orders the consumer's stream after the producer's work. False with a Python exception set.
inline bool obey_stream(const Block* block, PyObject* stream) {
    const Device device = block->dl.device;
    const bool whole = PyLong_Check(stream);
    const long long number = whole ? PyLong_AsLongLong(stream) : 0;
    if (!whole || PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise_argument("stream", stream, "None or an integer", ErrorKind::type);
        return false;
    }
    const char* wanted = nullptr;
    if (device.is_host() && number != -1) wanted = "None: host memory has no streams";
    if (!device.is_host() && number < -1) wanted = "None, -1 or a stream";
    if (number == 0 && device.type == kDLCUDA) wanted = "None, -1, 1, 2 or a stream's address: 0 is ambiguous for CUDA";
    if (wanted != nullptr) {
        raise_argument("stream", stream, wanted);
        return false;
    }
    if (device.is_host() || number == -1 || order_after_producer(device, number)) return true;
    raise(ErrorCode::producer_failed, ErrorKind::buffer,
          concat({"the driver could not order stream ", number, " after the work on ", device}));
    return false;
}

/// The device that `dl_device` asks for, and whether a copy is needed to say that the data is there. False with a Python
/// exception set. `may_copy`: -1 for the producer's choice, which is to share.
inline bool read_wanted_device(PyObject* dl_device, Device here, Device& wanted, int& may_copy) {
    long type = 0, id = 0;
    if (!read_pair(dl_device, type, id)) {
        raise_argument("dl_device", dl_device, "None or a tuple (device type, device id)", ErrorKind::type);
        return false;
    }
    wanted = Device(static_cast<int>(type), static_cast<int>(id));
    const bool copies_to_heap = may_copy == 1 && here.is_host() && here != Device::cpu();  // no copy of ours is pinned
    if (wanted == here && !copies_to_heap) return true;
    if (!(wanted == Device::cpu() && here.is_host())) {
        raise(ErrorCode::bad_device, ErrorKind::buffer,
              concat({"argument 'dl_device': the tensor is on ", here, " and cannot be ",
                      (wanted == here ? "copied" : "exported"), " to ", wanted, "; move it with its own framework"}));
        return false;
    }
    // Pinned memory is the host's own: calling it so needs a copy only because the descriptor says otherwise.
    if (may_copy == 0) {
        raise(ErrorCode::needs_copy, ErrorKind::buffer,
              concat({"argument 'copy': False, but moving from ", here, " to ", wanted, " needs a copy"}));
        return false;
    }
    may_copy = 1;
    return true;
}

/// `__dlpack__(*, stream, max_version, dl_device, copy)`: array API standard 2024.12, DLPack 1.3.
inline PyObject* tensor_dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    Block* block = block_of(self);
    DLPackKeywords given;
    if (block == nullptr || !given.read(arguments, count, keywords)) return nullptr;
    bool versioned = false;
    if (given.max_version != nullptr) {
        long major = 0, minor = 0;
        if (!read_pair(given.max_version, major, minor))
            return raise_argument("max_version", given.max_version, "None or a tuple (major, minor)", ErrorKind::type);
        versioned = major >= DLPACK_MAJOR_VERSION;
    }
    int may_copy = -1;
    if (given.copy != nullptr) {
        if (!PyBool_Check(given.copy)) return raise_argument("copy", given.copy, "None, True or False");
        may_copy = given.copy == Py_True;
    }
    if (given.stream != nullptr && !obey_stream(block, given.stream)) return nullptr;
    Device wanted = block->dl.device;
    if (given.dl_device != nullptr && !read_wanted_device(given.dl_device, block->dl.device, wanted, may_copy)) return nullptr;
    if (!versioned && legacy_loses_padding(block))
        return raise(ErrorCode::bad_dtype, ErrorKind::buffer,
                     concat({DType(block->dl.dtype),
                             " with a byte for each element is what a capsule before DLPack 1.0 cannot say; ask with "
                             "max_version=(1, 0) or newer"}));
    if (may_copy == 1) return export_copy(block, versioned);
    if (refuse_watched(block)) return nullptr;
    note_consumer(block, "__dlpack__");
    if (versioned) return versioned_capsule(block);
    if (block->flags & flag::read_only)
        return raise(ErrorCode::read_only, ErrorKind::buffer,
                     "the memory is read-only, which a capsule before DLPack 1.0 cannot say; ask with max_version=(1, 0) or "
                     "newer, or for copy=True");
    return legacy_capsule(block);
}

inline PyObject* tensor_dlpack_device(PyObject* self, PyObject*) {
    Block* block = block_of(self);
    return block != nullptr ? Py_BuildValue("(ii)", static_cast<int>(block->dl.device.device_type),
                                            static_cast<int>(block->dl.device.device_id))
                            : nullptr;
}

}  // namespace detail

ISTHMUS_END
