// SPDX-License-Identifier: Apache-2.0
// A low-pass filter that works in place: on one channel of a recording, say, whichever
// framework that is in.
#include <isthmus/pybind11_overloads.h>

namespace py = pybind11;

namespace {

/// y[i] = y[i - 1] + rate * (x[i] - y[i - 1]), forwards and then backwards, so that
/// nothing is delayed.
template <class T>
void low_pass(isthmus::View<T, 1, isthmus::sizes<"n">> signal, double rate) {
    if (!(rate > 0 && rate <= 1))
        throw py::value_error("argument 'rate': " + std::to_string(rate) +
                              "; expected 0 < rate <= 1");
    if (signal.empty()) return;
    // The caller holds the signal during the call.
    const py::gil_scoped_release parallel;
    const auto n = signal.extent(0);
    T last = signal(0);
    for (std::int64_t i = 0; i < n; ++i)
        last = signal(i) = last + T(rate) * (signal(i) - last);
    for (std::int64_t i = n - 1; i >= 0; --i)
        last = signal(i) = last + T(rate) * (signal(i) - last);
}

}  // namespace

PYBIND11_MODULE(low_pass, m) {
    isthmus::overloads<low_pass<float>, low_pass<double>>(
        m, "low_pass", py::arg("signal"), py::arg("rate"));
}
