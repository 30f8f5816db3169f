// What <isthmus/torch.h> declares.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <torch/version.h>
#if TORCH_VERSION_MAJOR < 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 9)
#include "Isthmus: torch.h needs PyTorch 2.9 or newer: an older one was found first on the include path"
#endif

// The least of libtorch that does the job; docs/torch.md has what each header costs to compile.
#include <ATen/core/Tensor.h>
#include <torch/csrc/Export.h>

ISTHMUS_BEGIN

/// The treatment of an undefined at::Tensor, whose counterpart in Python is None.
enum class Undefined : std::uint8_t {
    error,  ///< it is refused
    none,   ///< at::Tensor() and None stand for each other
};

/// The at::Tensor inside a torch.Tensor (exact or a subclass): valid as long as the caller keeps the object. The GIL
/// must be held.
Result<const at::Tensor*> borrow_py_torch(PyObject* object, const char* argument = nullptr) noexcept;

/// The at::Tensor of a torch.Tensor: the same TensorImpl, so autograd, hooks and subclass are untouched. `argument` is
/// its name, for the error. The GIL must be held.
Result<at::Tensor> from_py_torch(PyObject* object, const char* argument = nullptr,
                                 Undefined undefined = Undefined::error) noexcept;

/// The torch.Tensor of an at::Tensor: the object it has in Python already, else a new one; a new reference. The GIL
/// must be held.
Result<PyObject*> to_py(const at::Tensor& tensor, Undefined undefined = Undefined::error) noexcept;

/// A tensor over an at::Tensor's own memory, which it keeps alive; no Python is needed (in a module of isthmus::backend
/// or isthmus::abi3 the GIL is taken if it is not held). Refused if the bytes are not the values. As for from_py():
/// with `require_writable` autograd is notified of the write (the version counter is bumped, a leaf that requires grad
/// is refused); without it a tensor that requires grad is read-only while grad mode is on.
Result<Tensor> try_from_torch(at::Tensor tensor, const ImportOptions& options = {}) noexcept;
/// The same, which throws the Error.
inline Tensor from_torch(at::Tensor tensor, const ImportOptions& options = {}) {
    return try_from_torch(std::move(tensor), options).value();
}

/// An at::Tensor over the same memory, which keeps the owner alive: the same TensorImpl if the tensor came from torch
/// and is unchanged. No Python is needed, as above. Read-only memory is refused unless `options` allows its loss.
Result<at::Tensor> to_torch(const Tensor& tensor, const ExportOptions& options = {}) noexcept;

ISTHMUS_END
