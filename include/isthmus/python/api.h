// The functions of the bridge: from_py, borrow_py, to_py, to_py_like; set_python_error comes along.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/borrowed.h>  // Python.h must come before any standard header

#include <isthmus/core/tensor.h>
#include <isthmus/python/framework.h>
#include <isthmus/python/options.h>
#include <isthmus/python/runtime/gil.h>
#include <isthmus/python/runtime/raise.h>

ISTHMUS_BEGIN

/// Imports any array object as an owning handle, which may be stored and dropped on any thread, with or without the GIL.
/// The GIL must be held now. On failure the producer is as it was before.
Result<Tensor> from_py(PyObject* object, const ImportOptions& options = default_import) noexcept;

/// Borrows a tensor for the length of a call: shape, strides and address of `object`'s own memory, nothing allocated. The GIL
/// must be held, now and when the Borrowed ends; in between it may be released as long as the caller keeps `object` alive.
Result<Borrowed> borrow_py(PyObject* object, const ImportOptions& options = default_import) noexcept;

/// For a caller that borrowed from `object`, looked at the tensor and does not want it: ends the Borrowed. A DLPack capsule,
/// which is taken once, is then whole again, as if nobody had asked. The GIL must be held.
void give_back(PyObject* object, Borrowed& borrowed) noexcept;
/// The same for from_py(): the handle is empty afterwards. Where it was shared since, the capsule stays taken.
void give_back(PyObject* object, Tensor& tensor) noexcept;

/// Announces a write to an object that was imported with `require_writable` and without `announce`: a torch tensor's version
/// counter moves. Nothing happens for an object of another framework. The GIL must be held. An error means that the framework
/// refuses the write; `argument` is the argument's name, for its text.
Result<void> announce_write(PyObject* object, const char* argument = nullptr) noexcept;

/// Hands a tensor to Python as an array of `framework`: a new reference, over the same memory, with whatever is cheapest there.
/// A tensor that came from that framework and is unchanged is the very object it came from. The GIL must be held.
/// Refuses what the framework does not support, or would silently copy or make writable; `options` allows the last two.
Result<PyObject*> to_py(const Tensor& tensor, Framework framework = Framework::tensor,
                                    const ExportOptions& options = default_export) noexcept;

/// The same of a handle that is given away, and empty afterwards: a capsule takes its reference over, which nobody counts.
Result<PyObject*> to_py(Tensor&& tensor, Framework framework = Framework::tensor,
                                    const ExportOptions& options = default_export) noexcept;

/// The same, in the framework of `example`; an isthmus.Tensor when the example is of none.
Result<PyObject*> to_py_like(const Tensor& tensor, PyObject* example,
                                         const ExportOptions& options = default_export) noexcept;

/// New memory for a result, not zeroed, where `example` lives: of torch's or CuPy's allocator and on its device for their
/// tensors, else of the library's, which NumPy, JAX and the others take over without a copy. to_py_like() makes an array of the
/// example's framework of it. `device`: where, in place of the example's own. Throws Error; the GIL must be held.
Tensor empty_like(PyObject* example, const Shape& shape, DType dtype);
Tensor empty_like(PyObject* example, const Shape& shape, DType dtype, Device device);

ISTHMUS_END
