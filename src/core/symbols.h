// The names of functions at addresses, also of hidden functions, which only the library's file names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <isthmus/core/text.h>
#include "libraries.h"

#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

ISTHMUS_BEGIN

namespace detail {

/// A C++ name demangled, at most 120 characters of it; other names unchanged.
inline std::string demangled(const std::string& name) {
#if __has_include(<cxxabi.h>)
    constexpr std::size_t most = 120;
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                      std::free);
    if (status == 0 && text != nullptr) {
        const std::string shown = text.get();
        return shown.size() <= most ? shown : concat({shown.substr(0, most), "..."});
    }
#endif
    return name;
}

#if defined(__ELF__)

/// The symbol table of an ELF file (System V ABI, "Object Files"): what the dynamic linker does not load, and `strip`
/// removes.
class SymbolTable {
public:
    explicit SymbolTable(const char* path) : file_(std::fopen(path, "rb"), close) {}

    /// Writes to `place` the name of the function that holds it and the offset within the function, if the table has
    /// it.
    void find(CodePlace& place) {
        ElfW(Ehdr) head;
        if (!read(0, &head, sizeof head) || head.e_shentsize != sizeof(ElfW(Shdr))) return;
        std::vector<ElfW(Shdr)> sections(head.e_shnum);
        if (!read(head.e_shoff, sections.data(), sections.size() * sizeof(ElfW(Shdr)))) return;
        // In a program that is linked to fixed addresses the symbols have absolute addresses.
        const std::uintptr_t at = place.offset + (head.e_type == ET_EXEC ? place.base : 0);
        for (const ElfW(Shdr) & section : sections)
            if (section.sh_type == SHT_SYMTAB && section.sh_link < sections.size() &&
                find_in(section, sections[section.sh_link], at, place))
                return;
    }

private:
    static void close(std::FILE* file) {
        if (file != nullptr) std::fclose(file);
    }
    bool read(std::uint64_t offset, void* out, std::size_t size) {
        return file_ != nullptr && std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) == 0 &&
               std::fread(out, 1, size, file_.get()) == size;
    }
    bool find_in(const ElfW(Shdr) & table, const ElfW(Shdr) & names, std::uintptr_t at, CodePlace& place) {
        constexpr std::size_t most = 4096;  // symbols at a time
        std::vector<ElfW(Sym)> symbols(most);
        const std::uint64_t count = table.sh_size / sizeof(ElfW(Sym));
        for (std::uint64_t done = 0; done < count; done += most) {
            const std::size_t now = static_cast<std::size_t>(count - done < most ? count - done : most);
            if (!read(table.sh_offset + done * sizeof(ElfW(Sym)), symbols.data(), now * sizeof(ElfW(Sym))))
                return false;
            for (std::size_t i = 0; i < now; ++i)
                if ((symbols[i].st_info & 0xF) == STT_FUNC && at - symbols[i].st_value < symbols[i].st_size) {
                    place.function = name_at(names.sh_offset + symbols[i].st_name);
                    place.offset = at - symbols[i].st_value;
                    return true;
                }
        }
        return false;
    }
    std::string name_at(std::uint64_t offset) {
        std::string name;
        if (std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) != 0) return name;
        for (int c = std::fgetc(file_.get()); c > 0; c = std::fgetc(file_.get())) name += static_cast<char>(c);
        return name;
    }

    std::unique_ptr<std::FILE, void (*)(std::FILE*)> file_;
};

#endif

/// Looks up addresses of code, each only once: a file's table may have a hundred thousand names.
class CodePlaces {
public:
    /// The place that a call returns to; NULL if nothing is known about it.
    const CodePlace* of_call(const void* address) {
        const auto [at, is_new] = known_.try_emplace(address);
        if (is_new) at->second = find(address);
        return at->second.get();
    }

private:
    static std::unique_ptr<CodePlace> find(const void* address) {
        auto place = std::make_unique<CodePlace>();
        if (!find_code_place(address, *place)) return nullptr;
#if defined(__ELF__)
        if (place->function.empty()) SymbolTable(place->path.c_str()).find(*place);
#endif
        if (!place->function.empty()) place->function = demangled(place->function);
        return place;
    }

    std::map<const void*, std::unique_ptr<CodePlace>> known_;
};

/// "run(int)+0x42 in libkernels.so < libkernels.so+0x1f30": the calls, innermost first; by offsets in the file where
/// the function has no name.
inline std::string describe_frames(CodePlaces& places, const void* const* frames, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
        const CodePlace* place = places.of_call(frames[i]);
        if (place == nullptr) continue;
        if (place->file.starts_with("libpython") || place->file.starts_with("python"))
            break;  // the interpreter's own calls say nothing
        const std::string& first = place->function.empty() ? place->file : place->function;
        text += concat({text.empty() ? "" : " < ", first, "+", hex(place->offset)});
        if (!place->function.empty()) text += concat({" in ", place->file});
    }
    return text;
}

}  // namespace detail

ISTHMUS_END
