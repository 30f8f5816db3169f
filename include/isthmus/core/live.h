// Which tensors are alive between Python and C++, and what owns them: to find what keeps memory alive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <isthmus/core/device.h>
#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

/// A tensor that is alive: an import, memory of C++, or a view that lies differently in one of them.
struct LiveTensor {
    std::uint64_t serial;  ///< its number, in order of creation
    void* data;            ///< address on `device`
    std::int64_t nbytes;   ///< of the elements when compact
    std::vector<std::int64_t> shape;
    DType dtype;
    Device device;
    bool read_only;
    bool borrowed;          ///< nobody keeps the memory: a blob without an owner, or nullptr as the owner
    std::uint32_t handles;  ///< handles and exports that share it
    std::string producer;   ///< whose memory it is: "torch.Tensor", "C++"
    std::string consumer;   ///< who was handed it last: "numpy", "isthmus.Tensor"; "C++" when nobody else was
    double age;             ///< seconds
    std::string place;      ///< with tracing, where Python was: "train.py:12 in step"
    std::string cpp_place;  ///< with tracing, the calls in C++, innermost first: "run(int)+0x42 in kernels.so < …"; of
                            ///< a function without a name, in a library that was stripped, "kernels.so+0x1f30"
};

/// Whether the list that live() returns is being kept.
bool live_tracking() noexcept;

/// Keeps a list of the tensors made from now on, in this shared object and in all extensions that share its Python
/// types; `tracing` also records where each was made. `false` stops that, empties the list, and removes the cost.
void live_tracking(bool on, bool tracing = false) noexcept;

/// The tensors made since live_tracking(true) that are still alive; empty when the list is not being kept.
std::vector<LiveTensor> live();

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/live.h>
#endif
