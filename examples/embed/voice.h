// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

/// Four seconds at 16 kHz: silence, two seconds of four vowels sung by three
/// resonators, silence.
std::vector<float> sing();

inline constexpr int sample_rate = 16000;
