// An operator as a kernel of torch's dispatcher, by libtorch's C shims.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <algorithm>
#include <forward_list>
#include <stdexcept>
#include <vector>

#include "../framework/torch/rules.h"
#include "../framework/torch/shims.h"
#include "../results.h"
#include "../runtime/names.h"
#include "refusals.h"

ISTHMUS_BEGIN

namespace detail {

/// The shims that make and call operators, as declared in torch/csrc/inductor/aoti_torch/c/shim.h and
/// torch/csrc/stable/c/shim.h. A value of the dispatcher has 64 bits: a tensor's handle, a double's bits, an integer, a
/// bool in the lowest byte, a string's handle; for an optional value, a pointer to such a value, or 0. The kernel has
/// to free its arguments.
struct TorchLibraryShims {
    using Library = void*;
    int (*init_impl)(const char* space, const char* key, const char* file, std::uint32_t line, Library*);
    int (*impl)(Library, const char* name, void (*)(std::uint64_t*, std::uint64_t, std::uint64_t));
    int (*string_length)(void*, std::size_t*);
    int (*string_text)(void*, const char**);
    int (*delete_string)(void*);
    int (*delete_value)(std::uint64_t*);
    int (*list_size)(void*, std::size_t*) = nullptr;
    int (*list_item)(void*, std::size_t, std::uint64_t*) = nullptr;
    int (*delete_list)(void*) = nullptr;
    int (*copy)(TorchShims::Handle to, TorchShims::Handle from, std::int32_t non_blocking);
    int (*reinterpret)(TorchShims::Handle of, std::int64_t ndim, const std::int64_t* sizes, const std::int64_t* strides,
                       std::int64_t offset, TorchShims::Handle* made);

