// NumPy's array interface and CUDA's: import and export.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include <cstring>
#include <string_view>

#include "../runtime/lookups.h"
#include "../runtime/shared_runtime.h"
#include "buffer.h"
#include "export.h"
#include "import_request.h"
#include "typestr.h"

ISTHMUS_BEGIN

namespace detail {

/// Reads a tuple of integers into `out`.
inline bool read_sizes(PyObject* tuple, std::int64_t* out, int& count) {
    return PyTuple_Check(tuple) && read_integers(tuple, out, max_ndim, count) == Integers::ok;
}

/// Whether an exporter owns its memory and there are only `references` to it, so that nobody else can have the memory.
/// For other exporters (an ndarray, a mapping) the memory may belong to another object: they do not count as copies.
inline bool is_only_ours(PyObject* exporter, Py_ssize_t references) {
    if (Py_REFCNT(exporter) != references) return false;
    if (PyMemoryView_Check(exporter)) {
        const auto* view = reinterpret_cast<PyMemoryViewObject*>(exporter);
        PyObject* base = PyMemoryView_GET_BASE(exporter);
        return base != nullptr && Py_REFCNT(view->mbuf) == 1 && is_only_ours(base, 1);
    }
    return PyBytes_Check(exporter) || PyByteArray_Check(exporter) ||
           std::strcmp(Py_TYPE(exporter)->tp_name, "array.array") == 0;
}

/// The buffer that an interface may give in place of an address; held by the import once it is open.
struct InterfaceBuffer {
    char* start = nullptr;
    Py_ssize_t size = 0, offset = 0;
    bool read_only = false;
    bool is_copy = false;  ///< made for this request, as Pillow does

    bool open(ImportRequest& request, PyObject* exporter) {
        Py_buffer& view = request.out.buffer();
        if (!take_buffer(exporter, view, PyBUF_SIMPLE)) return false;
        request.out.hold_buffer();
        start = static_cast<char*>(view.buf);
        size = view.len;
        read_only = view.readonly != 0;
        return true;
    }
    bool skip(PyObject* bytes) {
        offset = PyLong_AsSsize_t(bytes);
        return PyErr_Occurred() == nullptr && offset >= 0 && offset <= size;
    }
    /// Whether all elements of a sound tensor, which starts at the offset, lie in the buffer.
    bool holds(const DLTensor& t) const noexcept {
        std::int64_t numel = 0, first = 0, last = 0;
        if (!layout::numel(t.shape, t.ndim, numel)) return false;
        if (numel == 0) return true;
        const std::int64_t itemsize = DType(t.dtype).itemsize();
        if (t.strides == nullptr)
            last = numel * itemsize - 1;
        else if (!layout::extent(t.shape, t.strides, t.ndim, itemsize, first, last))
            return false;
        return first >= -offset && last < size - offset;
    }
};

/// `__cuda_array_interface__` does not name the device: the driver is queried. Its stream (version 3) is that of the
/// data; None says that there is nothing to wait for.
ISTHMUS_COLD inline bool place_cuda_data(ImportRequest& request, DLTensor& t, PyObject* stream,
                                         std::int64_t& producer) {
    constexpr int device_ordinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    t.device = DLDevice{kDLCUDA, 0};
    const StreamDriver* driver = driver_of(t.device);
    int ordinal = 0;
    if (driver != nullptr && t.data != nullptr &&
        driver->pointer_attribute(&ordinal, device_ordinal, reinterpret_cast<std::uintptr_t>(t.data)) == 0)
        t.device.device_id = ordinal;
    if (stream == nullptr) return true;
    producer = PyLong_AsLongLong(stream);
    if (PyErr_Occurred() == nullptr && producer > 0) return true;
    return request.fail(
        ErrorCode::bad_argument,
        "__cuda_array_interface__ has an invalid 'stream' (0 is ambiguous); expected None, 1, 2 or a stream's address");
}

/// Reads one interface's dict: the value of each entry, and the text of the error if one is wrong.
struct InterfaceReader {
    ImportRequest& request;
    bool cuda;
    const char* attribute;  ///< ".__array_interface__"
    Ref dict;
    int ndim = 0;
    bool read_only = false;
    InterfaceBuffer buffer;

