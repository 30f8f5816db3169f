// Shared memory between processes: segments, pools, and tensors that are handed over without their bytes. Over the core alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/isthmus.h>
#include <isthmus/shared/access.h>
#include <isthmus/shared/pool.h>
#include <isthmus/shared/segment.h>
#include <isthmus/shared/transfer.h>
#include <isthmus/shared/wait.h>
