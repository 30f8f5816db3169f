// SPDX-License-Identifier: Apache-2.0
// Classes whose memory Python sees without a copy: one of fixed size, which is itself
// the owner, and one that grows.
#include <isthmus/nanobind.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace nb = nanobind;

namespace {

/// The temperature of a plate, which spreads step by step. It could be of a library
/// that knows nothing of Python.
class Grid {
public:
    Grid(std::uint32_t h, std::uint32_t w) : h(h), w(w), cells(std::size_t{h} * w) {}

    void step() {
        const std::vector<float> old = cells;
        const auto at = [&](std::int64_t i, std::int64_t j) {
            return old[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, h - 1) *
                                                    w +
                                                std::clamp<std::int64_t>(j, 0, w - 1))];
        };
        for (std::int64_t i = 0; i < h; ++i)
            for (std::int64_t j = 0; j < w; ++j)
                cells[static_cast<std::size_t>(i * w + j)] =
                    (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1)) / 4;
    }

    const std::int64_t h, w;
    std::vector<float> cells;  // never resized: its memory does not move
};

/// The instance is the owner: it lives as long as anything shows its memory.
isthmus::Tensor show(nb::handle_t<Grid> self) {
    auto& grid = nb::cast<Grid&>(self);
    return isthmus::Tensor::wrap(grid.cells.data(), {grid.h, grid.w}, {},
                                 isthmus::float32, isthmus::Device::cpu(),
                                 isthmus::PyOwner(self));
}

/// A recording that grows while Python shows it.
class Recording {
public:
    void append(const isthmus::Argument<isthmus::View<const float, 1>, "samples",
                                        "append">& argument) {
        const auto& more = *argument;
        const auto added = static_cast<std::size_t>(more.extent(0));
        if (samples_->size() + added > samples_->capacity()) {
            // A vector that grows moves its elements, and arrays over the old ones
            // would read freed memory. So this continues in a new vector, and the old
            // one lives until the last array over it is gone.
            auto larger = std::make_shared<std::vector<float>>();
            larger->reserve(2 * samples_->size() + added);
            larger->assign(samples_->begin(), samples_->end());
            samples_ = std::move(larger);
        }
        samples_->insert(samples_->end(), more.begin(), more.end());
    }

    isthmus::Tensor samples() const {
        return isthmus::Tensor::own(samples_, std::span(*samples_),
                                    {std::ssize(*samples_)});
    }

    /// Gives the memory back; refused while an array shows it, as bytearray does.
    void clear() {
        if (samples_.use_count() > 1)
            throw nb::buffer_error(
                "clear(): the recording's memory is in use by an array");
        *samples_ = {};
    }

private:
    std::shared_ptr<std::vector<float>> samples_ =
        std::make_shared<std::vector<float>>();
};

}  // namespace

NB_MODULE(grid, m) {
    nb::class_<Grid>(m, "Grid")
        .def(nb::init<std::uint32_t, std::uint32_t>(), nb::arg("h"), nb::arg("w"))
        .def("step", &Grid::step)
        .def_prop_ro("cells", show);
    nb::class_<Recording>(m, "Recording")
        .def(nb::init<>())
        .def("append", &Recording::append, nb::arg("samples"))
        .def("clear", &Recording::clear)
        .def_prop_ro("samples", &Recording::samples);
}
