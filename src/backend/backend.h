// The capsule that a backend gives to the modules that find it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

/// The table of functions as a capsule: a new reference, or NULL with the exception set.
PyObject* backend_capsule() noexcept;

ISTHMUS_END
