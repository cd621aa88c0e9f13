// Numbers to codes: the code of x is the number of edges strictly below it.
#pragma once

#include <cstdint>

namespace ahofm {

inline double number_at(const double* values, int64_t index) {
    double x;
    __builtin_memcpy(&x, reinterpret_cast<const char*>(values) + index * static_cast<int64_t>(sizeof(double)),
                     sizeof(x));
    return x;
}

// Binary searches without branches, Together at a time: they take the same steps, so that one waits for memory while
// the others go on. NaN gets `missing`. `stride` counts elements, so a column of a row-major matrix needs no copy;
// values may lie at any address.
template <class Code>
void encode(const double* values, int64_t n, int64_t stride, const double* edges, int64_t n_edges, uint32_t missing,
            Code* out) {
    constexpr int Together = 8;
    for (int64_t i = 0; i < n; i += Together) {
        const int count = static_cast<int>(n - i < Together ? n - i : Together);
        double x[Together] = {};
        uint32_t below[Together] = {};
        for (int k = 0; k < count; k++) x[k] = number_at(values, (i + k) * stride);
        int64_t length = n_edges;
        while (length > 1) {
            const uint32_t half = static_cast<uint32_t>(length / 2);
            for (int k = 0; k < Together; k++)  // a mask: a conditional may be compiled to a branch, 2.4 times slower
                below[k] += half & (0u - static_cast<uint32_t>(edges[below[k] + half - 1] < x[k]));
            length -= half;
        }
        if (length == 1)
            for (int k = 0; k < Together; k++) below[k] += edges[below[k]] < x[k];
        for (int k = 0; k < count; k++) out[i + k] = static_cast<Code>(x[k] == x[k] ? below[k] : missing);
    }
}

}  // namespace ahofm
