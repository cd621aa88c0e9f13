// Passes over rows of several classes with shared curves: losses, slopes of the factors' terms, sums per code, and the
// way back to rows. The same in NumPy, with the formulas: ahofm/shared_curves (class_rows, polynomials, factors).
//
// Everything is row-major and float64. K classes have `stride` numbers a row, K padded to whole vectors with zeros; F
// factors are not padded. A row's state is e_1 .. e_order of every factor, (levels, F), of product factors their product
// alone; a row's rests are those of the other columns, the slope first. Moments of product factors are the products of
// value^2 + v. Values of product factors are never zero, so that products are divided by them.
#pragma once

#include "dense.h"
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

// Rows of a column's table (codes, F) at the codes of some rows: (rows, F).
inline void look_up(const SharedRows& rows, const double* table, int64_t first, int64_t count, double* out) {
    for (int64_t r = 0; r < count; r++)
        std::memcpy(out + r * rows.F, table + static_cast<int64_t>(rows.codes[first + r]) * rows.F,
                    static_cast<size_t>(rows.F) * sizeof(double));
}

// e_1 .. e_{order - 1} of the other columns, the last one (the slope of the terms) first.
inline void rests_of(const SharedRows& rows, const SharedOrder& order, const double* curve, const double* state,
                     double* rest) {
    if (order.order == kProduct) {
        for (int64_t f = order.first; f < order.first + order.rank; f++) rest[f] = state[f] / curve[f];
        return;
    }
    const int64_t F = rows.F, levels = order.order - 1;
    for (int64_t level = 0; level < levels; level++) {
        const double *e = state + level * F + order.first, *phi = curve + order.first,
                     *below = rest + (levels - level) * F + order.first;
        double* to = rest + (levels - 1 - level) * F + order.first;
        if (level == 0)
            for (int64_t f = 0; f < order.rank; f++) to[f] = e[f] - phi[f];
        else
            for (int64_t f = 0; f < order.rank; f++) to[f] = e[f] - phi[f] * below[f];
    }
}

// By variances of partners, per factor of a pair or triple: addition to the diagonal of gram, subtraction from rhs.
inline void uncertain_partners(const SharedRows& rows, const SharedOrder& order, const double* curve,
                               const double* variance, const double* state, const double* rest, const double* moments,
                               double weight, double* added, double* right) {
    const int64_t F = rows.F, squares = rows.moments - 1;
    for (int64_t f = order.first; f < order.first + order.rank; f++) {
        const double c = curve[f], v = rows.tempering * variance[f], slope = rest[f];
        const double beside = rows.classes_less_one * rows.tempering * rows.loading_variance[f],
                     total = rows.products[f * F + f] + beside;
        const double m0 = moments[f] - v, m1 = moments[F + f] - v * c, m2 = moments[2 * F + f] - v * c * c,
                     square = moments[squares * F + f] - v * v;
        double slope_variance = m0, covariance = slope * m0 - m1;
        if (order.order == 3) {
            const double e1 = rest[F + f], m3 = moments[3 * F + f] - v * c * c * c;
            slope_variance = e1 * e1 * m0 - 2.0 * e1 * m1 + m2 + 0.5 * (m0 * m0 - square);
            slope_variance = slope_variance > 0.0 ? slope_variance : 0.0;
            covariance = e1 * slope * m0 - (e1 * e1 + slope) * m1 + 2.0 * e1 * m2 - m3;
        }
        const double without = state[(order.order - 1) * F + f] - c * slope;
        added[f] = weight * (slope_variance * total + slope * slope * beside);
        right[f] -= weight * (covariance * total + slope * without * beside);
    }
}

// The same of product factors: to the diagonal of gram alone, since nothing of a term is without the column.
inline void uncertain_products(const SharedRows& rows, const SharedOrder& order, const double* curve,
                               const double* variance, const double* rest, const double* moments, double weight,
                               double* added) {
    for (int64_t f = order.first; f < order.first + order.rank; f++) {
        const double beside = rows.classes_less_one * rows.tempering * rows.loading_variance[f],
                     total = rows.products[f * rows.F + f] + beside, square = rest[f] * rest[f];
        const double slope_variance = moments[f] / (curve[f] * curve[f] + rows.tempering * variance[f]) - square;
        added[f] = weight * ((slope_variance > 0.0 ? slope_variance : 0.0) * total + square * beside);
    }
}

