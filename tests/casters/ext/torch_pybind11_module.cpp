// SPDX-License-Identifier: Apache-2.0
#include <isthmus/torch.h>  // first, so that the casters know at::Tensor

#include <isthmus/pybind11.h>

#include "torch_functions.h"

PYBIND11_MODULE(isthmus_torch_pybind11_test_ext, m, pybind11::mod_gil_not_used()) {
    m.def("dimensions", casters::dimensions);
    m.def("same", casters::same);
    m.def("undefined", casters::undefined);
}
