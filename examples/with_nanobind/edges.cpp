// SPDX-License-Identifier: Apache-2.0
// The edges of an image by Sobel's filter, over the caller's own pixels, whichever
// framework they are in.
#include <isthmus/nanobind.h>

#include <algorithm>
#include <cmath>

namespace nb = nanobind;

namespace {

using Image = isthmus::View<const std::uint8_t, 2, isthmus::sizes<"h w">>;
using Edges = isthmus::View<float, 2, isthmus::sizes<"h w">>;

/// How fast the brightness changes at each pixel: one that has no neighbour on some
/// side is its own neighbour there.
void sobel(Image image, Edges edges) {
    const auto h = image.extent(0), w = image.extent(1);
    for (std::int64_t i = 0; i < h; ++i)
        for (std::int64_t j = 0; j < w; ++j) {
            const auto at = [&](std::int64_t down, std::int64_t right) {
                return float(image(std::clamp<std::int64_t>(i + down, 0, h - 1),
                                   std::clamp<std::int64_t>(j + right, 0, w - 1)));
            };
            const float x = at(-1, 1) + 2 * at(0, 1) + at(1, 1) - at(-1, -1) -
                            2 * at(0, -1) - at(1, -1);
            const float y = at(1, -1) + 2 * at(1, 0) + at(1, 1) - at(-1, -1) -
                            2 * at(-1, 0) - at(-1, 1);
            edges(i, j) = std::hypot(x, y);
        }
}

isthmus::Reply edges(const isthmus::Argument<Image, "image", "edges">& image) {
    const auto result = isthmus::empty_like(image, {image->extent(0), image->extent(1)},
                                            isthmus::float32);
    {
        // The caller holds the image during the call.
        const nb::gil_scoped_release parallel;
        sobel(*image, result.view<Edges>().value());
    }
    return image.reply(result);
}

}  // namespace

NB_MODULE(edges, m) {
    m.def("edges", edges, nb::arg("image"),
          "The edges of a uint8 image (h, w), as float32 (h, w).");
}
