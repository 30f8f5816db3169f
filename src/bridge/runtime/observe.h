// The Python facts in the list of live tensors: whose memory a block is, and where the program was.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/errors.h>  // Python.h must come before any standard header

#include <isthmus/core/block.h>

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>  // PyFrame_GetBack, in Python.h itself from 3.11 on
#endif

ISTHMUS_BEGIN

namespace detail {

inline char* copied_text(const std::string& text) noexcept {
    auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
    return copy != nullptr ? static_cast<char*>(std::memcpy(copy, text.c_str(), text.size() + 1)) : nullptr;
}

/// Whether the frame runs code of the package isthmus, which says nothing to its user.
inline bool is_frame_of_isthmus(PyObject* frame) {
    Ref globals(PyObject_GetAttrString(frame, "f_globals"));
    const Ref name = globals && PyDict_Check(globals.get()) ? dict_item(globals.get(), "__name__") : Ref();
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    return text != nullptr && std::strncmp(text, "isthmus", 7) == 0 && (text[7] == '\0' || text[7] == '.');
}

/// "train.py:12 in step": the innermost line of the user's Python that runs in this thread.
ISTHMUS_NOINLINE inline std::string python_place() {
    Ref held(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
    while (held && is_frame_of_isthmus(held.get()))
        held = Ref(reinterpret_cast<PyObject*>(PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(held.get()))));
    if (!held) return {};
    auto* frame = reinterpret_cast<PyFrameObject*>(held.get());
    Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    Ref file(PyObject_GetAttrString(code.get(), "co_filename")), function(PyObject_GetAttrString(code.get(), "co_name"));
    const char *file_text = file ? PyUnicode_AsUTF8(file.get()) : nullptr,
               *function_text = function ? PyUnicode_AsUTF8(function.get()) : nullptr;
    if (file_text == nullptr || function_text == nullptr) return {};
    return concat({file_text, ":", PyFrame_GetLineNumber(frame), " in ", function_text});
}

/// Whose memory a new block is. An import holds the GIL; other blocks may be made by a thread without it.
ISTHMUS_NOINLINE inline BlockWords words_of_python(const Block* block, bool tracing) noexcept {
    if (!have_gil()) return {};
    return surviving_exit([&]() -> BlockWords {
        PyObject* pending = take_exception();
        BlockWords words{};
        try {
            const Block* root = root_of(block);
            if (auto* source = static_cast<PyObject*>(source_of(root)))
                words.producer = copied_text(concat({(root->ops->array == nullptr ? "blob of " : ""), type_name(source)}));
            else if (root->ops->producer != nullptr)
                words.producer = copied_text(root->ops->producer);
            if ((block->flags & unowned_flag) != 0) words.producer = copied_text("blob without owner");
            if (tracing) words.place = copied_text(python_place());
        } catch (const std::bad_alloc&) {  // then with fewer words
        }
        PyErr_Clear();
        if (pending != nullptr) restore_exception(pending);
        return words;
    });
}

/// Makes the list of this shared object ask for these words.
inline void tell_observers_of_python() noexcept { words_of_block.store(words_of_python); }

}  // namespace detail

ISTHMUS_END
