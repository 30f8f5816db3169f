// Isthmus: at::Tensor, torch.Tensor and isthmus::Tensor, each one pointer from the others. Needs libtorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define ISTHMUS_WITH_TORCH 1  // <isthmus/nanobind.h> and <isthmus/pybind11.h> then take at::Tensor

#include <isthmus/torch/api.h>  // Python.h must come before any standard header

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/torch.h>
#endif

#if defined(ISTHMUS_IMPLEMENTATION)
#if __has_include("src/torch.cpp")
#include "src/torch.cpp"  // as installed
#else
#include "../../src/torch.cpp"
#endif
#endif
