// isthmus.load: the tensors of a file (isthmus/load.h), for Python.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/load.h>

#include <memory>

#if !defined(_WIN32)
#include <fcntl.h>
#endif

#include "package.h"

namespace {

using namespace package;
using isthmus::TensorFile;

constexpr char file_name[] = "isthmus.TensorFile";

/// Opens the file; -1 with a Python exception set: FileNotFoundError or another OSError, with the path.
int open_file(PyObject* path) {
    PyObject* encoded = nullptr;
    if (!PyUnicode_FSConverter(path, &encoded)) return -1;
    const Ref bytes(encoded);
    const char* name = PyBytes_AS_STRING(encoded);
    int descriptor = -1, failed = ENOSYS;
#if !defined(_WIN32)
    do {
        Py_BEGIN_ALLOW_THREADS;                                        // slow on a network file system
        descriptor = ::open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer would wait for one
        failed = errno;
        Py_END_ALLOW_THREADS;
    } while (descriptor < 0 && failed == EINTR && PyErr_CheckSignals() == 0);
    if (descriptor < 0 && PyErr_Occurred() != nullptr) return -1;  // of a signal's handler
#endif
    if (descriptor < 0) {
        errno = failed;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
    }
    return descriptor;
}

PyObject* text_of(std::string_view text) {
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
}

/// The names, in the order of the file.
Ref names_of(const TensorFile& file) {
    Ref names(PyTuple_New(static_cast<Py_ssize_t>(file.size())));
    for (std::size_t i = 0; names && i < file.size(); ++i) {
        PyObject* name = text_of(file.entries()[i].name);
        if (name == nullptr) return Ref();
        PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), name);
    }
    return names;
}

Ref metadata_of(const TensorFile& file) {
    Ref metadata(PyDict_New());
    for (const auto& [key, value] : file.metadata()) {
        const Ref name(text_of(key)), text(text_of(value));
        if (!metadata || !name || !text || PyDict_SetItem(metadata.get(), name.get(), text.get()) != 0) return Ref();
    }
    return metadata;
}

PyObject* show_file(std::unique_ptr<TensorFile> file) {
    const Ref names = names_of(*file), metadata = metadata_of(*file);
    if (!names || !metadata) return nullptr;
    const Ref capsule(PyCapsule_New(file.get(), file_name, [](PyObject* self) {
        delete static_cast<TensorFile*>(PyCapsule_GetPointer(self, file_name));
    }));
    if (!capsule) return nullptr;
    [[maybe_unused]] const TensorFile* held = file.release();  // the capsule's
    return PyTuple_Pack(3, capsule.get(), names.get(), metadata.get());
}

PyObject* show(isthmus::Result<TensorFile> file) { return show_file(std::make_unique<TensorFile>(std::move(*file))); }
PyObject* show(const isthmus::Result<Tensor>& bytes) { return to_object(bytes); }

/// open(descriptor, access) of the file at a path, as Python shows it.
template <auto& open>
PyObject* open_path(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    isthmus::shared::Access access{};
    if (!read_access(arguments[1], access)) return nullptr;
    const int descriptor = open_file(arguments[0]);
    if (descriptor < 0) return nullptr;
    return guarded([&]() -> PyObject* {
        auto opened = open(descriptor, access);  // NOLINT(readability-redundant-parentheses)
        if (opened) return show(std::move(opened));
        const Ref path(PyObject_Repr(arguments[0]));
        const std::string_view name = isthmus::detail::utf8_of(path.get());
        if (name.data() != nullptr) raise_system(opened.error().prefixed(isthmus::detail::concat({name, ": "})));
        return nullptr;
    });
}

template <isthmus::Result<Tensor> (TensorFile::*get)(std::string_view) const>
PyObject* get_tensor(PyObject*, PyObject* const* arguments, Py_ssize_t) {
    const auto* file = static_cast<const TensorFile*>(PyCapsule_GetPointer(arguments[0], file_name));
    if (file == nullptr) return nullptr;
    const std::string_view name = isthmus::detail::utf8_of(arguments[1]);
    if (name.data() == nullptr) return nullptr;
    return guarded([&] { return to_object((file->*get)(name)); });
}

}  // namespace

PyMethodDef package::load_methods[] = {
    {"_load", with_keywords(counted<open_path<isthmus::load_impl::load_descriptor>, 2>), METH_FASTCALL,
     "_load(path, access): a capsule, the names, the metadata"},
    {"_load_bytes", with_keywords(counted<open_path<isthmus::load_impl::map_descriptor>, 2>), METH_FASTCALL,
     "_load_bytes(path, access): the file's pages as a uint8 tensor"},
    {"_load_at", with_keywords(counted<get_tensor<&TensorFile::at>, 2>), METH_FASTCALL, "_load_at(file, name)"},
    {"_load_copy", with_keywords(counted<get_tensor<&TensorFile::copy>, 2>), METH_FASTCALL, "_load_copy(file, name)"},
    {nullptr, nullptr, 0, nullptr},
};
