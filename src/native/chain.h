// Small dense problems, one per code, alone or in a chain: the exact solves of independent and random-walk effects.
//
// Random walk: blocks A_b = gram_b + diag(t1 (h_{b-1} + h_b) + t0) on the diagonal and -diag(t1 h_b) beside it. The
// forward recursion is block Gaussian elimination, the backward one gives the means and those parts of the inverse that
// are needed: its diagonal, and the variance of each difference of neighbours.
#pragma once

#include <cmath>

#include "panels.h"

namespace ahofm {
namespace {

// In place: the inverse of a symmetric positive definite matrix (n, n), row-major, both triangles. False when it is not
// positive definite. `work` holds n * n numbers.
inline bool invert(double* a, double* work, int64_t n) {
    double* l = work;  // a = l l', lower
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double s = a[i * n + j];
            for (int64_t k = 0; k < j; k++) s -= l[i * n + k] * l[j * n + k];
            if (i == j) {
                if (!(s > 0.0)) return false;
                l[i * n + i] = 1.0 / std::sqrt(s);  // the reciprocal
            } else {
                l[i * n + j] = s * l[j * n + j];
            }
        }
    }
    // l <- its inverse, row by row
    for (int64_t i = 0; i < n; i++) {
        double* row = l + i * n;
        const double d = row[i];
        for (int64_t j = 0; j < i; j++) {
            double s = 0.0;
            for (int64_t k = j; k < i; k++) s += row[k] * l[k * n + j];
            a[j] = -s * d;  // the first row of a is scratch: only l is read from here on
        }
        for (int64_t j = 0; j < i; j++) row[j] = a[j];
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) a[i * n + j] = 0.0;
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i <= k; i++) {
            const double s = l[k * n + i];
            for (int64_t j = 0; j <= i; j++) a[i * n + j] += s * l[k * n + j];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) a[i * n + j] = a[j * n + i];
    return true;
}

inline int64_t run_inverses(int64_t codes, int64_t n, double* matrices) {
    Buffer<double> work(n * n);
    for (int64_t b = 0; b < codes; b++)
        if (!invert(matrices + b * n * n, work.get(), n)) return b;
    return -1;
}

// to += matrix (n, n) * from (n, m)
inline void multiply_add(const double* matrix, const double* from, int64_t n, int64_t m, double* to) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            const double s = matrix[i * n + k];
            for (int64_t j = 0; j < m; j++) to[i * m + j] += s * from[k * m + j];
        }
}

// Returns the first code whose block was not positive definite, or -1.
inline int64_t run_chain(const ChainTask& task) {
    const int64_t B = task.codes, K = task.width, m = task.count;
    const size_t block = static_cast<size_t>(K * K) * sizeof(double);
    Buffer<double> inverse(B * K * K), right(B * K * m), work(K * K), gain(K * K), across(K * K), spare(2 * K * K);
    std::memcpy(right.get(), task.rhs, static_cast<size_t>(B * K * m) * sizeof(double));
    for (int64_t b = 0; b < B; b++) {
        double* A = inverse.get() + b * K * K;
        const double before = b > 0 ? task.edges[b - 1] : 0.0, after = b + 1 < B ? task.edges[b] : 0.0;
        std::memcpy(A, task.gram + b * K * K, block);
        for (int64_t f = 0; f < K; f++) A[f * K + f] += task.lam_difference[f] * (before + after) + task.lam_value[f];
        if (before > 0.0) {
            const double* P = A - K * K;
            for (int64_t f = 0; f < K; f++)
                for (int64_t l = 0; l < K; l++) {
                    gain[f * K + l] = task.lam_difference[f] * before * P[f * K + l];
                    A[f * K + l] -= gain[f * K + l] * task.lam_difference[l] * before;
                }
            multiply_add(gain.get(), right.get() + (b - 1) * K * m, K, m, right.get() + b * K * m);
        }
        if (!invert(A, work.get(), K)) return b;
    }
    for (int64_t f = 0; f < K; f++) task.differences[f] = 0.0;
    std::memset(task.mean, 0, static_cast<size_t>(B * K * m) * sizeof(double));
    double *var = spare.get(), *var_next = var + K * K;
    for (int64_t b = B - 1; b >= 0; b--) {
        const double* P = inverse.get() + b * K * K;
        double *r = right.get() + b * K * m, *x = task.mean + b * K * m;
        const double after = b + 1 < B ? task.edges[b] : 0.0;
        if (after > 0.0)
            for (int64_t f = 0; f < K; f++)
                for (int64_t j = 0; j < m; j++) r[f * m + j] += task.lam_difference[f] * after * x[(K + f) * m + j];
        multiply_add(P, r, K, m, x);
        std::memcpy(var, P, block);
        if (after > 0.0) {  // var = P + gain var_next gain', across = gain var_next
            for (int64_t f = 0; f < K; f++)
                for (int64_t l = 0; l < K; l++) gain[f * K + l] = P[f * K + l] * task.lam_difference[l] * after;
            std::memset(across.get(), 0, block);
            multiply_add(gain.get(), var_next, K, K, across.get());
            for (int64_t f = 0; f < K; f++)
                for (int64_t l = 0; l < K; l++) work[l * K + f] = gain[f * K + l];
            multiply_add(across.get(), work.get(), K, K, var);
            for (int64_t f = 0; f < K; f++)
                task.differences[f] += after * (var[f * K + f] + var_next[f * K + f] - 2.0 * across[f * K + f]);
        }
        for (int64_t f = 0; f < K; f++) task.variance[b * K + f] = var[f * K + f];
        double* swap = var;
        var = var_next;
        var_next = swap;
    }
    return -1;
}

}  // namespace
}  // namespace ahofm
