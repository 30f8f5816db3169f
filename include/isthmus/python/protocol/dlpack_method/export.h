// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/copy.h>
#include <isthmus/python/protocol/capsule/export.h>
#include <isthmus/python/object/tensor_object.h>
#include <isthmus/python/protocol/cuda_driver.h>

ISTHMUS_BEGIN

namespace detail {

/// A pair of integers, as DLPack's Python side passes versions and devices. False without a Python exception when it is none.
inline bool read_pair(PyObject* object, long& first, long& second) {
    Ref pair(PySequence_Check(object) && !PyUnicode_Check(object) ? PySequence_Fast(object, "") : nullptr);
    if (!pair || PySequence_Fast_GET_SIZE(pair.get()) != 2) return PyErr_Clear(), false;
    first = PyLong_AsLong(PySequence_Fast_GET_ITEM(pair.get(), 0));
    second = PyLong_AsLong(PySequence_Fast_GET_ITEM(pair.get(), 1));
    return PyErr_Occurred() == nullptr || (PyErr_Clear(), false);
}

ISTHMUS_COLD inline PyObject* raise(ErrorCode code, ErrorKind kind, const std::string& text) {
    set_python_error(Error(code, kind, text));
    return nullptr;
}

ISTHMUS_COLD inline PyObject* raise_argument(const char* name, PyObject* found, const char* wanted,
                                             ErrorKind kind = ErrorKind::value) {
    Ref text(PyObject_Repr(found));
    const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    if (utf8 == nullptr) return nullptr;
    return raise(ErrorCode::bad_argument, kind, concat({argument_prefix(name), "found ", utf8, "; wanted ", wanted}));
}

/// A copy that only the caller of `__dlpack__` will see.
inline PyObject* export_copy(Block* block, Device device, bool versioned) {
    Result<Tensor> copy = copy_of(block->dl, block->flags & flag::dlpack_known);
    if (!copy) return set_python_error(copy.error()), nullptr;
    copy->block()->dl.device = device;
    return versioned ? versioned_capsule(copy->block(), flag::copied) : legacy_capsule(copy->block());
}

/// `__dlpack__(*, stream, max_version, dl_device, copy)`: array API standard 2024.12, DLPack 1.3.
inline PyObject* tensor_dlpack(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    if (count != 0) {
        PyErr_Format(PyExc_TypeError, "__dlpack__() takes keyword arguments only (%zd positional given)", count);
        return nullptr;
    }
    const Names& names = interned();
    PyObject *stream = nullptr, *max_version = nullptr, *dl_device = nullptr, *copy = nullptr;
    const Py_ssize_t given = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < given; ++i) {
        PyObject* name = PyTuple_GET_ITEM(keywords, i);
        PyObject* value = arguments[i] == Py_None ? nullptr : arguments[i];
        const auto is = [name](PyObject* known) { return name == known || PyUnicode_Compare(name, known) == 0; };
        if (is(names.max_version))
            max_version = value;
        else if (is(names.stream))
            stream = value;
        else if (is(names.dl_device))
            dl_device = value;
        else if (is(names.copy))
            copy = value;
        else {
            PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'", name);
            return nullptr;
        }
    }

    bool versioned = false;
    if (max_version != nullptr) {
        long major = 0, minor = 0;
        if (!read_pair(max_version, major, minor))
            return raise_argument("max_version", max_version, "None or a tuple (major, minor)", ErrorKind::type);
        versioned = major >= DLPACK_MAJOR_VERSION;
    }
    int may_copy = -1;  // None: the producer's choice, which is to share
    if (copy != nullptr) {
        if (!PyBool_Check(copy)) return raise_argument("copy", copy, "None, True or False");
        may_copy = copy == Py_True;
    }
    const Device device = block->dl.device;
    if (stream != nullptr) {
        const long long number = PyLong_Check(stream) ? PyLong_AsLongLong(stream) : (PyErr_SetNone(PyExc_TypeError), 0);
        if (PyErr_Occurred() != nullptr) {
            PyErr_Clear();
            return raise_argument("stream", stream, "None or an integer", ErrorKind::type);
        }
        if (device.is_host() && number != -1) return raise_argument("stream", stream, "None: host memory has no streams");
        if (!device.is_host() && number < -1) return raise_argument("stream", stream, "None, -1 or a stream");
        if (number == 0 && device.type == kDLCUDA)
            return raise_argument("stream", stream, "None, -1, 1, 2 or a stream's address: 0 is ambiguous for CUDA");
        if (!device.is_host() && number != -1 && !order_after_producer(device, number))
            return raise(ErrorCode::producer_failed, ErrorKind::buffer,
                         concat({"the driver could not order stream ", number, " after the work on ", device}));
    }
    Device wanted = device;
    if (dl_device != nullptr) {
        long type = 0, id = 0;
        if (!read_pair(dl_device, type, id))
            return raise_argument("dl_device", dl_device, "None or a tuple (device type, device id)", ErrorKind::type);
        wanted = Device(static_cast<int>(type), static_cast<int>(id));
        if (wanted != device && !(wanted == Device::cpu() && device.is_host()))
            return raise(ErrorCode::bad_device, ErrorKind::buffer,
                         concat({"argument 'dl_device': the tensor is on ", device, " and cannot be exported to ", wanted,
                                 "; move it with its own framework"}));
        // Pinned memory is the host's own: calling it so needs a copy only because the descriptor says otherwise.
        if (wanted != device && may_copy == 0)
            return raise(ErrorCode::needs_copy, ErrorKind::buffer,
                         concat({"argument 'copy': False, but moving from ", device, " to ", wanted, " needs a copy"}));
        if (wanted != device) may_copy = 1;
    }
    if (!versioned && legacy_loses_padding(block))
        return raise(ErrorCode::bad_dtype, ErrorKind::buffer,
                     concat({DType(block->dl.dtype),
                             " with a byte for each element is what a capsule before DLPack 1.0 cannot say; ask with "
                             "max_version=(1, 0) or newer"}));
    if (may_copy == 1) return export_copy(block, wanted, versioned);
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
