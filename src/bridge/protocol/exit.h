// The block that an isthmus.Tensor exports, and what else the export has to hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/tensor_object.h"  // Python.h must come before any standard header

#include <isthmus/core/tensor.h>
#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

static_assert(tensor_framework == static_cast<std::uint32_t>(Framework::tensor));

/// Whether an export of a block must hold the isthmus.Tensor that shows it: if nothing keeps the memory, the caller who is
/// responsible for it may have tied it to that object (a binder's keep_alive).
inline bool exit_needs_object(const Block* block) noexcept {
    return (block->flags & (unowned_flag | shown_alias_flag)) == unowned_flag && shown_object(root_of(block)) != nullptr;
}

/// The block that is exported from an isthmus.Tensor, during the export: its own, or an alias that holds the object.
class Exit {
public:
    explicit Exit(Block* shown) noexcept : block_(shown) {
        if (ISTHMUS_UNLIKELY(shown->flags & unowned_flag) && exit_needs_object(shown)) hold(shown);
    }
    /// NULL when memory is out.
    Block* block() const noexcept { return block_; }

private:
    ISTHMUS_NOINLINE void hold(Block* shown) noexcept {
        block_ = alias_shown_block(shown, shown->dl, shown->flags & flag::dlpack_known, python_owners->exit);
        alias_ = Tensor::steal(block_);
    }

    Block* block_;
    Tensor alias_;
};

}  // namespace detail

ISTHMUS_END
