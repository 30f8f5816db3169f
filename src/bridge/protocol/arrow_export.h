// An isthmus.Tensor as an Arrow array: `__arrow_c_array__` of Arrow's PyCapsule interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <memory>
#include <string>

#include "arrow.h"
#include "export.h"

ISTHMUS_BEGIN

namespace detail {

/// A schema or an array with one child at most, and all that it points to, in one allocation.
struct ArrowExport {
    ArrowSchema schema{}, item{}, *items = &item;
    ArrowArray array{}, numbers{}, *children = &numbers;
    const void* buffers[2] = {};       ///< no bitmap: there are no nulls
    const void* list_buffers[1] = {};  ///< of the lists, which have no buffer
    std::string format, list_format, metadata;
    Tensor tensor;  ///< keeps the memory, until the array is released

    /// The letter of Arrow's format; 0 for a dtype without one.
    static char letter_of(DType dtype) noexcept {
        for (const ArrowFormat& row : arrow_formats)
            if (row.dtype == dtype) return row.letter;
        return 0;
    }
    template <class Struct>
    static void release(Struct* released) noexcept {
        released->release = nullptr;
        delete static_cast<ArrowExport*>(released->private_data);
    }
    /// Of a child, which goes with its parent.
    template <class Struct>
    static void release_child(Struct* released) noexcept {
        released->release = nullptr;
    }
    void add_metadata(std::string_view text) {
        const auto length = static_cast<std::int32_t>(text.size());
        metadata.append(reinterpret_cast<const char*>(&length), sizeof length).append(text);
    }
    /// The elements of more than one dimension: lists of one size, with the shape beside them (the canonical extension
    /// "arrow.fixed_shape_tensor", which more readers know than lists within lists).
    void describe_lists(const DLTensor& t) {
        std::int64_t size = 1;
        std::string shape;
        for (int i = 1; i < t.ndim; ++i) {
            size *= t.shape[i];
            shape += concat({i > 1 ? "," : "", t.shape[i]});
        }
        list_format = concat({"+w:", size});
        const std::int32_t pairs = 2;
        metadata.assign(reinterpret_cast<const char*>(&pairs), sizeof pairs);
        add_metadata("ARROW:extension:name");
        add_metadata("arrow.fixed_shape_tensor");
        add_metadata("ARROW:extension:metadata");
        add_metadata(concat({"{\"shape\":[", shape, "]}"}));
        schema = {.format = list_format.c_str(),
                  .name = "",
                  .metadata = metadata.c_str(),
                  .n_children = 1,
                  .children = &items,
                  .release = release<ArrowSchema>,
                  .private_data = this};
        item.format = format.c_str();
        item.name = "item";
        item.release = release_child<ArrowSchema>;
    }
    void describe_schema(const DLTensor& t) {
        format.assign(1, letter_of(t.dtype));
        if (t.ndim > 1) return describe_lists(t);
        schema = {.format = format.c_str(), .name = "", .release = release<ArrowSchema>, .private_data = this};
    }
    void describe_array(Tensor given) {
        tensor = std::move(given);
        const DLTensor& t = tensor.descriptor();
        buffers[1] = t.data;
        ArrowArray& flat = t.ndim > 1 ? numbers : array;
        flat.length = layout::numel(t);
        flat.n_buffers = 2;
        flat.buffers = buffers;
        flat.release = t.ndim > 1 ? release_child<ArrowArray> : release<ArrowArray>;
        if (t.ndim > 1)
            array = {.length = t.shape[0],
                     .n_buffers = 1,
                     .n_children = 1,
                     .buffers = list_buffers,
                     .children = &children,
                     .release = release<ArrowArray>};
        array.private_data = this;
    }
};

template <class Struct>
inline constexpr const char* arrow_capsule_name = std::is_same_v<Struct, ArrowSchema> ? "arrow_schema" : "arrow_array";

template <class Struct>
void end_arrow_capsule(PyObject* capsule) {
    auto* held = static_cast<Struct*>(PyCapsule_GetPointer(capsule, arrow_capsule_name<Struct>));
    if (held == nullptr) return PyErr_Clear();
    if (held->release != nullptr) held->release(held);  // nobody has moved it
    delete held;
}
/// A capsule of a struct's own copy, since a consumer moves it and may release it before the capsule ends.
template <class Struct>
Ref arrow_capsule(std::unique_ptr<ArrowExport> made, Struct ArrowExport::* member) {
    auto held = std::make_unique<Struct>((*made).*member);
    Ref capsule(PyCapsule_New(held.get(), arrow_capsule_name<Struct>, end_arrow_capsule<Struct>));
    if (!capsule) return capsule;
    (void)held.release();
    (void)made.release();
    return capsule;
}

/// Why Arrow cannot show this tensor; empty if it can.
ISTHMUS_COLD inline std::string explain_no_arrow(const DLTensor& t) {
    const DType dtype = t.dtype;
    if (!Device(t.device).is_host()) return concat({"it is on ", Device(t.device), "; move it to the cpu first"});
    if (dtype == boolean) return "Arrow's bool has eight elements to a byte; take x.to('numpy').view('uint8')";
    if (ArrowExport::letter_of(dtype) == 0) return concat({"dtype ", dtype, " has no counterpart in Arrow"});
    if (t.ndim == 0) return "it has no dimension, and an Arrow array has one; take x.to('numpy').reshape(1)";
    if (!layout::is_contiguous(t.shape, t.strides, t.ndim))
        return concat({"strides ", sizes_text(t.strides, t.ndim), " of shape ", sizes_text(t.shape, t.ndim),
                       " are not contiguous; take isthmus.from_dlpack(x, copy=True)"});
    return {};
}

/// `__arrow_c_array__(requested_schema=None)`: the two capsules. Without a copy, of whatever schema is requested: a
/// producer may leave the conversion to its caller.
inline PyObject* tensor_arrow_array(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"requested_schema", nullptr};
    PyObject* requested = nullptr;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:__arrow_c_array__", const_cast<char**>(names),
                                     &requested))
        return nullptr;
    Block* block = block_of(self);
    if (block == nullptr || refuse_tracked(block)) return nullptr;
    const ExportGuard guard(block);
    if (guard.block() == nullptr) return PyErr_NoMemory();
    try {
        if (const std::string why = explain_no_arrow(block->dl); !why.empty())
            return raise(ErrorCode::bad_layout, ErrorKind::buffer, {"no Arrow array shows this tensor: ", why});
        auto schema = std::make_unique<ArrowExport>(), array = std::make_unique<ArrowExport>();
        schema->describe_schema(block->dl);
        retain(guard.block());
        array->describe_array(Tensor::steal(guard.block()));
        const Ref first = arrow_capsule(std::move(schema), &ArrowExport::schema);
        const Ref second = first ? arrow_capsule(std::move(array), &ArrowExport::array) : Ref();
        if (!second) return nullptr;
        note_consumer(block, "arrow");
        return PyTuple_Pack(2, first.get(), second.get());
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

}  // namespace detail

ISTHMUS_END
