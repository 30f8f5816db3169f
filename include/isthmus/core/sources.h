// The core's sources, in the file that defines ISTHMUS_IMPLEMENTATION. A header includes it last: they need the above.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(ISTHMUS_IMPLEMENTATION)
#if __has_include("../src/core.cpp")
#include "../src/core.cpp"  // as installed
#else
#include "../../../src/core.cpp"
#endif
#endif
