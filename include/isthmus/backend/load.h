// load() in a module of the stable ABI, for isthmus/load.h: the file is the backend's, its descriptions are copied.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/core.h>

ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_LOAD)

ISTHMUS_BEGIN

namespace load_impl {

/// A file of the backend's, and what it holds.
struct Contents {
    explicit Contents(void* opened) : file(opened) {}
    Contents(const Contents&) = delete;
    Contents& operator=(const Contents&) = delete;
    ~Contents() { detail::backend::close_file(file); }

    void read() {
        std::size_t entry_count = 0, text_count = 0;
        detail::backend::file_counts(file, &entry_count, &text_count);
        for (std::size_t i = 0; i < entry_count; ++i) {
            const detail::FileEntry entry = detail::backend::file_entry(file, i);
            entries.push_back({std::string(entry.name),
                               entry.dtype,
                               {entry.shape, entry.shape + entry.ndim},
                               entry.begin,
                               entry.end});
        }
        for (std::size_t i = 0; i < text_count; ++i) {
            detail::TextRef key{}, text{};
            detail::backend::file_text(file, i, &key, &text);
            metadata.emplace_back(std::string(key), std::string(text));
        }
    }
    static TensorFile open(const char* path, shared::Access access) {
        void* file = detail::backend::open_file(path, access);
        std::shared_ptr<Contents> contents;
        try {
            contents = std::make_shared<Contents>(file);
        } catch (...) {
            detail::backend::close_file(file);
            throw;
        }
        contents->read();
        return TensorFile(std::move(contents));
    }

    void* file;
    std::vector<TensorEntry> entries{};
    std::vector<std::pair<std::string, std::string>> metadata{};
};

}  // namespace load_impl

inline const std::vector<TensorEntry>& TensorFile::entries() const noexcept { return contents_->entries; }
inline const std::vector<std::pair<std::string, std::string>>& TensorFile::metadata() const noexcept {
    return contents_->metadata;
}
inline bool TensorFile::contains(std::string_view name) const noexcept {
    return detail::backend::file_contains(contents_->file, name);
}
inline Result<Tensor> TensorFile::at(std::string_view name) const {
    return detail::backend::file_tensor(contents_->file, name, false);
}
inline Result<Tensor> TensorFile::copy(std::string_view name) const {
    return detail::backend::file_tensor(contents_->file, name, true);
}
inline Result<TensorFile> load(const char* path, shared::Access access) {
    try {
        return load_impl::Contents::open(path, access);
    } catch (const Error& error) {
        return error;
    } catch (const std::bad_alloc&) {
        return detail::make_error(ErrorCode::out_of_memory, "no memory for the description of a file");
    }
}

ISTHMUS_END
