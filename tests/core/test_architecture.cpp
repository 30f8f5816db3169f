// SPDX-License-Identifier: Apache-2.0
// The layers of the library: what each folder below include/isthmus may include. Arrows point down only.
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

const fs::path include_dir = fs::path(__FILE__).parent_path().parent_path().parent_path() / "include";

/// Header (relative to include/) -> what it includes, in angle brackets or quotes.
std::map<std::string, std::set<std::string>> read_includes() {
    std::map<std::string, std::set<std::string>> found;
    for (const auto& entry : fs::recursive_directory_iterator(include_dir)) {
        if (entry.path().extension() != ".h") continue;
        auto& row = found[fs::relative(entry.path(), include_dir).generic_string()];
        std::ifstream file(entry.path());
        for (std::string line; std::getline(file, line);) {
            const auto hash = line.find_first_not_of(" \t");
            const auto word = line.find("include"), open = line.find_first_of("<\"");
            if (hash == std::string::npos || line[hash] != '#' || word == std::string::npos || open == std::string::npos ||
                open < word)
                continue;
            row.insert(line.substr(open + 1, line.find_first_of(">\"", open + 1) - open - 1));
        }
    }
    return found;
}

/// The file with every declaration at namespace level on one line: continuation lines are joined to the line they go on from.
std::string joined_declarations(const fs::path& path) {
    std::ifstream file(path);
    std::string text;
    for (std::string line; std::getline(file, line);) {
        if (line.rfind("//", 0) == 0 || line.rfind("#", 0) == 0) continue;
        const bool goes_on = !line.empty() && line.front() == ' ' && !text.empty() && text.back() == '\v';
        if (!text.empty() && text.back() == '\v') text.back() = goes_on ? ' ' : '\n';
        const auto first = line.find_first_not_of(' ');
        text += goes_on && first != std::string::npos ? line.substr(first) : line;
        const bool open = !line.empty() && std::string(",(").find(line.back()) != std::string::npos;
        text += open ? '\v' : '\n';
    }
    return text;
}

/// Whether the name stands there with a body: a function's or a class's.
bool defines(const std::string& text, const std::string& name) {
    std::istringstream lines(text);
    const std::regex body("(^|[ *&:])" + name + R"((\(.*\{|<.*\{|( final)?( :.*)? \{))");
    for (std::string line; std::getline(lines, line);)
        if (std::regex_search(line, body)) return true;
    return false;
}

std::string layer_of(const std::string& header) {
    if (header.rfind("isthmus/core/", 0) == 0 || header == "isthmus/isthmus.h") return "core";
    if (header.rfind("isthmus/shared/", 0) == 0 || header == "isthmus/shared.h") return "shared";
    if (header.rfind("isthmus/load/", 0) == 0 || header == "isthmus/load.h") return "load";
    if (header.rfind("isthmus/c/", 0) == 0) return "c";
    if (header.rfind("isthmus/python/", 0) == 0 || header == "isthmus/python.h") return "python";
    if (header.rfind("isthmus/", 0) == 0) return "top";  // torch.h, pybind11.h, nanobind.h and what they are made of
    return "outside";
}

const std::map<std::string, std::set<std::string>> may_include = {
    {"core", {"core"}},
    {"shared", {"core", "shared"}},
    {"load", {"core", "shared", "load"}},
    {"c", {"c"}},  // self-contained: another runtime's compiler reads it
    {"python", {"core", "python"}},
    {"top", {"core", "python", "top"}},
};

bool is_of(const std::string& header, std::initializer_list<const char*> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* p) { return header.rfind(p, 0) == 0; });
}

TEST(Architecture, ArrowsPointDownOnly) {
    const auto includes = read_includes();
    ASSERT_GT(includes.size(), 10u) << "no headers below " << include_dir;
    int checked = 0;
    for (const auto& [header, row] : includes)
        for (const auto& other : row) {
            if (layer_of(other) == "outside") continue;
            EXPECT_TRUE(may_include.at(layer_of(header)).count(layer_of(other))) << header << " includes " << other;
            EXPECT_TRUE(includes.count(other)) << header << " includes " << other << ", which does not exist";
            ++checked;
        }
    EXPECT_GT(checked, 20);
}

/// Inside the bridge each folder has its floor, and an include never climbs.
int floor_of(const std::string& header) {
    static const std::vector<std::pair<std::string, int>> floors = {
        {"isthmus/python/runtime/", 0},
        {"isthmus/python/protocol/", 2},
        {"isthmus/python/framework/", 3},
        {"isthmus/python/dispatch/", 4},
        {"isthmus/python/from_py.h", 5},
        {"isthmus/python/to_py.h", 5},
        {"isthmus/python/object/", 6},
        // For binders, over the public functions alone.
        {"isthmus/python/results.h", 6},
        {"isthmus/python/binding.h", 7},
        {"isthmus/python/impl.h", 8},
        {"isthmus/python/agreeing.h", 9},
        {"isthmus/python/arguments.h", 9},
        {"isthmus/python/containers.h", 9},
        {"isthmus/python/overloads.h", 10},
        {"isthmus/python/operator/", 10},
        {"isthmus/python.h", 9},
        {"isthmus/python/", 1},  // what users name
    };
    for (const auto& [prefix, floor] : floors)
        if (header.rfind(prefix, 0) == 0) return floor;
    return -1;
}

