// <isthmus/load.h> as one translation unit, as a library or a file that defines ISTHMUS_IMPLEMENTATION compiles it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <numeric>

#if !defined(_WIN32)
#include <fcntl.h>
#include <sys/stat.h>
#endif

#include "load/safetensors.h"
#include "shared/mapping.h"

ISTHMUS_BEGIN

namespace load_impl {

using shared::impl::catch_error;
using shared::impl::File;
using shared::impl::Mapping;

/// The pages of a file in this process: as they are, and a second time in pages that may be written. It owns the memory
/// of its tensors, is reference-counted, and ends with the last of them.
class MappedFile {
public:
    MappedFile(File file, Mapping pages, shared::Access access) noexcept
        : file_(std::move(file)), pages_(std::move(pages)), access_(access) {}
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    char* data() const noexcept { return pages_.data(); }
    std::size_t size() const noexcept { return pages_.size(); }
    bool read_only() const noexcept { return access_ == shared::Access::read_only; }

    void retain() noexcept { refs_.retain(); }
    void drop() noexcept {
        if (refs_.release()) delete this;
    }

    /// Whether the address is in the file's own pages. A read-only handle may also be one on the writable pages, which
    /// hold what was written there.
    bool has_other_pages(const void* address) const noexcept {
        return read_only() &&
               reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(data()) <= size();
    }
    /// The file's bytes in writable pages, one mapping for all callers; NULL if the system gives none.
    char* private_data() noexcept {
        const std::lock_guard lock(mutex_);
        if (!written_)
            if (auto map = map_file(file_, 0, size(), shared::Access::copy_on_write)) written_ = std::move(*map);
        return written_.data();
    }

private:
    ~MappedFile() = default;

    isthmus::detail::Atomic<std::uint32_t> refs_{1};
    File file_;
    Mapping pages_;
    shared::Access access_;
    std::mutex mutex_;
    Mapping written_;
};

/// A reference to a MappedFile, as an owner for Tensor that brings its own operations.
class FileOwner {
public:
    explicit FileOwner(MappedFile* taken) noexcept : file_(taken) {}
    FileOwner(const FileOwner& other) noexcept : file_(other.file_) { file_->retain(); }
    FileOwner(FileOwner&& other) noexcept : file_(other.release()) {}
    FileOwner& operator=(FileOwner) = delete;
    ~FileOwner() {
        if (file_ != nullptr) file_->drop();
    }

    MappedFile* operator->() const noexcept { return file_; }
    MappedFile* release() noexcept { return std::exchange(file_, nullptr); }
    static const isthmus::detail::OwnerOps& owner_ops() noexcept { return ops; }

private:
    using Block = isthmus::detail::Block;

    static void release_file(void* file) { static_cast<MappedFile*>(file)->drop(); }
    static Block* private_pages(void* owner, const Block* block) noexcept {
        auto* file = static_cast<MappedFile*>(owner);
        char* pages = file->has_other_pages(block->dl.data) ? file->private_data() : nullptr;
        Block* made = pages != nullptr ? isthmus::detail::allocate_block(block->dl.ndim) : nullptr;
        if (made == nullptr) return nullptr;
        isthmus::detail::describe(made, block->dl, block->flags & flag::padded);
        made->dl.data = pages + (static_cast<char*>(block->dl.data) - file->data());
        file->retain();
        made->owner = file;
        made->ops = &ops;
        return isthmus::detail::announce(made);
    }
    static constexpr isthmus::detail::OwnerOps ops{
        .release = release_file, .producer = "a file", .owns_memory = true, .private_pages = private_pages};

    MappedFile* file_;
};

/// What a TensorFile holds.
struct Contents {
    FileOwner file;
    Header header;
    std::vector<std::size_t> by_name{};  ///< entries, sorted by name

    std::string_view name(std::size_t entry) const noexcept { return header.entries[entry].name; }
    void sort_names() {
        by_name.resize(header.entries.size());
        std::iota(by_name.begin(), by_name.end(), std::size_t{0});
        std::sort(by_name.begin(), by_name.end(), [&](std::size_t a, std::size_t b) { return name(a) < name(b); });
    }
    const TensorEntry* find(std::string_view wanted) const noexcept {
        const auto found = std::lower_bound(by_name.begin(), by_name.end(), wanted,
                                            [&](std::size_t entry, std::string_view key) { return name(entry) < key; });
        return found != by_name.end() && name(*found) == wanted ? &header.entries[*found] : nullptr;
    }
    /// The entry of that name. Throws Error(bad_argument).
    const TensorEntry& at(std::string_view wanted) const {
        if (const TensorEntry* entry = find(wanted)) return *entry;
        throw isthmus::detail::make_error(
            ErrorCode::bad_argument,
            {"argument 'name': no tensor '", wanted, "' among the ", header.entries.size(), " of the file"});
    }
};

/// Maps an open file whole. Throws Error: system_failed if the system refuses, bad_file for a file of less than `min`
/// bytes.
inline FileOwner map_whole_file(File file, [[maybe_unused]] std::size_t min, shared::Access access) {
    std::size_t size = 0;
#if !defined(_WIN32)
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) throw shared::impl::system_error("fstat", errno);
    if (!S_ISREG(status.st_mode)) fail_file("it is no regular file");
    size = static_cast<std::size_t>(status.st_size);
    if (size < min) fail_file({"it has ", size, " bytes; expected at least ", min});
#endif
    Mapping pages = map_file(file, 0, size, access).value();
    return FileOwner(new MappedFile(std::move(file), std::move(pages), access));
}

