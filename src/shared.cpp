// <isthmus/shared.h> as one translation unit, as a library or a file that defines ISTHMUS_IMPLEMENTATION compiles it.
// SPDX-License-Identifier: Apache-2.0
#include "shared/memory.cpp"
#include "shared/transfer.cpp"
