// Slopes of the factors' terms at rows of several classes with shared curves, and what variances of partners add to them.
// Layouts of rows are those of class_passes.h.
#pragma once

#include "dense.h"

namespace ahofm {
namespace {

// Pointers of the passes below never overlap, which compilers cannot know: loops over factors are short, and checks at
// run time would take as long as they do.
using In = const double* __restrict__;
using Out = double* __restrict__;

// e_1 .. e_{order - 1} of the other columns, the last one (the slope of the terms) first; `inverse`: one over the curve of
// product factors.
inline void rests_of(const SharedRows& rows, const SharedOrder& order, const double* curve, const double* inverse,
                     const double* state, double* rest) {
    const int64_t F = rows.F, levels = order.order - 1, rank = order.rank;
    In phi = curve + order.first, first = state + order.first;
    if (order.order == kProduct) {
        In one_over = inverse + order.first;
        Out to = rest + order.first;
        for (int64_t f = 0; f < rank; f++) to[f] = first[f] * one_over[f];
        return;
    }
    Out lowest = rest + (levels - 1) * F + order.first;
    for (int64_t f = 0; f < rank; f++) lowest[f] = first[f] - phi[f];
    for (int64_t level = 1; level < levels; level++) {
        In e = first + level * F, below = rest + (levels - level) * F + order.first;
        Out to = rest + (levels - 1 - level) * F + order.first;
        for (int64_t f = 0; f < rank; f++) to[f] = e[f] - phi[f] * below[f];
    }
}

// Per factor, what variances of partners and loadings multiply: sums of squared loadings with their variances, and these.
struct LoadingSquares {
    Out total, beside;
};

inline void squares_of_loadings(const SharedRows& rows, const LoadingSquares& out) {
    for (int64_t f = 0; f < rows.F; f++) {
        out.beside[f] = rows.classes_less_one * rows.tempering * rows.loading_variance[f];
        out.total[f] = rows.products[f * rows.F + f] + out.beside[f];
    }
}

// Of product factors, by code: one over the curve, and one over curve^2 + v. Other factors have nothing there.
void invert_products(const SharedRows& rows, double* of_curves, double* of_squares) {
    const int64_t F = rows.F;
    for (int o = 0; o < rows.n_orders; o++) {
        const SharedOrder& order = rows.orders[o];
        for (int64_t b = 0; b < rows.n_codes && order.order == kProduct; b++) {
            In curve = rows.values + b * F, variance = rows.variance + b * F;
            Out to = of_curves + b * F, squares = of_squares + b * F;
            for (int64_t f = order.first; f < order.first + order.rank; f++) {
                to[f] = 1.0 / curve[f];
                squares[f] = 1.0 / (curve[f] * curve[f] + rows.tempering * variance[f]);
            }
        }
    }
}

// What `uncertain_partners` takes of one row, each from the first factor of the order on.
struct UncertainRow {
    In curve, variance, inverse_square, last, rest, moments;  // last: e_order of all columns
    double weight;
    Out added, right;
};

// By variances of partners, per factor of a pair or triple: addition to the diagonal of gram, subtraction from rhs.
template <int Order>
inline void uncertain_partners(const SharedRows& rows, int64_t rank, In total, In beside, const UncertainRow& row) {
    const int64_t F = rows.F, squares = rows.moments - 1;
    In curve = row.curve, variance = row.variance, last = row.last, rest = row.rest, moments = row.moments;
    Out added = row.added, right = row.right;
    for (int64_t f = 0; f < rank; f++) {
        const double c = curve[f], v = rows.tempering * variance[f], slope = rest[f];
        const double m0 = moments[f] - v, m1 = moments[F + f] - v * c, m2 = moments[2 * F + f] - v * c * c;
        double slope_variance = m0, covariance = slope * m0 - m1;
        if constexpr (Order == 3) {
            const double e1 = rest[F + f], m3 = moments[3 * F + f] - v * c * c * c,
                         square = moments[squares * F + f] - v * v;
            slope_variance = e1 * e1 * m0 - 2.0 * e1 * m1 + m2 + 0.5 * (m0 * m0 - square);
            slope_variance = slope_variance > 0.0 ? slope_variance : 0.0;
            covariance = e1 * slope * m0 - (e1 * e1 + slope) * m1 + 2.0 * e1 * m2 - m3;
        }
        const double without = last[f] - c * slope;
        added[f] = row.weight * (slope_variance * total[f] + slope * slope * beside[f]);
        right[f] -= row.weight * (covariance * total[f] + slope * without * beside[f]);
    }
}

// The same of product factors: to the diagonal of gram alone, since nothing of a term is without the column.
inline void uncertain_products(int64_t rank, In total, In beside, const UncertainRow& row) {
    In inverse = row.inverse_square, rest = row.rest, moments = row.moments;
    Out added = row.added;
    for (int64_t f = 0; f < rank; f++) {
        const double square = rest[f] * rest[f];
        const double slope_variance = moments[f] * inverse[f] - square;
        added[f] = row.weight * ((slope_variance > 0.0 ? slope_variance : 0.0) * total[f] + square * beside[f]);
    }
}

// Rests of all rows, and what each row adds to the right-hand side and, by variances of partners, to the diagonal.
void run_shared_slopes(const SharedRows& rows) {
    const int64_t F = rows.F, depth = rows.levels - 1, stride = rows.stride;
    bool products = false;
    for (int o = 0; o < rows.n_orders; o++) products = products || rows.orders[o].order == kProduct;
    const int64_t inverses = products ? rows.n_codes * F : 0;
    Buffer<double> memory(kBlock * (F + stride) + 2 * F + 2 * inverses);
    double *scaled = memory.get(), *pulled = scaled + kBlock * F, *total = pulled + kBlock * stride,
           *beside = total + F, *inverse = beside + F, *inverse_square = inverse + inverses;
    squares_of_loadings(rows, {total, beside});
    if (products) invert_products(rows, inverse, inverse_square);
    for (int64_t first = 0; first < rows.n; first += kBlock) {
        const int64_t count = rows.n - first < kBlock ? rows.n - first : kBlock;
        double* response = rows.response + first * F;
        for (int64_t r = 0; r < count; r++) {
            const int64_t i = first + r;
            const int64_t code = static_cast<int64_t>(rows.codes[i]) * F;
            const double *curve = rows.values + code, *of_products = products ? inverse + code : nullptr;
            double* rest = rows.rests + i * depth * F;
            for (int o = 0; o < rows.n_orders; o++)
                rests_of(rows, rows.orders[o], curve, of_products, rows.state + i * rows.levels * F, rest);
            const double weight = rows.weight[i];
            In phi = curve, slope = rest;
            Out to = scaled + r * F;
            for (int64_t f = 0; f < F; f++) to[f] = weight * slope[f] * phi[f];
        }
        // Slopes without the column's terms, by class, then by factor
        std::memcpy(pulled, rows.slope + first * stride, static_cast<size_t>(count * stride) * sizeof(double));
        add_product({scaled, F, 1}, count, rows.loadings, stride, stride, F, 1.0, pulled, stride);
        std::memset(response, 0, static_cast<size_t>(count * F) * sizeof(double));
        add_product({pulled, stride, 1}, count, rows.loadings_by_class, F, F, rows.K, 1.0, response, F);
        for (int64_t r = 0; r < count; r++) {
            const int64_t i = first + r;
            const double* rest = rows.rests + i * depth * F;
            In slope = rest;
            Out right = response + r * F;
            for (int64_t f = 0; f < F; f++) right[f] *= slope[f];
            for (int o = 0; o < rows.n_orders && rows.tempering > 0.0; o++) {
                const SharedOrder& order = rows.orders[o];
                const int64_t at = order.first, code = static_cast<int64_t>(rows.codes[i]) * F + at;
                const int64_t last = order.order == kProduct ? 0 : order.order - 1;
                const UncertainRow row{rows.values + code,
                                       rows.variance + code,
                                       products ? inverse_square + code : nullptr,
                                       rows.state + (i * rows.levels + last) * F + at,
                                       rest + at,
                                       rows.moment_sums + i * rows.moments * F + at,
                                       rows.weight[i],
                                       rows.added + i * F + at,
                                       response + r * F + at};
                if (order.order == kProduct) uncertain_products(order.rank, total + at, beside + at, row);
                if (order.order == 2) uncertain_partners<2>(rows, order.rank, total + at, beside + at, row);
                if (order.order == 3) uncertain_partners<3>(rows, order.rank, total + at, beside + at, row);
            }
        }
    }
}

}  // namespace
}  // namespace ahofm
