// SPDX-License-Identifier: Apache-2.0
// Memory is on one device.
// expect: constraints ask for two
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::View<float, 2, isthmus::on_cuda, isthmus::on_any_device>;
#else
using Wanted = isthmus::View<float, 2, isthmus::on_cuda, isthmus::on<kDLCUDA>>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
