// Numbers to codes: the code of x is the number of edges strictly below it.
#pragma once

#include <cstdint>

namespace ahofm {

// Branchless binary search; consecutive values are independent, so their searches overlap.
// NaN gets `missing`. `stride` counts elements, so a column of a row-major matrix needs no copy.
template <class Code>
void encode(const double* values, int64_t n, int64_t stride, const double* edges, int64_t n_edges, uint32_t missing, Code* out) {
    for (int64_t i = 0; i < n; i++) {
        const double x = values[i * stride];
        const double* low = edges;
        for (int64_t length = n_edges; length > 1;) {
            const int64_t half = length / 2;
            low += (low[half - 1] < x) * half;
            length -= half;
        }
        const uint32_t code = n_edges == 0 ? 0 : static_cast<uint32_t>(low - edges) + (*low < x);
        out[i] = static_cast<Code>(x == x ? code : missing);
    }
}

}  // namespace ahofm
