// Main effects of all classes: an intercept and smooth ones jointly, others column by column.
// The reference is ahofm/shared_curves/main_effects.py.
#include <algorithm>

#include "fellner_schall.h"
#include "shared_curves.h"

namespace ahofm {

void SharedCurves::sweep_mains(bool learn, bool bound) {
    evaluate(bound);
    step_joint(learn);
    for (SharedColumn& column : columns_) {
        if (column.separate.mean == nullptr) continue;
        evaluate(bound);
        step_main(column, learn);
    }
}

// All classes share one Gram matrix: one factorisation, K right-hand sides.
void SharedCurves::step_joint(bool learn) {
    const size_t q = sized(mains_.q), stride = sized(stride_), K = sized(K_);
    std::vector<double> gram(q * q), right(q * stride, 0.0), penalty(q, 0.0);
    passes_.weighted_gram(mains_.design, n_, mains_.q, weight_.data(), gram.data());
    passes_.product(
        {mains_.design, mains_.q, true, mains_.q, slope_.data(), stride_, stride_, n_, right.data(), stride_});
    double trace = 0.0;
    for (size_t a = 0; a < q; a++) {
        trace += gram[a * q + a];
        if (mains_.group[a] >= 0) penalty[a] = mains_.lam[mains_.group[a]] * mains_.relative_penalty[a];
        for (size_t k = 0; k < K; k++) right[a * stride + k] -= penalty[a] * mains_.coef[a * K + k];
    }
    std::vector<double> matrix(gram);
    for (size_t a = 0; a < q; a++) matrix[a * q + a] += penalty[a] + options_.jitter * trace / static_cast<double>(q);
    if (!passes_.solve_positive(matrix.data(), mains_.q, right.data(), stride_))
        throw Failed{"the matrix of main effects is not positive definite"};
    for (size_t a = 0; a < q; a++) {
        double mean = 0.0;
        for (size_t k = 0; k < K; k++) mean += right[a * stride + k] / static_cast<double>(K_);
        for (size_t k = 0; k < K; k++) {
            right[a * stride + k] -= mean;
            mains_.coef[a * K + k] += right[a * stride + k];
        }
        for (size_t k = K; k < stride; k++) right[a * stride + k] = 0.0;
    }
    if (learn && mains_.n_lam > 0) learn_joint(gram, penalty);
    add_eta(mains_.design, mains_.q, right.data());
}

// Smoothing parameters, shared by the classes, from Fisher's information.
void SharedCurves::learn_joint(const std::vector<double>& gram, const std::vector<double>& penalty) {
    const size_t q = sized(mains_.q), groups = sized(mains_.n_lam), K = sized(K_);
    std::vector<double> matrix(gram), inverse(q * q);
    double trace = 0.0;
    for (double& one : matrix) one *= fisher_;
    for (size_t a = 0; a < q; a++) trace += matrix[a * q + a];
    for (size_t a = 0; a < q; a++) matrix[a * q + a] += penalty[a] + options_.jitter * trace / static_cast<double>(q);
    if (!passes_.invert(matrix.data(), mains_.q, inverse.data(), {})) return;
    std::vector<double> edf(groups, 0.0), form(groups, 0.0);
    for (size_t a = 0; a < q; a++) {
        if (mains_.group[a] < 0) continue;
        const size_t g = sized(mains_.group[a]);
        double variance = 0.0, squares = 0.0;
        for (size_t b = a; b < q; b++) variance += inverse[a * q + b] * inverse[a * q + b];
        for (size_t k = 0; k < K; k++) squares += mains_.coef[a * K + k] * mains_.coef[a * K + k];
        edf[g] += static_cast<double>(K_ - 1) * (1.0 - mains_.lam[g] * mains_.relative_penalty[a] * variance);
        form[g] += mains_.relative_penalty[a] * squares;
    }
    for (size_t g = 0; g < groups; g++)
        mains_.lam[g] = fellner_schall(edf[g], form[g], mains_.lam[g], options_.smallest_lam, options_.largest_lam);
}

// A column that is not in the joint design. Classes have the same weights and smoothing parameters, so that their
// effects are solved one class after another.
void SharedCurves::step_main(SharedColumn& column, bool learn) {
    const size_t codes = sized(column.n_codes - 1), K = sized(K_), stride = sized(stride_),
                 m = sized(column.main.task.m), parameters = sized(column.main.n_lam());
    const SeparateMain& main = column.separate;
    std::vector<double> weight(codes + 1, 0.0), pulled((codes + 1) * stride, 0.0);
    for (size_t i = 0; i < sized(n_); i++) {
        const size_t b = column.codes[i];
        weight[b] += weight_[i];
        for (size_t k = 0; k < K; k++) pulled[b * stride + k] += slope_[i * stride + k];
    }
    std::vector<double> rhs(codes), mean(codes), variance(codes), smooth(m), per_code(codes), edf(parameters),
        form(parameters), forms(parameters, 0.0), old(main.mean, main.mean + codes * K);
    const auto solve = [&](const double* lam) {
        if (!passes_.solve_prior({&column.main.task, 1, weight.data(), rhs.data(), lam, nullptr, mean.data(),
                                  variance.data(), smooth.data(), per_code.data(), edf.data(), form.data(),
                                  memory_.data(), memory_.size()}))
            throw Failed{"a main effect is not determined: its matrix is not positive definite"};
    };
    for (size_t k = 0; k < K; k++) {
        for (size_t b = 0; b < codes; b++) rhs[b] = weight[b] * old[b * K + k] + pulled[b * stride + k];
        solve(main.lam);
        for (size_t b = 0; b < codes; b++) {
            main.mean[b * K + k] = mean[b];
            main.variance[b * K + k] = variance[b];
            main.per_code[b * K + k] = per_code[b];
        }
        for (size_t a = 0; a < m; a++) main.smooth[a * K + k] = smooth[a];
        for (size_t g = 0; g < parameters; g++) forms[g] += form[g];
    }
    if (learn) {  // K functions with sum zero have K - 1 degrees of freedom
        std::vector<double> lam(main.lam, main.lam + parameters);
        for (double& one : lam) one /= fisher_;
        solve(lam.data());
        for (size_t g = 0; g < parameters; g++)
            main.lam[g] = fellner_schall(static_cast<double>(K_ - 1) * edf[g], forms[g], main.lam[g],
                                         column.main.low[g], column.main.high[g]);
    }
    const auto centre = [&](double* values, size_t rows) {  // sum zero over the classes
        for (size_t b = 0; b < rows; b++) {
            double mean_of_row = 0.0;
            for (size_t k = 0; k < K; k++) mean_of_row += values[b * K + k] / static_cast<double>(K_);
            for (size_t k = 0; k < K; k++) values[b * K + k] -= mean_of_row;
        }
    };
    centre(main.mean, codes);
    centre(main.per_code, codes);
    centre(main.smooth, m);
    for (size_t i = 0; i < sized(n_); i++) {
        const size_t b = column.codes[i];
        if (b == codes) continue;
        for (size_t k = 0; k < K; k++) eta_[i * stride + k] += main.mean[b * K + k] - old[b * K + k];
    }
    evaluated_ = false;
}

}  // namespace ahofm
