// Segments and pools in a module of the stable ABI, for isthmus/shared.h: they are the backend's, as its registry is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/core.h>

ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_SHARED)

ISTHMUS_BEGIN

namespace shared {

inline Pool& Pool::process() { return *isthmus::detail::backend::pool_of_process(); }

inline Result<Tensor> receive(int socket, std::optional<Access> access, const Wait& wait) {
    return isthmus::detail::backend::shared_receive(socket, access ? &*access : nullptr, wait);
}

}  // namespace shared

ISTHMUS_END
