// Passes over rows of several classes with shared curves: losses, slopes of the factors' terms, sums per code, and the
// way back to rows. The same in NumPy, with the formulas: ahofm/shared_curves (class_rows, polynomials, factors).
//
// Everything is row-major and float64. K classes have `stride` numbers a row, K padded to whole vectors with zeros; F
// factors are not padded. A row's state is e_1 .. e_order of every factor, (levels, F), of product factors their product
// alone; a row's rests are those of the other columns, the slope first. Moments of product factors are the products of
// value^2 + v. Values of product factors are never zero, so that products are divided by them.
#pragma once

#include "class_slopes.h"
#include "losses.h"

namespace ahofm {
namespace {

// Working weights and responses of all rows; sums of the losses, of Fisher's information and of the weights.
void run_class_losses(const ClassLossTask& task, ClassLossSums* sums) {
    const int64_t K = task.K, stride = task.stride;
    Buffer<double> memory(K * kBlock);
    double* p = memory.get();
    double loss = 0.0, information = 0.0, weights = 0.0;
    for (int64_t first = 0; first < task.n; first += kBlock) {
        const int64_t rows = task.n - first < kBlock ? task.n - first : kBlock;
        double top[kBlock], total[kBlock], chosen[kBlock], most[kBlock], curvature[kBlock];
        for (int64_t r = 0; r < kBlock; r++) {
            top[r] = -__builtin_inf();
            total[r] = most[r] = curvature[r] = 0.0;
        }
        for (int64_t r = 0; r < rows; r++) {
            const double *eta = task.eta + (first + r) * stride,
                         *offset = task.offset == nullptr ? nullptr : task.offset + (first + r) * K;
            for (int64_t k = 0; k < K; k++) p[k * kBlock + r] = offset == nullptr ? eta[k] : eta[k] + offset[k];
        }
        for (int64_t k = 0; k < K; k++) {
            for (int64_t r = rows; r < kBlock; r++) p[k * kBlock + r] = 0.0;
            for (int64_t r = 0; r < kBlock; r++) top[r] = p[k * kBlock + r] > top[r] ? p[k * kBlock + r] : top[r];
        }
        for (int64_t r = 0; r < rows; r++) chosen[r] = p[task.y[first + r] * kBlock + r] - top[r];
        for (int64_t k = 0; k < K; k++)
            for (int64_t r = 0; r < kBlock; r++) {
                const double z = exp_of(p[k * kBlock + r] - top[r]);
                p[k * kBlock + r] = z;
                total[r] += z;
            }
        for (int64_t k = 0; k < K; k++)
            for (int64_t r = 0; r < kBlock; r++) {
                const double mu = p[k * kBlock + r] / total[r], binomial = mu * (1.0 - mu);
                p[k * kBlock + r] = mu;
                most[r] = binomial > most[r] ? binomial : most[r];
                curvature[r] += binomial;
            }
        for (int64_t r = 0; r < rows; r++) {
            const int64_t i = first + r;
            double* slope = task.slope + i * stride;
            double bound = 2.0 * most[r];
            bound = bound < task.least_weight ? task.least_weight : bound;
            bound = bound > task.most_weight || task.bound ? task.most_weight : bound;
            const double weight = task.weight[i];
            task.working_weight[i] = bound * weight;
            for (int64_t k = 0; k < K; k++) slope[k] = -weight * p[k * kBlock + r];
            slope[task.y[i]] += weight;
            weights += bound * weight;
            information += weight * curvature[r];
            loss += weight * (__builtin_log(total[r]) - chosen[r]);
        }
    }
    *sums = {loss, information, weights};
}

// gram (codes, F, F) and rhs (codes, F) from what rows have left, code by code; not of the last code, the neutral one.
void run_shared_sums(const SharedRows& rows, const uint32_t* sorted, const uint32_t* first_of_code, int64_t codes,
                     double* gram, double* rhs) {
    constexpr int64_t most = 64;  // rows at a time
    const int64_t F = rows.F, step = (rows.levels - 1) * F;
    Buffer<double> memory(2 * most * F);
    double *slopes = memory.get(), *weighted = slopes + most * F;
    std::memset(gram, 0, static_cast<size_t>(codes * F * F) * sizeof(double));
    std::memset(rhs, 0, static_cast<size_t>(codes * F) * sizeof(double));
    for (int64_t b = 0; b < codes; b++) {
        double *matrix = gram + b * F * F, *right = rhs + b * F;
        for (uint32_t begin = first_of_code[b]; begin < first_of_code[b + 1]; begin += most) {
            const uint32_t left = first_of_code[b + 1] - begin;
            const int64_t count = left < most ? left : most;
            for (int64_t r = 0; r < count; r++) {
                const int64_t i = sorted[begin + r];
                const double weight = rows.weight[i];
                In slope = rows.rests + i * step, response = rows.response + i * F;
                Out to = slopes + r * F, times = weighted + r * F, sum = right;
                for (int64_t f = 0; f < F; f++) {
                    to[f] = slope[f];
                    times[f] = weight * slope[f];
                    sum[f] += response[f];
                }
            }
            for (int64_t f = 0; f < F; f += 4)
                add_product({weighted + f, 1, F}, F - f < 4 ? F - f : 4, slopes + f, F, F - f, count, 1.0,
                            matrix + f * F + f, F);
        }
        for (int64_t f = 0; f < F; f++)
            for (int64_t g = f; g < F; g++) matrix[f * F + g] *= rows.products[f * F + g];
        for (uint32_t at = first_of_code[b]; at < first_of_code[b + 1] && rows.tempering > 0.0; at++)
            for (int64_t f = 0; f < F; f++) matrix[f * F + f] += rows.added[static_cast<int64_t>(sorted[at]) * F + f];
        for (int64_t f = 0; f < F; f++)
            for (int64_t g = f + 1; g < F; g++) matrix[g * F + f] = matrix[f * F + g];
    }
}

// Adds the tempered variances v of a column to the sums over columns of v curve^k, and of v^2, of a row or code; product
// factors are multiplied by curve^2 + v.
inline void add_moments(const SharedRows& rows, const SharedOrder& order, In v, In curve, Out sums) {
    const int64_t F = rows.F;
    for (int64_t f = order.first; f < order.first + order.rank; f++) {
        if (order.order == kProduct) {
            sums[f] *= curve[f] * curve[f] + rows.tempering * v[f];
            continue;
        }
        const double variance = rows.tempering * v[f];
        double moment = variance;
        for (int64_t k = 0; k + 1 < rows.moments; k++, moment *= curve[f]) sums[k * F + f] += moment;
        sums[(rows.moments - 1) * F + f] += variance * variance;
    }
}

// What the new curves of a column change in the moments of rows of a code, to `out` (moments, F); of product factors,
// what they multiply them by. `before` (moments, F) is overwritten.
inline void moment_changes(const SharedRows& rows, const SharedMove& move, int64_t code, double* before, double* out) {
    const int64_t F = rows.F;
    for (int64_t at = 0; at < rows.moments * F; at++) before[at] = out[at] = 0.0;
    for (int o = 0; o < rows.n_orders; o++) {
        const SharedOrder& order = rows.orders[o];
        if (order.order == kProduct)
            for (int64_t f = order.first; f < order.first + order.rank; f++) before[f] = out[f] = 1.0;
        add_moments(rows, order, rows.variance + code * F, rows.values + code * F, before);
        add_moments(rows, order, move.variance + code * F, move.values + code * F, out);
        for (int64_t f = order.first; f < order.first + order.rank; f++) {
            if (order.order == kProduct) out[f] /= before[f];
            for (int64_t k = 0; k < rows.moments && order.order != kProduct; k++) out[k * F + f] -= before[k * F + f];
        }
    }
}

// Adds a column's changes of a code to the moments of a row; those of product factors are multiplied by theirs.
inline void move_moments(const SharedRows& rows, const SharedOrder& order, In change, Out sums) {
    const int64_t F = rows.F, last = order.first + order.rank;
    if (order.order == kProduct) {
        for (int64_t f = order.first; f < last; f++) sums[f] *= change[f];
        return;
    }
    for (int64_t k = 0; k < rows.moments; k++)
        for (int64_t f = order.first; f < last; f++) sums[k * F + f] += change[k * F + f];
}

// States of a row, given the changes d of its curves and, of product factors, the new curves.
inline void move_states(const SharedRows& rows, const SharedOrder& order, const double* d, const double* curve,
                        const double* rests, double* state) {
    const int64_t F = rows.F, rank = order.rank;
    In difference = d + order.first, now = curve + order.first;
    for (int64_t level = 0; level < (order.order == kProduct ? 1 : order.order); level++) {
        Out e = state + level * F + order.first;
        if (order.order == kProduct) {
            In rest = rests + order.first;
            for (int64_t f = 0; f < rank; f++) e[f] = rest[f] * now[f];
        } else if (level == 0) {
            for (int64_t f = 0; f < rank; f++) e[f] += difference[f];
        } else {
            In below = rests + (order.order - 1 - level) * F + order.first;
            for (int64_t f = 0; f < rank; f++) e[f] += difference[f] * below[f];
        }
    }
}

// Moves all rows to a column's new curves: states, moments, and linear predictors.
void run_shared_move(const SharedRows& rows, const SharedMove& move) {
    const int64_t F = rows.F, depth = rows.levels - 1;
    const int64_t moments = rows.tempering > 0.0 ? rows.moments * F : 0;
    Buffer<double> memory(kBlock * F + (rows.n_codes + 1) * moments);
    double *change = memory.get(), *of_codes = change + kBlock * F, *before = of_codes + rows.n_codes * moments;
    for (int64_t code = 0; code < rows.n_codes && moments > 0; code++)
        moment_changes(rows, move, code, before, of_codes + code * moments);
    for (int64_t first = 0; first < rows.n; first += kBlock) {
        const int64_t count = rows.n - first < kBlock ? rows.n - first : kBlock;
        for (int64_t r = 0; r < count; r++) {
            const int64_t i = first + r, code = static_cast<int64_t>(rows.codes[i]);
            const double *rests = rows.rests + i * depth * F, *difference = move.difference + code * F;
            In rest = rests, d = difference;
            Out to = change + r * F;
            for (int64_t f = 0; f < F; f++) to[f] = rest[f] * d[f];
            for (int o = 0; o < rows.n_orders; o++)
                move_states(rows, rows.orders[o], difference, move.values + code * F, rests,
                            rows.state + i * rows.levels * F);
            for (int o = 0; o < rows.n_orders && moments > 0; o++)
                move_moments(rows, rows.orders[o], of_codes + code * moments, rows.moment_sums + i * moments);
        }
        add_product({change, F, 1}, count, rows.loadings, rows.stride, rows.stride, F, 1.0,
                    move.eta + first * rows.stride, rows.stride);
    }
}

// Adds a column to the states of all rows; to the moments alone where `moments` is set.
void run_shared_add(const SharedRows& rows, bool moments) {
    const int64_t F = rows.F;
    for (int64_t i = 0; i < rows.n; i++) {
        const int64_t code = static_cast<int64_t>(rows.codes[i]);
        const double* curve = rows.values + code * F;
        if (moments) {
            for (int o = 0; o < rows.n_orders; o++)
                add_moments(rows, rows.orders[o], rows.variance + code * F, curve,
                            rows.moment_sums + i * rows.moments * F);
            continue;
        }
        double* state = rows.state + i * rows.levels * F;
        for (int o = 0; o < rows.n_orders; o++) {
            const SharedOrder& order = rows.orders[o];
            if (order.order == kProduct) {
                for (int64_t f = order.first; f < order.first + order.rank; f++) state[f] *= curve[f];
                continue;
            }
            for (int64_t level = order.order - 1; level >= 0; level--) {
                double* e = state + level * F;
                if (level == 0)
                    for (int64_t f = order.first; f < order.first + order.rank; f++) e[f] += curve[f];
                else
                    for (int64_t f = order.first; f < order.first + order.rank; f++) e[f] += curve[f] * e[f - F];
            }
        }
    }
}

// Terms of all factors, (n, F), and sums over rows of weight times their variances, (F,), where there are any.
void run_shared_terms(const SharedRows& rows, double* terms, double* variances) {
    const int64_t F = rows.F, squares = rows.moments - 1;
    for (int64_t i = 0; i < rows.n; i++) {
        const double *state = rows.state + i * rows.levels * F, *sums = rows.moment_sums + i * rows.moments * F;
        for (int o = 0; o < rows.n_orders; o++) {
            const SharedOrder& order = rows.orders[o];
            const double* last = state + (order.order == kProduct ? 0 : order.order - 1) * F;
            for (int64_t f = order.first; f < order.first + order.rank; f++) {
                terms[i * F + f] = last[f];
                if (order.order == kProduct && rows.tempering > 0.0) {
                    const double variance = sums[f] - last[f] * last[f];
                    variances[f] += rows.weight[i] * (variance > 0.0 ? variance : 0.0);
                }
                if (!(rows.tempering > 0.0) || order.order > 3) continue;
                const double e1 = state[f], m0 = sums[f], m1 = sums[F + f], m2 = sums[2 * F + f];
                double variance = e1 * e1 * m0 - 2.0 * e1 * m1 + m2;
                if (order.order == 2) {
                    variance += 0.5 * (m0 * m0 - sums[squares * F + f]);
                } else {
                    const double e2 = state[F + f];
                    variance = e2 * e2 * m0 - 2.0 * e1 * e2 * m1 + (e1 * e1 + 2.0 * e2) * m2 -
                               2.0 * e1 * sums[3 * F + f] + sums[4 * F + f];
                }
                variances[f] += rows.weight[i] * (variance > 0.0 ? variance : 0.0);
            }
        }
    }
}

}  // namespace
}  // namespace ahofm
