// SPDX-License-Identifier: Apache-2.0
// The rows of a vector of vectors lie apart.
// expect: the rows of a container of containers lie apart
#include <array>
#include <vector>

#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(std::vector<std::vector<float>> rows) { return isthmus::Tensor::own(std::move(rows)); }
#else
isthmus::Tensor take(std::vector<std::array<float, 4>> rows) { return isthmus::Tensor::own(std::move(rows)); }
#endif
