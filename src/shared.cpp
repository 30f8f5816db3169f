// <isthmus/shared.h> as one translation unit: what a library compiles, and the file of a program that defines
// ISTHMUS_IMPLEMENTATION. SPDX-License-Identifier: Apache-2.0
#include "shared/pool.cpp"
#include "shared/segment.cpp"
#include "shared/transfer.cpp"
