// The marks of libtorch's exported functions, for the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#define TORCH_API
#define TORCH_PYTHON_API
