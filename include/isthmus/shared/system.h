// Memory without a name that another process can map: what each operating system has of it.
// SPDX-License-Identifier: Apache-2.0
//
// Every system's file defines the same functions in shared::impl:
//   supported, seals_writers (who may write is decided when memory is made), page_size()
//   create_memory(size)               a new object of `size` bytes (whole pages), every page of it reserved
//   seal_memory(file, writers)        its size never changes again; without `writers` nobody maps it writable from now on
//   check_memory(file, size, writers) whether what another process sent is such an object, so that no access to it can fault
//   identify(file)                    the same numbers for every descriptor of one object
//   reopen(file)                      a second open file of the same object; none where that cannot be had
//   lease / unlease / leased          a mark on a range, which the kernel keeps as long as the open file that made it
#pragma once

#include <isthmus/core/config.h>

#if defined(__linux__)
#include <isthmus/shared/system_linux.h>
#elif defined(__APPLE__)
#include <isthmus/shared/system_macos.h>
#else
#include <isthmus/shared/system_none.h>
#endif
