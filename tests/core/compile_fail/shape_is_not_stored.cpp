// SPDX-License-Identifier: Apache-2.0
// A Shape may point into the range it was made from, so it cannot be copied away.
// expect: deleted function|deleted constructor
#include <isthmus/isthmus.h>

std::size_t rank(const isthmus::Shape& shape) {
#if defined(ISTHMUS_MUST_FAIL)
    const isthmus::Shape kept = shape;
#else
    const isthmus::Shape& kept = shape;
#endif
    return kept.size();
}
