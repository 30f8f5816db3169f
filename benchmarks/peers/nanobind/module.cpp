// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdlib>
#include <cstring>
#include <vector>

namespace nb = nanobind;

static void* volatile sink;
static float* data;
static std::size_t size;
static long owners;

using Any = nb::ndarray<>;

// The memory has an owner that each array keeps, as in the other modules.
template <class Framework>
static nb::ndarray<Framework, float> show(nb::handle) {
    ++owners;
    nb::capsule owner(data, [](void*) noexcept { --owners; });
    return nb::ndarray<Framework, float>(data, {size}, owner);
}

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// As an operator: without the GIL, into a new result.
template <class Framework>
static nb::ndarray<Framework, float> add(Floats x, Floats y) {
    const std::size_t n = x.shape(0);
    if (y.shape(0) != n) throw nb::value_error("the sizes differ");
    auto* sum = new float[n];
    nb::capsule owner(sum, [](void* p) noexcept { delete[] static_cast<float*>(p); });
    {
        const nb::gil_scoped_release released;
        for (std::size_t i = 0; i < n; ++i) sum[i] = x.data()[i] + y.data()[i];
    }
    return nb::ndarray<Framework, float>(sum, {n}, owner);
}

static nb::ndarray<nb::no_framework, float> vector_to_capsule(nb::handle) {
    auto* made = new std::vector<float>(16);
    nb::capsule owner(made, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
    return nb::ndarray<nb::no_framework, float>(made->data(), {made->size()}, owner);
}

NB_MODULE(bench_nanobind, m) {
    m.def("add_numpy", add<nb::numpy>);
    m.def("add_torch", add<nb::pytorch>);
    m.def("own", [](Any x) { sink = x.data(); });
    m.def("own_typed", [](nb::ndarray<float, nb::device::cpu> x) { sink = x.data(); });
    m.def("kernel", [](Any x, Any y, Any out) {
        sink = x.data();
        sink = y.data();
        sink = out.data();
    });
    m.def("round_trip_numpy", [](nb::ndarray<nb::numpy> x) { return x; });
    m.def("round_trip_torch", [](nb::ndarray<nb::pytorch> x) { return x; });
    m.def("round_trip_jax", [](nb::ndarray<nb::jax> x) { return x; });
    m.def("to_torch", show<nb::pytorch>);
    m.def("to_numpy", show<nb::numpy>);
    m.def("to_jax", show<nb::jax>);
    m.def("to_tensorflow", show<nb::tensorflow>);
    m.def("to_capsule", show<nb::no_framework>);
    m.def("vector_to_capsule", vector_to_capsule);
    m.def("set_size", [](std::size_t n) {
        std::free(data);
        data = static_cast<float*>(std::aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64));
        size = n;
        if (n <= 1 << 20) std::memset(data, 0, n * sizeof(float));
    });
}
