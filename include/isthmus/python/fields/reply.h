// A struct of tensors as a result, in the form of an argument: a dict, a dataclass, a sparse matrix, ….
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/fields/source.h>  // Python.h must come before any standard header

#include <array>
#include <optional>

#include <isthmus/python/api.h>
#include <isthmus/python/binding.h>
#include <isthmus/python/fields/declare.h>

ISTHMUS_BEGIN

namespace detail {

/// `fields`, a dict, in the form of `like`: a new reference, or NULL with an exception set.
PyObject* rebuild_fields(PyObject* like, FieldForm form, const std::string& sparse_format, PyObject* fields);

/// Fills a dict with the fields of a struct, in the frameworks of those of `source`.
template <HasFields S>
bool put_fields(PyObject* out, const S& s, const FieldSource* source);

/// One field as a Python object; NULL with an exception set. `like` is the field of the argument, or NULL.
template <class M>
Ref field_to_py(const M& member, PyObject* like, FieldForm form) {
    if constexpr (std::is_same_v<M, Tensor>) {
        if (!member) return Ref::borrow(Py_None);
        // A record batch is made of NumPy arrays, whose memory Arrow takes without a copy.
        if (form == FieldForm::columns) return Ref(to_result(member, Framework::numpy));
        return Ref(to_result(Reply{member, like}));
    } else if constexpr (std::is_same_v<M, bool>) {
        return Ref(PyBool_FromLong(member));
    } else if constexpr (std::is_integral_v<M>) {
        return Ref(PyLong_FromLongLong(member));
    } else if constexpr (std::is_floating_point_v<M>) {
        return Ref(PyFloat_FromDouble(member));
    } else if constexpr (HasFields<M>) {
        FieldSource source;
        const bool known = like != nullptr && source.open(like, sparse_format_of<M>(), M::fields::names).has_value();
        Ref made(PyDict_New());
        if (!made || !put_fields(made.get(), member, known ? &source : nullptr)) return Ref();
        return Ref(rebuild_fields(known ? like : nullptr, source.form(), source.sparse_format(), made.get()));
    } else if constexpr (requires { member.has_value(); }) {
        return member ? field_to_py(*member, like, form) : Ref::borrow(Py_None);
    } else if constexpr (requires { std::tuple_size<M>::value; }) {
        Ref tuple(PyTuple_New(static_cast<Py_ssize_t>(member.size())));
        for (std::size_t i = 0; tuple && i < member.size(); ++i) {
            PyObject* item = PyLong_FromLongLong(member[i]);
            if (item == nullptr) return Ref();
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
        }
        return tuple;
    } else {
        static_assert(!is_view<M>, "isthmus: what is borrowed ends with the call; a struct that is returned has Tensors");
        static_assert(is_view<M>,
                      "isthmus: a returned field is a Tensor, a number, a bool, an array of integers, a struct, or an "
                      "optional of these");
    }
}

template <HasFields S, std::size_t i>
bool put_field(PyObject* out, const S& s, const FieldSource* source) {
    const auto& member = std::get<i>(members_of(s));
    const char* name = S::fields::names[i];
    Ref like;
    if (source != nullptr) {
        like = source->get(static_cast<int>(i), name);
        if (!like && PyErr_Occurred() != nullptr) return false;
        if constexpr (HasFields<std::remove_cvref_t<decltype(member)>>)
            if (!like && source->is_mapping()) {  // a mapping of dotted names
                const FieldSource within = source->within(name);
                return put_fields(out, member, &within);
            }
    }
    const Ref made = field_to_py(member, like.get(), source != nullptr ? source->form() : FieldForm::mapping);
    const std::string key = source != nullptr && source->is_mapping() ? source->key_of(name) : name;
    return made && PyDict_SetItemString(out, key.c_str(), made.get()) == 0;
}
template <HasFields S, std::size_t... i>
bool put_each_field(PyObject* out, const S& s, const FieldSource* source, std::index_sequence<i...>) {
    return (put_field<S, i>(out, s, source) && ...);
}
template <HasFields S>
bool put_fields(PyObject* out, const S& s, const FieldSource* source) {
    return put_each_field(out, s, source, std::make_index_sequence<static_cast<std::size_t>(S::fields::count)>{});
}

}  // namespace detail

/// A struct of Tensors in the form that it says: a new reference; NULL with an exception set.
template <detail::HasFields S>
PyObject* fields_to_py(const FieldsReply<S>& reply) noexcept {
    return detail::surviving_exit(
        [&] { return detail::field_to_py(reply.fields, reply.like, detail::FieldForm::mapping).release(); });
}

ISTHMUS_END
