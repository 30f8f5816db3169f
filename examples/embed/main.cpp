// SPDX-License-Identifier: Apache-2.0
// C++ owns the audio, Python runs a pretrained network on it, C++ reads the result.
// Nothing is copied on the way.
#include <cstdio>
#include <memory>

#include "listener.h"
#include "voice.h"

namespace {

/// The memory of C++, which says when it goes.
struct Recording {
    std::vector<float> samples = sing();
    bool* gone;

    explicit Recording(bool* gone) : gone(gone) {}
    ~Recording() { *gone = true; }
};

/// Where a voice begins and ends, from the network's probabilities.
void report(const isthmus::View<const float, 1>& voice) {
    const double seconds = 512.0 / sample_rate;
    std::int64_t begin = -1;
    for (std::int64_t i = 0; i <= voice.extent(0); ++i) {
        const bool speaks = i < voice.extent(0) && voice(i) > 0.5f;
        if (speaks && begin < 0) begin = i;
        if (!speaks && begin >= 0) {
            std::printf("voice from %.2f s to %.2f s\n",
                        static_cast<double>(begin) * seconds,
                        static_cast<double>(i) * seconds);
            begin = -1;
        }
    }
}

int run(const std::string& model) {
    bool gone = false;
    auto recording = std::make_shared<Recording>(&gone);
    float* samples = recording->samples.data();
    const auto count = static_cast<std::int64_t>(recording->samples.size());
    isthmus::Tensor audio =
        isthmus::Tensor::wrap(samples, {count}, {}, isthmus::float32,
                              isthmus::Device::cpu(), std::move(recording));

    Interpreter python;
    at::Tensor heard;
    {
        Listener listener(model);
        heard = listener.listen(audio);
    }
    isthmus::Tensor probabilities = isthmus::from_torch(heard);
    report(probabilities.view<const float, 1>().value());

    // Both sides still hold both tensors. The interpreter may end all the same, and C++
    // goes on reading.
    if (!python.end()) return 1;
    std::printf(
        "after Python's end: %lld probabilities, the first %.2f; first sample %.1f\n",
        static_cast<long long>(probabilities.numel()),
        static_cast<double>(probabilities.view<const float, 1>().value()(0)),
        static_cast<double>(samples[0]));
    heard = at::Tensor();
    probabilities = isthmus::Tensor();
    const bool too_early = gone;
    audio = isthmus::Tensor();
    std::printf("the audio went with the last handle: %s\n",
                gone && !too_early ? "yes" : "no");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc > 1 ? argv[1] : "");
    } catch (const std::exception& error) {
        std::fprintf(stderr, "embed: %s\n", error.what());
        return 1;
    }
}
