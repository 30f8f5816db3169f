// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files named on the command line, for compilers without libFuzzer.
#include <cstdint>
#include <cstdio>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** names) {
    for (int i = 1; i < count; ++i) {
        std::FILE* file = std::fopen(names[i], "rb");
        if (file == nullptr) return std::fprintf(stderr, "%s: cannot be read\n", names[i]), 2;
        std::vector<std::uint8_t> bytes;
        for (int c; (c = std::fgetc(file)) != EOF;) bytes.push_back(static_cast<std::uint8_t>(c));
        std::fclose(file);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
    std::printf("%d inputs\n", count - 1);
}
