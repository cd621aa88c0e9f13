// Spline plus independent effects: the effects are eliminated exactly, code by code; what is left is a spline. NumPy's
// form is ahofm/priors/iid.py.
#pragma once

#include "centring.h"
#include "prior_spline.h"

namespace ahofm {
namespace {

// With t the precision of the independent effects, S and R the sums of a code: (S + t)^-1 into `local` (codes, stride,
// stride), t (S + t)^-1 S into `reduced` (codes, K, K) and t (S + t)^-1 [R, mass] into `right` (codes, K, count).
template <int Vectors>
inline bool eliminate_effects(Small<Vectors>, const SolveTask& task, const double* t, int64_t stride, int64_t count,
                              double* local, double* reduced, double* right, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K;
    const int64_t square = stride * stride;
    double *first = arena.take(kTasks * square), *keep = arena.zeros(kTasks * square),
           *products = arena.take(kTasks * square);
    double *sides = arena.zeros(kTasks * stride), *answers = arena.take(kTasks * stride);
    bool sound[kTasks] = {};
    for (bool& each : sound) each = true;
    over_codes(task.parallel, prior.codes, [&](int number, int64_t b) {
        double *S = first + number * square, *kept = keep + number * square, *product = products + number * square,
               *rhs = sides + number * stride, *solved = answers + number * stride;
        double *inverse = local + b * stride * stride, *to = reduced + b * K * K, *r = right + b * K * count;
        pad_matrix(task.gram + b * K * K, K, stride, S);
        std::memcpy(inverse, S, static_cast<size_t>(stride * stride) * sizeof(double));
        for (int64_t f = 0; f < K; f++) inverse[f * stride + f] += t[f];
        if (!Small<Vectors>::invert(inverse, stride)) {
            sound[number] = false;
            return;
        }
        for (int64_t f = 0; f < K; f++) {
            rhs[f] = task.rhs[b * K + f];
            for (int64_t g = 0; g < stride; g += 4)
                store4(kept + f * stride + g, t[f] * load4(inverse + f * stride + g));
        }
        Small<Vectors>::template multiply<>(kept, S, product, stride, stride);
        for (int64_t f = 0; f < K; f++)
            for (int64_t g = 0; g < K; g++) to[f * K + g] = 0.5 * (product[f * stride + g] + product[g * stride + f]);
        Small<Vectors>::apply(kept, rhs, solved, stride);
        std::memset(r, 0, static_cast<size_t>(K * count) * sizeof(double));
        for (int64_t f = 0; f < K; f++) {
            r[f * count] = solved[f];
            for (int64_t g = 0; g < K && prior.mass != nullptr; g++)
                r[f * count + 1 + g] = prior.mass[b] * kept[f * stride + g];
        }
    });
    for (const bool each : sound)
        if (!each) return false;
    return true;
}

// The effects (codes, K, count) given the spline's values (codes, K, count), and variances.
template <int Vectors>
inline bool restore_effects(Small<Vectors>, const SolveTask& task, const double* t, int64_t stride, int64_t count,
                            const double* local, const double* smooth, const double* smooth_variance, double* effects,
                            double* effect_variance, Arena& arena) {
    constexpr int wide = Vectors > 0 ? Vectors + 1 : 0;
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K;
    const int64_t square = stride * stride, wider = stride * count;
    double *first = arena.take(kTasks * square), *inputs = arena.zeros(kTasks * wider),
           *rests = arena.take(kTasks * wider), *outputs = arena.take(kTasks * wider);
    over_codes(task.parallel, prior.codes, [&](int number, int64_t b) {
        double *S = first + number * square, *values = inputs + number * wider, *rest = rests + number * wider,
               *found = outputs + number * wider;
        const double* inverse = local + b * stride * stride;
        pad_matrix(task.gram + b * K * K, K, stride, S);
        std::memcpy(values, smooth + b * K * count, static_cast<size_t>(K * count) * sizeof(double));
        Small<Vectors>::template multiply<wide>(S, values, rest, stride, count);
        for (int64_t i = 0; i < stride * count; i += 4) store4(rest + i, -load4(rest + i));
        for (int64_t f = 0; f < K; f++) {
            rest[f * count] += task.rhs[b * K + f];
            if (prior.mass != nullptr) rest[f * count + 1 + f] += prior.mass[b];
        }
        Small<Vectors>::template multiply<wide>(inverse, rest, found, stride, count);
        std::memcpy(effects + b * K * count, found, static_cast<size_t>(K * count) * sizeof(double));
        for (int64_t f = 0; f < K; f++) {
            double answer_part = 0.0, total = 0.0;
            for (int64_t g = 0; g < K; g++) {  // derivative of the effects by the spline: (S + t)^-1 S
                const double scaled = inverse[f * stride + g] * t[g], answer = (f == g ? 1.0 : 0.0) - scaled,
                             variance = smooth_variance[b * K + g];
                answer_part += answer * answer * variance;
                total += scaled * scaled * variance;
            }
            effect_variance[b * K + f] = inverse[f * stride + f] + answer_part;
            task.variance[b * K + f] = inverse[f * stride + f] + total;
        }
    });
    return true;
}

inline bool solve_as_spline_iid(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, m = prior.m, stride = padded(K), count = stride + 4;
    const double* t = task.lam + prior.groups * K;
    double *local = arena.take(codes * stride * stride), *reduced = arena.take(codes * K * K),
           *right = arena.take(codes * K * count);
    const bool eliminated = with_small(stride, [&](auto small) {
        return eliminate_effects(small, task, t, stride, count, local, reduced, right, arena);
    });
    SplineSolution found{arena.take(m * K * count), arena.take(codes * K)};
    if (!eliminated ||
        !solve_spline(prior, K, reduced, right, count, task.lam, nullptr, task.edf, found, arena, task.parallel))
        return false;
    double *smooth = arena.zeros(codes * K * count), *effects = arena.take(codes * K * count),
           *effect_variance = arena.take(codes * K);
    at_codes(prior, found.coef, K * count, smooth, arena, task.parallel);
    with_small(stride, [&](auto small) {
        return restore_effects(small, task, t, stride, count, local, smooth, found.variance, effects, effect_variance,
                               arena);
    });
    double* shift = arena.zeros(count);
    shift[0] = 1.0;
    if (prior.mass != nullptr) {
        double *total = arena.take(codes * K), *covariance = arena.zeros(codes * stride * stride);
        for (int64_t b = 0; b < codes; b++)
            for (int64_t f = 0; f < K; f++) {
                const double *s = smooth + (b * K + f) * count, *r = effects + (b * K + f) * count;
                total[b * K + f] = s[0] + r[0];
                for (int64_t g = 0; g < K; g++) covariance[(b * stride + f) * stride + g] = s[1 + g] + r[1 + g];
            }
        const Centring centring(prior.mass, covariance, codes, K, stride, arena, task.parallel);
        if (!centring.sound()) return false;
        double* moved = arena.take(stride);
        centring.shift(total, moved);
        for (int64_t g = 0; g < K; g++) shift[1 + g] = -moved[g];
        centring.condition(task.variance);
    }
    for (int64_t i = 0; i < m * K; i++) task.smooth[i] = dot(found.coef + i * count, shift, count);
    over_codes(task.parallel, codes, [&](int, int64_t b) {
        for (int64_t i = b * K; i < (b + 1) * K; i++) {
            task.per_code[i] = dot(effects + i * count, shift, count);
            task.mean[i] = dot(smooth + i * count, shift, count) + task.per_code[i];
        }
    });
    spline_forms(prior, K, task.smooth, task.form);
    for (int64_t f = 0; f < K; f++) {
        double variance = 0.0, square = 0.0;
        for (int64_t b = 0; b < codes; b++)
            if (prior.repeated[b]) {
                variance += effect_variance[b * K + f];
                square += task.per_code[b * K + f] * task.per_code[b * K + f];
            }
        task.edf[prior.groups * K + f] = prior.prior_trace - t[f] * variance;
        task.form[prior.groups * K + f] = square;
    }
    return true;
}

}  // namespace
}  // namespace ahofm
