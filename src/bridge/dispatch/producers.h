// Types that need something which their protocol does not say, and types that hold tensors without being one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include "../protocol/import_request.h"
#include "../runtime/errors.h"
#include "packages.h"

ISTHMUS_BEGIN

namespace detail {

/// Used only for the text of an error, so the name of the package is enough, wherever in it the class is.
struct Hint {
    const char* package;
    const char* name;
    const char* call;       ///< `x` is the object
    bool is_table = false;  ///< of many columns: no tensor, though it offers a protocol that a single column has too
    bool converts = false;  ///< see ProducerType
};
inline constexpr Hint hints[] = {
    {"pyarrow", "Table", "x.column(name).combine_chunks()", true},
    {"pyarrow", "RecordBatch", "x.column(name)", true},
    {"pyarrow", "RecordBatchReader", "x.read_all().column(name).combine_chunks()", true},
    {"pyarrow", "ChunkedArray", "x.combine_chunks()"},
    {"polars", "DataFrame", "x.to_numpy()", true},
    {"polars", "LazyFrame", "x.collect().to_numpy()", true},
    {"polars", "Series", "x.rechunk()"},
    {"pandas", "DataFrame", "x.to_numpy()", true},
    {"pandas", "Series", "x.to_numpy()", false, true},
    {"pandas", "Index", "x.to_numpy()", false, true},
    {"pandas", "ExtensionArray", "x.to_numpy()", false, true},
    {"xarray", "DataArray", "x.values", true},
    {"xarray", "Variable", "x.values", true},
    {"xarray", "Dataset", "x[name].values", true},
    {"dask", "Array", "x.compute()"},
    {"pint", "Quantity", "x.magnitude"},  // has its array's attributes, but not its unit
    {"zarr", "Array", "x[...]"},
    {"h5py", "Dataset", "x[...]"},
    {"scipy", "_spbase", "x.toarray()"},
    {"sparse", "SparseArray", "x.todense()"},
    {"duckdb", "DuckDBPyRelation", "x.fetchnumpy()[name]", true},
    {"av", "VideoFrame", "x.to_ndarray()"},
    {"av", "AudioFrame", "x.to_ndarray()"},
    {"tensorflow", "Variable", "x.value()"},
};

inline constexpr auto packages_of_hints =
    packages_of_rows(hints, [](const Hint& row) { return std::array{row.package}; });

ISTHMUS_COLD inline const Hint* find_hint(const ProducerType& type) {
    for (std::size_t i = 0; i < std::size(hints); ++i) {
        if (!may_be_of(type, packages_of_hints[i])) continue;
        const Hint& hint = hints[i];
        const auto is_named = [&](PyTypeObject* base) {
            const ClassName said(base);
            return said.name == hint.name && package_of(said.module) == hint.package;
        };
        if (any_base(type.type, is_named)) return &hint;
    }
    return nullptr;
}

/// Whether a class makes its buffers in Python (PEP 688): of bytes that may be new each time.
ISTHMUS_COLD inline bool makes_buffers_in_python(PyTypeObject* type) {
    const Ref method = type_item(type, interned().buffer);
    return method && PyFunction_Check(method.get());
}

struct KnownProducer {
    const char* public_name;    ///< the class under its public name in the package
    const char* names[2] = {};  ///< and what it calls itself, which tells also while the package is out of sys.modules
    Protocol protocol = Protocol::none;  ///< none: as any other type
    bool immutable = false;              ///< see ProducerType
    bool only_dlpack = false;            ///< see ProducerType
    bool is_eager_tensor = false;
    const char* refusal = nullptr;
};
/// The first row of which a type is an instance counts.
inline constexpr KnownProducer known_producers[] = {
    {.public_name = "jax.core.Tracer",
     .names = {"jax._src.core.Tracer"},
     .refusal = "a traced value has no memory; call it outside jit, vmap and grad, or through jax.pure_callback"},
    {.public_name = "jax.Array",
     .names = {"jaxlib._jax.ArrayImpl", "jaxlib.xla_extension.ArrayImpl"},
     .protocol = Protocol::buffer_or_dlpack,
     .immutable = true},
    {.public_name = "tensorflow.python.framework.ops.SymbolicTensor",
     .names = {"tensorflow.python.framework.ops.SymbolicTensor"},
     .refusal = "a traced value has no memory; call it outside tf.function, or through tf.numpy_function"},
    {.public_name = "tensorflow.Tensor",
     .names = {"tensorflow.python.framework.ops.EagerTensor"},
     .protocol = Protocol::buffer_or_dlpack,
     .immutable = true,
     .is_eager_tensor = true},
    {.public_name = "torch.utils.dlpack.ReadOnlyTensorWrapper",
     .names = {"torch.utils.dlpack.ReadOnlyTensorWrapper"},
     .immutable = true},
    {.public_name = "torch.nn.parameter.UninitializedTensorMixin",
     .names = {"torch.nn.parameter.UninitializedTensorMixin"},
     .refusal =
         "it is uninitialized, and has neither shape nor values yet; call .materialize(shape), or run the module once"},
    {.public_name = "torch._subclasses.fake_tensor.FakeTensor",
     .names = {"torch._subclasses.fake_tensor.FakeTensor"},
     .refusal = "a fake tensor has no memory; call this outside of FakeTensorMode and torch.compile"},
    // Its buffer does not hold the memory: `x *= y` frees it, and gives it to another array. It is always writable.
    {.public_name = "mlx.core.array", .names = {"mlx.core.array"}, .only_dlpack = true},
    {.public_name = "openvino.Tensor", .names = {"openvino._pyopenvino.Tensor"}, .protocol = Protocol::openvino},
    {.public_name = "numpy.ma.MaskedArray",
     .names = {"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"},
     .refusal = "its mask would be lost; call x.filled() or take x.data"},
};

inline constexpr auto packages_of_producers = packages_of_rows(
    known_producers, [](const KnownProducer& row) { return std::array{row.public_name, row.names[0], row.names[1]}; });

/// If the class cannot be found its name decides: a module that was never imported has no instances, so its absence
/// leaves nothing uncertain.
ISTHMUS_COLD inline bool is_producer(const ProducerType& type, const KnownProducer& known) {
    for (const char* name : known.names)
        if (name != nullptr && has_base_called(type.type, name)) return true;
    bool found = true;
    return is_of_class(type, known.public_name, found);
}

ISTHMUS_COLD inline const KnownProducer* find_known_producer(const ProducerType& type) {
    for (std::size_t i = 0; i < std::size(known_producers); ++i)
        if (may_be_of(type, packages_of_producers[i]) && is_producer(type, known_producers[i]))
            return &known_producers[i];
    return nullptr;
}

/// An array class whose subclasses may make more of their elements than the numbers in memory: the methods that they
/// override for that, or to show other memory than the base has.
struct Extensible {
    const char* base;
    PyObject* Interned::* methods[8];
    const char* refusal;
};
inline constexpr Extensible extensible[] = {
    {"numpy.ndarray",
     {&Interned::array_ufunc, &Interned::array_function, &Interned::add, &Interned::multiply, &Interned::array,
      &Interned::array_interface, &Interned::array_struct, &Interned::buffer},
     "its class overrides what NumPy does with it, so its elements may be more than their numbers (a mask, a unit); "
     "numpy.asarray(x) gives the numbers alone"},
};

/// Whether a class that comes before the base has another method of that name. One of the base's own package
/// (numpy.matrix) is known to mean the same by its elements.
inline bool is_overridden(PyTypeObject* type, PyTypeObject* base, PyObject* name) {
    bool overridden = false;
    (void)any_base(type, [&](PyTypeObject* before) {
        const Ref own = before != base && before->tp_dict != nullptr ? dict_item(before->tp_dict, name) : Ref();
        overridden = own && own.get() != type_item(base, name).get() &&
                     package_of(ClassName(before).module) != package_of(ClassName(base).module);
        return own || before == base;
    });
    return overridden;
}
/// Whether a subclass of NumPy's or torch's array has a `__dlpack__` that is not theirs: it may show other memory, or
/// refuse.
ISTHMUS_COLD inline bool has_own_dlpack(const ProducerType& type) {
    if (!type.is_array || (type.framework != Framework::numpy && type.framework != Framework::torch)) return false;
    bool own = false;
    (void)any_base(type.type, [&](PyTypeObject* base) {
        if (base->tp_dict == nullptr || !dict_item(base->tp_dict, interned().dlpack)) return false;
        own = (package_bit(ClassName(base).module) & (numpy_package | torch_package)) == 0;
        return true;
    });
    return own;
}
/// Why a subclass is not taken for its base; NULL if it overrides nothing that changes what its elements mean.
ISTHMUS_COLD inline const char* find_override(ProducerType& type) {
    for (const Extensible& known : extensible) {
        const Ref base = base_class(type, known.base, type.complete);
        PyTypeObject* first = as_type(base);  // that may override something
        const auto may_override = [&](PyTypeObject* before) {
            first = before;
            return before == as_type(base) || may_define_special(before);
        };
        if (!base || !any_base(type.type, may_override) || first == as_type(base)) continue;
        for (PyObject* Interned::* method : known.methods)
            if (is_overridden(type.type, as_type(base), interned().*method)) return known.refusal;
    }
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
