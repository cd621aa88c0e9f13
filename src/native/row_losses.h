// Losses of rows with slope and curvature by each linear predictor, for families with native losses.
// Values are negative log-likelihoods up to terms free of eta; the same formulas in NumPy are in ahofm/families.
#pragma once

#include "losses.h"
#include "panels.h"

namespace ahofm {
namespace {

constexpr double kLargestExponent = 709.0;

// exp, infinite where a double overflows.
inline double exp_or_infinity(double x) { return x > kLargestExponent ? __builtin_inf() : exp_of(x); }

struct LossAt {
    double value, slope, curvature;
};

// log(1 + exp(t)) and 1 / (1 + exp(-t)), without cancellation.
struct Logistic {
    double softplus, up, down;
    explicit Logistic(double t) {
        const double z = exp_of(t < 0.0 ? t : -t), whole = 1.0 / (1.0 + z);
        softplus = (t > 0.0 ? t : 0.0) + log1p_of(z);
        up = t < 0.0 ? z * whole : whole;
        down = t < 0.0 ? whole : z * whole;
    }
};

inline LossAt bernoulli_loss(double y, double eta, double) {
    const Logistic at(eta);
    return {at.softplus - y * eta, at.up - y, at.up * at.down};
}

inline LossAt poisson_loss(double y, double eta, double) {
    const double mu = exp_or_infinity(eta);
    return {mu - y * eta, mu - y, mu};
}

inline LossAt gamma_loss(double y, double eta, double) {
    const double ratio = y * exp_or_infinity(-eta);
    return {ratio + eta, 1.0 - ratio, ratio};
}

// size log(1 + exp(t)) + y log(1 + exp(-t)), t = eta - log(size)
inline LossAt negative_binomial_loss(double y, double eta, double size) {
    const double t = eta - __builtin_log(size);
    const Logistic at(t);
    const double value = size * at.softplus + y * (at.softplus - t);
    return {value, size * at.up - y * at.down, (y + size) * at.up * at.down};
}

// (exp(a eta) - 1) / a + y (exp(-b eta) - 1) / b, a = 2 - power, b = power - 1
inline LossAt tweedie_loss(double y, double eta, double power) {
    const double a = 2.0 - power, b = power - 1.0;
    const double up = exp_or_infinity(a * eta), down = y > 0.0 ? y * exp_or_infinity(-b * eta) : 0.0;
    const double value = __builtin_expm1(a * eta) / a + (y > 0.0 ? y * (__builtin_expm1(-b * eta) / b) : 0.0);
    const bool finite = value - value == 0.0;
    return {value, finite ? up - down : 0.0, a * up + b * down};
}

constexpr int64_t kLossRows = 256;  // at a time, so that loops over them are vectors

// Linear predictors of some rows of a family that has one, with the offset.
inline void shifted(const LossTask& task, int64_t first, int64_t rows, double* out) {
    std::memcpy(out, task.eta + first, static_cast<size_t>(rows) * sizeof(double));
    if (task.offset == nullptr) return;
    for (int64_t i = 0; i < rows; i++) out[i] += task.offset[first + i];
}

template <LossAt (*loss)(double, double, double)>
void losses_of_rows(const LossTask& task) {
    const double parameter = task.parameter;
    const double* __restrict__ y = task.y;
    double* __restrict__ value = task.value, * __restrict__ slope = task.slope, * __restrict__ curvature = task.curvature;
    double eta[kLossRows];
    for (int64_t first = 0; first < task.n; first += kLossRows) {
        const int64_t rows = task.n - first < kLossRows ? task.n - first : kLossRows;
        shifted(task, first, rows, eta);
        for (int64_t i = 0; i < rows; i++) {
            const LossAt at = loss(y[first + i], eta[i], parameter);
            value[first + i] = at.value;
            slope[first + i] = at.slope;
            curvature[first + i] = at.curvature;
        }
    }
}

// -log softmax(eta)_y
void multinomial_losses(const LossTask& task) {
    const int64_t K = task.K;
    for (int64_t i = 0; i < task.n; i++) {
        const double* eta = task.eta + i * K;
        double *slope = task.slope + i * K, *curvature = task.curvature + i * K;
        double top = -__builtin_inf(), total = 0.0;
        for (int64_t k = 0; k < K; k++) {
            slope[k] = eta[k] + (task.offset == nullptr ? 0.0 : task.offset[i * K + k]);
            top = slope[k] > top ? slope[k] : top;
        }
        const int64_t observed = static_cast<int64_t>(task.y[i]);
        const double chosen = slope[observed];
        for (int64_t k = 0; k < K; k++) total += slope[k] = exp_of(slope[k] - top);
        const double whole = 1.0 / total;
        for (int64_t k = 0; k < K; k++) {
            const double mu = slope[k] * whole;
            slope[k] = mu - (k == observed ? 1.0 : 0.0);
            curvature[k] = mu * (1.0 - mu);
        }
        task.value[i] = top + __builtin_log(total) - chosen;
    }
}

// Curvature tanh(xi / 2) / (2 xi) of the quadratic majorant of the logistic loss that touches it at +-xi, from xi^2
// (Jaakkola and Jordan 2000).
inline double logistic_majorant(double square) {
    const double half = 0.5 * __builtin_sqrt(square), safe = half < 1e-4 ? 1e-4 : half;
    const double z = exp_of(-2.0 * safe);
    return half < 1e-4 ? 0.25 : 0.25 * (1.0 - z) / ((1.0 + z) * safe);
}

// Curvatures of majorants of the logistic loss, and of the multinomial loss by each linear predictor given the others:
// a logistic loss of its difference to the logarithm of the sum of their exponentials.
bool run_majorants(const LossTask& task, const double* variance) {
    const int64_t K = task.K;
    if (task.family == Family::bernoulli) {
        double eta[kLossRows];
        double* __restrict__ curvature = task.curvature;
        for (int64_t first = 0; first < task.n; first += kLossRows) {
            const int64_t rows = task.n - first < kLossRows ? task.n - first : kLossRows;
            shifted(task, first, rows, eta);
            for (int64_t i = 0; i < rows; i++)
                curvature[first + i] = logistic_majorant(eta[i] * eta[i] + variance[first + i]);
        }
        return true;
    }
    if (task.family != Family::multinomial) return false;
    Buffer<double> eta(K);
    for (int64_t i = 0; i < task.n; i++) {
        for (int64_t k = 0; k < K; k++)
            eta[k] = task.eta[i * K + k] + (task.offset == nullptr ? 0.0 : task.offset[i * K + k]);
        for (int64_t k = 0; k < K; k++) {
            double top = -__builtin_inf(), total = 0.0;
            for (int64_t other = 0; other < K; other++)
                if (other != k && eta[other] > top) top = eta[other];
            for (int64_t other = 0; other < K; other++)
                if (other != k) total += exp_of(eta[other] - top);
            const double apart = eta[k] - top - __builtin_log(total);
            task.curvature[i * K + k] = logistic_majorant(apart * apart + variance[i * K + k]);
        }
    }
    return true;
}

void run_losses(const LossTask& task) {
    switch (task.family) {
        case Family::bernoulli: return losses_of_rows<bernoulli_loss>(task);
        case Family::poisson: return losses_of_rows<poisson_loss>(task);
        case Family::gamma: return losses_of_rows<gamma_loss>(task);
        case Family::negative_binomial: return losses_of_rows<negative_binomial_loss>(task);
        case Family::tweedie: return losses_of_rows<tweedie_loss>(task);
        default: return multinomial_losses(task);
    }
}

}  // namespace
}  // namespace ahofm
