// An operator as a NumPy generalised ufunc: broadcasting, out=, axes= and casting are NumPy's own.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <algorithm>
#include <memory>
#include <vector>

#include "../framework/numpy/export.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

DType dtype_of_operand(const ParameterFacts& facts, DType of_sets) noexcept {
    if (!facts.is_tensor()) return scalar_dtype(facts.kind);
    return facts.requirement->accepts != nullptr ? of_sets : facts.requirement->dtype;
}

struct OperatorUfunc;
/// The data that NumPy passes to a loop.
struct UfuncLoop {
    const OperatorUfunc* ufunc;
    const char* types;  ///< NumPy's type numbers, by operand
};

/// Used by NumPy as long as the ufunc exists, which is forever: PyUFunc_FromFuncAndData keeps the addresses.
struct OperatorUfunc {
    using Loop = void (*)(char** data, const Py_ssize_t* dims, const Py_ssize_t* steps, void* self);
    static constexpr int max_loops = 64;

    const OperatorDefinition& op;
    std::string signature;
    int cores[max_parameters][max_ndim];  ///< by operand, the place of each of its sizes among the different ones
    int parameters[max_parameters];       ///< by operand: inputs, then results
    int operand_count = 0;
    Loop loops[max_loops];
    void* data[max_loops];
    UfuncLoop rows[max_loops];
    char types[max_loops * max_parameters];
    int loop_count = 0;

