// An object that is not a tensor, for a view that reads lists and the like: handed to the view's conversion.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

/// The data of the tensor that stands for an object: of -1 dimensions, which no tensor has. A conversion is a function
/// of a tensor, so that only modules that read lists contain the code for it.
struct ObjectArgument {
    PyObject* object;
    Piece where;        ///< "f(): argument 'x': "
    bool has_argument;  ///< whether that names one
};

/// Whether an import failed since the object offers no protocol.
inline bool is_no_array(const Error& error) noexcept { return error.code() == ErrorCode::not_a_tensor; }

/// The tensor of a list, or of an object that NumPy's asarray() takes, as `r` wants it. `argument` may be NULL.
inline Result<Tensor> tensor_of_object(PyObject* object, const Requirement& r, const char* argument, Match& match) {
    ObjectArgument from{object, match.call_of(argument), argument != nullptr && *argument != '\0'};
    Result<Tensor> made = r.convert(DLTensor{&from, Device::cpu(), -1, DType{}, nullptr, nullptr, 0}, r);
    if (made)
        if (auto fits = match.check_argument(argument, made->descriptor(), made->flags(), r); !fits)
            return std::move(fits).error();
    return made;
}

}  // namespace detail

ISTHMUS_END
