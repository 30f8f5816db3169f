// The packages whose classes are known by name, as bits: a type that has no base of them is told from all at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include <array>
#include <bit>

#include "../framework/facts.h"
#include "../protocol/import_request.h"

ISTHMUS_BEGIN

namespace detail {

/// Those that the tables of frameworks, producers and hints name.
inline constexpr std::string_view known_packages[] = {
    "numpy",   "torch", "jax",         "jaxlib",  "tensorflow", "isthmus", "cupy",   "paddle", "mlx",
    "pyarrow", "warp",  "onnxruntime", "tvm_ffi", "openvino",   "polars",  "pandas", "xarray", "dask",
    "zarr",    "h5py",  "scipy",       "pint",    "sparse",     "duckdb",  "av",
};
static_assert(std::size(known_packages) <= 32, "isthmus: ProducerType::packages has a bit for each");

/// Of which packages in the list a letter is the first.
inline constexpr auto packages_by_letter = [] {
    std::array<std::uint32_t, 26> bits{};
    for (std::size_t i = 0; i < std::size(known_packages); ++i)
        bits[static_cast<std::size_t>(known_packages[i][0] - 'a')] |= std::uint32_t{1} << i;
    return bits;
}();

/// The bit of the package that a name begins with; 0 for one that is not in the list, or NULL.
constexpr std::uint32_t package_bit(std::string_view qualified) noexcept {
    if (qualified.empty() || qualified[0] < 'a' || qualified[0] > 'z') return 0;
    std::uint32_t candidates = packages_by_letter[static_cast<std::size_t>(qualified[0] - 'a')];
    for (; candidates != 0; candidates &= candidates - 1) {
        const std::string_view package = known_packages[std::countr_zero(candidates)];
        if (qualified.starts_with(package) && (qualified.size() == package.size() || qualified[package.size()] == '.'))
            return candidates & ~(candidates - 1);
    }
    return 0;
}
constexpr std::uint32_t package_bit(const char* qualified) noexcept {
    return qualified != nullptr ? package_bit(std::string_view(qualified)) : 0;
}
/// The same for a name that must be in the list.
constexpr std::uint32_t known_package_bit(const char* qualified) {
    const std::uint32_t bit = package_bit(qualified);
    // NOLINTNEXTLINE(bugprone-std-exception-baseclass): only the compiler comes here
    return bit != 0 || qualified == nullptr ? bit : throw "isthmus: a package that is not in known_packages";
}

/// The packages of a type's bases.
ISTHMUS_COLD inline std::uint32_t packages_of(PyTypeObject* type) {
    std::uint32_t bits = 0;
    (void)any_base(type, [&](PyTypeObject* base) {
        if (base != &PyBaseObject_Type) bits |= package_bit(ClassName(base).module);
        return false;
    });
    return bits;
}

/// Whether a base of the type may be of one of these packages; surely so before the type was looked at.
constexpr bool may_be_of(const ProducerType& type, std::uint32_t packages) noexcept {
    return (type.packages & packages) != 0;
}

/// has_base_of_package() of a package in the list.
inline bool has_base_of_known(const ProducerType& type, std::string_view package, std::uint32_t bit) {
    return may_be_of(type, bit) && (type.packages != ~std::uint32_t{0} || has_base_of_package(type.type, package));
}
inline constexpr std::uint32_t numpy_package = package_bit("numpy"), torch_package = package_bit("torch");

/// The public class that the type is, or is derived from; empty if it is not. `complete` becomes false if the type has
/// a base of that package but the class cannot be found, so that the answer is not certain.
ISTHMUS_COLD inline Ref base_class(const ProducerType& type, std::string_view qualified, bool& complete) {
    if (!has_base_of_known(type, package_of(qualified), package_bit(qualified))) return {};
    Ref known = loaded_class(qualified);
    if (!known) complete = false;
    return known && PyType_IsSubtype(type.type, as_type(known)) ? std::move(known) : Ref();
}
inline bool is_of_class(const ProducerType& type, std::string_view qualified, bool& complete) {
    return static_cast<bool>(base_class(type, qualified, complete));
}

/// The packages of a row of a table: none of its rows names another than those above.
template <std::size_t count, class Row, class Names>
consteval std::array<std::uint32_t, count> packages_of_rows(const Row (&rows)[count], Names&& names) {
    std::array<std::uint32_t, count> bits{};
    for (std::size_t i = 0; i < count; ++i)
        for (const char* name : names(rows[i])) bits[i] |= known_package_bit(name);
    return bits;
}
inline constexpr auto packages_of_frameworks = packages_of_rows(
    framework_facts, [](const FrameworkFacts& row) { return std::array{row.array, row.other_array, row.scalar}; });

}  // namespace detail

ISTHMUS_END
