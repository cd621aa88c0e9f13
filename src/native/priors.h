// The exact solve of K functions of one column under each Gaussian prior.
//
// Rows enter through sums per code, gram (codes, K, K) and rhs (codes, K), both divided by the dispersion. The
// posterior is
//
//     precision = blockdiag(gram) + prior precision        mean = precision^-1 rhs
//
// and each prior solves it in time linear in the codes. The same solves in NumPy are in ahofm/priors, with the
// formulas.
#pragma once

#include "prior_iid.h"
#include "prior_random_walk.h"
#include "prior_spline.h"
#include "prior_spline_iid.h"

namespace ahofm {
namespace {

bool solve_prior(const SolveTask& task) {
    Arena arena(task.memory, task.memory_size);
    switch (task.prior->kind) {
        case PriorKind::spline: return solve_as_spline(task, arena);
        case PriorKind::random_walk: return solve_as_random_walk(task, arena);
        case PriorKind::iid: return solve_as_iid(task, arena);
        default: return solve_as_spline_iid(task, arena);
    }
}

// Curves of a column that several classes share: the mean with smoothing parameters `lam`; where there are others to
// learn from (`learned_lam`), variances and degrees of freedom with those.
bool solve_curves(const CurvesSolve& task) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, N = prior.m * K, codes = prior.codes;
    Arena arena(task.memory, task.memory_size);
    if (prior.kind != PriorKind::spline) {
        double *unused = arena.take((codes + prior.m) * K + 8), *per_code = arena.take(codes * K),
               *forms = arena.take((prior.groups + 2) * K), *edf = arena.take((prior.groups + 2) * K);
        const int64_t left = arena.left();
        double* memory = arena.take(left);
        const SolveTask fixed_lam{task.prior, K,           task.gram,     task.rhs, task.lam,  nullptr, task.mean,
                                  unused,     task.smooth, task.per_code, edf,      task.form, memory,  left};
        if (!solve_prior(fixed_lam)) return false;
        if (task.learned_lam == nullptr) return true;
        return solve_prior({task.prior, K, task.gram, task.rhs, task.learned_lam, nullptr, unused, task.variance,
                            unused + codes * K, per_code, task.edf, forms, memory, left});
    }
    double *matrix = arena.take(N * N), *other = task.learned_lam == nullptr ? nullptr : arena.take(N * N);
    const double diagonal = assemble_spline(prior, K, task.gram, matrix, arena, {});
    if (other != nullptr) std::memcpy(other, matrix, static_cast<size_t>(N * N) * sizeof(double));
    penalise_spline(prior, K, task.lam, diagonal, matrix);
    if (!factorise(matrix, N, N)) return false;
    at_coordinates(prior, task.rhs, K, task.smooth, arena, {});
    solve_triangles(matrix, N, N, task.smooth, 1);
    spline_forms(prior, K, task.smooth, task.form);
    at_codes(prior, task.smooth, K, task.mean, arena, {});
    if (other == nullptr) return true;
    penalise_spline(prior, K, task.learned_lam, diagonal, other);
    if (!factorise(other, N, N)) return false;
    invert_triangle(other, N, N, matrix);
    spline_variances(prior, K, task.learned_lam, matrix, task.edf, task.variance, arena, {});
    return true;
}

// Upper bound of the doubles that a solve of K functions needs.
int64_t solve_memory(const PriorTask& prior, int64_t K) {
    const int64_t codes = prior.codes, stride = padded(K), m = prior.m, N = m * K, count = stride + 4;
    int64_t size = 4096 + 8 * kTasks * stride * (stride + 8) + 2 * codes * stride * stride + 3 * codes * stride;
    if (prior.kind == PriorKind::spline || prior.kind == PriorKind::spline_iid)
        size += codes * K * (K + 1) / 2 + m * (m + 1) / 2 * (K * (K + 1) / 2 + K) + 2 * N * N + 3 * N * count +
                codes * K + 2 * local_memory(prior, K * (K + 1) / 2) + 2 * local_memory(prior, K * count);
    if (prior.kind == PriorKind::spline_iid) size += codes * stride * stride + 4 * codes * K * count + 4 * codes * K;
    return size + 2 * (codes + m + 2) * K;
}

}  // namespace
}  // namespace ahofm