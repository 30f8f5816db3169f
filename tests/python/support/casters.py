"""The test modules of the casters: the same functions, bound by each library."""

CASTERS = [
    "isthmus_nanobind_test_ext",
    "isthmus_nanobind_abi3_test_ext",
    "isthmus_pybind11_test_ext",
    "isthmus_pybind11_213_test_ext",
]
