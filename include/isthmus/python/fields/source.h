// Where the fields of a struct come from: a mapping, an object's attributes, a tuple, a sparse matrix, a record batch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <span>
#include <string>

#include <isthmus/core/result.h>
#include <isthmus/python/runtime/classes.h>
#include <isthmus/python/runtime/errors.h>
#include <isthmus/python/runtime/raise.h>
#include <isthmus/python/runtime/start_life.h>

ISTHMUS_BEGIN

namespace detail {

/// How an object shows its fields.
enum class FieldForm : std::uint8_t {
    mapping,     ///< by key: a dict, what a module's state_dict() returns
    attributes,  ///< a dataclass, a named tuple, a matrix of SciPy or JAX, any object
    sequence,    ///< in their order: a tuple, a list
    methods,     ///< a sparse tensor of torch
    columns,     ///< a record batch of Arrow
};

/// The fields of one object, which must outlive this.
class FieldSource {
public:
    /// Looks how `object` shows fields. `sparse_format` is that of the struct, or empty. An Error where it can show none, or is
    /// a sparse matrix of another format.
    Result<void> open(PyObject* object, std::string_view sparse_format, std::span<const char* const> names);
    /// Field `index`, called `name`: a new reference; NULL where there is none. An exception stays set where asking raised.
    Ref get(int index, const char* name) const;
    /// The fields of a mapping whose keys begin with `name` and a dot.
    FieldSource within(const char* name) const { return FieldSource(object_, form_, concat({prefix_, name, "."})); }
    bool is_mapping() const noexcept { return form_ == FieldForm::mapping; }
    PyObject* object() const noexcept { return object_; }
    FieldForm form() const noexcept { return form_; }
    const std::string& sparse_format() const noexcept { return sparse_format_; }
    /// The key of a field in a mapping.
    std::string key_of(const char* name) const { return prefix_ + name; }

    FieldSource() = default;

private:
    FieldSource(PyObject* object, FieldForm form, std::string prefix)
        : object_(object), form_(form), prefix_(std::move(prefix)) {}

    PyObject* object_ = nullptr;
    FieldForm form_ = FieldForm::attributes;
    std::string sparse_format_;
    std::string prefix_;
};

}  // namespace detail

ISTHMUS_END