    InterfaceReader(ImportRequest& request_, bool cuda_)
        : request(request_), cuda(cuda_), attribute(cuda ? ".__cuda_array_interface__" : ".__array_interface__") {}

    ISTHMUS_COLD bool fail(ErrorCode code, Message text) {
        if (is_interrupted())
            return request.fail_with_exception(ErrorCode::producer_failed, {type_name(request.object), attribute});
        return request.fail(code, {type_name(request.object), attribute, " has ", text});
    }
    /// A strong reference: a number among the values may be an object whose __index__ empties the dict.
    Ref item(const char* key) const {
        Ref value = dict_item(dict.get(), key);
        return value.get() == Py_None ? Ref() : std::move(value);
    }

    /// Whether an item() that is not there is absent; else there was no memory to look for it.
    bool is_told() { return ISTHMUS_LIKELY(PyErr_Occurred() == nullptr) || fail(ErrorCode::out_of_memory, "items"); }

    bool open() {
        const Interned& names = interned();
        dict = Ref(PyObject_GetAttr(request.object, cuda ? names.cuda_array_interface : names.array_interface));
        if (!dict)
            return request.fail_with_exception(ErrorCode::producer_failed, {type_name(request.object), attribute});
        if (PyDict_Check(dict.get())) return true;
        return request.fail(ErrorCode::producer_failed, {type_name(request.object), attribute, " is a ",
                                                         type_name(dict.get()), "; expected a dict"});
    }
    ISTHMUS_COLD bool read_shape(DLTensor& t) {
        const Ref shape = item("shape");
        if (!shape || !read_sizes(shape.get(), request.out.shape(), ndim))
            return fail(ErrorCode::bad_layout, "no valid 'shape'; expected a tuple of integers");
        t.shape = request.out.shape();
        t.ndim = ndim;
        return true;
    }
    ISTHMUS_COLD bool read_dtype(DLTensor& t) {
        const Ref typestr = item("typestr");
        const std::string_view text =
            typestr && PyUnicode_Check(typestr.get()) ? utf8_of(typestr.get()) : std::string_view();
        if (text.data() == nullptr)
            return fail(ErrorCode::bad_dtype, "no valid 'typestr'; expected a string such as '<f4'");
        DType dtype;
        bool foreign_order = false;
        if (!parse_typestr(text, dtype, foreign_order)) {
            constexpr const char* order = "', which is not in this machine's byte order";
            if (foreign_order && cuda) return fail(ErrorCode::not_values, {"typestr '", text, order});
            if (foreign_order)
                return fail(ErrorCode::not_values,
                            {"typestr '", text, order, "; call numpy.asarray(x).astype('", dtype, "') first"});
            return fail(ErrorCode::bad_dtype, {"typestr '", text, "', which has no counterpart in DLPack"});
        }
        t.dtype = dtype;
        if (item("mask"))
            return fail(ErrorCode::not_values, "a mask, which would be lost; fill the masked elements first");
        return is_told();
    }
    bool read_data(DLTensor& t) {
        const Ref data = item("data");
        if (!is_told()) return false;
        return data && PyTuple_Check(data.get()) ? read_address(t, data.get()) : read_buffer(t, data.get());
    }
    ISTHMUS_COLD bool read_strides(DLTensor& t) {
        const Ref strides = item("strides");
        if (!strides) return is_told();
        std::int64_t bytes[max_ndim];
        int count = 0;
        if (!read_sizes(strides.get(), bytes, count) || count != ndim)
            return fail(ErrorCode::bad_layout,
                        {"no valid 'strides'; expected None or a tuple of ", ndim, " integers, in bytes"});
        t.strides = request.out.strides();
        const auto* steps = reinterpret_cast<const Py_ssize_t*>(bytes);
        return element_strides(steps, ndim, DType(t.dtype).itemsize(), t.strides) ||
               element_strides_that_matter(request, steps);
    }

private:
    bool read_address(DLTensor& t, PyObject* data) {
        constexpr const char* wanted =
            "no valid 'data'; expected a tuple (address, read-only), the address from 0 to 2**64 - 1";
        if (PyTuple_GET_SIZE(data) != 2) return fail(ErrorCode::null_data, wanted);
        // Must be an unsigned number: a negative one is not an address, though PyLong_AsVoidPtr() accepts it.
        Ref number(PyNumber_Index(PyTuple_GET_ITEM(data, 0)));
        const unsigned long long address = number ? PyLong_AsUnsignedLongLong(number.get()) : 0;
        t.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
        const int flag = PyErr_Occurred() == nullptr ? PyObject_IsTrue(PyTuple_GET_ITEM(data, 1)) : -1;
        if (flag < 0) return fail(ErrorCode::null_data, wanted);
        read_only = flag != 0;
        return true;
    }
    ISTHMUS_COLD bool read_buffer(DLTensor& t, PyObject* data) {
        PyObject* exporter = data != nullptr ? data : request.object;
        if (cuda || !PyObject_CheckBuffer(exporter))
            return fail(ErrorCode::null_data,
                        cuda ? "no valid 'data'; expected a tuple (address, read-only)"
                             : "no valid 'data'; expected a tuple (address, read-only) or an object with a buffer");
        if (!buffer.open(request, exporter))
            return request.fail_with_exception(ErrorCode::producer_failed,
                                               {"the buffer of ", type_name(request.object), attribute});
        // The dict was made for this request, and so was everything that only it refers to (except for our own `data`
        // and `buffer`).
        const bool is_new = data != nullptr && Py_REFCNT(dict.get()) == 1;
        buffer.is_copy = is_new && is_only_ours(data, 3);
        // Of any other exporter that nobody else refers to (an array that was made of the elements) a second answer
        // tells.
        request.ask_again = request.ask_again || (is_new && !buffer.is_copy && Py_REFCNT(data) == 3);
        const Ref offset = item("offset");
        if (!is_told()) return false;
        if (offset && !buffer.skip(offset.get()))
            return fail(ErrorCode::bad_layout,
                        {"no valid 'offset'; expected a number of bytes within the ", buffer.size, " of the buffer"});
        t.data = buffer.start + buffer.offset;
        read_only = buffer.read_only;
        return true;
    }
};

/// `__array_interface__` (NumPy's version 3) on the host, or `__cuda_array_interface__` (Numba's version 3, with its
/// stream). Neither has a way to release the memory: holding the object itself keeps it alive.
ISTHMUS_COLD inline bool import_interface(ImportRequest& request, bool cuda) {
    request.keep_alive();
    InterfaceReader reader(request, cuda);
    DLTensor& t = request.out.dl();
    t.device = DLDevice{kDLCPU, 0};
    t.byte_offset = 0;
    t.strides = nullptr;
    if (!reader.open() || !reader.read_shape(t) || !reader.read_dtype(t) || !reader.read_data(t) ||
        !reader.read_strides(t))
        return false;
    std::int64_t producer = no_stream;
    if (cuda) {
        const Ref stream = reader.item("stream");
        if (!reader.is_told() || !place_cuda_data(request, t, stream.get(), producer)) return false;
    }
    const Flags flags = (reader.read_only ? flag::read_only : 0) | (reader.buffer.is_copy ? flag::copied : 0);
    if (!is_sound(t, flags) && !request.take_unsound(t, flags)) return false;
    if (reader.buffer.start != nullptr) {
        if (!reader.buffer.holds(t))
            return reader.fail(ErrorCode::overflow,
                               {"elements beyond the ", reader.buffer.size, " bytes of its buffer"});
        return request.accept_sound(flags);
    }
    // The dict may own the memory (through a memoryview among its values, say) and may have been made for this request
    // only; so may the object that returned it.
    PyObject* dict = reader.dict.get();
    if (Py_REFCNT(dict) == 1) request.doubt();
    if (request.owning || Py_REFCNT(dict) == 1 || Py_REFCNT(request.object) == 1) {
        PyObject* both = PyTuple_Pack(2, request.object, dict);
        if (both == nullptr)
            return request.fail_with_exception(ErrorCode::out_of_memory, {type_name(request.object), reader.attribute});
        PyObject_GC_UnTrack(both);
        request.out.hold(both, python_owners->object_tuple);
    }
    return request.accept_sound(flags) && settle_stream(request, producer, producer == no_stream);
}
inline bool import_array_interface(ImportRequest& request) { return import_interface(request, false); }
inline bool import_cuda_array_interface(ImportRequest& request) { return import_interface(request, true); }

/// The stream that the consumer must wait for, None if there is nothing to wait for; NULL with a Python exception set.
inline PyObject* interface_stream(const Block* block) {
    if (block->flags & stream_flag) return PyLong_FromLongLong(block->stream.number);
    if (!(block->flags & producer_flag)) return Py_NewRef(Py_None);
    // Only the producer knows its stream: it orders the legacy stream after its own, and that one is named.
    const std::int64_t legacy = legacy_stream(block->dl.device);
    return order_export(block, legacy) ? PyLong_FromLongLong(legacy) : nullptr;
}

/// `__array_interface__` and `__cuda_array_interface__`, both version 3. Raises AttributeError, so that `hasattr` is
/// right, if the interface cannot express the memory or the dtype.
ISTHMUS_COLD inline PyObject* array_interface(Block* block, bool cuda) {
    const DLTensor& t = block->dl;
    const Device device = t.device;
    const char* attribute = cuda ? "__cuda_array_interface__" : "__array_interface__";
    const bool here = cuda ? device.type == kDLCUDA || device.type == kDLCUDAManaged : device.is_host();
    const TextBuffer typestr = typestr_of(t.dtype);
    if (!here || (typestr.view().empty() && !typestr.failed())) {
        set_exception(PyExc_AttributeError,
                      {"isthmus.Tensor has no attribute '", attribute, "': ",
                       here ? Message({"dtype ", DType(t.dtype), " has no typestr"}) : Message({"it is on ", device})});
        return nullptr;
    }
    Ref letters(unicode_of(typestr));
    Ref shape(tuple_of(t.shape, t.ndim));
    std::int64_t steps[max_ndim];
    for (int i = 0; i < t.ndim; ++i) steps[i] = layout::byte_stride(t, i);
    Ref strides(layout::is_contiguous(t.shape, t.strides, t.ndim) ? Py_NewRef(Py_None) : tuple_of(steps, t.ndim));
    // "Zero-size arrays: the device pointer is 0" (the CUDA array interface, version 3).
    Ref address(PyLong_FromVoidPtr(cuda && layout::numel(t) == 0 ? nullptr : t.data));
    if (!letters || !shape || !strides || !address) return nullptr;
    PyObject* dict =
        Py_BuildValue("{s:O,s:O,s:(OO),s:O,s:i}", "shape", shape.get(), "typestr", letters.get(), "data", address.get(),
                      (block->flags & flag::read_only) ? Py_True : Py_False, "strides", strides.get(), "version", 3);
    if (dict == nullptr || !cuda) return dict;
    const Ref stream(interface_stream(block));
    if (!stream || PyDict_SetItemString(dict, "stream", stream.get()) != 0) Py_CLEAR(dict);
    return dict;
}
inline PyObject* host_interface(Block* block) { return array_interface(block, false); }
inline PyObject* cuda_interface(Block* block) { return array_interface(block, true); }

}  // namespace detail

ISTHMUS_END
