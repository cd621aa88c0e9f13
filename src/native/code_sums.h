// Sums over the rows of each code that a block of shared curves needs: weighted products of slopes, and slopes times a
// weighted_response. Rows are added in order, so that sums depend on the rows only.
#pragma once

#include "passes.h"

namespace ahofm {
namespace {

template <class Code>
inline BadCode sum_by_code(const CodeSumsTask& task, const Code* codes) {
    const int64_t width = task.width;
    for (int64_t i = 0; i < task.n; i++) {
        const int64_t code = static_cast<int64_t>(codes[i]);
        if (code >= task.n_codes) return {0, i, static_cast<uint32_t>(code)};
        const double* slope = task.slopes + i * width;
        const double* weighted_response = task.weighted_response + i * width;
        double* rhs = task.rhs + code * width;
        double* gram = task.gram + code * width * width;
        const double weight = task.weight[i];
        for (int64_t f = 0; f < width; f++) rhs[f] += slope[f] * weighted_response[f];
        for (int64_t f = 0; f < width; f++) {
            const double weighted = weight * slope[f];
            double* row = gram + f * width;
            const int64_t end =
                (f + 4) / 4 * 4 < width ? (f + 4) / 4 * 4 : width;  // whole vectors, beyond the diagonal
            for (int64_t g = 0; g < end; g++) row[g] += weighted * slope[g];
        }
    }
    for (int64_t b = 0; b < task.n_codes; b++) {
        double* gram = task.gram + b * width * width;
        for (int64_t f = 0; f < width; f++)
            for (int64_t g = f + 1; g < width; g++) gram[f * width + g] = gram[g * width + f];
    }
    return {};
}

// Adds to gram and rhs, which are zero initially.
inline BadCode run_code_sums(const CodeSumsTask& task) {
    if (task.code_bytes == 1) return sum_by_code(task, static_cast<const uint8_t*>(task.codes));
    if (task.code_bytes == 2) return sum_by_code(task, static_cast<const uint16_t*>(task.codes));
    return sum_by_code(task, static_cast<const uint32_t*>(task.codes));
}

}  // namespace
}  // namespace ahofm
