// SPDX-License-Identifier: Apache-2.0
// The standard containers that hold their elements are taken; a view of one in the standard library's own clothes is
// not.
// expect: own\(\) takes what owns its elements
#include <array>
#include <memory_resource>
#include <ranges>
#include <string>
#include <vector>

#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(std::vector<float>& v) { return isthmus::Tensor::own(std::ranges::ref_view(v)); }
#else
isthmus::Tensor take(std::vector<float> v) { return isthmus::Tensor::own(std::move(v)); }
isthmus::Tensor take(std::pmr::vector<double> v) { return isthmus::Tensor::own(std::move(v)); }
isthmus::Tensor take(std::array<int, 4> v) { return isthmus::Tensor::own(std::move(v)); }
isthmus::Tensor take(std::string v) { return isthmus::Tensor::own(std::move(v), {2, 2}); }
#endif
