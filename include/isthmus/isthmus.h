// Isthmus: zero-copy tensor exchange. The core, without Python; for the bridge include <isthmus/python.h>.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/blob.h>
#include <isthmus/core/config.h>
#include <isthmus/core/copy.h>
#include <isthmus/core/device.h>
#include <isthmus/core/dtype.h>
#include <isthmus/core/error.h>
#include <isthmus/core/layout.h>
#include <isthmus/core/memory.h>
#include <isthmus/core/rearrange.h>
#include <isthmus/core/result.h>
#include <isthmus/core/tensor.h>
#include <isthmus/core/view/for_each.h>
#include <isthmus/core/view/match.h>
#include <isthmus/core/view/sizes.h>
#include <isthmus/core/view/view.h>

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/core.h>
#endif

#include <isthmus/core/sources.h>
