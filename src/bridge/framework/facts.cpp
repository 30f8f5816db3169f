// The table of frameworks: how a tensor gets into each, and what the framework does not promise by itself.
// SPDX-License-Identifier: Apache-2.0
#include "facts.h"

ISTHMUS_BEGIN

const char* framework_name(Framework framework) noexcept {
    const auto* facts = detail::find_framework(framework);
    return facts != nullptr ? facts->name.data() : "none";
}
bool parse_framework(std::string_view name, Framework& out) noexcept {
    for (const auto& facts : detail::framework_facts)
        if (facts.name == name) {
            out = facts.framework;
            return true;
        }
    return false;
}

ISTHMUS_END
