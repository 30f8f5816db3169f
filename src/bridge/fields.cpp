// Structs of tensors: where their fields come from, how they are loaded and returned.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/fields.h>
#include "runtime/errors.h"
#include "runtime/lookups.h"
#include "runtime/names.h"
#include "runtime/object_owner.h"

ISTHMUS_BEGIN

namespace detail {

/// The fields of one object, which must outlive this.
class FieldSource {
public:
    /// Looks how `object` shows fields. `sparse_format` is that of the struct, or empty. An Error if it can show none,
    /// or is a sparse matrix of another format.
    Result<void> open(PyObject* object, std::string_view sparse_format, std::span<const char* const> names);
    /// Field `index`, called `name`: a new reference; NULL if there is none. An exception stays set if asking raised.
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
    Ref items_;  ///< of a sequence: reading a field may change a list
    FieldForm form_ = FieldForm::attributes;
    std::string sparse_format_;
    std::string prefix_;
};

/// torch's names for the fields of a sparse tensor; other libraries use SciPy's as attributes.
struct TorchSparseField {
    std::string_view format, name;
    const char* method;
};
inline constexpr TorchSparseField torch_sparse_fields[] = {
    {"csr", "indptr", "crow_indices"}, {"csr", "indices", "col_indices"}, {"csr", "data", "values"},
    {"csc", "indptr", "ccol_indices"}, {"csc", "indices", "row_indices"}, {"csc", "data", "values"},
};

/// "csr", "csc", "coo", … of a sparse matrix or tensor of SciPy, torch or JAX; empty for anything else.
inline std::string find_sparse_format(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (has_base_of_package(type, "torch")) {
        const std::string layout = text_of(Ref(PyObject_GetAttrString(object, "layout")).get());
        constexpr std::string_view prefix = "torch.sparse_";
        return layout.substr(0, prefix.size()) == prefix ? layout.substr(prefix.size()) : "";
    }
    const ClassName said(type);
    if (said.module.substr(0, 12) == "scipy.sparse")
        return text_of(Ref(PyObject_GetAttrString(object, "format")).get());
    if (said.module.substr(0, 23) != "jax.experimental.sparse") return {};
    return said.name == "BCSR" ? "csr" : said.name == "BCOO" ? "coo" : std::string(said.name);
}

ISTHMUS_COLD inline std::string list_of(std::span<const char* const> names, const FieldSource& source) {
    std::string text;
    for (const char* name : names) text += concat({text.empty() ? "'" : ", '", source.key_of(name), "'"});
    return text;
}

Result<void> FieldSource::open(PyObject* object, std::string_view sparse_format, std::span<const char* const> names) {
    object_ = object;
    if (!start_session() || !make_interned())
        return error_from_exception(ErrorCode::bad_thread, nullptr, "reading a struct");
    const bool has_names = PyTuple_Check(object) && PyObject_HasAttrString(object, "_fields") != 0;
    if (PyDict_Check(object)) {
        form_ = FieldForm::mapping;
    } else if ((PyTuple_Check(object) || PyList_Check(object)) && !has_names) {
        form_ = FieldForm::sequence;
        items_ = snapshot_of(object);
        if (!items_) return error_from_exception(ErrorCode::out_of_memory, nullptr, "reading a struct");
        if (static_cast<std::size_t>(PyTuple_GET_SIZE(items_.get())) != names.size())
            return make_error(ErrorCode::not_a_tensor,
                              {"expected ", list_of(names, *this), ", got a ", type_name(object), " of ",
                               PyTuple_GET_SIZE(items_.get()), " objects"});
    } else if (has_base_of_package(Py_TYPE(object), "pyarrow") && PyObject_HasAttrString(object, "column") != 0) {
        form_ = FieldForm::columns;
    } else {
        sparse_format_ = find_sparse_format(object);
        const bool is_torch = !sparse_format_.empty() && has_base_of_package(Py_TYPE(object), "torch");
        const bool has_keys =
            sparse_format_.empty() && PyMapping_Check(object) != 0 && PyObject_HasAttrString(object, "keys") != 0;
        form_ = is_torch ? FieldForm::methods : has_keys ? FieldForm::mapping : FieldForm::attributes;
    }
    if (sparse_format_ == sparse_format || sparse_format_.empty()) return {};
    if (sparse_format.empty())
        return make_error(
            ErrorCode::bad_layout,
            {"got a ", type_name(object), " of sparse format ", sparse_format_,
             ", and the struct does not say which one it takes: static constexpr std::string_view sparse_format"});
    return make_error(ErrorCode::bad_layout, ErrorKind::value,
                      {"expected sparse format ", sparse_format, ", got ", sparse_format_, ": ", type_name(object)});
}

Ref FieldSource::get(int index, const char* name) const {
    const auto missing = [](PyObject* kind) {  // any other exception is reported
        if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(kind)) PyErr_Clear();
    };
    switch (form_) {
        case FieldForm::mapping: {
            Ref key(PyUnicode_FromString(key_of(name).c_str()));
            if (key && PyDict_Check(object_))
                return dict_item(object_, key.get());  // a defaultdict makes no item for it
            Ref value(key ? PyObject_GetItem(object_, key.get()) : nullptr);
            if (!value) missing(PyExc_KeyError);
            return value;
        }
        case FieldForm::sequence:
            return Ref::borrow(PyTuple_GET_ITEM(items_.get(), index));
        case FieldForm::columns: {
            Ref value(PyObject_CallMethod(object_, "column", "s", name));
            if (!value) missing(PyExc_KeyError);
            return value;
        }
        case FieldForm::methods:
            for (const TorchSparseField& field : torch_sparse_fields)
                if (field.format == sparse_format_ && field.name == name)
                    return Ref(PyObject_CallMethod(object_, field.method, nullptr));
            break;
        case FieldForm::attributes:
            break;
    }
    Ref value(PyObject_GetAttrString(object_, name));
    if (!value) missing(PyExc_AttributeError);
    return value;
}