TEST(Architecture, NothingInTheBridgeClimbs) {
    int checked = 0;
    for (const auto& [header, row] : read_includes())
        for (const auto& other : row) {
            const int from = floor_of(header), to = floor_of(other);
            if (from < 0 || to < 0) continue;
            EXPECT_GE(from, to) << header << " includes " << other << ", which stands above it";
            ++checked;
        }
    EXPECT_GT(checked, 100);
}

/// The names that a header declares as functions or classes of the library without defining them there: a circle that includes
/// do not show. What api.h and similar headers declare is defined above on purpose, and listed here.
TEST(Architecture, NoCircleByForwardDeclaration) {
    // Name -> the header that defines it; each is of the same folder or of a lower floor, or has a reason here.
    const std::map<std::string, std::string> allowed = {
        {"borrow_py", "the public function; isthmus/python/from_py.h"},
        {"from_py", "the public function; isthmus/python/from_py.h"},
        {"give_back", "the public function; isthmus/python/from_py.h"},
        {"lend", "a Borrowed of a tensor; isthmus/python/from_py.h"},
        {"announce_write", "the public function; isthmus/python/from_py.h"},
        {"to_py", "the public function; isthmus/python/impl.h"},
        {"to_py_like", "the public function; isthmus/python/impl.h"},
        {"empty_like", "the public function; isthmus/python/results.h"},
        {"ArgumentLoader", "a friend that Argument names; isthmus/python/binding.h"},
        {"framework_name", "the public function; src/bridge/framework/facts.h"},
        {"parse_framework", "the public function; src/bridge/framework/facts.h"},
        {"run_in_torch", "what each operator's own functions call; isthmus/python/operator/torch.h"},
        {"run_for_xla", "what each operator's own functions call; isthmus/python/operator/jax.h"},
        {"BorrowedBuilder", "a friend that Borrowed names; isthmus/python/protocol/borrowed_builder.h"},
    };
    const std::regex function(
        R"(^(?:ISTHMUS_API |inline |ISTHMUS_NOINLINE |ISTHMUS_COLD |template <[^>]*> )*[\w:<>*& ]+?[ *&](\w+)\([^;{}]*\)(?: noexcept)?;$)");
    const std::regex type(R"(^(?:struct|class) (\w+);$)");
    for (const auto& [header, row] : read_includes()) {
        if (floor_of(header) < 0) continue;
        const std::string text = joined_declarations(include_dir / header);
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            std::smatch found;
            const bool at_namespace_level = !line.empty() && line.front() != ' ' && line.rfind("static_assert", 0) != 0;
            if (!at_namespace_level) continue;
            if (!std::regex_match(line, found, function) && !std::regex_match(line, found, type)) continue;
            const std::string name = found[1];
            if (allowed.count(name) || defines(text, name)) continue;
            ADD_FAILURE() << header << " declares " << name << " and does not define it: " << line;
        }
    }
}

TEST(Architecture, TheCoreKnowsNothingOfPython) {
    for (const auto& [header, row] : read_includes())
        for (const auto& other : row) {
            if (layer_of(header) != "python" && layer_of(header) != "top") {
                EXPECT_FALSE(is_of(other, {"Python.h", "numpy/", "pybind11/", "nanobind/"})) << header << " includes " << other;
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
        ASSERT_EQ(std::count(path.begin(), path.end(), header), 0) << header << " includes itself through " << path.back();
        path.push_back(header);
        for (const auto& other : includes.at(header)) self(self, other);
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
        for (const auto& other : includes.at(header)) self(self, other);
    };
    visit(visit, "isthmus/isthmus.h");
    // A tool for those who search a leak, and the linker's calls for it and the bridge: headers nobody else should pay for.
    reached.insert({"isthmus/core/live.h", "isthmus/core/symbols.h", "isthmus/core/libraries.h"});
    for (const auto& [header, row] : includes) EXPECT_TRUE(layer_of(header) != "core" || reached.count(header)) << header;
}

TEST(Architecture, HeadersAreShortAndSayWhatTheyAreFor) {
    for (const auto& [header, row] : read_includes()) {
        std::ifstream file(include_dir / header);
        std::string first, line;
        std::getline(file, first);
        int count = 1;
        while (std::getline(file, line)) ++count;
        EXPECT_TRUE((first.rfind("// ", 0) == 0 && first.find("SPDX") == std::string::npos) || first.rfind("/*", 0) == 0)
            << header << " begins with: " << first;
        EXPECT_LE(count, 430) << header;
    }
}

TEST(Architecture, EveryHeaderGuardsItselfAndNamesItsLicence) {
    for (const auto& [header, row] : read_includes()) {
        std::ifstream file(include_dir / header);
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        EXPECT_NE(text.find("SPDX-License-Identifier: Apache-2.0"), std::string::npos) << header;
        EXPECT_TRUE(text.find("#pragma once") != std::string::npos || text.find("#ifndef ISTHMUS_") != std::string::npos)
            << header;
    }
}

}  // namespace
