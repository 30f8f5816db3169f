// load(): the tensors of a safetensors file over its own pages, without reading them. Over the core alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <isthmus/isthmus.h>
#include <isthmus/shared/access.h>

ISTHMUS_BEGIN

class TensorFile;

namespace load_impl {
struct Contents;
/// The tensors of an open file, whose descriptor it takes; errors do not name the file.
Result<TensorFile> load_descriptor(int descriptor, shared::Access access);
/// All bytes of an open file, whose descriptor it takes, as a uint8 tensor: for the formats that Python reads.
Result<Tensor> map_descriptor(int descriptor, shared::Access access);
}  // namespace load_impl

/// A tensor of a file: row-major, its elements in bytes [begin, end) of the file.
struct TensorEntry {
    std::string name;                  ///< as the file has it
    DType dtype;                       ///< what one element is
    std::vector<std::int64_t> shape;   ///< sizes, one per dimension
    std::uint64_t begin = 0, end = 0;  ///< bytes of the file
};

/// The tensors of a file, by name and in the order in which they lie. They keep the mapping, and outlive this; copies
/// share it.
class TensorFile {
public:
    /// How many tensors there are.
    std::size_t size() const noexcept { return entries().size(); }
    /// The description of each tensor, in the order of the file; nothing is read.
    const std::vector<TensorEntry>& entries() const noexcept;
    /// The `__metadata__` of the file: texts by key, in its order.
    const std::vector<std::pair<std::string, std::string>>& metadata() const noexcept;
    /// Whether the file has a tensor of that name.
    bool contains(std::string_view name) const noexcept;

    /// The tensor over the file's own pages. Error(bad_argument) if there is none of that name, Error(needs_copy) if
    /// its elements are not aligned to their size in the file: copy() has them.
    Result<Tensor> at(std::string_view name) const;
    /// The tensor in new memory, 64-byte aligned and writable.
    Result<Tensor> copy(std::string_view name) const;

private:
    friend struct load_impl::Contents;
    friend Result<TensorFile> load_impl::load_descriptor(int descriptor, shared::Access access);
    explicit TensorFile(std::shared_ptr<const load_impl::Contents> contents) noexcept
        : contents_(std::move(contents)) {}

    std::shared_ptr<const load_impl::Contents> contents_;
};

/// Maps a safetensors file and checks its header, in time and memory of the header alone; the elements are read by the
/// system when they are used.
///
/// `access`: `read_only` (to a framework that knows no read-only memory, as torch, goes a second mapping whose written
/// pages are the process's own), or `copy_on_write`: writable tensors, whose written pages are the process's own. The
/// file never changes.
///
/// Error(bad_file) if the file is not sound, Error(system_failed) if the system refuses. The file must not be made
/// shorter while its tensors are alive: reading them would end the process (SIGBUS), as of any mapped file. Source: the
/// "Format" section of safetensors' README.
Result<TensorFile> load(const char* path, shared::Access access = shared::Access::read_only);
inline Result<TensorFile> load(const std::string& path, shared::Access access = shared::Access::read_only) {
    if (path.find('\0') != std::string::npos)
        return Error(ErrorCode::bad_argument, "argument 'path': it has a NUL; expected the path of a file");
    return load(path.c_str(), access);
}

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/load.h>
#endif

#if defined(ISTHMUS_IMPLEMENTATION)
#if __has_include("src/load.cpp")
#include "src/load.cpp"  // as installed
#else
#include "../../src/load.cpp"
#endif
#endif
