// Values of a spline's coordinates at the codes, dense or by local functions.
//
// A spline basis has few functions that are not zero at a code. With B (codes, functions) their values, `nonzero` of
// them at each code, and T (functions, m), the coordinates' values are V = B T, and sums over codes need `nonzero`
// numbers of each instead of m:
//
//     V'X = T' (B'X)      V C = B (T C)      V' diag(g) V = T' (B' diag(g) B) T      diag(V C V') = diag(B (T C T') B')
#pragma once

#include "arena.h"
#include "dense.h"

namespace ahofm {
namespace {

// Zeros in columns begin .. end - 1 of rows of `width` numbers.
inline void clear_columns(double* to, int64_t rows, int64_t width, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < rows; i++)
        std::memset(to + i * width + begin, 0, static_cast<size_t>(end - begin) * sizeof(double));
}

// out (m, width) = V' from (codes, width)
inline void at_coordinates(const PriorTask& prior, const double* from, int64_t width, double* out, Arena& arena,
                           const Parallel& parallel) {
    double* local = prior.nonzero == 0 ? nullptr : arena.take(prior.functions * width);
    over_slices(parallel, width, [&](int64_t begin, int64_t end) {
        const int64_t size = end - begin;
        clear_columns(out, prior.m, width, begin, end);
        if (prior.nonzero == 0) {
            add_product({prior.values, 1, prior.m}, prior.m, from + begin, width, size, prior.codes, 1.0, out + begin,
                        width);
            return;
        }
        clear_columns(local, prior.functions, width, begin, end);
        for (int64_t b = 0; b < prior.codes; b++)
            for (int64_t s = b * prior.nonzero; s < (b + 1) * prior.nonzero; s++)
                subtract_row(-prior.entries[s], from + b * width + begin, size,
                             local + prior.places[s] * width + begin);
        add_product({prior.transform, 1, prior.m}, prior.m, local + begin, width, size, prior.functions, 1.0,
                    out + begin, width);
    });
}

// out (codes, width) = V coef (m, width)
inline void at_codes(const PriorTask& prior, const double* coef, int64_t width, double* out, Arena& arena,
                     const Parallel& parallel) {
    double* local = prior.nonzero == 0 ? nullptr : arena.take(prior.functions * width);
    over_slices(parallel, width, [&](int64_t begin, int64_t end) {
        const int64_t size = end - begin;
        clear_columns(out, prior.codes, width, begin, end);
        if (prior.nonzero == 0) {
            add_product({prior.values, prior.m, 1}, prior.codes, coef + begin, width, size, prior.m, 1.0, out + begin,
                        width);
            return;
        }
        clear_columns(local, prior.functions, width, begin, end);
        add_product({prior.transform, prior.m, 1}, prior.functions, coef + begin, width, size, prior.m, 1.0,
                    local + begin, width);
        for (int64_t b = 0; b < prior.codes; b++)
            for (int64_t s = b * prior.nonzero; s < (b + 1) * prior.nonzero; s++)
                subtract_row(-prior.entries[s], local + prior.places[s] * width + begin, size, out + b * width + begin);
    });
}

// out (m (m + 1) / 2, width): sum_b V_ba V_bc from_b of pairs a <= c of coordinates, from (codes, width)
inline void at_pairs(const PriorTask& prior, const double* from, int64_t width, double* out, Arena& arena,
                     const Parallel& parallel) {
    const int64_t m = prior.m, n = prior.functions, pairs = m * (m + 1) / 2;
    const bool dense = prior.nonzero == 0;
    double *local = dense ? nullptr : arena.take(n * n * width), *half = dense ? nullptr : arena.take(n * m * width);
    over_slices(parallel, width, [&](int64_t begin, int64_t end) {
        const int64_t size = end - begin;
        clear_columns(out, pairs, width, begin, end);
        if (dense) {
            add_product({prior.products, 1, pairs}, pairs, from + begin, width, size, prior.codes, 1.0, out + begin,
                        width);
            return;
        }
        clear_columns(local, n * n, width, begin, end);
        clear_columns(half, n * m, width, begin, end);
        for (int64_t b = 0; b < prior.codes; b++) {
            const int64_t* places = prior.places + b * prior.nonzero;
            const double* entries = prior.entries + b * prior.nonzero;
            for (int64_t s = 0; s < prior.nonzero; s++)
                for (int64_t t = s; t < prior.nonzero; t++)
                    subtract_row(-entries[s] * entries[t], from + b * width + begin, size,
                                 local + (places[s] * n + places[t]) * width + begin);
        }
        for (int64_t i = 0; i < n; i++)  // places ascend, so that only the upper triangle has been filled
            for (int64_t j = 0; j < i; j++)
                std::memcpy(local + (i * n + j) * width + begin, local + (j * n + i) * width + begin,
                            static_cast<size_t>(size) * sizeof(double));
        for (int64_t i = 0; i < n; i++)
            add_product({prior.transform, 1, m}, m, local + i * n * width + begin, width, size, n, 1.0,
                        half + i * m * width + begin, width);
        double* to = out + begin;
        for (int64_t a = 0; a < m; a++)
            for (int64_t c = a; c < m; c++, to += width)
                add_product({prior.transform + a, 1, m}, 1, half + c * width + begin, m * width, size, n, 1.0, to,
                            width);
    });
}

// out (codes, width): sum over pairs a <= c of V_ba V_bc by_pair (pairs, width), those off the diagonal counted twice in
// `by_pair`
inline void pairs_at_codes(const PriorTask& prior, const double* by_pair, int64_t width, double* out, Arena& arena,
                           const Parallel& parallel) {
    const int64_t m = prior.m, n = prior.functions, pairs = m * (m + 1) / 2;
    constexpr int64_t rows = 32;  // codes of a task
    const int tasks = static_cast<int>((prior.codes + rows - 1) / rows);
    if (prior.nonzero == 0) {
        const auto some = [&](int task) {
            const int64_t first = task * rows, count = prior.codes - first < rows ? prior.codes - first : rows;
            std::memset(out + first * width, 0, static_cast<size_t>(count * width) * sizeof(double));
            add_product({prior.products + first * pairs, pairs, 1}, count, by_pair, width, width, pairs, 1.0,
                        out + first * width, width);
        };
        return parallel(tasks, some);
    }
    double *full = arena.take(m * m * width), *half = arena.take(n * m * width), *local = arena.take(n * n * width);
    const double* from = by_pair;
    for (int64_t a = 0; a < m; a++)
        for (int64_t c = a; c < m; c++, from += width)
            for (int64_t f = 0; f < width; f++)
                full[(a * m + c) * width + f] = full[(c * m + a) * width + f] = a == c ? from[f] : 0.5 * from[f];
    over_slices(parallel, m * width, [&](int64_t begin, int64_t end) {
        clear_columns(half, n, m * width, begin, end);
        add_product({prior.transform, m, 1}, n, full + begin, m * width, end - begin, m, 1.0, half + begin, m * width);
    });
    const auto turned = [&](int task) {
        const int64_t i = task;
        std::memset(local + i * n * width, 0, static_cast<size_t>(n * width) * sizeof(double));
        add_product({prior.transform, m, 1}, n, half + i * m * width, width, width, m, 1.0, local + i * n * width,
                    width);
    };
    parallel(static_cast<int>(n), turned);
    const auto some = [&](int task) {
        const int64_t first = task * rows, last = prior.codes - first < rows ? prior.codes : first + rows;
        std::memset(out + first * width, 0, static_cast<size_t>((last - first) * width) * sizeof(double));
        for (int64_t b = first; b < last; b++) {
            const int64_t* places = prior.places + b * prior.nonzero;
            const double* entries = prior.entries + b * prior.nonzero;
            for (int64_t s = 0; s < prior.nonzero; s++)
                for (int64_t t = s; t < prior.nonzero; t++)
                    subtract_row(-(s == t ? 1.0 : 2.0) * entries[s] * entries[t],
                                 local + (places[s] * n + places[t]) * width, width, out + b * width);
        }
    };
    parallel(tasks, some);
}

// Upper bound of the doubles that these need, for `width` numbers at each code or pair.
inline int64_t local_memory(const PriorTask& prior, int64_t width) {
    const int64_t n = prior.functions;
    return 64 + (n * n + n * prior.m + n + prior.m * prior.m) * width;
}

}  // namespace
}  // namespace ahofm