    explicit OperatorUfunc(const OperatorDefinition& definition) : op(definition) {
        for (int i = 0; i < op.input_count; ++i) parameters[operand_count++] = op.inputs[i].parameter;
        for (int i = 0; i < op.out_count; ++i) parameters[operand_count++] = op.outs[i];
    }
    /// The operand whose dtype a result of a set has; -1 for other operands. A result's is before it.
    int source_of(const OverloadFacts& overload, int operand) const noexcept {
        const Requirement* r = overload.parameters[parameters[operand]].requirement;
        if (operand < op.input_count || r == nullptr || r->accepts == nullptr) return -1;
        const int source = op.sources_of(&overload, false)[operand - op.input_count].parameter;
        return static_cast<int>(std::find(parameters, parameters + operand, source) - parameters);
    }
    ISTHMUS_COLD void check_definition() const {
        const auto refuse = [this](Message why) { op.refuse({"it is no ufunc: ", why}); };
        if (op.out_count == 0) refuse("it has no result");
        for (int i = 0; i < op.input_count; ++i) {
            const ParameterKind kind = op.input_facts(i).kind;
            if (kind == ParameterKind::in_out) refuse({"argument '", op.inputs[i].name, "' is written in place"});
            if (kind == ParameterKind::text) refuse({"argument '", op.inputs[i].name, "' is a string"});
            if (op.input_facts(i).is_list() || kind == ParameterKind::integers)
                refuse({"argument '", op.inputs[i].name, "' is a list"});
            if (kind == ParameterKind::random)
                refuse({"argument '", op.inputs[i].name, "' is a source of random numbers"});
            if (kind == ParameterKind::dtype) refuse({"argument '", op.inputs[i].name, "' is a dtype"});
        }
        for (int i = 0; i < operand_count; ++i) {
            const Requirement* r = op.parameters()[parameters[i]].requirement;
            if (r != nullptr && r->min_rank != r->max_rank)
                refuse({"argument '", op.name_of(parameters[i]), "' is ", r->words, ", and expected is a fixed rank"});
            for (int d = 0; r != nullptr && d < r->size_count; ++d)
                if (r->sizes[d].more != 0)
                    refuse({"the size ", words_of_size(r->sizes[d]), " of '", op.name_of(parameters[i]),
                            "' is a formula"});
            for (int d = 0; r != nullptr && i >= op.input_count && d < r->size_count; ++d)
                if (op.integer_named(r->sizes[d].name) >= 0)
                    refuse({"the size ", r->sizes[d].name, " is that of an integer argument"});
        }
    }
    /// "(n,d),(m,d)->(n,m)"
    void sign() {
        std::vector<std::string> names;  // the different sizes, in NumPy's order
        for (int i = 0; i < operand_count; ++i) {
            signature += i == 0 ? "(" : i == op.input_count ? "->(" : ",(";
            const Requirement* r = op.parameters()[parameters[i]].requirement;
            const bool is_out = i >= op.input_count;
            // A result without sizes has those of the first tensor, under the names that they have there.
            const bool like = is_out && r->size_count < 0;
            const int of = like ? op.first_tensor : parameters[i];
            const Requirement* source = like ? op.parameters()[of].requirement : r;
            for (int d = 0; r != nullptr && d < r->min_rank; ++d) {
                const SizeSpec spec = source->size_count >= 0 ? source->sizes[d] : SizeSpec{};
                const std::string name = !spec.name.empty() ? std::string(spec.name)
                                         : spec.size != dyn ? std::to_string(spec.size)
                                                            : concat({op.name_of(of), "_", d});
                const auto found = std::find(names.begin(), names.end(), name);
                cores[i][d] = static_cast<int>(found - names.begin());
                if (found == names.end()) names.push_back(name);
                signature += concat({d != 0 ? "," : "", name});
            }
            signature += ')';
        }
    }
    void add_loops(const OverloadFacts& overload) {
        bool has_set = false;
        for (int i = 0; i < op.input_count; ++i) {
            const Requirement* r = overload.parameters[parameters[i]].requirement;
            has_set = has_set || (r != nullptr && r->accepts != nullptr);
        }
        if (!has_set) return void(add_loop(overload, float32));
        const int before = loop_count;
        for (int number = 0; number < numpy_builtin_types; ++number)
            if (is_numpys(number)) add_loop(overload, numpy_dtypes[number]);
        char row[max_parameters];
        if (loop_count == before) add_combinations(overload, row, 0);
    }
    static bool is_numpys(int number) noexcept {
        return numpy_shifts.has(static_cast<unsigned>(number)) && numpy_type_number(numpy_dtypes[number]) == number;
    }
    /// Where no dtype is in all sets (values and indices): every dtype of each with every one of the others. `row` has
    /// the operands before `i`.
    ISTHMUS_COLD void add_combinations(const OverloadFacts& overload, char* row, int i) {
        if (i == operand_count) {
            if (loop_count == max_loops) return;
            std::copy_n(row, operand_count, types + loop_count * operand_count);
            add_row();
            return;
        }
        const ParameterFacts& facts = overload.parameters[parameters[i]];
        const bool is_set = facts.is_tensor() && facts.requirement->accepts != nullptr;
        const auto with = [&](int number) {
            if (number < 0 || (is_set && !facts.requirement->accepts(numpy_dtypes[number]))) return;
            row[i] = static_cast<char>(number);
            add_combinations(overload, row, i + 1);
        };
        if (!is_set) return with(numpy_type_number(dtype_of_operand(facts, {})));
        if (const int source = source_of(overload, i); source >= 0) return with(row[source]);
        for (int k = 0; k < i; ++k) {
            const Requirement* r = overload.parameters[parameters[k]].requirement;
            if (r != nullptr && r->accepts == facts.requirement->accepts) return with(row[k]);
        }
        for (int number = 0; number < numpy_builtin_types; ++number)
            if (is_numpys(number)) with(number);
    }
    /// False if NumPy does not have one of the dtypes.
    bool add_loop(const OverloadFacts& overload, DType of_sets) {
        char* row = types + loop_count * operand_count;
        if (loop_count == max_loops) return false;
        for (int i = 0; i < operand_count; ++i) {
            const ParameterFacts& facts = overload.parameters[parameters[i]];
            if (facts.is_tensor() && facts.requirement->accepts != nullptr && !facts.requirement->accepts(of_sets))
                return false;
            const int source = source_of(overload, i);
            const int number = source >= 0 ? row[source] : numpy_type_number(dtype_of_operand(facts, of_sets));
            if (number < 0) return false;
            row[i] = static_cast<char>(number);
        }
        add_row();
        return true;
    }
    /// The loop whose types were written behind those of the others.
    void add_row() noexcept {
        loops[loop_count] = run;
        rows[loop_count] = UfuncLoop{this, types + loop_count * operand_count};
        data[loop_count] = rows + loop_count;
        ++loop_count;
    }
    /// NumPy takes the first loop to whose dtypes it may cast: the loops stand in NumPy's own order, whatever the order
    /// of the functions is, so that integers are not computed in float32.
    void order_loops() noexcept {
        const auto comes_first = [](char x, char y) { return place_of(x) < place_of(y); };
        for (int last = 1; last < loop_count; ++last) {
            char* row = types + last * operand_count;
            for (; row != types; row -= operand_count) {
                char* before = row - operand_count;
                if (!std::lexicographical_compare(row, row + operand_count, before, row, comes_first)) break;
                std::swap_ranges(before, row, row);
            }
        }
    }
    static void run(char** data, const Py_ssize_t* dims, const Py_ssize_t* steps, void* self);

private:
    static constexpr int numpy_float = 11, numpy_half = 23;
    /// A half is before a float, though its number is greater.
    static constexpr int place_of(char number) noexcept {
        return number == numpy_half ? 2 * numpy_float - 1 : 2 * number;
    }
};

