// Values of a spline's coordinates at the codes, dense or by local functions.
//
// A spline basis has few functions that are not zero at a code. With B (codes, functions) their values, `nonzero` of
// them at each code, and T (functions, m), the coordinates' values are V = B T, and sums over codes need `nonzero`
// numbers of each instead of m:
//
//     V'X = T' (B'X)      V C = B (T C)      V' diag(g) V = T' (B' diag(g) B) T      diag(V C V') = diag(B (T C T') B')
#pragma once

#include "dense.h"

namespace ahofm {
namespace {

// Memory of one solve, allocated once and handed out in pieces.
class Arena {
  public:
    Arena(double* memory, int64_t size) : next_(memory), end_(memory + size) {}

    double* take(int64_t count) {
        const int64_t rounded = (count + 7) / 8 * 8;
        if (next_ + rounded > end_) too_large();
        double* found = next_;
        next_ += rounded;
        return found;
    }

    double* zeros(int64_t count) {
        double* found = take(count);
        std::memset(found, 0, static_cast<size_t>(count) * sizeof(double));
        return found;
    }

  private:
    double *next_, *end_;
};

// out (m, width) = V' from (codes, width)
inline void at_coordinates(const PriorTask& prior, const double* from, int64_t width, double* out, Arena& arena) {
    std::memset(out, 0, static_cast<size_t>(prior.m * width) * sizeof(double));
    if (prior.nonzero == 0) {
        add_product({prior.values, 1, prior.m}, prior.m, from, width, width, prior.codes, 1.0, out, width);
        return;
    }
    double* local = arena.zeros(prior.functions * width);
    for (int64_t b = 0; b < prior.codes; b++)
        for (int64_t s = b * prior.nonzero; s < (b + 1) * prior.nonzero; s++)
            subtract_row(-prior.entries[s], from + b * width, width, local + prior.places[s] * width);
    add_product({prior.transform, 1, prior.m}, prior.m, local, width, width, prior.functions, 1.0, out, width);
}

// out (codes, width) = V coef (m, width)
inline void at_codes(const PriorTask& prior, const double* coef, int64_t width, double* out, Arena& arena) {
    std::memset(out, 0, static_cast<size_t>(prior.codes * width) * sizeof(double));
    if (prior.nonzero == 0) {
        add_product({prior.values, prior.m, 1}, prior.codes, coef, width, width, prior.m, 1.0, out, width);
        return;
    }
    double* local = arena.zeros(prior.functions * width);
    add_product({prior.transform, prior.m, 1}, prior.functions, coef, width, width, prior.m, 1.0, local, width);
    for (int64_t b = 0; b < prior.codes; b++)
        for (int64_t s = b * prior.nonzero; s < (b + 1) * prior.nonzero; s++)
            subtract_row(-prior.entries[s], local + prior.places[s] * width, width, out + b * width);
}

// out (m (m + 1) / 2, width): sum_b V_ba V_bc from_b of pairs a <= c of coordinates, from (codes, width)
inline void at_pairs(const PriorTask& prior, const double* from, int64_t width, double* out, Arena& arena) {
    const int64_t m = prior.m, n = prior.functions, pairs = m * (m + 1) / 2;
    std::memset(out, 0, static_cast<size_t>(pairs * width) * sizeof(double));
    if (prior.nonzero == 0) {
        add_product({prior.products, 1, pairs}, pairs, from, width, width, prior.codes, 1.0, out, width);
        return;
    }
    double *local = arena.zeros(n * n * width), *half = arena.zeros(n * m * width);
    for (int64_t b = 0; b < prior.codes; b++) {
        const int64_t* places = prior.places + b * prior.nonzero;
        const double* entries = prior.entries + b * prior.nonzero;
        for (int64_t s = 0; s < prior.nonzero; s++)
            for (int64_t t = s; t < prior.nonzero; t++)
                subtract_row(-entries[s] * entries[t], from + b * width, width,
                             local + (places[s] * n + places[t]) * width);
    }
    for (int64_t i = 0; i < n; i++)  // places ascend, so that only the upper triangle has been filled
        for (int64_t j = 0; j < i; j++)
            std::memcpy(local + (i * n + j) * width, local + (j * n + i) * width,
                        static_cast<size_t>(width) * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        add_product({prior.transform, 1, m}, m, local + i * n * width, width, width, n, 1.0, half + i * m * width,
                    width);
    double* to = out;
    for (int64_t a = 0; a < m; a++) {
        add_product({prior.transform + a, 1, m}, 1, half + a * width, m * width, (m - a) * width, n, 1.0, to,
                    (m - a) * width);
        to += (m - a) * width;
    }
}

// out (codes, width): sum over pairs a <= c of V_ba V_bc own (pairs, width), those off the diagonal counted twice in
// `own`
inline void pairs_at_codes(const PriorTask& prior, const double* own, int64_t width, double* out, Arena& arena) {
    const int64_t m = prior.m, n = prior.functions, pairs = m * (m + 1) / 2;
    std::memset(out, 0, static_cast<size_t>(prior.codes * width) * sizeof(double));
    if (prior.nonzero == 0) {
        add_product({prior.products, pairs, 1}, prior.codes, own, width, width, pairs, 1.0, out, width);
        return;
    }
    double *full = arena.take(m * m * width), *half = arena.zeros(n * m * width), *local = arena.zeros(n * n * width);
    const double* from = own;
    for (int64_t a = 0; a < m; a++)
        for (int64_t c = a; c < m; c++, from += width)
            for (int64_t f = 0; f < width; f++)
                full[(a * m + c) * width + f] = full[(c * m + a) * width + f] = a == c ? from[f] : 0.5 * from[f];
    add_product({prior.transform, m, 1}, n, full, m * width, m * width, m, 1.0, half, m * width);
    for (int64_t i = 0; i < n; i++)
        add_product({prior.transform, m, 1}, n, half + i * m * width, width, width, m, 1.0, local + i * n * width,
                    width);
    for (int64_t b = 0; b < prior.codes; b++) {
        const int64_t* places = prior.places + b * prior.nonzero;
        const double* entries = prior.entries + b * prior.nonzero;
        for (int64_t s = 0; s < prior.nonzero; s++)
            for (int64_t t = s; t < prior.nonzero; t++)
                subtract_row(-(s == t ? 1.0 : 2.0) * entries[s] * entries[t],
                             local + (places[s] * n + places[t]) * width, width, out + b * width);
    }
}

// Upper bound of the doubles that these need, for `width` numbers at each code or pair.
inline int64_t local_memory(const PriorTask& prior, int64_t width) {
    const int64_t n = prior.functions;
    return 64 + (n * n + n * prior.m + n + prior.m * prior.m) * width;
}

}  // namespace
}  // namespace ahofm
