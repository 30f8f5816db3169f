// The layers of the library: what each folder of include/ and src/ may include. Arrows point down only.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace fs = std::filesystem;

namespace {

const fs::path project = fs::path(__FILE__).parent_path().parent_path().parent_path();

bool begins(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }
bool is_of(const std::string& file, std::initializer_list<const char*> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return begins(file, p); });
}
std::string contents_of(const std::string& file) {
    std::ifstream in(project / file);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// What a file includes: of the project by the path from its root, and what else there is as it is written.
std::set<std::string> includes_of(const fs::path& file) {
    static const std::regex directive(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
    std::set<std::string> found;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        std::smatch match;
        if (!std::regex_match(line, match, directive)) continue;
        const std::string name = match[2];
        const fs::path beside = (file.parent_path() / name).lexically_normal();
        if (match[1] == "\"" && fs::exists(beside))
            found.insert(fs::relative(beside, project).generic_string());
        else
            found.insert(begins(name, "isthmus/") ? "include/" + name : name);
    }
    return found;
}

/// Whether a header brings its sources, which is no circle: only the file that defines ISTHMUS_IMPLEMENTATION reads
/// them.
bool brings_source(const std::string& file, const std::string& other) {
    return begins(file, "include/") && begins(other, "src/");
}

/// File, by its path from the root -> what it includes.
const std::map<std::string, std::set<std::string>>& read_includes() {
    static const auto all = [] {
        std::map<std::string, std::set<std::string>> found;
        for (const char* folder : {"include", "src"})
            for (const auto& entry : fs::recursive_directory_iterator(project / folder)) {
                const auto kind = entry.path().extension();
                if (kind == ".h" || kind == ".cpp")
                    found[fs::relative(entry.path(), project).generic_string()] = includes_of(entry.path());
            }
        return found;
    }();
    return all;
}

/// The lines of a file at namespace level; continuation lines are joined to the line they go on from.
std::vector<std::string> joined_declarations(const std::string& file) {
    std::istringstream text(contents_of(file));
    std::vector<std::string> lines;
    bool open = false;
    for (std::string line; std::getline(text, line);) {
        if (begins(line, "//") || begins(line, "#") || line.empty()) continue;
        if (line.front() == ' ' && !open) continue;
        if (line.front() == ' ')
            lines.back() += line.substr(std::min(line.find_first_not_of(' '), line.size()));
        else
            lines.push_back(line);
        open = std::string(",(").find(line.back()) != std::string::npos;
    }
    return lines;
}

/// The functions and classes that stand there with a body.
std::set<std::string> defined_in(const std::string& file) {
    static const std::regex name(R"((?:(?:struct|class|union) (?:ISTHMUS_\w+ )?(\w+)|(\w+) ?\())");
    std::set<std::string> found;
    for (const std::string& line : joined_declarations(file)) {
        const auto body = line.find('{');
        if (body == std::string::npos) continue;
        const auto stop = line.begin() + static_cast<std::ptrdiff_t>(body);
        for (std::sregex_iterator it(line.begin(), stop, name), end; it != end; ++it)
            found.insert((*it)[1].matched ? (*it)[1] : (*it)[2]);
    }
    return found;
}

/// What a file declares at namespace level without a body.
std::set<std::string> declared_in(const std::string& file) {
    static const std::regex function(
        R"(^(?!static_assert|using|typedef|extern|return)[\w:<>*&\[\]" ]*[ *&](\w+)\([^;{}]*\)(?: noexcept)?;$)");
    static const std::regex type(R"(^(?:struct|class) (\w+);.*$)");
    std::set<std::string> found;
    for (const std::string& line : joined_declarations(file)) {
        std::smatch match;
        if (std::regex_match(line, match, function) || std::regex_match(line, match, type)) found.insert(match[1]);
    }
    return found;
}

std::string layer_of(const std::string& file) {
    static const std::vector<std::pair<std::string, std::string>> layers = {
        {"include/isthmus/core/", "core"},
        {"include/isthmus/isthmus.h", "core"},
        {"include/isthmus/converted.h", "core"},
        {"include/isthmus/small_floats.h", "core"},
        {"include/isthmus/visit.h", "core"},
        {"include/isthmus/backend/bridge.h", "python"},
        {"include/isthmus/backend/captured.h", "python"},
        {"include/isthmus/backend/tree.h", "python"},
        {"include/isthmus/backend/load.h", "load"},
        {"include/isthmus/backend/shared.h", "shared"},
        {"include/isthmus/backend/nanobind.h", "top"},
        {"include/isthmus/backend/pybind11.h", "top"},
        {"include/isthmus/backend/torch.h", "top"},
        {"include/isthmus/backend/", "core"},
        {"include/isthmus/shared", "shared"},
        {"include/isthmus/load", "load"},
        {"include/isthmus/c/", "c"},
        {"include/isthmus/python", "python"},
        {"include/isthmus/fields.h", "python"},
        {"include/isthmus/records.h", "python"},
        {"include/isthmus/tree.h", "python"},
        {"include/isthmus/array_like.h", "python"},
        {"include/isthmus/owned.h", "python"},
        {"include/isthmus/module.h", "python"},
        {"include/isthmus/tensor_protocol.h", "python"},
        {"include/isthmus/", "top"},  // torch.h, pybind11.h, nanobind.h and what they are made of
        {"src/core", "core"},
        {"src/shared", "shared"},
        {"src/load", "load"},
        {"src/c/", "c library"},
        {"src/bridge", "python"},
        {"src/torch", "top"},
        {"src/backend/", "package"},
        {"src/package/", "package"},
    };
    for (const auto& [prefix, layer] : layers)
        if (begins(file, prefix)) return layer;
    return begins(file, "include/") || begins(file, "src/") ? "unknown" : "outside";
}