/// One run of NumPy's outer loop, which has no GIL.
class UfuncRun {
public:
    UfuncRun(const OperatorUfunc& ufunc, char** data, const Py_ssize_t* dims, const Py_ssize_t* steps) noexcept
        : ufunc_(ufunc), op_(ufunc.op), call_(ufunc.op, 0), data_(data), dims_(dims), steps_(steps) {}

    void run(const char* types) {
        describe(types);
        call_.choose().value();
        SizesList shape;
        for (int i = 0; i < op_.out_count; ++i) {
            call_.shape_of(i, shape).value();
            call_.set_out(i, t_[op_.input_count + i], 0, shape).value();
        }
        for (Py_ssize_t o = 0; o < dims_[0]; ++o) {
            for (int i = 0; i < ufunc_.operand_count; ++i) move(i, data_[i] + o * steps_[i]);
            if (const CapturedException captured = call_.run()) return report(op_, captured);
        }
    }
    static void report(const OperatorDefinition& op, const CapturedException& captured) {
        const PyGILState_STATE state = PyGILState_Ensure();
        raise_captured(op.function.c_str(), captured);
        PyGILState_Release(state);
    }

private:
    /// The operands at the first place. NumPy's dims are the outer one, then the core's; its steps are the outer
    /// ones, then the core's by operand.
    void describe(const char* types) {
        const Py_ssize_t* step = steps_ + ufunc_.operand_count;
        for (int i = 0; i < ufunc_.operand_count; ++i) {
            const int p = ufunc_.parameters[i];
            const Requirement* r = op_.parameters()[p].requirement;
            if (r == nullptr) continue;
            const DType dtype = numpy_dtypes[static_cast<unsigned char>(types[i])];
            std::int64_t* shape = layout_[i];
            for (int d = 0; d < r->min_rank; ++d) {
                const Py_ssize_t bytes = *step++;
                shape[d] = dims_[1 + ufunc_.cores[i][d]];
                if (bytes % dtype.itemsize() != 0)
                    throw op_.argument_error(ErrorCode::bad_layout, op_.name_of(p),
                                             {"found a step of ", bytes, " bytes; expected a multiple of the ",
                                              dtype.itemsize(), " bytes of ", dtype});
                shape[r->min_rank + d] = bytes / dtype.itemsize();
            }
            t_[i] = DLTensor{data_[i], Device::cpu(), r->min_rank, dtype, shape, shape + r->min_rank, 0};
            if (i < op_.input_count) call_.set_tensor(p, r->converts == Converts::orders ? packed(i) : t_[i], 0);
        }
    }
    /// A place for a row-major copy of an operand, if its core dimensions need one; else the operand itself.
    const DLTensor& packed(int operand) {
        const DLTensor& t = t_[operand];
        if (has_order(t, Order::c)) return t;
        const std::span<const std::int64_t> sizes(t.shape, static_cast<std::size_t>(t.ndim));
        return copies_[operand].emplace(Tensor::empty(sizes, t.dtype)).descriptor();
    }
    void move(int operand, char* at) noexcept {
        const int p = ufunc_.parameters[operand];
        const ParameterFacts& facts = op_.parameters()[p];
        if (const std::optional<Tensor>& copy = copies_[operand]) {
            t_[operand].data = at;
            return copy_elements(t_[operand], static_cast<char*>(copy->data()));
        }
        if (facts.is_tensor()) return call_.move_tensor(p, at);
        read_scalar(call_.value(p), facts.kind, scalar_dtype(facts.kind), at);
        if (facts.optional) call_.value(p).set_scalar_given();
    }

