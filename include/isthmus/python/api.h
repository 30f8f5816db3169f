// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/tensor.h>
#include <isthmus/python/borrowed.h>
#include <isthmus/python/framework.h>
#include <isthmus/python/options.h>

ISTHMUS_BEGIN

/// Imports any array object as an owning handle, which may be stored and dropped on any thread, with or without the GIL.
/// The GIL must be held now. On failure the producer is as it was before.
ISTHMUS_API Result<Tensor> from_py(PyObject* object, const ImportOptions& options = default_import) noexcept;

/// Borrows a tensor for the length of a call: shape, strides and address of `object`'s own memory, nothing allocated. The GIL
/// must be held, now and when the Borrowed ends; in between it may be released as long as the caller keeps `object` alive.
ISTHMUS_API Result<Borrowed> borrow_py(PyObject* object, const ImportOptions& options = default_import) noexcept;

/// Hands a tensor to Python as an array of `framework`: a new reference, over the same memory, with whatever is cheapest there.
/// A tensor that came from that framework and is unchanged is the very object it came from. The GIL must be held.
/// Refuses what the framework cannot say, or would silently copy or make writable; `options` allows the last two.
ISTHMUS_API Result<PyObject*> to_py(const Tensor& tensor, Framework framework = Framework::tensor,
                                    const ExportOptions& options = default_export) noexcept;

/// The same, in the framework of `example`; an isthmus.Tensor when the example is of none.
ISTHMUS_API Result<PyObject*> to_py_like(const Tensor& tensor, PyObject* example,
                                         const ExportOptions& options = default_export) noexcept;

/// Raises `error` as the Python exception that fits: isthmus.Error and TypeError, ValueError or BufferError by its kind, with
/// `code` set and the producer's own exception as `__cause__`. A producer's KeyboardInterrupt and its like pass unchanged.
ISTHMUS_API void set_python_error(const Error& error) noexcept;

ISTHMUS_END
