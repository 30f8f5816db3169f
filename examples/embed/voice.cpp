// SPDX-License-Identifier: Apache-2.0
#include "voice.h"

#include <algorithm>
#include <cmath>

namespace {

constexpr double pi = 3.14159265358979323846;
constexpr double formants[4][3] = {
    {730, 1090, 2440}, {270, 2290, 3010}, {570, 840, 2410}, {530, 1840, 2480}};
constexpr double bandwidths[3] = {80, 90, 120};

/// One formant of the vocal tract.
struct Resonator {
    double last = 0, before = 0;

    double pass(double in, double frequency, double bandwidth) {
        const double r = std::exp(-pi * bandwidth / sample_rate);
        const double out = in +
                           2 * r * std::cos(2 * pi * frequency / sample_rate) * last -
                           r * r * before;
        before = last;
        last = out;
        return 2 * out * (1 - r);
    }
};

}  // namespace

std::vector<float> sing() {
    std::vector<float> audio(4 * sample_rate);
    Resonator tract[3];
    double phase = 0, loudest = 0;
    for (int i = 0; i < 2 * sample_rate; ++i) {
        const double t = static_cast<double>(i) / sample_rate;
        phase +=
            120 *
            (1 + 0.15 * std::sin(2 * pi * 0.9 * t) + 0.02 * std::sin(2 * pi * 5 * t)) /
            sample_rate;
        double x = 0;
        if (phase >= 1) {
            phase -= 1;
            x = 0.5 - 0.5 * std::cos(2 * pi * 4 * t);
        }
        for (int k = 0; k < 3; ++k)
            x = tract[k].pass(x, formants[static_cast<int>(4 * t) % 4][k],
                              bandwidths[k]);
        audio[static_cast<std::size_t>(sample_rate + i)] = static_cast<float>(x);
        loudest = std::max(loudest, std::abs(x));
    }
    for (float& sample : audio) sample = static_cast<float>(0.5 * sample / loudest);
    return audio;
}
