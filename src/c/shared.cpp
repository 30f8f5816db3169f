// The C interface to shared memory between processes.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/c/shared.h>
#include <isthmus/shared.h>

#include "interface.h"

namespace {

using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus::detail::make_error;
using isthmus::shared::Access;
using isthmus::shared::Pool;
using isthmus::shared::Wait;

static_assert(ISTHMUS_READ_ONLY_ACCESS == static_cast<int>(Access::read_only) &&
              ISTHMUS_COPY_ON_WRITE_ACCESS == static_cast<int>(Access::copy_on_write) &&
              ISTHMUS_SHARED_ACCESS == static_cast<int>(Access::shared));

Access access_of(int32_t access) {
    if (access < ISTHMUS_READ_ONLY_ACCESS || access > ISTHMUS_SHARED_ACCESS)
        throw make_error(ErrorCode::bad_argument,
                         {"argument 'access': ", access, "; expected 0, 1 or 2 (ISTHMUS_…_ACCESS)"});
    return static_cast<Access>(access);
}

Pool& pool_of(isthmus_pool* pool) { return pool != nullptr ? *reinterpret_cast<Pool*>(pool) : Pool::process(); }

Wait wait_of(int64_t timeout_ms) noexcept { return {timeout_ms < 0 ? -1 : timeout_ms, nullptr, nullptr}; }

}  // namespace

isthmus_status isthmus_shared_pool_create(uint64_t limit, isthmus_pool** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        isthmus::shared::PoolOptions options;
        if (limit != 0) options.limit = options.idle_limit = static_cast<std::size_t>(limit);
        // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): guarded() makes a status of it
        *out = reinterpret_cast<isthmus_pool*>(new Pool(options));
    });
}

isthmus_status isthmus_shared_pool_release(isthmus_pool* pool) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(pool, "pool");
        delete reinterpret_cast<Pool*>(pool);
    });
}

isthmus_status isthmus_shared_empty(isthmus_pool* pool, const int64_t* shape, int32_t ndim, isthmus_dtype dtype,
                                    int32_t access, int64_t timeout_ms, isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const auto spec = isthmus_c::make_spec(nullptr, isthmus_c::cpp(dtype), {}, shape, nullptr, ndim, 0);
        const std::span<const int64_t> sizes(spec.shape, static_cast<std::size_t>(spec.ndim));
        *out =
            isthmus_c::hand_out(pool_of(pool).empty(sizes, spec.dtype, access_of(access), wait_of(timeout_ms)).value());
    });
}

isthmus_status isthmus_shared_share(isthmus_pool* pool, isthmus_tensor* tensor, int32_t access, int64_t timeout_ms,
                                    isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        const Tensor given = isthmus_c::share(tensor);
        *out = isthmus_c::hand_out(
            isthmus::shared::share(given, access_of(access), pool_of(pool), wait_of(timeout_ms)).value());
    });
}

isthmus_status isthmus_shared_send(int socket, isthmus_tensor* tensor, int32_t access, int64_t timeout_ms) noexcept {
    return isthmus_c::guarded([&] {
        isthmus::shared::send(socket, isthmus_c::share(tensor), access_of(access), wait_of(timeout_ms)).value();
    });
}

isthmus_status isthmus_shared_receive(int socket, int32_t access, int64_t timeout_ms, isthmus_tensor** out) noexcept {
    return isthmus_c::guarded([&] {
        isthmus_c::require(out, "out");
        std::optional<Access> wanted;
        if (access != ISTHMUS_OFFERED_ACCESS) wanted = access_of(access);
        *out = isthmus_c::hand_out(isthmus::shared::receive(socket, wanted, wait_of(timeout_ms)).value());
    });
}
