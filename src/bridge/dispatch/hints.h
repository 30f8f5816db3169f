// The table of containers that hold arrays but are not arrays: what to call on them to get a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/classes.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// Used only for the text of an error, so the name of the package is enough, wherever in it the class is.
struct Hint {
    const char* package;
    const char* name;
    const char* call;       ///< `x` is the object
    bool is_table = false;  ///< of many columns: no tensor, though it offers a protocol that a single column has too
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
    {"pandas", "Series", "x.to_numpy()"},
    {"pandas", "Index", "x.to_numpy()"},
    {"pandas", "ExtensionArray", "x.to_numpy()"},
    {"xarray", "DataArray", "x.values", true},
    {"xarray", "Variable", "x.values", true},
    {"xarray", "Dataset", "x[name].values", true},
    {"dask", "Array", "x.compute()"},
    {"zarr", "Array", "x[...]"},
    {"h5py", "Dataset", "x[...]"},
    {"scipy", "_spbase", "x.toarray()"},
    {"tensorflow", "Variable", "x.value()"},
};

inline const Hint* find_hint(PyTypeObject* type) {
    for (const Hint& hint : hints) {
        const auto is_named = [&](PyTypeObject* base) {
            const ClassName said(base);
            return said.name == hint.name && package_of(said.module) == hint.package;
        };
        if (any_base(type, is_named)) return &hint;
    }
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
