// SPDX-License-Identifier: Apache-2.0
// Image filters over typed views, without Python or any framework: a view is an
// address, sizes and strides.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <isthmus/isthmus.h>

namespace photo {

using Shape = isthmus::sizes<"h w 3">;  // rows, columns, channels (red, green, blue)
using Image = isthmus::View<std::uint8_t, 3, Shape>;         // written to
using Pixels = isthmus::View<const std::uint8_t, 3, Shape>;  // only read

inline std::uint8_t to_byte(float value) {
    return static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
}

/// Tones the image as old photographs are, in place.
inline void sepia(Image image) {
    for (std::int64_t y = 0; y < image.extent(0); ++y)
        for (std::int64_t x = 0; x < image.extent(1); ++x) {
            const float r = image(y, x, 0), g = image(y, x, 1), b = image(y, x, 2);
            image(y, x, 0) = to_byte(0.393F * r + 0.769F * g + 0.189F * b);
            image(y, x, 1) = to_byte(0.349F * r + 0.686F * g + 0.168F * b);
            image(y, x, 2) = to_byte(0.272F * r + 0.534F * g + 0.131F * b);
        }
}

/// The mean of the `2 * radius + 1` neighbours of each of `count` elements that are
/// `step` elements apart; at the ends, of as many as there are.
inline void blur_line(std::uint8_t* line, std::int64_t count, std::int64_t step,
                      std::int64_t radius, std::vector<std::uint8_t>& old) {
    old.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
        old[static_cast<std::size_t>(i)] = line[i * step];
    // Of the elements from `first` up to, without, `last`.
    std::int64_t sum = 0, first = 0, last = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        for (; last < std::min(count, i + radius + 1); ++last)
            sum += old[static_cast<std::size_t>(last)];
        for (; first < i - radius; ++first) sum -= old[static_cast<std::size_t>(first)];
        line[i * step] = static_cast<std::uint8_t>(sum / (last - first));
    }
}

/// Blurs the image in place: three box filters, rows and columns apart, are close to a
/// Gaussian.
inline void blur(Image image, std::int64_t radius) {
    std::vector<std::uint8_t> old;
    for (int pass = 0; pass < 3; ++pass)
        for (std::int64_t c = 0; c < image.extent(2); ++c) {
            for (std::int64_t y = 0; y < image.extent(0); ++y)
                blur_line(&image(y, 0, c), image.extent(1), image.stride(1), radius,
                          old);
            for (std::int64_t x = 0; x < image.extent(1); ++x)
                blur_line(&image(0, x, c), image.extent(0), image.stride(0), radius,
                          old);
        }
}

/// Writes a sharper copy of `from` to `to`: what differs from the neighbours differs
/// more.
inline void sharpen(Pixels from, Image to, float amount) {
    const std::int64_t rows = from.extent(0), columns = from.extent(1);
    for (std::int64_t y = 0; y < rows; ++y)
        for (std::int64_t x = 0; x < columns; ++x)
            for (std::int64_t c = 0; c < from.extent(2); ++c) {
                const std::int64_t up = std::max<std::int64_t>(y - 1, 0),
                                   down = std::min(y + 1, rows - 1);
                const std::int64_t left = std::max<std::int64_t>(x - 1, 0),
                                   right = std::min(x + 1, columns - 1);
                const float here = from(y, x, c);
                const float around =
                    static_cast<float>(from(up, x, c) + from(down, x, c) +
                                       from(y, left, c) + from(y, right, c)) /
                    4;
                to(y, x, c) = to_byte(here + amount * (here - around));
            }
}

/// The mean of each channel.
inline std::array<float, 3> mean(Pixels image) {
    std::array<std::uint64_t, 3> sums{};
    for (std::int64_t y = 0; y < image.extent(0); ++y)
        for (std::int64_t x = 0; x < image.extent(1); ++x)
            for (std::size_t c = 0; c < sums.size(); ++c)
                sums[c] += image(y, x, static_cast<std::int64_t>(c));
    const auto count = static_cast<double>(
        std::max<std::int64_t>(image.extent(0) * image.extent(1), 1));
    std::array<float, 3> means{};
    for (std::size_t c = 0; c < sums.size(); ++c)
        means[c] = static_cast<float>(static_cast<double>(sums[c]) / count);
    return means;
}

}  // namespace photo
