// SPDX-License-Identifier: Apache-2.0
// Strings of any length are not elements.
// expect: strings of any length are not elements of a tensor
#include <array>
#include <string>
#include <vector>

#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(std::vector<std::string> names) { return isthmus::Tensor::own(std::move(names)); }
#else
isthmus::Tensor take(std::vector<std::array<float, 4>> rows) { return isthmus::Tensor::own(std::move(rows)); }
#endif
