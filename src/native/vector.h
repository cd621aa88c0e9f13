// Fixed-width vectors by the compilers' own extension (GCC and Clang), one width per instruction set.
#pragma once

#include <cstdint>

#if defined(AHOFM_AVX2) || defined(AHOFM_AVX512)
#define AHOFM_VECTOR_BYTES 32
#else
#define AHOFM_VECTOR_BYTES 16
#endif

#if defined(__clang__)
#define AHOFM_UNROLL _Pragma("clang loop unroll_count(4)")
#else
#define AHOFM_UNROLL _Pragma("GCC unroll 4")
#endif

namespace ahofm {
namespace {

template <class T, int Lanes>
struct VectorOf {
    typedef T type __attribute__((vector_size(Lanes * sizeof(T)), aligned(sizeof(T)), may_alias));
};

// A panel of `Lanes` factors as Count machine vectors. The widest vector that divides the panel is
// used: 16 floats are two vectors of 256 bits, or four of 128.
template <class T, int Lanes>
struct Shape {
    static constexpr int widest = AHOFM_VECTOR_BYTES / static_cast<int>(sizeof(T));
    static constexpr int lanes = Lanes < widest ? Lanes : widest;
    static constexpr int count = Lanes / lanes;
    using Vector = typename VectorOf<T, lanes>::type;
};

template <class Vector, class T>
inline Vector broadcast(T value) {
    return Vector{} + value;
}

// Sum of the lanes, by halves: a chain of `lanes` scalar additions is slower than the recursion above it.
template <class T, int Lanes>
inline T sum_lanes(typename VectorOf<T, Lanes>::type v) {
    if constexpr (Lanes == 2) {
        return v[0] + v[1];
    } else {
        typename VectorOf<T, Lanes / 2>::type low, high;
        __builtin_memcpy(&low, &v, sizeof(low));
        __builtin_memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(low), sizeof(high));
        return sum_lanes<T, Lanes / 2>(low + high);
    }
}

}  // namespace
}  // namespace ahofm
