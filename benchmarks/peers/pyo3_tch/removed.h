// SPDX-License-Identifier: Apache-2.0
// Included ahead of torch-sys' sources: what they call, and torch 2.15 no longer has. None of it is measured.
#pragma once
#include <torch/torch.h>

#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15
namespace torch {
inline Tensor cholesky(const Tensor& x, bool upper) { return linalg_cholesky(x, upper); }
inline Tensor& cholesky_out(Tensor& out, const Tensor& x, bool upper) { return linalg_cholesky_out(out, x, upper); }
inline std::tuple<Tensor, Tensor> qr(const Tensor& x, bool some) { return linalg_qr(x, some ? "reduced" : "complete"); }
inline std::tuple<Tensor&, Tensor&> qr_out(Tensor& q, Tensor& r, const Tensor& x, bool some) {
    return linalg_qr_out(q, r, x, some ? "reduced" : "complete");
}
}  // namespace torch
#endif
