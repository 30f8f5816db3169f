// What a caller may ask of an import and of an export.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/device.h>

ISTHMUS_BEGIN

/// When the elements may be copied. A copy that nobody asked for is an error.
enum class Copy : std::uint8_t {
    never,      ///< share the memory, or fail
    if_needed,  ///< share where possible, and take a copy that the producer had to make
    always,     ///< memory of its own, writable
};

/// How to import. The default shares the memory, accepts read-only memory (and says so), and waits for no stream.
struct ImportOptions {
    /// No stream is named.
    static constexpr std::int64_t no_stream = isthmus::no_stream;

    /// Refuse memory that must not be written. For PyTorch this also announces the write to autograd: what torch refuses for an
    /// in-place operation (a leaf that requires grad, or a view of it, while grad mode is on) is refused, and the version
    /// counter moves, as such an operation would do.
    bool require_writable = false;
    /// Off: the importing code announces the write with announce_write(), once it is certain to come.
    bool announce = true;
    /// Take a torch tensor that requires grad, or has a tangent, as if it did not.
    bool allow_grad = false;
    /// Refuse a torch tensor that requires grad while grad mode is on, or has a tangent: for a function that makes a new result
    /// of the elements, which would have no gradient. Typed arguments do so. Without it such a tensor may be read.
    bool refuse_grad = false;
    Copy copy = Copy::never;  ///< whether the elements may be copied
    /// The consumer's stream, by the numbers of the array API standard's `__dlpack__(stream=)`: the producer makes the data
    /// safe to use there, and the tensor is on that stream. Without one nothing is ordered: device data is as its producer's
    /// own current stream leaves it, which Tensor::stream() tells where it is known (docs/devices.md).
    std::int64_t stream = no_stream;
    /// The newest DLPack version to ask for.
    DLPackVersion max_version{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    /// Name of the argument, for the error text.
    const char* argument = nullptr;
    /// Where the data is wanted: DLPack's `dl_device`. The type 0 leaves it where it is. Moving it is a copy, so that
    /// Copy::never takes it only where it is there already.
    Device device{0, 0};

    /// Whether a stream is named.
    bool has_stream() const noexcept { return stream != no_stream; }
};

/// What from_py() and borrow_py() do where nothing is said.
inline constexpr ImportOptions default_import{};

/// What the caller allows on the way out.
struct ExportOptions {
    /// Hand read-only memory to a framework that would let it be written (torch, paddle, …).
    bool allow_read_only_loss = false;
    /// Let the framework copy where it cannot share: JAX without 64-byte alignment, MLX always.
    bool allow_copy = false;
};

/// What to_py() allows where nothing is said: no copy, and no loss of read-only.
inline constexpr ExportOptions default_export{};

ISTHMUS_END
