// Prints src/table.rs: the part of the backend's table that the crate uses, and the
// structs that cross, in Rust. SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>  // Python.h must come before any standard header

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <isthmus/backend/border.h>
#include <isthmus/backend/functions.h>
#include <isthmus/converted.h>
#include <isthmus/core/live.h>
#include <isthmus/fields.h>
#include <isthmus/load.h>
#include <isthmus/op.h>
#include <isthmus/python/arguments.h>
#include <isthmus/python/containers.h>
#include <isthmus/python/overloads.h>
#include <isthmus/tree.h>

ISTHMUS_BEGIN

namespace detail {

/// A type of a row as Rust writes it; NULL if it is not one of C that this program
/// knows.
template <class T>
inline constexpr const char* in_rust = nullptr;
template <class T>
inline constexpr const char* pointee = nullptr;
#define RUST(type, name) \
    template <>          \
    inline constexpr const char* in_rust<type> = name;
#define POINTEE(type, name) \
    template <>             \
    inline constexpr const char* pointee<type> = name;
RUST(void, "()")
RUST(bool, "bool")
RUST(int, "i32")
RUST(Flags, "u64")
RUST(std::int64_t, "i64")
RUST(Loaded, "u8")
RUST(Framework, "u8")
RUST(ErrorCode, "i32")
RUST(TextRef, "TextRef")
RUST(DefaultResult, "DefaultResult")
POINTEE(char, "c_char")
POINTEE(PyObject, "PyObject")
POINTEE(Block, "Block")
POINTEE(DLTensor, "DLTensor")
POINTEE(Requirement, "Requirement")
POINTEE(Match, "Match")
POINTEE(ErrorState, "ErrorState")
POINTEE(ErrorState*, "*mut ErrorState")
POINTEE(Tensor, "*mut Block")
POINTEE(BorrowSlot, "BorrowSlot")
POINTEE(HandleLoader<Tensor>, "TensorLoader")

bool failed = false;

template <class T>
std::string rust_of(const char* row) {
    const char* name = in_rust<T>;
    std::string text;
    if constexpr (std::is_pointer_v<T>) {
        using To = std::remove_pointer_t<T>;
        name = pointee<std::remove_const_t<To>>;
        text = std::is_const_v<To> ? "*const " : "*mut ";
    }
    if (name == nullptr) {
        std::fprintf(
            stderr,
            "%s: a type that C does not have, or that this program does not know\n",
            row);
        failed = true;
        return "?";
    }
    return text + name;
}

struct Row {
    int number;
    std::string text;
};
std::vector<Row> rows;
int needed = 0;

/// The rows that the crate calls.
const char* const used[] = {"destroy_block",
                            "notify_observer",
                            "match_check_argument",
                            "slot_load",
                            "slot_commit_or_raise",
                            "slot_end",
                            "load_tensor",
                            "roll_back_loaded_tensor",
                            "to_result",
                            "to_default_result",
                            "raise_error",
                            "raise_error_state"};

template <class R, class... A>
std::string function_of(const char* row, R (*)(A...)) {
    std::string parameters, arguments, types;
    int i = 0;
    [[maybe_unused]] const auto add = [&](const std::string& type) {
        const std::string name = "a" + std::to_string(i++);
        parameters += ", " + name + ": " + type;
        arguments += (arguments.empty() ? "" : ", ") + name;
        types += (types.empty() ? "" : ", ") + type;
    };
    (add(rust_of<A>(row)), ...);
    const std::string result = std::is_void_v<R> ? "" : " -> " + rust_of<R>(row);
    return "pub unsafe fn " + std::string(row) + "(table: &BackendTable" + parameters +
           ")" + result + " {\n    let f: unsafe extern \"C\" fn(" + types + ")" +
           result + " = transmute(*table.functions.add(" +
           std::to_string(rows.empty() ? 0 : rows.back().number) + "));\n    f(" +
           arguments + ")\n}\n";
}

template <class Slot>
void add_row(int number, const char* row) {
    if (std::find_if(std::begin(used), std::end(used), [&](const char* u) {
            return std::string(u) == row;
        }) == std::end(used))
        return;
    rows.push_back({number, ""});
    rows.back().text = function_of(row, static_cast<typename Slot::Type>(nullptr));
    needed = std::max(needed, number + 1);
}

#define ROW_F(n, row, R, name, params, args, quiet) \
    add_row<BackendSlot<auto params->R, quiet>>(n, #row);
#define ROW_M(n, row, R, C, name, params, args, cv, quiet)                        \
    add_row<BackendSlot<                                                          \
        auto ISTHMUS_BACKEND_SELF(cv C, ISTHMUS_BACKEND_LIST params)->R, quiet>>( \
        n, #row);
#define ROW_X(n, row, R, params, args, expression, quiet) \
    add_row<BackendSlot<auto params->R, quiet>>(n, #row);
#define ROWS(group) group(ROW_F, ROW_M, ROW_M, ROW_X)

std::string structs;
std::string checks;

void begin_struct(const char* name, std::size_t size, std::size_t alignment) {
    structs += "#[repr(C)]\npub struct " + std::string(name) + " {\n";
    checks += "    assert!(size_of::<" + std::string(name) +
              ">() == " + std::to_string(size) + " && align_of::<" + name +
              ">() == " + std::to_string(alignment) + ");\n";
}
void add_field(const char* of, const char* name, const char* type, std::size_t offset) {
    structs += "    pub " + std::string(name) + ": " + type + ",\n";
    checks += "    assert!(offset_of!(" + std::string(of) + ", " + name +
              ") == " + std::to_string(offset) + ");\n";
}
void constant(const char* name, std::size_t value, const char* type = "usize") {
    structs += "pub const " + std::string(name) + ": " + type + " = " +
               std::to_string(value) + ";\n";
}

#define STRUCT(name) begin_struct(#name, sizeof(name), alignof(name))
#define FIELD(name, field, type) add_field(#name, #field, type, offsetof(name, field))
#define END structs += "}\n"

/// Sees what the classes keep to themselves, as the backend does.
struct BackendAccess {
    static void print() {
        STRUCT(BackendTable);
        FIELD(BackendTable, count, "u32");
        FIELD(BackendTable, version, "u32");
        FIELD(BackendTable, version_text, "*const c_char");
        FIELD(BackendTable, observer, "*const AtomicPtr<c_void>");
        FIELD(BackendTable, functions, "*const *const c_void");
        END;
        structs += "#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n";
        STRUCT(DLDataType);
        FIELD(DLDataType, code, "u8");
        FIELD(DLDataType, bits, "u8");
        FIELD(DLDataType, lanes, "u16");
        END;
        structs += "#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n";
        STRUCT(DLDevice);
        FIELD(DLDevice, device_type, "i32");
        FIELD(DLDevice, device_id, "i32");
        END;
        STRUCT(DLTensor);
        FIELD(DLTensor, data, "*mut c_void");
        FIELD(DLTensor, device, "DLDevice");
        FIELD(DLTensor, ndim, "i32");
        FIELD(DLTensor, dtype, "DLDataType");
        FIELD(DLTensor, shape, "*mut i64");
        FIELD(DLTensor, strides, "*mut i64");
        FIELD(DLTensor, byte_offset, "u64");
        END;
        STRUCT(OwnerOps);
        FIELD(OwnerOps, size, "u32");
        FIELD(OwnerOps, framework, "u32");
        FIELD(OwnerOps, release, "Option<unsafe extern \"C\" fn(*mut c_void)>");
        FIELD(OwnerOps, source,
              "Option<unsafe extern \"C\" fn(*mut c_void) -> *mut c_void>");
        FIELD(OwnerOps, array,
              "Option<unsafe extern \"C\" fn(*mut c_void) -> *mut c_void>");
        FIELD(OwnerOps, native,
              "Option<unsafe extern \"C\" fn(*mut c_void) -> *const c_void>");
        FIELD(OwnerOps, producer, "*const c_char");
        FIELD(OwnerOps, release_shared,
              "Option<unsafe extern \"C\" fn(*mut c_void) -> bool>");
        FIELD(OwnerOps, owns_memory, "bool");
        FIELD(
            OwnerOps, private_pages,
            "Option<unsafe extern \"C\" fn(*mut c_void, *const Block) -> *mut Block>");
        END;
        STRUCT(Block);
        FIELD(Block, dl, "DLTensor");
        FIELD(Block, refs, "AtomicU32");
        FIELD(Block, wrapper_aliases, "u32");
        FIELD(Block, flags, "u64");
        FIELD(Block, ops, "*const OwnerOps");
        FIELD(Block, owner, "*mut c_void");
        FIELD(Block, wrapper, "AtomicPtr<c_void>");
        FIELD(Block, stream, "i64");
        END;
        structs += "#[derive(Clone, Copy)]\n";
        STRUCT(TextRef);
        FIELD(TextRef, data, "*const c_char");
        FIELD(TextRef, size, "usize");
        END;
        STRUCT(Requirement);
        FIELD(Requirement, accepts,
              "Option<unsafe extern \"C\" fn(DLDataType) -> bool>");
        FIELD(Requirement, dtype, "DLDataType");
        FIELD(Requirement, writable, "bool");
        FIELD(Requirement, allow_grad, "bool");
        FIELD(Requirement, no_grad, "bool");
        FIELD(Requirement, order, "u8");
        FIELD(Requirement, min_rank, "i32");
        FIELD(Requirement, max_rank, "i32");
        FIELD(Requirement, sizes, "*const c_void");
        FIELD(Requirement, size_count, "i32");
        FIELD(Requirement, device_type, "i32");
        FIELD(Requirement, alignment, "usize");
        FIELD(Requirement, words, "TextRef");
        FIELD(Requirement, convert, "*const c_void");
        FIELD(Requirement, converts, "bool");
        FIELD(Requirement, orders_clash, "bool");
        FIELD(Requirement, sizes_clash, "bool");
        FIELD(Requirement, ranks_clash, "bool");
        FIELD(Requirement, devices_clash, "bool");
        FIELD(Requirement, grads_clash, "bool");
        END;
        structs += "#[derive(Clone, Copy)]\n";
        STRUCT(DefaultResult);
        FIELD(DefaultResult, reply, "bool");
        FIELD(DefaultResult, framework, "u8");
        END;
        using TensorLoader = HandleLoader<Tensor>;
        STRUCT(TensorLoader);
        add_field("TensorLoader", "capsule", "*mut PyObject",
                  offsetof(TensorLoader, capsule_));
        add_field("TensorLoader", "taken", "*mut *mut Block",
                  offsetof(TensorLoader, taken_));
        END;

        structs +=
            "\n// BorrowSlot and Match, whose members are reached by their offsets.\n";
        static_assert(offsetof(BorrowSlot, result_) == 0 && alignof(BorrowSlot) == 8 &&
                      alignof(Match) == 8);
        constant("SLOT_SIZE", sizeof(BorrowSlot));
        constant("SLOT_DESCRIPTOR", offsetof(Borrowed, dl_));
        constant("SLOT_FLAGS", offsetof(Borrowed, flags_));
        constant("SLOT_MADE", offsetof(BorrowSlot, made_));
        constant("SLOT_PENDING", offsetof(BorrowSlot, pending_));
        constant("MATCH_SIZE", sizeof(Match));
        constant("MATCH_FUNCTION", offsetof(Match, function_));
        constant("MATCH_COUNT", offsetof(Match, names_) + offsetof(SizeNames, count));

        structs += "\n// What the numbers mean.\n";
        constant("LOADED_YES", static_cast<std::size_t>(Loaded::yes), "u8");
        constant("READ_ONLY", flag::read_only, "u64");
        constant("ORDER_ANY", static_cast<std::size_t>(Order::any), "u8");
        constant("ORDER_C", static_cast<std::size_t>(Order::c), "u8");
        structs +=
            "pub const HOST_MEMORY: i32 = " + std::to_string(host_memory) + ";\n";
        constant("BAD_LAYOUT", static_cast<std::size_t>(ErrorCode::bad_layout), "i32");
        constant("BAD_ARGUMENT", static_cast<std::size_t>(ErrorCode::bad_argument),
                 "i32");
        constant("OUT_OF_MEMORY", static_cast<std::size_t>(ErrorCode::out_of_memory),
                 "i32");
        constant("CPU", static_cast<std::size_t>(kDLCPU), "i32");
        constant("TENSOR", static_cast<std::size_t>(Framework::tensor), "u8");
        constant("CAPSULE", static_cast<std::size_t>(Framework::capsule), "u8");
        constant("NUMPY", static_cast<std::size_t>(Framework::numpy), "u8");
        constant("TORCH", static_cast<std::size_t>(Framework::torch), "u8");
        constant("MAX_NDIM", max_ndim);

        ROWS(ISTHMUS_BACKEND_CORE)
        ROWS(ISTHMUS_BACKEND_BRIDGE)
        ROWS(ISTHMUS_BACKEND_BINDING)
    }
};

}  // namespace detail

ISTHMUS_END

int main() {
    using namespace isthmus::detail;
    BackendAccess::print();
    if (rows.size() != std::size(used))
        failed = true, std::fputs("a row that is used has another name\n", stderr);
    std::sort(rows.begin(), rows.end(),
              [](const Row& a, const Row& b) { return a.number < b.number; });
    std::fputs(
        "// SPDX-License-Identifier: Apache-2.0\n"
        "//! The backend's table (`isthmus/backend/functions.h`) in Rust: written by "
        "table.cpp, which a test runs "
        "again.\n"
        "#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]\n\n"
        "use std::ffi::{c_char, c_void};\n"
        "use std::mem::{align_of, offset_of, size_of, transmute, MaybeUninit};\n"
        "use std::sync::atomic::{AtomicPtr, AtomicU32};\n\n"
        "use crate::cpython::PyObject;\n\n",
        stdout);
    std::printf(
        "/// A backend with fewer rows is too old.\npub const NEEDED: u32 = %d;\n",
        needed);
    std::printf("pub const VERSION: &std::ffi::CStr = c\"%s\";\n\n", ISTHMUS_VERSION);
    std::printf("%s\n", structs.c_str());
    std::fputs(
        "#[repr(C)]\npub struct ErrorState {\n    _opaque: [u8; 0],\n}\n"
        "/// A borrow in progress: zeros are an empty one. It may hold pointers into "
        "itself.\n"
        "#[repr(C, align(8))]\npub struct BorrowSlot(pub MaybeUninit<[u8; "
        "SLOT_SIZE]>);\n"
        "/// The names of the sizes of one call: empty with a function's name at "
        "MATCH_FUNCTION and 0 at MATCH_COUNT.\n"
        "#[repr(C, align(8))]\npub struct Match(pub MaybeUninit<[u8; "
        "MATCH_SIZE]>);\n\n",
        stdout);
    std::printf("const _: () = {\n%s};\n", checks.c_str());
    for (const Row& row : rows) std::printf("\n%s", row.text.c_str());
    return failed ? 1 : 0;
}
