// SPDX-License-Identifier: Apache-2.0
// A view made inside and_then() of a temporary Result would outlive the tensor that the Result holds.
// expect: the view would outlive the temporary Result
#include <isthmus/isthmus.h>

isthmus::Result<isthmus::Tensor> make();

using Row = isthmus::View<const float, 1>;
const auto view = [](const isthmus::Tensor& tensor) { return tensor.view<Row>(); };
const auto first = [](const Row& row) { return row(0); };

#if defined(ISTHMUS_MUST_FAIL)
float take() { return make().and_then(view).transform(first).value(); }
#else
float take() {
    const auto tensor = make();
    return tensor.and_then(view).transform(first).value();
}
float inside() {
    return make().transform([](const isthmus::Tensor& tensor) { return tensor.view<Row>().value()(0); }).value();
}
#endif