/// Throws Error(bad_argument) for an access that would write to the file.
inline void check_access(shared::Access access) {
    if (access != shared::Access::shared) return;
    throw Error(ErrorCode::bad_argument, ErrorKind::value,
                "argument 'access': 'shared'; expected 'read_only' or 'copy_on_write': the file is never written");
}

Result<Tensor> map_descriptor(int descriptor, shared::Access access) {
    File opened(descriptor);
    return catch_error([&] {
        check_access(access);
        const FileOwner file = map_whole_file(std::move(opened), 1, access);
        const std::vector<std::int64_t> shape{static_cast<std::int64_t>(file->size())};
        const auto describe = [&] {
            TensorSpec spec(static_cast<void*>(file->data()), uint8, shape);
            spec.read_only = file->read_only();
            return spec;
        };
        return Tensor::wrap_spec(describe, file);
    });
}

Result<TensorFile> load_descriptor(int descriptor, shared::Access access) {
    File opened(descriptor);
    if constexpr (std::endian::native != std::endian::little)
        return Error(ErrorCode::unavailable, "a safetensors file is little-endian, and this machine is not");
    return catch_error([&] {
        check_access(access);
        FileOwner file = map_whole_file(std::move(opened), header_begin, access);
        unsigned char length[header_begin];
        std::memcpy(length, file->data(), sizeof length);
        const std::uint64_t end = header_end(length, file->size());
        const std::string_view text(file->data() + header_begin, end - header_begin);
        Header header = read_header(text, file->size());
        auto contents = std::make_shared<Contents>(Contents{std::move(file), std::move(header)});
        contents->sort_names();
        return TensorFile(std::move(contents));
    });
}

}  // namespace load_impl

const std::vector<TensorEntry>& TensorFile::entries() const noexcept { return contents_->header.entries; }
const std::vector<std::pair<std::string, std::string>>& TensorFile::metadata() const noexcept {
    return contents_->header.metadata;
}
bool TensorFile::contains(std::string_view name) const noexcept { return contents_->find(name) != nullptr; }

Result<Tensor> TensorFile::at(std::string_view name) const {
    return load_impl::catch_error([&] {
        const TensorEntry& entry = contents_->at(name);
        const load_impl::FileOwner& file = contents_->file;
        if (entry.begin % static_cast<std::uint64_t>(entry.dtype.alignment()) != 0 && entry.begin != entry.end)
            throw detail::make_error(
                ErrorCode::needs_copy,
                {"tensor '", entry.name, "' begins at byte ", entry.begin, " of its file, which is not aligned to the ",
                 entry.dtype.alignment(), " bytes of ", entry.dtype, "; copy('", entry.name, "') has it"});
        const auto describe = [&] {
            TensorSpec spec(static_cast<void*>(file->data() + entry.begin), entry.dtype, entry.shape);
            spec.read_only = file->read_only();
            return spec;
        };
        return Tensor::wrap_spec(describe, file);
    });
}

Result<Tensor> TensorFile::copy(std::string_view name) const {
    return load_impl::catch_error([&] {
        const TensorEntry& entry = contents_->at(name);
        Tensor made = Tensor::empty(entry.shape, entry.dtype);
        if (entry.begin != entry.end)
            std::memcpy(made.data(), contents_->file->data() + entry.begin, entry.end - entry.begin);
        return made;
    });
}

Result<TensorFile> load(const char* path, shared::Access access) {
    if (path == nullptr)
        return Error(ErrorCode::bad_argument, "argument 'path': it is NULL; expected the path of a file");
#if defined(_WIN32)
    (void)access;
    return Error(ErrorCode::unavailable, "files are not mapped on this system; expected Linux or macOS");
#else
    int descriptor = -1;
    do descriptor = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would wait for a writer
    while (descriptor < 0 && errno == EINTR);
    Result<TensorFile> file = descriptor < 0 ? Result<TensorFile>(shared::impl::system_error("open", errno))
                                             : load_impl::load_descriptor(descriptor, access);
    if (!file) return file.error().prefixed(detail::concat({"'", path, "': "}));
    return file;
#endif
}

ISTHMUS_END
