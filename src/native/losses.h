// Row losses: (y, eta) -> value and g = d value / d eta, on blocks of rows, in float64.
// Values are negative log-likelihoods up to terms free of eta (unit dispersion).
// The same formulas in NumPy: ahofm/kernels/losses.py.
#pragma once

#include <cstring>

#include "passes.h"

namespace ahofm {
namespace {

// exp by 2^k * P(r), |r| <= log(2)/2: branch-free so that loops over rows vectorise (libm's does not
// without fast-math). Relative error below 4e-16 inside the clamp.
inline double exp_of(double x) {
    const double shift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to the nearest integer
    x = x > 709.0 ? 709.0 : x;
    x = x < -708.0 ? -708.0 : x;
    const double shifted = x * 1.4426950408889634074 + shift;
    const double k = shifted - shift;
    const double r = (x - k * 0.69314718036912381649) - k * 1.9082149292705877000e-10;
    double p = 1.6059043836821613e-10;  // 1/13!, and on to 1/0!
    p = p * r + 2.0876756987868099e-9;
    p = p * r + 2.5052108385441719e-8;
    p = p * r + 2.7557319223985893e-7;
    p = p * r + 2.7557319223985888e-6;
    p = p * r + 2.4801587301587302e-5;
    p = p * r + 1.9841269841269841e-4;
    p = p * r + 1.3888888888888889e-3;
    p = p * r + 8.3333333333333333e-3;
    p = p * r + 4.1666666666666667e-2;
    p = p * r + 1.6666666666666667e-1;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    uint64_t bits;
    std::memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 1023) << 52;
    double scale;
    std::memcpy(&scale, &bits, sizeof(scale));
    return p * scale;
}

// log(1 + z) for z in [0, 1] by the series of 2 atanh(z / (2 + z)), |s| <= 1/3.
inline double log1p_of(double z) {
    const double s = z / (2.0 + z);
    const double q = s * s;
    double p = 1.0 / 33.0;
    for (int k = 31; k >= 1; k -= 2) p = p * q + 1.0 / k;
    return 2.0 * s * p;
}

// eta and g are (linear predictors, kBlock). Returns the weighted sum; writes weighted g.
template <Loss kind>
inline double loss_of_block(int rows, int predictors, const double* y, const double* weight, const double* eta,
                            double* g) {
    double value[kBlock];
    if constexpr (kind == Loss::gaussian) {
        for (int r = 0; r < rows; r++) {
            const double residual = eta[r] - y[r];
            value[r] = 0.5 * residual * residual;
            g[r] = residual;
        }
    } else if constexpr (kind == Loss::bernoulli) {
        for (int r = 0; r < rows; r++) {
            const double magnitude = eta[r] < 0.0 ? -eta[r] : eta[r];
            const double z = exp_of(-magnitude);
            const double positive = eta[r] > 0.0 ? eta[r] : 0.0;
            const double mu = (eta[r] < 0.0 ? z : 1.0) / (1.0 + z);
            value[r] = positive + log1p_of(z) - y[r] * eta[r];
            g[r] = mu - y[r];
        }
    } else if constexpr (kind == Loss::poisson) {
        for (int r = 0; r < rows; r++) {
            const double mu = exp_of(eta[r]);
            value[r] = mu - y[r] * eta[r];
            g[r] = mu - y[r];
        }
    } else if constexpr (kind == Loss::gamma) {
        for (int r = 0; r < rows; r++) {
            const double ratio = y[r] * exp_of(-eta[r]);
            value[r] = ratio + eta[r];
            g[r] = 1.0 - ratio;
        }
    } else {
        double top[kBlock], total[kBlock], observed[kBlock];
        for (int r = 0; r < rows; r++) {
            top[r] = eta[r];
            total[r] = observed[r] = 0.0;
        }
        for (int k = 1; k < predictors; k++)
            for (int r = 0; r < rows; r++) top[r] = eta[k * kBlock + r] > top[r] ? eta[k * kBlock + r] : top[r];
        for (int k = 0; k < predictors; k++)
            for (int r = 0; r < rows; r++) {
                const double z = exp_of(eta[k * kBlock + r] - top[r]);
                g[k * kBlock + r] = z;
                total[r] += z;
                observed[r] += y[r] == k ? eta[k * kBlock + r] : 0.0;
            }
        for (int k = 0; k < predictors; k++)
            for (int r = 0; r < rows; r++) {
                const double mu = g[k * kBlock + r] / total[r];
                g[k * kBlock + r] = mu - (y[r] == k ? 1.0 : 0.0);
            }
        for (int r = 0; r < rows; r++) value[r] = top[r] + __builtin_log(total[r]) - observed[r];
    }
    double sum = 0.0;
    if (weight == nullptr) {
        for (int r = 0; r < rows; r++) sum += value[r];
    } else {
        for (int r = 0; r < rows; r++) sum += weight[r] * value[r];
        for (int k = 0; k < predictors; k++)
            for (int r = 0; r < rows; r++) g[k * kBlock + r] *= weight[r];
    }
    return sum;
}

using LossOfBlock = double (*)(int, int, const double*, const double*, const double*, double*);

constexpr LossOfBlock loss_functions[kLosses] = {
    loss_of_block<Loss::gaussian>, loss_of_block<Loss::bernoulli>,   loss_of_block<Loss::poisson>,
    loss_of_block<Loss::gamma>,    loss_of_block<Loss::multinomial>,
};

}  // namespace
}  // namespace ahofm
