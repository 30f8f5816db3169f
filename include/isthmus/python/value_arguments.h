// Dtypes and devices as arguments and results of a function, and which of the library's types a function cannot have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/annotations.h>  // Python.h must come before any standard header

ISTHMUS_BEGIN

struct Blob;
struct LiveTensor;
class Match;
class PyOwner;
struct GradientOptions;
struct OperatorOptions;
class Random;
class Stream;
struct TensorEntry;
class TensorFile;
class Tree;
template <class... T>
class Arguments;
template <class T, int N, class... C>
class Out;
template <class T, int N, class... C>
class InOut;
namespace shared {
class Segment;
class Pool;
struct PoolOptions;
struct PoolStats;
struct Wait;
}  // namespace shared

namespace detail {

template <class X>
inline constexpr bool is_value = std::is_same_v<X, DType> || std::is_same_v<X, Device>;

/// Reads a dtype or a device: one of ours, a framework's own, and as a conversion (`last`) its name or the tuple that
/// DLPack has for it.
Loaded try_value(PyObject* object, DType& value, bool last) noexcept;
Loaded try_value(PyObject* object, Device& value, bool last) noexcept;
/// The same, names and tuples among them; raises for anything else. `function` and `argument` may be NULL.
Loaded load_value(PyObject* object, DType& value, const char* function, const char* argument) noexcept;
Loaded load_value(PyObject* object, Device& value, const char* function, const char* argument) noexcept;
/// A new isthmus.DType or isthmus.Device; NULL with the exception set.
PyObject* value_to_py(DType value) noexcept;
PyObject* value_to_py(Device value) noexcept;

template <class X>
    requires is_value<X>
struct ArgumentLoader<X> {
    static Loaded try_load(PyObject* object, X& value, bool last) noexcept { return try_value(object, value, last); }
    static Loaded load(PyObject* object, X& value, const char* function, const char* argument, Match*) noexcept {
        return load_value(object, value, function, argument);
    }
    static bool commit(const char*, const char*) noexcept { return true; }
    static void commit_or_throw(const char* = nullptr, const char* = nullptr) noexcept {}
    static bool is_done() noexcept { return true; }
    static void roll_back(PyObject*, X&) noexcept {}
};

/// Their types in a signature.
template <class X>
struct ValueWords;
template <>
struct ValueWords<DType> {
    static constexpr char argument[] = "isthmus.typing.DTypeLike", result[] = "isthmus.DType";
};
template <>
struct ValueWords<Device> {
    static constexpr char argument[] = "isthmus.typing.DeviceLike", result[] = "isthmus.Device";
};

template <class X, class... Types>
inline constexpr bool is_any_of = (std::is_same_v<X, Types> || ...);
/// Whether a type of the library is for C++ alone: without a caster a binder would compile a function of it, and refuse
/// each call.
template <class X>
inline constexpr bool stays_in_cpp =
    is_any_of<X, Shape, TensorSpec, Blob, Error, Match, Ref, PyOwner, ImportOptions, ExportOptions, Tree, TensorFile,
              TensorEntry, LiveTensor, Stream, Random, OperatorOptions, GradientOptions, layout::AddressRange, ByteBool,
              shared::Segment, shared::Pool, shared::PoolOptions, shared::PoolStats, shared::Wait>;
template <class T, int N, class... C>
inline constexpr bool stays_in_cpp<Out<T, N, C...>> = true;
template <class T, int N, class... C>
inline constexpr bool stays_in_cpp<InOut<T, N, C...>> = true;
template <class... T>
inline constexpr bool stays_in_cpp<Arguments<T...>> = true;

}  // namespace detail

ISTHMUS_END

/// The sentences that stop the compiler, the same for every binder.
#define ISTHMUS_STAYS_IN_CPP                                                                                           \
    "isthmus: this type stays in C++: take a View, Tensor, DType or Device, return a Tensor, Reply or As<Framework>; " \
    "Out and InOut are for isthmus::op"
/// The function by which a caster would load an argument.
#define ISTHMUS_NO_ARGUMENT(load)                                                                                  \
    template <class... A>                                                                                          \
    bool load(A&&...) noexcept {                                                                                   \
        static_assert(sizeof...(A) == 0,                                                                           \
                      "isthmus: a Reply, an As, a Result and what has records are results; take a View, a Tensor " \
                      "or an Argument");                                                                           \
        return false;                                                                                              \
    }

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_VALUES)
#endif
