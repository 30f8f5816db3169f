// Names of functions at addresses, also of those that a library hides.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/core/symbols.h"

using isthmus::detail::CodePlace;
using isthmus::detail::CodePlaces;

namespace {

#if defined(__ELF__)

[[gnu::noinline]] std::vector<void*> hidden_function(int) {
    std::vector<void*> frames(4);  // a sanitizer puts some of its own in front
    frames.resize(static_cast<std::size_t>(isthmus::detail::find_callers(frames.data(), 4)));
    return frames;
}

TEST(Symbols, AFunctionThatIsNotExportedHasItsName) {
    const std::vector<void*> frames = hidden_function(1);
    if (frames.empty()) GTEST_SKIP() << "this C library does not tell who called";
    CodePlaces places;
    const auto own = std::find_if(frames.begin(), frames.end(), [&places](void* frame) {
        const CodePlace* place = places.of_call(frame);
        return place != nullptr && place->function.starts_with("(anonymous namespace)::hidden_function(int)");
    });
    ASSERT_NE(own, frames.end());
    const CodePlace* place = places.of_call(*own);
    EXPECT_GT(place->offset, 0U);
    EXPECT_LT(place->offset, 4096U);
    EXPECT_EQ(place, places.of_call(*own)) << "it is looked up once";
}

/// A file of two functions of ten bytes each, at 0x401000 and after a gap, and the table of their names, as a linker
/// writes it.
std::string elf_file(std::uint16_t type) {
    const std::string names("\0first\0_Z6secondi\0", 18);
    ElfW(Sym) symbols[3] = {};
    symbols[1].st_name = 1;
    symbols[2].st_name = 7;
    for (int i : {1, 2}) {
        symbols[i].st_info = STT_FUNC;
        symbols[i].st_value = static_cast<ElfW(Addr)>(0x401000 + 0x20 * (i - 1));
        symbols[i].st_size = 10;
    }
    symbols[0].st_info = STT_OBJECT;  // data at the place of a function is none
    symbols[0].st_value = 0x401000;
    symbols[0].st_size = 10;
    ElfW(Ehdr) head{};
    head.e_type = type;
    head.e_shentsize = sizeof(ElfW(Shdr));
    head.e_shnum = 2;
    head.e_shoff = sizeof head;
    ElfW(Shdr) sections[2] = {};
    sections[0].sh_type = SHT_SYMTAB;
    sections[0].sh_link = 1;
    sections[0].sh_offset = sizeof head + sizeof sections;
    sections[0].sh_size = sizeof symbols;
    sections[1].sh_offset = sections[0].sh_offset + sizeof symbols;
    std::string file;
    file.append(reinterpret_cast<const char*>(&head), sizeof head);
    file.append(reinterpret_cast<const char*>(sections), sizeof sections);
    file.append(reinterpret_cast<const char*>(symbols), sizeof symbols);
    return file + names;
}

class SymbolFile : public testing::Test {
protected:
    std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) /
        (std::string("isthmus_symbols_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    ~SymbolFile() override { std::filesystem::remove(path); }

    CodePlace find(const std::string& content, std::uintptr_t offset, std::uintptr_t base = 0) {
        std::ofstream(path, std::ios::binary) << content;
        CodePlace place;
        place.base = base;
        place.offset = offset;
        isthmus::detail::SymbolTable(path.string().c_str()).find(place);
        return place;
    }
};

TEST_F(SymbolFile, ALibraryNamesOffsets) {
    const std::string file = elf_file(ET_DYN);
    EXPECT_EQ(find(file, 0x401000, 0x70000000).function, "first");
    EXPECT_EQ(find(file, 0x401009, 0x70000000).offset, 9U);
    EXPECT_EQ(find(file, 0x401020, 0x70000000).function, "_Z6secondi");
    EXPECT_EQ(find(file, 0x40100A, 0x70000000).function, "") << "behind the first, before the second";
    EXPECT_EQ(find(file, 0x400FFF, 0x70000000).function, "");
}

TEST_F(SymbolFile, AProgramAtFixedAddressesNamesAddresses) {
    EXPECT_EQ(find(elf_file(ET_EXEC), 0x1000, 0x400000).function, "first");
    EXPECT_EQ(find(elf_file(ET_EXEC), 0x401000, 0x400000).function, "");
}

TEST_F(SymbolFile, AFileThatIsCutHasNoNames) {
    const std::string whole = elf_file(ET_DYN);
    for (std::size_t size = 0; size < whole.size() - 18; ++size)
        EXPECT_EQ(find(whole.substr(0, size), 0x401000).function, "") << size;
    CodePlace nowhere;
    isthmus::detail::SymbolTable("/nowhere/at/all").find(nowhere);
    EXPECT_EQ(nowhere.function, "");
}

TEST_F(SymbolFile, AFileOfAnotherFormIsNotRead) {
    std::string without_names = elf_file(ET_DYN);
    reinterpret_cast<ElfW(Shdr)*>(without_names.data() + sizeof(ElfW(Ehdr)))->sh_link = 2;
    EXPECT_EQ(find(without_names, 0x401000).function, "");
    std::string other_sections = elf_file(ET_DYN);
    reinterpret_cast<ElfW(Ehdr)*>(other_sections.data())->e_shentsize = 1;
    EXPECT_EQ(find(other_sections, 0x401000).function, "");
}

#endif

TEST(Symbols, LongNamesAreCut) {
#if __has_include(<cxxabi.h>)
    EXPECT_EQ(isthmus::detail::demangled("_Z6secondi"), "second(int)");
    const std::string longest = "_Z200" + std::string(200, 'a') + "v";
    EXPECT_EQ(isthmus::detail::demangled(longest), std::string(120, 'a') + "...");
#endif
    EXPECT_EQ(isthmus::detail::demangled("main"), "main");
}

}  // namespace
