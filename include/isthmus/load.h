// load(): the tensors of a safetensors file over its own pages, without reading them. Over the core alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstring>
#include <numeric>

#include <isthmus/isthmus.h>
#include <isthmus/load/mapped_file.h>
#include <isthmus/load/safetensors.h>

ISTHMUS_BEGIN

class TensorFile;

namespace load_impl {
Result<TensorFile> load_opened(File opened, shared::Access access);
}

/// Maps a safetensors file and checks its header, in time and memory of the header alone; the elements are read by the system
/// when they are used.
///
/// `access`: `read_only` (to a framework that knows no read-only memory, as torch, goes a second mapping whose written pages
/// are the process's own), or `copy_on_write`: writable tensors, whose written pages are the process's own. The file never
/// changes.
///
/// Error(bad_file) where the file is not sound, Error(system_failed) where the system refuses. The file must not be made
/// shorter while its tensors live: reading them would end the process (SIGBUS), as of any mapped file. Source: the "Format"
/// section of safetensors' README.
Result<TensorFile> load(const char* path, shared::Access access = shared::Access::read_only);

/// The tensors of a file, by name and in the order in which they lie. They keep the mapping, and outlive this.
class TensorFile {
public:
    /// How many tensors there are.
    std::size_t size() const noexcept { return header_.entries.size(); }
    /// What is known of each without touching it, in the order of the file.
    const std::vector<TensorEntry>& entries() const noexcept { return header_.entries; }
    /// The `__metadata__` of the file: texts by key, in its order.
    const std::vector<std::pair<std::string, std::string>>& metadata() const noexcept { return header_.metadata; }
    /// Whether the file has a tensor of that name.
    bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

    /// The tensor over the file's own pages. Error(bad_argument) where there is none of that name, Error(needs_copy) where its
    /// elements are not aligned to their size in the file: copy() has them.
    Result<Tensor> at(std::string_view name) const {
        const TensorEntry* entry = find(name);
        if (entry == nullptr) return missing(name);
        char* data = file_->data() + entry->begin;
        if (entry->begin % static_cast<std::uint64_t>(entry->dtype.alignment()) != 0 && entry->begin != entry->end)
            return Error(ErrorCode::needs_copy,
                         detail::concat({"tensor '", entry->name, "' begins at byte ", entry->begin,
                                         " of its file, which is not aligned to the ", entry->dtype.alignment(), " bytes of ",
                                         entry->dtype, "; copy('", entry->name, "') has it"}));
        try {
            return Tensor::wrap_spec(
                [&] {
                    TensorSpec spec(static_cast<void*>(data), entry->dtype, entry->shape);
                    spec.read_only = access_ == shared::Access::read_only;
                    return spec;
                },
                file_);
        } catch (const Error& error) {  // no memory for the handle
            return error;
        }
    }

    /// The tensor in new memory of its own, 64-byte aligned and writable.
    Result<Tensor> copy(std::string_view name) const {
        const TensorEntry* entry = find(name);
        if (entry == nullptr) return missing(name);
        try {
            Tensor made = Tensor::empty(entry->shape, entry->dtype);
            if (entry->begin != entry->end) std::memcpy(made.data(), file_->data() + entry->begin, entry->end - entry->begin);
            return made;
        } catch (const Error& error) {
            return error;
        }
    }

private:
    friend Result<TensorFile> load_impl::load_opened(load_impl::File opened, shared::Access access);

    TensorFile(load_impl::FileOwner file, load_impl::Header header, shared::Access access)
        : file_(std::move(file)), header_(std::move(header)), by_name_(header_.entries.size()), access_(access) {
        std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
        std::sort(by_name_.begin(), by_name_.end(), [&](std::size_t a, std::size_t b) { return name(a) < name(b); });
        for (std::size_t i = 1; i < by_name_.size(); ++i)
            if (name(by_name_[i - 1]) == name(by_name_[i]))
                load_impl::fail_file(detail::concat({"the name '", name(by_name_[i]), "' comes twice"}));
    }

    std::string_view name(std::size_t entry) const noexcept { return header_.entries[entry].name; }
    const TensorEntry* find(std::string_view wanted) const noexcept {
        const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), wanted,
                                            [&](std::size_t entry, std::string_view key) { return name(entry) < key; });
        return found != by_name_.end() && name(*found) == wanted ? &header_.entries[*found] : nullptr;
    }
    ISTHMUS_COLD Error missing(std::string_view wanted) const {
        return detail::make_error(ErrorCode::bad_argument,
                                  {"argument 'name': no tensor '", wanted, "' among the ", size(), " of the file"});
    }

    load_impl::FileOwner file_;
    load_impl::Header header_;
    std::vector<std::size_t> by_name_;  // entries, sorted by name
    shared::Access access_;
};

namespace load_impl {

/// The tensors of an open file; what is wrong with it is told without its name.
inline Result<TensorFile> load_opened(File opened, shared::Access access) {
    if constexpr (std::endian::native != std::endian::little)
        return Error(ErrorCode::unavailable, "a safetensors file is little-endian, and this machine is not");
    if (access == shared::Access::shared)
        return Error(ErrorCode::bad_argument, ErrorKind::value,
                     "argument 'access': 'shared'; wanted 'read_only' or 'copy_on_write': the file is never written");
    Result<FileOwner> file = map_whole_file(std::move(opened), header_begin, access);
    if (!file) return std::move(file).error();
    try {
        const char* bytes = (*file)->data();
        unsigned char length[header_begin];
        std::memcpy(length, bytes, sizeof length);
        const std::uint64_t end = header_end(length, (*file)->size());
        const std::string_view text(bytes + header_begin, end - header_begin);
        return TensorFile(*file, read_header(text, (*file)->size()), access);
    } catch (const Error& error) {
        return error;
    }
}

}  // namespace load_impl

inline Result<TensorFile> load(const char* path, shared::Access access) {
    if (path == nullptr) return Error(ErrorCode::bad_argument, "argument 'path': it is NULL; wanted the path of a file");
    Result<load_impl::File> opened = load_impl::open_file(path);
    if (!opened) return opened.error().prefixed(detail::concat({"'", path, "': "}));
    Result<TensorFile> file = load_impl::load_opened(std::move(*opened), access);
    if (!file) return file.error().prefixed(detail::concat({"'", path, "': "}));
    return file;
}
inline Result<TensorFile> load(const std::string& path, shared::Access access = shared::Access::read_only) {
    return load(path.c_str(), access);
}

ISTHMUS_END
