// All that is needed of xtensor stands in xtensor/containers/xadapt.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once
