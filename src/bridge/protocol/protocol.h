// The ways in that a type may offer, and what was found out about one type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>
#include <isthmus/python/runtime/ref.h>

ISTHMUS_BEGIN

namespace detail {

/// One row each in isthmus/python/dispatch/protocols.h, which says what they are.
enum class Protocol : std::uint8_t {
    none,
    isthmus_tensor,
    buffer_or_dlpack,
    torch_stable,
    torch_exchange,
    torch_method,
    numpy,
    numpy_scalar,
    openvino,
    exchange_api,
    dlpack_method,
    cuda_array_interface,
    buffer,
    array_interface,
    arrow_device_array,
    arrow_array,
    arrow_stream,
    capsule,
};

/// A type whose instances are imported: what the first look at it found.
struct ProducerType {
    PyTypeObject* type = nullptr;
    unsigned int version = 0;  ///< CPython's tag of this very state of this very type; 0: it has none
    Protocol protocol = Protocol::none;
    Framework framework = Framework::none;  ///< in which a result belongs that is to be like an instance
    bool is_array = false;                  ///< instances are arrays of that framework, not only something of its package
    bool complete = true;          ///< false: a module that would tell more is not loaded now, so this is not to be remembered
    bool immutable = false;        ///< the memory must not be written, though its protocol cannot say so
    bool only_dlpack = false;      ///< no other protocol is asked: neither for the memory, nor whether it may be written
    bool is_eager_tensor = false;  ///< TensorFlow's, whose dtype and device are asked for before its memory
    bool known_torch = false;      ///< derived from torch.Tensor as libtorch itself knows it
    const DLPackExchangeAPI* api = nullptr;
    const char* refusal = nullptr;  ///< why instances are not taken, or NULL
    const char* hint = nullptr;     ///< what to call on an instance to get a tensor, or NULL
};

}  // namespace detail

ISTHMUS_END