const std::map<std::string, std::set<std::string>> may_include = {
    {"core", {"core"}},
    {"shared", {"core", "shared"}},
    {"load", {"core", "shared", "load"}},
    {"c", {"c"}},  // self-contained: another runtime's compiler reads it
    {"c library", {"c", "c library", "core", "shared"}},
    {"python", {"core", "python"}},
    {"top", {"core", "python", "top"}},
    {"package", {"core", "shared", "load", "python", "top", "package"}},
};

/// Whether a header's last lines include a file of src/, for the one file of a program that defines
/// ISTHMUS_IMPLEMENTATION.
bool is_umbrella(const std::string& header) {
    const std::string text = contents_of(header);
    const auto guard = text.find("\n#if defined(ISTHMUS_IMPLEMENTATION)\n");
    if (guard == std::string::npos || text.find("\"src/") < guard || text.find("../src/") < guard) return false;
    std::istringstream rest(text.substr(guard + 1));
    for (std::string line; std::getline(rest, line);)
        if (!begins(line, "#")) return false;
    return true;
}

TEST(Architecture, ArrowsPointDownOnly) {
    const auto& includes = read_includes();
    ASSERT_GT(includes.size(), 100u) << "no files below " << project;
    int checked = 0;
    for (const auto& [file, row] : includes)
        for (const auto& other : row) {
            if (layer_of(other) == "outside") continue;
            if (brings_source(file, other)) continue;  // the next test
            ASSERT_TRUE(may_include.count(layer_of(file))) << file << " is of no layer";
            EXPECT_TRUE(may_include.at(layer_of(file)).count(layer_of(other))) << file << " includes " << other;
            EXPECT_TRUE(includes.count(other)) << file << " includes " << other << ", which does not exist";
            ++checked;
        }
    EXPECT_GT(checked, 300);
}

TEST(Architecture, WhatUsersIncludeReachesNoSource) {
    int umbrellas = 0;
    for (const auto& [file, row] : read_includes())
        for (const auto& other : row) {
            if (!brings_source(file, other)) continue;
            EXPECT_TRUE(is_umbrella(file)) << file << " includes " << other << " before its last lines";
            ++umbrellas;
        }
    EXPECT_GE(umbrellas, 2);
}

/// Inside the bridge each folder has its floor, and an include never climbs.
int floor_of(const std::string& file) {
    static const std::vector<std::pair<std::string, int>> floors = {
        {"include/isthmus/python/runtime/", 0},
        {"include/isthmus/python/ref.h", 0},
        {"include/isthmus/python/api.h", 0},  // declarations, which the runtime's bodies take and return
        {"src/bridge/runtime/", 0},
        // What users name, in the order in which it is built up.
        {"include/isthmus/python/binding.h", 12},
        {"include/isthmus/python/annotations.h", 13},
        {"include/isthmus/python/value_arguments.h", 13},
        {"include/isthmus/python/container_results.h", 13},
        {"include/isthmus/python/container_elements.h", 13},
        {"include/isthmus/python/distinct.h", 13},
        {"include/isthmus/python/agreeing.h", 14},
        {"include/isthmus/python/arguments.h", 14},
        {"include/isthmus/python/call_arguments.h", 14},
        {"include/isthmus/python/containers.h", 14},
        {"include/isthmus/python.h", 14},
        {"include/isthmus/python/container_arguments.h", 15},
        {"include/isthmus/python/overloads.h", 15},
        {"include/isthmus/python/operator/", 15},
        {"include/isthmus/python/", 10},
        {"src/bridge/protocol/", 20},
        {"src/bridge/framework/", 30},
        {"src/bridge/dispatch/", 40},
        {"src/bridge/from_py.cpp", 50},
        {"src/bridge/export.h", 50},
        {"src/bridge/object/", 60},
        {"src/bridge/operators/", 70},
        {"src/bridge/", 60},  // over the public functions and export.h: results.h, and what binding.h declares
        {"src/bridge.cpp", 80},
    };
    for (const auto& [prefix, floor] : floors)
        if (begins(file, prefix)) return floor;
    return -1;
}

TEST(Architecture, NothingInTheBridgeClimbs) {
    int checked = 0;
    for (const auto& [file, row] : read_includes())
        for (const auto& other : row) {
            const int from = floor_of(file), to = floor_of(other);
            if (from < 0 || to < 0 || brings_source(file, other)) continue;
            EXPECT_GE(from, to) << file << " includes " << other << ", which stands above it";
            ++checked;
        }
    EXPECT_GT(checked, 200);
}

