// SPDX-License-Identifier: Apache-2.0
// A view by the arrow of a temporary Result would outlive the tensor that the Result holds.
// expect: deleted (member )?function|deleted operator
#include <isthmus/isthmus.h>

isthmus::Result<isthmus::Tensor> make();

#if defined(ISTHMUS_MUST_FAIL)
float first() { return make()->view<float, 1>().value()(0); }
#else
float first() {
    const auto tensor = make();
    return tensor->view<float, 1>().value()(0);
}
std::int64_t size() { return (*make()).numel(); }
#endif