/// Sets the exception for a field that is missing, or keeps the one that asking for it raised.
ISTHMUS_COLD inline Loaded raise_missing_field(const FieldSource& source, const FieldsCall& call, const char* name,
                                               std::span<const char* const> names) {
    const Piece prefix = of_call(call.function, call.argument);
    if (PyErr_Occurred() != nullptr) {
        if (passes_through(PyErr_Occurred())) return Loaded::raised;
        set_python_error(error_from_exception(ErrorCode::producer_failed, nullptr, {prefix, "asking for this field"}));
        return Loaded::raised;
    }
    set_python_error(
        make_error(ErrorCode::not_a_tensor, {prefix, "this ", type_name(source.object()), " has no '",
                                             source.key_of(name), "'; expected the fields ", list_of(names, source)}));
    return Loaded::raised;
}

inline Loaded load_field(const FieldsTable& table, const FieldsTarget& target, int i, const FieldSource& source,
                         const FieldsCall& call) {
    const FieldFacts& field = table.rows[i];
    LoadedField& state = target.states[i];
    Match of_struct(call.function);  // a struct within this one has its own named sizes
    const FieldsCall of_field{call.function, state.name(), field.load_from != nullptr ? &of_struct : call.match};
    state.object = source.get(i, table.names[i]);
    if (state.object) return field.load(target, state.object.get(), of_field);
    const bool raised = PyErr_Occurred() != nullptr;
    if (!raised && field.load_from != nullptr && source.is_mapping())
        return field.load_from(target, source.within(table.names[i]), of_field);
    if (!raised && field.is_optional) return Loaded::no;
    return raise_missing_field(source, raised ? of_field : call, table.names[i],
                               {table.names, static_cast<std::size_t>(table.count)});
}

