// Independent effects, one per code: one small problem for each. NumPy's form is ahofm/priors/iid.py.
#pragma once

#include "centring.h"

namespace ahofm {
namespace {

// Covariances (codes, stride, stride), with padding of zeros, means and variances before centring.
template <int Vectors>
inline bool solve_iid_codes(Small<Vectors>, const SolveTask& task, int64_t stride, double* covariance, Arena& arena) {
    const int64_t K = task.K, codes = task.prior->codes;
    double *rights = arena.zeros(kTasks * stride), *founds = arena.take(kTasks * stride);
    bool sound[kTasks] = {};
    for (bool& each : sound) each = true;
    over_codes(task.parallel, codes, [&](int number, int64_t b) {
        double *inverse = covariance + b * stride * stride, *right = rights + number * stride,
               *found = founds + number * stride;
        pad_matrix(task.gram + b * K * K, K, stride, inverse);
        for (int64_t f = 0; f < K; f++) inverse[f * stride + f] += task.lam[f];
        if (task.tensor_penalty != nullptr)
            for (int64_t f = 0; f < task.tensor_penalty->rank; f++)
                for (int64_t g = 0; g < task.tensor_penalty->rank; g++)
                    inverse[f * stride + g] += task.tensor_penalty->penalised[f * task.tensor_penalty->rank + g];
        if (!Small<Vectors>::invert(inverse, stride)) {
            sound[number] = false;
            return;
        }
        for (int64_t f = 0; f < K; f++) right[f] = task.rhs[b * K + f];
        Small<Vectors>::apply(inverse, right, found, stride);
        for (int64_t f = 0; f < K; f++) {
            task.mean[b * K + f] = found[f];
            task.variance[b * K + f] = inverse[f * stride + f];
        }
        for (int64_t f = K; f < stride; f++) inverse[f * stride + f] = 0.0;
    });
    for (const bool each : sound)
        if (!each) return false;
    return true;
}

inline bool solve_as_iid(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, stride = padded(K);
    double* covariance = arena.take(codes * stride * stride);
    const bool solved =
        with_small(stride, [&](auto small) { return solve_iid_codes(small, task, stride, covariance, arena); });
    if (!solved) return false;
    if (prior.mass != nullptr) {
        for (int64_t b = 0; b < codes; b++)
            for (int64_t i = 0; i < stride * stride; i++) covariance[b * stride * stride + i] *= prior.mass[b];
        const Centring centring(prior.mass, covariance, codes, K, stride, arena, task.parallel);
        if (!centring.sound()) return false;
        double* shift = arena.take(stride);
        centring.shift(task.mean, shift);
        centring.subtract(shift, task.mean);
        centring.condition(task.variance);
    }
    for (int64_t f = 0; f < K; f++) {
        double variance = 0.0, square = 0.0;
        for (int64_t b = 0; b < codes; b++)
            if (prior.repeated[b]) {
                variance += task.variance[b * K + f];
                square += task.mean[b * K + f] * task.mean[b * K + f];
            }
        task.edf[f] = prior.prior_trace - task.lam[f] * variance;
        task.form[f] = square;
    }
    std::memcpy(task.per_code, task.mean, static_cast<size_t>(codes * K) * sizeof(double));
    return true;
}

}  // namespace
}  // namespace ahofm