    const OperatorUfunc& ufunc_;
    const OperatorDefinition& op_;
    OperatorCall call_;
    char** data_;
    const Py_ssize_t* dims_;
    const Py_ssize_t* steps_;
    DLTensor t_[max_parameters];
    std::int64_t layout_[max_parameters][2 * max_ndim];
    std::optional<Tensor> copies_[max_parameters];  ///< row-major, of operands whose core is not
};

void OperatorUfunc::run(char** data, const Py_ssize_t* dims, const Py_ssize_t* steps, void* self) {
    const auto* loop = static_cast<const UfuncLoop*>(self);
    if (dims[0] == 0) return;
    const CapturedException captured = capture([&] { UfuncRun(*loop->ufunc, data, dims, steps).run(loop->types); });
    if (captured) UfuncRun::report(loop->ufunc->op, captured);
}

/// The first fields of NumPy's PyUFuncObject (numpy/ufuncobject.h), the same in all of NumPy 1.x and 2.x.
struct UfuncHead {
    PyObject_HEAD int nin, nout, nargs, identity;
    void *functions, *data;
    int ntypes, reserved1;
    const char *name, *types, *doc;
    void *memory, *object, *user_loops;
    int core_enabled, core_num_dim_ix;
    void *core_num_dims, *core_dim_ixs, *core_offsets, *core_signature;
    void *type_resolver, *legacy_selector, *vectorcall, *reserved3;
    std::uint32_t* op_flags;
};

/// NumPy assumes that an out= that shares memory with an input is read and written element by element, which is true
/// only without core dimensions. For np.matmul it knows better, by flags that no API offers to other ufuncs: ours get
/// the same ones. An exception that passes_through() stays set.
void let_results_overlap(PyObject* numpy, PyObject* made) {
    constexpr std::uint32_t write_only = 0x00040000, assume_elementwise = 0x40000000;
    Ref matmul(PyObject_GetAttrString(numpy, "matmul"));
    if (!matmul) return (void)is_interrupted();
    if (Py_TYPE(matmul.get()) != Py_TYPE(made)) return;
    const auto& known = *reinterpret_cast<const UfuncHead*>(matmul.get());
    auto& ours = *reinterpret_cast<UfuncHead*>(made);
    if (known.nin != 2 || known.nout != 1 || known.nargs != 3 || known.core_enabled != 1 || known.op_flags == nullptr)
        return;
    if (ours.core_enabled != 1 || ours.op_flags == nullptr) return;
    const std::uint32_t flags = known.op_flags[2];
    if ((flags & write_only) == 0 || (flags & assume_elementwise) != 0) return;
    for (int i = ours.nin; i < ours.nargs; ++i)
        if (ours.op_flags[i] == 0) ours.op_flags[i] = flags;
}

}  // namespace

PyObject* make_ufunc(const OperatorDefinition& op) {
    using Make = PyObject* (*)(OperatorUfunc::Loop*, void**, const char*, int, int, int, int, const char*, const char*,
                               int, const char*);
    const Ref core = import_numpy_core();
    void** table = core ? numpy_table(core.get(), "_UFUNC_API") : nullptr;
    if (table == nullptr) return nullptr;
    const auto make = reinterpret_cast<Make>(table[31]);
    return raising<PyObject*>(op.function.c_str(), nullptr, [&]() -> PyObject* {
        auto ufunc = std::make_unique<OperatorUfunc>(op);
        ufunc->check_definition();
        ufunc->sign();
        for (int o = 0; o < op.overload_count; ++o) ufunc->add_loops(op.overloads[o]);
        ufunc->order_loops();
        if (ufunc->loop_count == 0) op.refuse("it is no ufunc: NumPy has none of its dtypes");
        Ref made(make(ufunc->loops, ufunc->data, ufunc->types, ufunc->loop_count, op.input_count, op.out_count, -1,
                      op.function.c_str(), "", 0, ufunc->signature.c_str()));
        if (!made) return nullptr;
        [[maybe_unused]] const auto* kept = ufunc.release();  // NumPy keeps its addresses for good
        let_results_overlap(core.get(), made.get());
        return PyErr_Occurred() == nullptr ? made.release() : nullptr;
    });
}

}  // namespace detail

ISTHMUS_END