Loaded FieldsTable::load_from(const FieldsTarget& target, const FieldSource& source,
                              const FieldsCall& call) const noexcept {
    const bool named = call.argument != nullptr && *call.argument != '\0';
    for (int i = 0; i < count; ++i) target.states[i].loaded = false;
    const auto load_one = [&](int i) {
        TextBuffer path =
            compose({named ? call.argument : "", named ? "." : "", names[i], std::string_view("", sizeof(char))});
        if (path.failed()) throw std::bad_alloc();
        target.states[i].path = std::move(path);
        return load_field(*this, target, i, source, call);
    };
    for (int i = 0; i < count; ++i) {
        const Loaded loaded = with_memory([&] { return load_one(i); }, Loaded::raised);
        target.states[i].loaded = loaded == Loaded::yes;
        if (loaded != Loaded::raised) continue;
        const PendingException refused;
        roll_back(target);
        return Loaded::raised;
    }
    return Loaded::yes;
}
Loaded FieldsTable::load(const FieldsTarget& target, PyObject* object, const FieldsCall& call) const noexcept {
    return surviving_exit([&] {
        Match own(call.function);
        FieldSource source;
        const Result<void> opened =
            with_memory([&] { return source.open(object, sparse_format, {names, static_cast<std::size_t>(count)}); });
        if (!opened) return raise_in_call(prefixed(opened.error(), {of_call(call.function, call.argument)}));
        return load_from(target, source, {call.function, call.argument, call.match != nullptr ? call.match : &own});
    });
}
bool FieldsTable::commit(const FieldsTarget& target, const char* function) const noexcept {
    for (int i = 0; i < count; ++i)
        if (target.states[i].loaded && !rows[i].commit(target, {function, target.states[i].name(), nullptr}))
            return false;
    return true;
}
/// A capsule is rolled back by the object that was made from it.
void FieldsTable::roll_back(const FieldsTarget& target) const noexcept {
    for (int i = 0; i < count; ++i)
        if (std::exchange(target.states[i].loaded, false)) rows[i].roll_back(target, target.states[i].object.get());
}

Loaded pass_on_fields(Loaded loaded) noexcept {
    if (loaded == Loaded::yes || passes_through(PyErr_Occurred())) return loaded;
    PyErr_Clear();
    return Loaded::no;
}
[[noreturn]] ISTHMUS_RARE void throw_exception_of(const char* argument) {
    throw error_from_exception(ErrorCode::producer_failed, argument, "announcing a write");
}

bool load_integers(PyObject* object, std::int64_t* out, std::size_t count, const char* function,
                   const char* argument) noexcept {
    const Ref items(PySequence_Tuple(object));  // reading a number may change a list
    if (!items || PyTuple_GET_SIZE(items.get()) != static_cast<Py_ssize_t>(count))
        return raise_type(function, argument, {"a sequence of ", count, " integers"}, object);
    for (std::size_t i = 0; i < count; ++i) {
        PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
        if (!read_scalar(item, out[i], function, argument)) return false;
    }
    return true;
}

/// Built in Python: by constructors and helpers of the libraries that the objects come from. Without closures: CPython
/// 3.11 loses a call's arguments if there is no memory for the cell of one.
inline constexpr const char* rebuild_source = R"(
def rebuild(like, sparse_format, fields):
    import copy, dataclasses, sys
    kind = type(like)
    if sparse_format:
        shape = tuple(fields.get('shape', like.shape))
        parts = fields['data'], fields['indices'], fields['indptr']
        if kind.__module__.partition('.')[0] != 'torch':
            return kind(parts, shape=shape)
        torch = sys.modules['torch']
        make = {'csr': torch.sparse_csr_tensor, 'csc': torch.sparse_csc_tensor}[sparse_format]
        return make(*reversed(parts), size=shape)
    if isinstance(like, tuple):
        named = hasattr(like, '_replace')
        made = like._replace(**fields) if named else tuple.__new__(kind, fields.values())
        made.__dict__.update(like.__dict__) if hasattr(like, '__dict__') else None
        return made
    if hasattr(like, 'column') and hasattr(like, 'schema'):
        arrow = sys.modules['pyarrow']
        return kind.from_arrays(list(map(arrow.array, fields.values())), names=list(fields))
    if dataclasses.is_dataclass(like) and {f.name for f in dataclasses.fields(like) if not f.init}.isdisjoint(fields):
        made = dataclasses.replace(like, **fields)
        for name, value in getattr(like, '__dict__', {}).items():
            if name not in made.__dict__:  # no field: it was set later
                object.__setattr__(made, name, value)
        return made
    made = copy.copy(like)
    if isinstance(like, list):
        made[:] = fields.values()
        return made
    for name, value in fields.items():
        try:
            setattr(made, name, value)
        except dataclasses.FrozenInstanceError:
            object.__setattr__(made, name, value)
    return made
)";
ISTHMUS_STATE PerSession<PyObject*> rebuild_function;

