// SPDX-License-Identifier: Apache-2.0
// std::vector<bool> packs its elements into bits: it has no memory that a tensor of bool could show.
// expect: own\(\) takes what owns its elements
#include <vector>

#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(std::vector<bool> elements) { return isthmus::Tensor::own(std::move(elements)); }
#else
isthmus::Tensor take(std::vector<char> elements) { return isthmus::Tensor::own(std::move(elements)); }
#endif
