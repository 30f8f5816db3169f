// A tensor of the core, of the version that the package says.
#include <isthmus/isthmus.h>

#include <cstdio>
#include <vector>

int main() {
    const isthmus::Tensor t = isthmus::Tensor::own(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3});
    const auto view = t.view<const float, 2>();
    if (!view) return std::puts(view.error().what()), 1;
    std::printf("%s %g\n", t.dtype().name().c_str(), static_cast<double>((*view)(1, 2)));
}
