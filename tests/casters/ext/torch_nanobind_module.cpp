// SPDX-License-Identifier: Apache-2.0
#include <isthmus/torch.h>  // first, so that the casters know at::Tensor

#include <isthmus/nanobind.h>

#include "torch_functions.h"

NB_MODULE(isthmus_torch_nanobind_test_ext, m) {
    m.def("dimensions", casters::dimensions);
    m.def("same", casters::same);
    m.def("undefined", casters::undefined);
}