/// Borrowed; valid in this interpreter session. NULL with a Python exception set.
inline PyObject* find_rebuild_function() {
    if (*rebuild_function != nullptr) return *rebuild_function;
    Ref function = start_session() ? python_function(rebuild_source, "rebuild", "isthmus.fields") : Ref();
    if (function && rebuild_function.keep(function.get())) (void)function.release();
    return *rebuild_function;
}

/// `fields`, a dict, in the form of `like`: a new reference, or NULL with an exception set.
inline PyObject* rebuild_fields(PyObject* like, FieldForm form, const std::string& sparse_format, PyObject* fields) {
    if (like == nullptr || form == FieldForm::mapping) return Py_NewRef(fields);
    PyObject* function = find_rebuild_function();
    return function != nullptr ? PyObject_CallFunction(function, "Os#O", like, sparse_format.data(),
                                                       static_cast<Py_ssize_t>(sparse_format.size()), fields)
                               : nullptr;
}

Ref member_to_py(const Tensor& member, PyObject* like, FieldForm form) {
    if (!member) return Ref::borrow(Py_None);
    // A record batch is made of NumPy arrays, whose memory Arrow takes without a copy.
    if (form == FieldForm::columns) return Ref(to_result(member, Framework::numpy));
    return Ref(to_result(Reply{member, like}));
}
Ref member_to_py(std::span<const std::int64_t> member) {
    return Ref(tuple_of(member.data(), static_cast<int>(member.size())));
}

/// Fills a dict with the fields of a struct, in the frameworks of those of `source`.
inline bool put_fields(PyObject* out, const ReplyTable& table, const void* value, const FieldSource* source) {
    for (int i = 0; i < table.count; ++i) {
        const ReplyRow& row = table.rows[i];
        const char* name = table.names[i];
        Ref like;
        if (source != nullptr) {
            like = source->get(i, name);
            if (!like && PyErr_Occurred() != nullptr) return false;
            if (!like && row.within != nullptr && source->is_mapping()) {  // a mapping of dotted names
                const FieldSource within = source->within(name);
                if (!put_fields(out, *row.within, row.member(value), &within)) return false;
                continue;
            }
        }
        const Ref made =
            row.to_py(row.member(value), like.get(), source != nullptr ? source->form() : FieldForm::mapping);
        const std::string key = source != nullptr && source->is_mapping() ? source->key_of(name) : name;
        if (!made || PyDict_SetItemString(out, key.c_str(), made.get()) != 0) return false;
    }
    return true;
}
static Ref struct_in_form(const ReplyTable& table, const void* value, PyObject* like) {
    FieldSource source;
    const std::span<const char* const> names(table.names, static_cast<std::size_t>(table.count));
    const Result<void> opened = like != nullptr ? source.open(like, table.sparse_format, names) : Result<void>();
    if (!opened && passes_through(opened.error())) return raise_in_call(opened.error()), Ref();
    const bool known = like != nullptr && opened;
    Ref made(PyDict_New());
    if (!made || !put_fields(made.get(), table, value, known ? &source : nullptr)) return {};
    return Ref(rebuild_fields(known ? like : nullptr, source.form(), source.sparse_format(), made.get()));
}
Ref struct_to_py(const ReplyTable& table, const void* value, PyObject* like) {
    return surviving_exit([&] { return with_memory([&] { return struct_in_form(table, value, like); }, Ref()); });
}

}  // namespace detail

ISTHMUS_END