    /// False if this libtorch lacks one.
    bool load() noexcept {
        void* lib = find_library(ISTHMUS_LIBRARY("torch_cpu"));
        return lib != nullptr && find_symbol(lib, "aoti_torch_library_init_impl", init_impl) &&
               find_symbol(lib, "aoti_torch_library_impl", impl) &&
               find_symbol(lib, "torch_string_length", string_length) &&
               find_symbol(lib, "torch_string_c_str", string_text) &&
               find_symbol(lib, "torch_delete_string", delete_string) &&
               find_symbol(lib, "torch_delete_stable_ivalue", delete_value) &&
               find_symbol(lib, "aoti_torch_copy_", copy) &&
               find_symbol(lib, "aoti_torch__reinterpret_tensor", reinterpret);
    }
    /// The same of those for lists, which came later.
    bool load_lists() noexcept {
        void* lib = find_library(ISTHMUS_LIBRARY("torch_cpu"));
        return find_symbol(lib, "torch_list_size", list_size) && find_symbol(lib, "torch_list_get_item", list_item) &&
               find_symbol(lib, "torch_delete_list", delete_list);
    }
};
ISTHMUS_STATE TorchLibraryShims torch_library_shims{};

Result<bool> implement_in_torch(const OperatorDefinition& op, const char* key) {
    TorchLibraryShims& shims = torch_library_shims;
    if (!torch_has_shims() || find_torch_empty() == nullptr || !shims.load()) return false;
    if (op.takes_lists() && !shims.load_lists()) return false;
    TorchLibraryShims::Library library = nullptr;
    const bool good =
        shims.init_impl(op.space.c_str(), key, "isthmus", 0, &library) == 0 &&
        shims.impl(library, op.function.c_str(), op.functions.torch) == 0 &&
        (op.has_lists || shims.impl(library, (op.function + "_batched").c_str(), op.functions.torch) == 0);
    if (good) return true;  // the library is never freed, as the operator is not
    const char* said = torch_shims.what();
    return make_error(torch_failure(ErrorCode::consumer_failed, said),
                      {"operator '", op.name, "': torch refused it: ", said});
}

ISTHMUS_COLD void offer_to_torch(OperatorDefinition& op, PyObject* self) {
    store_shared(op.offered_to_torch, true);
    Ref module(operators_module());
    Ref done(module ? PyObject_CallMethod(module.get(), "_offer", "Os", self, "torch") : nullptr);
    if (!done && is_interrupted()) store_shared(op.offered_to_torch, false);
}

namespace {

/// What libtorch tells of the dispatcher in this thread. The keys that it includes and excludes, beside those of the
/// tensors, are two words of bits in c10 (impl::raw_local_dispatch_key_set), each of which is 0 by default, whatever
/// the default is: one look for every mode, tracer, transform and autocast, in every version of torch.
class TorchThread {
public:
    /// Whether the dispatcher would do more than run the kernel.
    static bool acts() noexcept {
        static const TorchThread torch;
        static thread_local const std::uint64_t* words = nullptr;
        if (ISTHMUS_UNLIKELY(words == nullptr)) words = torch.find_words();
        if (ISTHMUS_UNLIKELY((words[0] | words[1]) != 0) && torch.has_acting_key(words)) return true;
        return (torch.has_mode_ != nullptr && torch.has_mode_()) ||
               (torch.has_function_mode_ != nullptr && torch.has_function_mode_());
    }

private:
    TorchThread() noexcept {
        void* core = find_library(ISTHMUS_LIBRARY("c10"));
        void* cpu = find_library(ISTHMUS_LIBRARY("torch_cpu"));
        if (cpu != nullptr) find_symbol(cpu, "_ZN2at4impl27torch_function_mode_enabledEv", has_function_mode_);
        if (core == nullptr) return;
        bool (*is_included)(std::uint64_t) = nullptr;
        bool (*is_excluded)(std::uint64_t) = nullptr;
        const bool tells =
            can_find_thread_locals &&
            find_symbol(core, "_ZN3c104impl31tls_is_dispatch_keyset_includedENS_14DispatchKeySetE", is_included) &&
            find_symbol(core, "_ZN3c104impl31tls_is_dispatch_keyset_excludedENS_14DispatchKeySetE", is_excluded);
        const std::uint64_t* words = tells ? find_words() : nothing;
        if (words == nothing) {
            find_symbol(core, "_ZN3c104impl21dispatch_mode_enabledEv", has_mode_);
            return;
        }
        for (std::uint64_t bit = 1; bit != 0; bit <<= 1) {
            if (is_included(bit)) included_ |= bit;
            if (is_excluded(bit)) excluded_ |= bit;
        }
        included_ ^= words[0];
        excluded_ ^= words[1];
    }
    /// Those of this thread, which last as long as it.
    const std::uint64_t* find_words() const noexcept {
        void* core = can_find_thread_locals ? find_library(ISTHMUS_LIBRARY("c10")) : nullptr;
        const std::uint64_t* words = nullptr;
        return core != nullptr && find_symbol(core, "_ZN3c104impl26raw_local_dispatch_key_setE", words) ? words
                                                                                                        : nothing;
    }
    /// Inference mode and autograd's guards exclude keys, which takes nothing from a kernel: what counts is a key more,
    /// or one that is no longer excluded (autocast).
    bool has_acting_key(const std::uint64_t* words) const noexcept {
        const std::uint64_t excluded = words[1] ^ excluded_;
        return (words[0] & ~included_ & ~excluded) != 0 || (words[1] & excluded_) != 0;
    }

#if defined(__linux__)
    static constexpr bool can_find_thread_locals = true;
#else
    static constexpr bool can_find_thread_locals = false;  // dlsym() finds them in glibc and musl
#endif
    static constexpr std::uint64_t nothing[2] = {};
    bool (*has_mode_)() = nullptr;  ///< asked only if the words were not found
    bool (*has_function_mode_)() = nullptr;
    std::uint64_t included_ = 0, excluded_ = 0;  ///< by default
};

/// torch.nn.Parameter, once one has come; borrowed.
ISTHMUS_STATE PerSession<PyTypeObject*> torch_parameter_class;

}  // namespace

bool torch_must_see(OperatorDefinition& op, PyObject* self) {
    if (ISTHMUS_UNLIKELY(!load_shared(op.offered_to_torch))) offer_to_torch(op, self);
    return ISTHMUS_UNLIKELY(TorchThread::acts());
}
static ISTHMUS_NOINLINE bool is_parameter_class(PyTypeObject* type) {
    if (ISTHMUS_LIKELY(type == *torch_parameter_class)) return true;
    const ClassName said(type);
    if (said.module == "torch.nn.parameter" && said.name == "Parameter") {
        if (start_session()) (void)torch_parameter_class.keep(type);
        return true;
    }
    return said.module == "torch" && said.name == "Tensor";
}
bool is_plain_torch_class(PyTypeObject* type) {
    return ISTHMUS_LIKELY(torch_shims.tensor_class != nullptr && type == *torch_shims.tensor_class) ||
           is_parameter_class(type);
}

namespace {

/// The arguments of one call as torch hands them over, freed at its end. The batched form has one more, the first: the
/// number of batch dimensions. Errors are thrown as std::runtime_error, which torch passes on.
class TorchStack {
public:
    TorchStack(const OperatorDefinition& op, std::uint64_t* stack, bool batched)
        : op_(op), stack_(stack), first_(batched ? 1 : 0), call_(op, batched ? clamped_batch(stack[0]) : -1) {}
    TorchStack(const TorchStack&) = delete;
    TorchStack& operator=(const TorchStack&) = delete;
    ~TorchStack() {
        for (int i = 0; i < op_.input_count; ++i) drop(i);
        for (int i = 0; i < made_; ++i) torch_shims.delete_handle(results_[i]);
        for (TorchShims::Handle copy : copies_) torch_shims.delete_handle(copy);
    }

