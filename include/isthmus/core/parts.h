// What Tensor::select(), slice(), transpose(), reshape(), broadcast_to() and contiguous() do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/copy.h>
#include <isthmus/core/rearrange.h>

ISTHMUS_BEGIN

ISTHMUS_END