/// Whether a name is reserved for the system and the compiler, as those of other people's opaque structs are.
/// Of the compiler or of torch's library for Python.
bool is_reserved(const std::string& name) {
    return begins(name, "_") || begins(name, "THP") || name.find("__") != std::string::npos;
}

/// An internal header that declares what neither it nor a source of its folder defines is a circle that includes do not
/// show.
TEST(Architecture, NoCircleByForwardDeclaration) {
    for (const auto& [file, row] : read_includes()) {
        if (!is_of(file, {"src/core/", "src/bridge/", "src/shared/", "src/load/"}) || !file.ends_with(".h")) continue;
        auto defined = defined_in(file);
        for (const auto& [other, includes] : read_includes())
            if (fs::path(other).parent_path() == fs::path(file).parent_path()) defined.merge(defined_in(other));
        for (const std::string& name : declared_in(file))
            EXPECT_TRUE(is_reserved(name) || defined.count(name))
                << file << " declares " << name << ", which nothing in its folder defines";
    }
}

/// What a header of the users' declares has its body there, in another one, or in src/.
TEST(Architecture, WhatIsDeclaredIsDefined) {
    std::set<std::string> defined;
    for (const auto& [file, row] : read_includes()) defined.merge(defined_in(file));
    int checked = 0;
    for (const auto& [file, row] : read_includes()) {
        if (!begins(file, "include/") || layer_of(file) == "c") continue;
        for (const std::string& name : declared_in(file)) {
            EXPECT_TRUE(is_reserved(name) || defined.count(name))
                << file << " declares " << name << ", which nothing defines";
            ++checked;
        }
    }
    EXPECT_GT(checked, 50);
}

TEST(Architecture, TheCoreKnowsNothingOfPython) {
    for (const auto& [header, row] : read_includes())
        for (const auto& other : row) {
            if (layer_of(header) == "core" || layer_of(header) == "shared" || layer_of(header) == "load" ||
                layer_of(header) == "c" || layer_of(header) == "c library") {
                EXPECT_FALSE(is_of(other, {"Python.h", "numpy/", "pybind11/", "nanobind/"}))
                    << header << " includes " << other;
            }
            if (header.find("torch") == std::string::npos) {
                EXPECT_FALSE(is_of(other, {"torch/", "ATen/", "c10/"})) << header << " includes " << other;
            }
            if (layer_of(header) == "python") {
                EXPECT_FALSE(is_of(other, {"numpy/", "pybind11/", "nanobind/", "torch/", "ATen/", "c10/"}))
                    << header << " includes " << other;
            }
        }
}

TEST(Architecture, NoHeaderIncludesItselfInACircle) {
    const auto includes = read_includes();
    std::set<std::string> done;
    std::vector<std::string> path;
    const auto visit = [&](const auto& self, const std::string& header) -> void {
        if (done.count(header) || !includes.count(header)) return;
        ASSERT_EQ(std::count(path.begin(), path.end(), header), 0)
            << header << " includes itself through " << path.back();
        path.push_back(header);
        for (const auto& other : includes.at(header))
            if (!brings_source(header, other)) self(self, other);
        path.pop_back();
        done.insert(header);
    };
    for (const auto& [header, row] : includes) visit(visit, header);
}

TEST(Architecture, OneIncludeBringsTheWholeCore) {
    const auto includes = read_includes();
    std::set<std::string> reached;
    const auto visit = [&](const auto& self, const std::string& header) -> void {
        if (!includes.count(header) || !reached.insert(header).second) return;
        for (const auto& other : includes.at(header))
            if (!brings_source(header, other)) self(self, other);
    };
    visit(visit, "include/isthmus/isthmus.h");
    reached.insert(
        "include/isthmus/core/live.h");  // a tool for those who search a leak, which nobody else should pay for
    for (const auto& [header, row] : includes)
        EXPECT_TRUE(!begins(header, "include/isthmus/core/") || reached.count(header)) << header;
}

TEST(Architecture, FilesAreShortAndSayWhatTheyAreFor) {
    for (const auto& [header, row] : read_includes()) {
        std::ifstream file(project / header);
        std::string first, line;
        std::getline(file, first);
        int count = 1;
        while (std::getline(file, line)) ++count;
        EXPECT_TRUE((begins(first, "// ") && first.find("SPDX") == std::string::npos) || begins(first, "/*"))
            << header << " begins with: " << first;
        EXPECT_LE(count, 430) << header;
    }
}

TEST(Architecture, EveryHeaderGuardsItselfAndEveryFileNamesItsLicence) {
    for (const auto& [header, row] : read_includes()) {
        const std::string text = contents_of(header);
        EXPECT_NE(text.find("SPDX-License-Identifier: Apache-2.0"), std::string::npos) << header;
        const bool guarded =
            text.find("#pragma once") != std::string::npos || text.find("#ifndef ISTHMUS_") != std::string::npos;
        EXPECT_TRUE(guarded != header.ends_with(".cpp")) << header;
    }
}

}  // namespace
