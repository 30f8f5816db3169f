// live() in a module of the stable ABI, for isthmus/core/live.h: its list is made of what the backend shows of each
// tensor. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/call.h>

ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_LIVE)

ISTHMUS_BEGIN

inline std::vector<LiveTensor> live() {
    std::vector<LiveTensor> list;
    const bool whole = detail::backend::each_live(&list, [](void* to, const detail::LiveFacts& facts) noexcept {
        try {
            static_cast<std::vector<LiveTensor>*>(to)->push_back({facts.serial,
                                                                  facts.data,
                                                                  facts.nbytes,
                                                                  {facts.shape, facts.shape + facts.ndim},
                                                                  facts.dtype,
                                                                  facts.device,
                                                                  facts.read_only,
                                                                  facts.borrowed,
                                                                  facts.handles,
                                                                  std::string(facts.producer),
                                                                  std::string(facts.consumer),
                                                                  facts.age,
                                                                  std::string(facts.place),
                                                                  std::string(facts.cpp_place)});
            return true;
        } catch (const std::bad_alloc&) {
            return false;
        }
    });
    if (!whole) throw std::bad_alloc();
    return list;
}

ISTHMUS_END
