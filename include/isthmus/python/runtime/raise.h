// isthmus::Error as a Python exception.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <isthmus/core/error.h>

ISTHMUS_BEGIN

/// Raises `error` as the Python exception that fits: isthmus.Error and TypeError, ValueError or BufferError by its kind, with
/// `code` set and the producer's own exception as `__cause__`. A producer's KeyboardInterrupt and its like pass unchanged.
void set_python_error(const Error& error) noexcept;

ISTHMUS_END
