// Spline prior: few coordinates in which the penalty is diagonal, one dense problem for all functions. NumPy's form is
// ahofm/priors/spline.py.
#pragma once

#include "local_basis.h"
#include "tuning.h"

namespace ahofm {
namespace {

struct SplineSolution {
    double* coef;      // (m * K, count)
    double* variance;  // (codes, K)
};

// Upper triangle of sum_b V_b V_b' (x) gram_b, (m K, m K), and its mean diagonal.
inline double assemble_spline(const PriorTask& prior, int64_t K, const double* gram, double* matrix, Arena& arena,
                              const Parallel& parallel) {
    const int64_t m = prior.m, codes = prior.codes, pairs = m * (m + 1) / 2, packed = K * (K + 1) / 2, N = m * K;
    double* upper = arena.take(codes * packed);
    over_codes(parallel, codes, [&](int, int64_t b) {
        double* to = upper + b * packed;
        for (int64_t f = 0; f < K; f++)
            for (int64_t g = f; g < K; g++) *to++ = gram[(b * K + f) * K + g];
    });
    double* blocks = arena.take(pairs * packed);
    at_pairs(prior, upper, packed, blocks, arena, parallel);
    const auto rows = [&](int task) {
        const int64_t a = task;
        const double* from = blocks + (a * m - a * (a - 1) / 2) * packed;
        for (int64_t b = a; b < m; b++)
            for (int64_t f = 0; f < K; f++)
                for (int64_t g = f; g < K; g++) {
                    const double value = *from++;
                    matrix[(a * K + f) * N + b * K + g] = value;
                    matrix[(a * K + g) * N + b * K + f] = value;
                }
    };
    parallel(static_cast<int>(m), rows);
    double mean_diagonal = 0.0;
    for (int64_t i = 0; i < N; i++) mean_diagonal += matrix[i * N + i] / static_cast<double>(N);
    return mean_diagonal;
}

// Adds the penalty and a jitter to the diagonal of (m K, m K).
inline void penalise_spline(const PriorTask& prior, int64_t K, const double* lam, double mean_diagonal,
                            double* matrix) {
    const int64_t N = prior.m * K;
    for (int64_t a = 0; a < prior.m; a++)
        for (int64_t f = 0; f < K; f++)
            matrix[(a * K + f) * (N + 1)] +=
                lam[prior.group[a] * K + f] * prior.relative_penalty[a] + tuning::SPLINE_JITTER * mean_diagonal;
}

// edf (groups, K) and variances (codes, K) from W with W W' the covariance of the coefficients.
inline void spline_variances(const PriorTask& prior, int64_t K, const double* lam, const double* inverse, double* edf,
                             double* variance, Arena& arena, const Parallel& parallel) {
    const int64_t m = prior.m, codes = prior.codes, pairs = m * (m + 1) / 2, N = m * K;
    double* covariance = arena.take(pairs * K);  // same-function covariances, those off the diagonal twice
    for (int64_t group = 0; group < prior.groups; group++)
        for (int64_t f = 0; f < K; f++) edf[group * K + f] = 0.0;
    const auto covariances = [&](int task) {
        const int64_t a = task;
        double* to = covariance + (a * m - a * (a - 1) / 2) * K;
        for (int64_t b = a; b < m; b++)
            for (int64_t f = 0; f < K; f++) {
                const int64_t i = a * K + f, j = b * K + f;
                const double value = dot(inverse + i * N + j, inverse + j * N + j, N - j);
                *to++ = a == b ? value : 2.0 * value;
            }
    };
    parallel(static_cast<int>(m), covariances);
    for (int64_t a = 0; a < m; a++)
        for (int64_t f = 0; f < K; f++)
            edf[prior.group[a] * K + f] += 1.0 - lam[prior.group[a] * K + f] * prior.relative_penalty[a] *
                                                     covariance[(a * m - a * (a - 1) / 2) * K + f];
    pairs_at_codes(prior, covariance, K, variance, arena, parallel);
    for (int64_t i = 0; i < codes * K; i++) variance[i] = non_negative(variance[i]);
}

// Solves for `count` right-hand sides (codes, K, count). Writes edf (groups, K).
inline bool solve_spline(const PriorTask& prior, int64_t K, const double* gram, const double* rhs, int64_t count,
                         const double* lam, const TensorPenaltyTask* tensor_penalty, double* edf, SplineSolution& out,
                         Arena& arena, const Parallel& parallel) {
    const int64_t m = prior.m, N = m * K;
    double* matrix = arena.take(N * N);
    penalise_spline(prior, K, lam, assemble_spline(prior, K, gram, matrix, arena, parallel), matrix);
    if (tensor_penalty != nullptr)
        for (int64_t a = 0; a < m; a++)
            for (int64_t f = 0; f < tensor_penalty->rank; f++)
                for (int64_t g = 0; g < tensor_penalty->rank; g++) {
                    const int64_t at = f * tensor_penalty->rank + g;
                    matrix[(a * K + f) * N + a * K + g] += prior.penalty[a] > 0.0
                                                               ? prior.penalty[a] * tensor_penalty->penalised[at]
                                                               : tensor_penalty->null[at];
                }
    if (!factorise(matrix, N, N, parallel)) return false;
    double* inverse = arena.take(N * N);
    invert_triangle(matrix, N, N, inverse, parallel);
    double* right = arena.take(N * count);
    at_coordinates(prior, rhs, K * count, right, arena, parallel);
    apply_inverse(inverse, N, right, count, arena.take(N * count), out.coef, parallel);
    spline_variances(prior, K, lam, inverse, edf, out.variance, arena, parallel);
    return true;
}

// relative_penalty * coef^2 by group: (groups, K), from coefficients (m, K).
inline void spline_forms(const PriorTask& prior, int64_t K, const double* coef, double* out) {
    for (int64_t i = 0; i < prior.groups * K; i++) out[i] = 0.0;
    for (int64_t a = 0; a < prior.m; a++)
        for (int64_t f = 0; f < K; f++) {
            const double c = coef[a * K + f];
            out[prior.group[a] * K + f] += prior.relative_penalty[a] * c * c;
        }
}

inline bool solve_as_spline(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    SplineSolution found{task.smooth, task.variance};
    if (!solve_spline(prior, task.K, task.gram, task.rhs, 1, task.lam, task.tensor_penalty, task.edf, found, arena,
                      task.parallel))
        return false;
    spline_forms(prior, task.K, task.smooth, task.form);
    at_codes(prior, task.smooth, task.K, task.mean, arena, task.parallel);
    return true;
}

}  // namespace
}  // namespace ahofm
