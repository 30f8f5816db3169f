// What the package asks of this process: the list of isthmus.live, the operators, and the facts for probe and bench.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

#include <algorithm>

#include <isthmus/core/live.h>
#include "../bridge/operators/definition.h"

namespace {

using namespace package;
namespace detail = isthmus::detail;

PyObject* enable(PyObject*, PyObject* tracing) {
    const int trace = PyObject_IsTrue(tracing);
    if (trace < 0) return nullptr;
    isthmus::live_tracking(true, trace != 0);
    Py_RETURN_NONE;
}

PyObject* disable(PyObject*, PyObject*) {
    isthmus::live_tracking(false);
    Py_RETURN_NONE;
}

PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(isthmus::live_tracking()); }

/// What most entries have in common, kept from one to the next.
class Described {
public:
    Ref dtype_of(isthmus::DType dtype) { return kept(dtypes_, dtype, detail::shared_types()->dtype); }
    Ref device_of(isthmus::Device device) { return kept(devices_, device, detail::shared_types()->device); }
    Ref text_of(const std::string& text) {
        for (const auto& [known, object] : texts_)
            if (known == text) return Ref::borrow(object.get());
        Ref made(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
        if (made && texts_.size() < most_texts) texts_.emplace_back(text, Ref::borrow(made.get()));
        return made;
    }

private:
    static constexpr std::size_t most_texts = 16;
    template <class Value>
    using Last = std::pair<Value, Ref>;
    template <class Value>
    static Ref kept(Last<Value>& last, const Value& value, PyTypeObject* type) {
        if (!last.second || !(last.first == value)) last = {value, Ref(detail::new_value_object(type, value))};
        return Ref::borrow(last.second.get());
    }

    Last<isthmus::DType> dtypes_;
    Last<isthmus::Device> devices_;
    std::vector<std::pair<std::string, Ref>> texts_;
};

PyObject* describe(const isthmus::LiveTensor& live, Described& common) {
    Ref shape(detail::tuple_of(live.shape.data(), static_cast<int>(live.shape.size())));
    Ref dtype = common.dtype_of(live.dtype), device = common.device_of(live.device);
    Ref producer = common.text_of(live.producer), consumer = common.text_of(live.consumer);
    Ref place = common.text_of(live.place), cpp_place = common.text_of(live.cpp_place);
    Ref ptr(PyLong_FromVoidPtr(live.data));
    if (!shape || !dtype || !device || !ptr || !producer || !consumer || !place || !cpp_place) return nullptr;
    return Py_BuildValue("(KOLOOOOOIOOdOO)", static_cast<unsigned long long>(live.serial), ptr.get(),
                         static_cast<long long>(live.nbytes), shape.get(), dtype.get(), device.get(),
                         live.read_only ? Py_True : Py_False, live.borrowed ? Py_True : Py_False,
                         static_cast<unsigned int>(live.handles), producer.get(), consumer.get(), live.age, place.get(),
                         cpp_place.get());
}

/// One tuple per tensor, the oldest first, the fields in the order of isthmus.LiveTensor.
PyObject* list(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        const std::vector<isthmus::LiveTensor> tensors = isthmus::live();
        std::vector<std::pair<std::uint64_t, std::size_t>> order(tensors.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = {tensors[i].serial, i};
        std::sort(order.begin(), order.end());
        Described common;
        Ref result(PyList_New(static_cast<Py_ssize_t>(order.size())));
        for (std::size_t i = 0; result && i < order.size(); ++i) {
            PyObject* item = describe(tensors[order[i].second], common);
            if (item == nullptr) return nullptr;
            PyList_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), item);
        }
        return result.release();
    });
}

PyObject* operators(PyObject*, PyObject*) {
    const isthmus::Ref all = isthmus::detail::all_operators();
    return all ? PySequence_List(all.get()) : nullptr;
}

PyObject* protocol_of(PyObject*, PyObject* x) {
    detail::ProducerType scratch;
    const detail::ProducerType* type = detail::find_type(Py_TYPE(x), scratch);
    return type != nullptr ? PyUnicode_FromString(detail::facts_of(type->protocol).name) : nullptr;
}

/// A tuple of `count` names; `name_of` returns that at a place.
template <class F>
PyObject* tuple_of_names(int count, F&& name_of) {
    Ref names(PyTuple_New(count));
    for (int i = 0; names && i < count; ++i) {
        const std::string_view said = name_of(i);
        PyObject* name = PyUnicode_FromStringAndSize(said.data(), static_cast<Py_ssize_t>(said.size()));
        if (name == nullptr) return nullptr;
        PyTuple_SET_ITEM(names.get(), i, name);
    }
    return names.release();
}
PyObject* protocol_names(PyObject*, PyObject*) {
    return tuple_of_names(detail::protocol_count, [](int i) { return detail::protocols[i].name; });
}
PyObject* framework_names(PyObject*, PyObject*) {
    return tuple_of_names(detail::framework_count, [](int i) { return detail::framework_facts[i].name; });
}

PyObject* nothing(PyObject*, PyObject* const*, Py_ssize_t, PyObject*) { Py_RETURN_NONE; }

}  // namespace

PyMethodDef package::inspect_methods[] = {
    {"_live_enable", enable, METH_O, "_live_enable($module, tracing, /)\n--\n\nKeep the list from now on."},
    {"_live_disable", disable, METH_NOARGS, "_live_disable($module, /)\n--\n\nStop keeping the list, and empty it."},
    {"_live_enabled", is_enabled, METH_NOARGS, "_live_enabled($module, /)\n--\n\nWhether somebody keeps the list."},
    {"_live_list", list, METH_NOARGS, "_live_list($module, /)\n--\n\nThe list, as tuples."},
    {"_operators", operators, METH_NOARGS, "The operators of all extensions, in the order of their registration."},
    {"_protocol_of", protocol_of, METH_O,
     "_protocol_of($module, x, /)\n--\n\nThe way in that the type of `x` offers and from_dlpack takes."},
    {"_protocol_names", protocol_names, METH_NOARGS, "_protocol_names($module, /)\n--\n\nEvery way in, by name."},
    {"_framework_names", framework_names, METH_NOARGS,
     "_framework_names($module, /)\n--\n\nWhat Tensor.to() takes, in the order of the table."},
    {"_nothing", with_keywords(nothing), METH_FASTCALL | METH_KEYWORDS,
     "_nothing($module, x, /)\n--\n\nDoes nothing, by from_dlpack's calling convention: what a call costs by itself."},
    {nullptr, nullptr, 0, nullptr},
};
