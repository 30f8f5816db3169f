// The pages of a file in this process: as they are, and a second time in pages that may be written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>

#include <isthmus/core/block.h>
#include <isthmus/core/result.h>
#include <isthmus/shared/access.h>
#include <isthmus/shared/mapping.h>

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/stat.h>
#endif

ISTHMUS_BEGIN

namespace load_impl {

using isthmus::detail::concat;
using shared::impl::File;
using shared::impl::Mapping;

/// A file that stays mapped while tensors show it. It owns their memory, is reference-counted, and ends with the last of them.
class MappedFile {
public:
    MappedFile(File file, Mapping shown, shared::Access access) noexcept
        : file_(std::move(file)), shown_(std::move(shown)), access_(access) {}
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    char* data() const noexcept { return shown_.data(); }
    std::size_t size() const noexcept { return shown_.size(); }

    void retain() noexcept { refs_.retain(); }
    void drop() noexcept {
        if (refs_.release()) delete this;
    }

    /// Whether the address is in the file's own pages. A read-only handle may also be one on the writable pages, which hold
    /// what was written there.
    bool has_other_pages(const void* address) const noexcept {
        const auto offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(data());
        return access_ == shared::Access::read_only && offset <= size();
    }
    /// The file's bytes in writable pages, one mapping for all callers; NULL if the system gives none.
    char* private_data() noexcept {
        const std::lock_guard lock(making_);
        if (!written_)
            if (auto map = shared::impl::map_file(file_, 0, size(), shared::Access::copy_on_write)) written_ = std::move(*map);
        return written_.data();
    }

private:
    ~MappedFile() = default;

    isthmus::detail::Atomic<std::uint32_t> refs_{1};
    File file_;
    Mapping shown_;
    shared::Access access_;
    std::mutex making_;
    Mapping written_;
};

/// A reference to a MappedFile, as an owner for Tensor that brings its own operations.
class FileOwner {
public:
    explicit FileOwner(MappedFile* taken) noexcept : file_(taken) {}
    FileOwner(const FileOwner& other) noexcept : file_(other.file_) {
        if (file_ != nullptr) file_->retain();
    }
    FileOwner(FileOwner&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
    FileOwner& operator=(FileOwner other) noexcept {
        std::swap(file_, other.file_);
        return *this;
    }
    ~FileOwner() {
        if (file_ != nullptr) file_->drop();
    }

    MappedFile* operator->() const noexcept { return file_; }
    MappedFile* release() noexcept { return std::exchange(file_, nullptr); }
    static const isthmus::detail::OwnerOps& owner_ops() noexcept { return ops; }

private:
    using Block = isthmus::detail::Block;

    static void give_back(void* file) { static_cast<MappedFile*>(file)->drop(); }
    static Block* show_privately(void* owner, const Block* block) noexcept {
        auto* file = static_cast<MappedFile*>(owner);
        char* pages = file->has_other_pages(block->dl.data) ? file->private_data() : nullptr;
        Block* shown = pages != nullptr ? isthmus::detail::allocate_block(block->dl.ndim) : nullptr;
        if (shown == nullptr) return nullptr;
        isthmus::detail::describe(shown, block->dl, block->flags & flag::padded);
        shown->dl.data = pages + (static_cast<char*>(block->dl.data) - file->data());
        file->retain();
        shown->owner = file;
        shown->ops = &ops;
        return isthmus::detail::announce(shown);
    }
    static constexpr isthmus::detail::OwnerOps ops{
        .release = give_back, .producer = "a file", .owns_memory = true, .private_pages = show_privately};

    MappedFile* file_;
};

/// The error of every call on a system without POSIX's mappings.
ISTHMUS_COLD inline Error no_mapped_files() {
    return Error(ErrorCode::unavailable, "files are not mapped on this system; wanted Linux or macOS");
}

/// Maps an open file whole. Error(system_failed) where the system refuses, Error(bad_file) for a file of less than `least`
/// bytes.
inline Result<FileOwner> map_whole_file(File file, std::size_t least, shared::Access access) {
#if defined(_WIN32)
    (void)file, (void)least, (void)access;
    return no_mapped_files();
#else
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return shared::impl::system_error("fstat", errno);
    if (!S_ISREG(status.st_mode)) return Error(ErrorCode::bad_file, ErrorKind::value, "it is no regular file");
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size < least)
        return Error(ErrorCode::bad_file, ErrorKind::value, concat({"it has ", size, " bytes; wanted at least ", least}));
    Result<Mapping> map = shared::impl::map_file(file, 0, size, access);
    if (!map) return std::move(map).error();
    return FileOwner(new MappedFile(std::move(file), std::move(*map), access));
#endif
}

inline Result<File> open_file(const char* path) {
#if defined(_WIN32)
    (void)path;
    return no_mapped_files();
#else
    File file(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file) return shared::impl::system_error("open", errno);
    return file;
#endif
}

}  // namespace load_impl

ISTHMUS_END