    void run() {
        const auto batch = static_cast<std::int64_t>(stack_[0]);
        if (first_ != 0 && batch != clamped_batch(stack_[0]))
            throw std::runtime_error(concat({call_prefix(concat({op_.function, "_batched"}).c_str(), "batch"), "found ",
                                             batch, "; expected a number of leading dimensions from 0 to ", max_ndim}));
        for (int i = 0; i < op_.input_count; ++i) load(i);
        if (ISTHMUS_UNLIKELY(!device_.is_host()) && op_.has_device()) go_to_device();
        if (!device_.is_host()) call_.set_device_packer(pack, this);
        if (ISTHMUS_UNLIKELY(!have_device_) && op_.first_tensor < 0)
            throw std::runtime_error(explain_no_tensor(op_).what());
        throw_if_error(call_.choose());
        for (; made_ < op_.out_count;) make(made_);
        if (const CapturedException captured = call_.run())
            throw std::runtime_error(captured.kind() == CapturedException::Kind::error
                                         ? std::string(captured.text())
                                         : concat({op_.function, "(): ", captured.text()}));
        for (int i = 0; op_.has_bounds && i < op_.out_count; ++i)
            if (op_.is_bounded(i)) narrow(i);
        for (int i = 0; i < op_.input_count; ++i) drop(i);
        for (int i = 0; i < op_.out_count; ++i) std::memcpy(&stack_[i], &results_[i], sizeof results_[i]);
        made_ = 0;
    }

private:
    static int clamped_batch(std::uint64_t given) {
        return static_cast<int>(std::clamp<std::int64_t>(static_cast<std::int64_t>(given), 0, max_ndim));
    }
    template <class R>
    static void throw_if_error(const R& result) {
        if (!result) throw std::runtime_error(result.error().what());
    }
    std::uint64_t& raw(int input) { return stack_[first_ + input]; }
    /// Where the value is; NULL if it was not given.
    std::uint64_t* place(int input) {
        std::uint64_t& bits = raw(input);
        return op_.input_facts(input).optional ? reinterpret_cast<std::uint64_t*>(bits) : &bits;
    }
    void* handle(int input) {
        const std::uint64_t* bits = place(input);
        return bits != nullptr ? reinterpret_cast<void*>(*bits) : nullptr;
    }
    static std::size_t size_of(void* list) noexcept {
        std::size_t size = 0;
        torch_library_shims.list_size(list, &size);
        return size;
    }
    static std::uint64_t item_of(void* list, std::size_t place) noexcept {
        std::uint64_t bits = 0;
        torch_library_shims.list_item(list, place, &bits);
        return bits;
    }
    void drop(int input) noexcept {
        if (dropped_[input]) return;
        dropped_[input] = true;
        const ParameterFacts& facts = op_.input_facts(input);
        const bool is_text = facts.kind == ParameterKind::text;
        void* const object = facts.is_tensor() || is_text ? handle(input) : nullptr;
        if (object != nullptr && is_text) torch_library_shims.delete_string(object);
        if (object != nullptr && !is_text) torch_shims.delete_handle(object);
        const bool is_list = facts.is_list() || facts.kind == ParameterKind::integers;
        if (void* const list = is_list ? handle(input) : nullptr) {
            for (std::size_t k = 0; facts.is_list() && k < size_of(list); ++k)
                torch_shims.delete_handle(reinterpret_cast<TorchShims::Handle>(item_of(list, k)));
            torch_library_shims.delete_list(list);
        }
        if (facts.optional && raw(input) != 0)
            torch_library_shims.delete_value(reinterpret_cast<std::uint64_t*>(raw(input)));
    }
    void load(int input) {
        ParameterValue& value = call_.value(op_.inputs[input].parameter);
        const ParameterFacts& facts = op_.input_facts(input);
        if (facts.is_tensor()) return load_tensor(input);
        const std::uint64_t* bits = place(input);
        if (bits == nullptr) return call_.set_absent(op_.inputs[input].parameter);
        if (facts.is_list()) return load_tensors(input);
        if (facts.kind == ParameterKind::integers) return load_integers(input, value);
        if (facts.kind == ParameterKind::text) {
            torch_library_shims.string_length(handle(input), &value.text.size);
            torch_library_shims.string_text(handle(input), &value.text.data);
            return;
        }
        const auto lowest = static_cast<std::uint8_t>(*bits);
        if (facts.kind == ParameterKind::dtype)
            value.dtype = torch_dtype_table.dtype_of(static_cast<std::int32_t>(*bits));
        else
            read_scalar(value, facts.kind, scalar_dtype(facts.kind),
                        facts.kind == ParameterKind::boolean ? static_cast<const void*>(&lowest) : bits);
        if (facts.optional) value.set_scalar_given();
    }
    void load_integers(int input, ParameterValue& value) {
        void* const list = handle(input);
        std::vector<std::int64_t>& integers = integers_.emplace_front(size_of(list) + 1);  // never without an address
        for (std::size_t k = 0; k + 1 < integers.size(); ++k) integers[k] = static_cast<std::int64_t>(item_of(list, k));
        value.integers = {integers.data(), integers.size() - 1};
    }
    void load_tensors(int input) {
        void* const list = handle(input);
        ListArgument& given = call_.list(op_.inputs[input].parameter);
        for (std::size_t k = 0; k < size_of(list); ++k) {
            const std::string name = name_of_element(op_.inputs[input].name, k);
            const DLTensor t = describe(reinterpret_cast<TorchShims::Handle>(item_of(list, k)), input, name.c_str());
            if (!have_device_) device_ = t.device;
            have_device_ = true;
            given.add(t, 0);
        }
    }
    void load_tensor(int input) {
        const int parameter = op_.inputs[input].parameter;
        void* const tensor = handle(input);
        if (tensor == nullptr) return call_.set_absent(parameter);
        const DLTensor t = describe(tensor, input, op_.inputs[input].name.c_str());
        const ParameterKind kind = op_.input_facts(input).kind;
        if (!have_device_ && kind != ParameterKind::random) device_ = t.device;
        have_device_ = have_device_ || kind != ParameterKind::random;
        if (kind == ParameterKind::sizes) return call_.set_sizes(parameter, t, 0);
        call_.set_tensor(parameter, t, 0);
    }
    /// `name`: of the argument, or of its element.
    DLTensor describe(TorchShims::Handle tensor, int input, const char* name) const {
        const TorchShims& torch = torch_shims;
        DLTensor t;
        std::memset(&t, 0, sizeof t);
        std::int64_t ndim = 0;
        std::int32_t number = 0, type = 0, index = 0;
        const bool writes = op_.input_facts(input).is_written();
        const bool good = torch.get_dim(tensor, &ndim) == 0 && torch.get_sizes(tensor, &t.shape) == 0 &&
                          torch.get_strides(tensor, &t.strides) == 0 && torch.get_dtype(tensor, &number) == 0 &&
                          torch.get_device_type(tensor, &type) == 0 && torch.get_device_index(tensor, &index) == 0 &&
                          (writes ? torch.get_mutable_data_ptr(tensor, &t.data)
                                  : torch.get_const_data_ptr(tensor, const_cast<const void**>(&t.data))) == 0;
        const DType dtype = torch_dtype_table.dtype_of(number);
        if (!good || ndim > max_ndim || dtype.bits() == 0)
            throw std::runtime_error(concat(
                {call_prefix(op_.function.c_str(), name), "this torch.Tensor has no memory that can be described"}));
        t.ndim = static_cast<std::int32_t>(ndim);
        t.dtype = dtype;
        t.device = type == torch.device_cpu ? DLDevice{kDLCPU, 0} : DLDevice{torch_gpu_type(), index};
        return t;
    }
    /// A row-major copy of an input, made by torch on its current stream, which is that of the kernel.
    static Result<DLTensor> pack(void* self, int parameter, const DLTensor& whole) {
        auto& stack = *static_cast<TorchStack*>(self);
        int input = 0;
        while (stack.op_.inputs[input].parameter != parameter) ++input;
        SizesList shape;
        for (int d = 0; d < whole.ndim; ++d) shape.push_back(whole.shape[d]);
        MadeResult made;
        TorchShims::Handle copy = nullptr;
        if (!make_torch_handle(made, copy, whole.dtype, whole.device, shape))
            return make_error(ErrorCode::producer_failed, {"torch made no tensor for a row-major copy"});
        stack.copies_.push_back(copy);
        void* source = stack.handle(input);
        if (stack.op_.input_facts(input).is_list())
            source = reinterpret_cast<void*>(
                item_of(source, static_cast<std::size_t>(&whole - stack.call_.list(parameter).tensors.data())));
        if (torch_library_shims.copy(copy, source, 0) != 0)
            return make_error(torch_failure(ErrorCode::producer_failed, torch_shims.what()),
                              {"torch made no row-major copy: ", torch_shims.what()});
        torch_shims.get_sizes(copy, &made.t.shape);
        torch_shims.get_strides(copy, &made.t.strides);
        return made.t;
    }
    void make(int out) {
        SizesList shape;
        throw_if_error(call_.shape_of(out, shape));
        MadeResult made;
        if (!make_torch_handle(made, results_[out], call_.dtype_of(out), device_, shape))
            throw std::runtime_error(
                concat({op_.function, "(): torch made no tensor of ", call_.dtype_of(out),
                        sizes_text(shape.data(), static_cast<int>(shape.size())), " for the result"}));
        ++made_;
        // The description that stays valid is torch's own.
        std::int64_t *sizes = nullptr, *strides = nullptr;
        torch_shims.get_sizes(results_[out], &sizes);
        torch_shims.get_strides(results_[out], &strides);
        made.t.shape = sizes;
        made.t.strides = strides;
        call_.set_made(out, made.t);
    }
    /// Leaves a result the rows that it said it has.
    void narrow(int out) {
        const TorchShims& torch = torch_shims;
        std::int64_t ndim = 0, offset = 0, *sizes = nullptr, *strides = nullptr;
        TorchShims::Handle narrowed = nullptr;
        bool good = torch.get_dim(results_[out], &ndim) == 0 && torch.get_sizes(results_[out], &sizes) == 0 &&
                    torch.get_strides(results_[out], &strides) == 0;
        SizesList rows;
        for (std::int64_t d = 0; good && d < ndim; ++d) rows.push_back(d == 0 ? call_.rows_of(out) : sizes[d]);
        good =
            good && torch_library_shims.reinterpret(results_[out], ndim, rows.data(), strides, offset, &narrowed) == 0;
        if (!good)
            throw std::runtime_error(concat({op_.function, "(): torch made no part of a result: ", torch.what()}));
        torch.delete_handle(results_[out]);
        results_[out] = narrowed;
    }
    /// The kernel's work goes to torch's current stream, where the work on its tensors is.
    ISTHMUS_NOINLINE void go_to_device() {
        const std::int64_t stream = torch_stream_by_shim(device_);
        if (stream == no_stream)
            throw std::runtime_error(
                concat({op_.function, "(): this libtorch does not tell its current stream of ", device_}));
        throw_if_error(call_.go_to(stream_.emplace(device_, stream)));
    }

    const OperatorDefinition& op_;
    std::uint64_t* stack_;
    int first_;
    OperatorCall call_;
    bool dropped_[max_parameters] = {};
    TorchShims::Handle results_[max_results];
    int made_ = 0;
    std::forward_list<std::vector<std::int64_t>> integers_;  ///< the lists of integers
    std::vector<TorchShims::Handle> copies_;                 ///< row-major, of arguments that were not
    Device device_ = Device::cpu();
    bool have_device_ = false;
    std::optional<Stream> stream_;
};

}  // namespace

void run_in_torch(const OperatorDefinition& op, std::uint64_t* stack, std::uint64_t inputs) {
    TorchStack(op, stack, inputs > static_cast<std::uint64_t>(op.input_count)).run();
}

}  // namespace detail

ISTHMUS_END