// Rests of all rows, and what each row adds to the right-hand side and, by variances of partners, to the diagonal.
void run_shared_slopes(const SharedRows& rows) {
    const int64_t F = rows.F, depth = rows.levels - 1;
    Buffer<double> memory(3 * kBlock * F);
    double *curve = memory.get(), *scaled = curve + kBlock * F, *variance = scaled + kBlock * F;
    for (int64_t first = 0; first < rows.n; first += kBlock) {
        const int64_t count = rows.n - first < kBlock ? rows.n - first : kBlock;
        double* response = rows.response + first * F;
        look_up(rows, rows.values, first, count, curve);
        for (int64_t r = 0; r < count; r++) {
            const int64_t i = first + r;
            double* rest = rows.rests + i * depth * F;
            for (int o = 0; o < rows.n_orders; o++)
                rests_of(rows, rows.orders[o], curve + r * F, rows.state + i * rows.levels * F, rest);
            for (int64_t f = 0; f < F; f++) scaled[r * F + f] = rows.weight[i] * rest[f] * curve[r * F + f];
        }
        std::memset(response, 0, static_cast<size_t>(count * F) * sizeof(double));
        add_product({rows.slope + first * rows.stride, rows.stride, 1}, count, rows.loadings_by_class, F, F, rows.K,
                    1.0, response, F);
        add_product({scaled, F, 1}, count, rows.products, F, F, F, 1.0, response, F);
        if (rows.tempering > 0.0) look_up(rows, rows.variance, first, count, variance);
        for (int64_t r = 0; r < count; r++) {
            const int64_t i = first + r;
            const double* rest = rows.rests + i * depth * F;
            double* right = response + r * F;
            for (int64_t f = 0; f < F; f++) right[f] *= rest[f];
            for (int o = 0; o < rows.n_orders && rows.tempering > 0.0; o++)
                if (rows.orders[o].order == kProduct)
                    uncertain_products(rows, rows.orders[o], curve + r * F, variance + r * F, rest,
                                       rows.moment_sums + i * rows.moments * F, rows.weight[i], rows.added + i * F);
                else if (rows.orders[o].order <= 3)
                    uncertain_partners(rows, rows.orders[o], curve + r * F, variance + r * F,
                                       rows.state + i * rows.levels * F, rest, rows.moment_sums + i * rows.moments * F,
                                       rows.weight[i], rows.added + i * F, right);
        }
    }
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
                const double* slope = rows.rests + i * step;
                for (int64_t f = 0; f < F; f++) {
                    slopes[r * F + f] = slope[f];
                    weighted[r * F + f] = rows.weight[i] * slope[f];
                    right[f] += rows.response[i * F + f];
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

// Adds sign times the tempered variances v of a column to the sums over columns of v curve^k, and of v^2, of a row; for
// product factors, multiplies by curve^2 + v or divides by it.
inline void change_moments(const SharedRows& rows, const SharedOrder& order, const double* v, const double* curve,
                           double sign, double* sums) {
    const int64_t F = rows.F;
    for (int64_t f = order.first; f < order.first + order.rank; f++) {
        if (order.order == kProduct) {
            const double square = curve[f] * curve[f] + rows.tempering * v[f];
            sums[f] = sign > 0.0 ? sums[f] * square : sums[f] / square;
            continue;
        }
        const double variance = rows.tempering * v[f];
        double moment = sign * variance;
        for (int64_t k = 0; k + 1 < rows.moments; k++, moment *= curve[f]) sums[k * F + f] += moment;
        sums[(rows.moments - 1) * F + f] += sign * variance * variance;
    }
}

// Moves all rows to a column's new curves: states, moments, and linear predictors.
void run_shared_move(const SharedRows& rows, const SharedMove& move) {
    const int64_t F = rows.F, depth = rows.levels - 1;
    Buffer<double> memory(2 * kBlock * F);
    double *difference = memory.get(), *change = difference + kBlock * F;
    for (int64_t first = 0; first < rows.n; first += kBlock) {
        const int64_t count = rows.n - first < kBlock ? rows.n - first : kBlock;
        look_up(rows, move.difference, first, count, difference);
        for (int64_t r = 0; r < count; r++) {
            const int64_t i = first + r, code = static_cast<int64_t>(rows.codes[i]);
            const double *rest = rows.rests + i * depth * F, *d = difference + r * F;
            double* state = rows.state + i * rows.levels * F;
            for (int64_t f = 0; f < F; f++) {
                change[r * F + f] = rest[f] * d[f];
                state[f] += d[f];
            }
            for (int o = 0; o < rows.n_orders; o++) {
                const SharedOrder& order = rows.orders[o];
                if (order.order == kProduct) {
                    const double* now = move.values + code * F;
                    for (int64_t f = order.first; f < order.first + order.rank; f++) state[f] = rest[f] * now[f];
                    continue;
                }
                for (int64_t level = 1; level < order.order; level++) {
                    const double* below = rest + (order.order - 1 - level) * F;
                    double* e = state + level * F;
                    for (int64_t f = order.first; f < order.first + order.rank; f++) e[f] += d[f] * below[f];
                }
            }
            if (!(rows.tempering > 0.0)) continue;
            double* sums = rows.moment_sums + i * rows.moments * F;
            for (int o = 0; o < rows.n_orders; o++) {
                change_moments(rows, rows.orders[o], rows.variance + code * F, rows.values + code * F, -1.0, sums);
                change_moments(rows, rows.orders[o], move.variance + code * F, move.values + code * F, 1.0, sums);
            }
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
                change_moments(rows, rows.orders[o], rows.variance + code * F, curve, 1.0,
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
