// Intercept and smooth main effects of all columns, jointly: normal equations, Fellner-Schall updates, damped steps.
// The reference is ahofm/fit/solvers/variational/main_effects.py.
#include "engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fellner_schall.h"
#include "tuning.h"

namespace ahofm {

// D' diag(weight) D, upper triangle, and D' rows; weight nullptr: the latter alone.
void Engine::sum_design(const double* weight, const double* rows, std::vector<double>& gram,
                        std::vector<double>& sums) {
    DesignSums parts(passes_, mains_.design, n_);
    parts.reserve(rows, weight);
    parallel(parts.count(), [&](int at) { parts.part(at); });
    parts.total(gram, sums);
}

// Working weights of the main effects of linear predictor k: those that its Gram matrix was computed with, as long as the
// present ones are nearly the same. The gradient is always that of the present losses; curvatures are a little old.
const Engine::WeightedDesign& Engine::weighted_design(size_t k) {
    const size_t Q = static_cast<size_t>(mains_.q), n = static_cast<size_t>(n_);
    WeightedDesign& found = weighted_designs_[k];
    if (!found.weight.empty()) {
        double change = 0.0;
        for (size_t i = 0; i < n; i++) change += std::fabs(working_weight_[i] - found.weight[i]);
        if (change <= tuning::MAIN_WEIGHTS_CHANGE * found.total) return found;
    }
    found.weight = working_weight_;
    found.total = 0.0;
    for (size_t i = 0; i < n; i++) found.total += found.weight[i];
    found.middle.assign(Q, 0.0);
    if (Q == 0) return found;
    sum_design(found.weight.data(), found.weight.data(), found.gram, found.middle);
    for (double& mean : found.middle) mean /= found.total;
    for (size_t a = 0; a < Q; a++)
        for (size_t b = a; b < Q; b++) found.gram[a * Q + b] -= found.total * found.middle[a] * found.middle[b];
    return found;
}

// Normal equations of the intercept and the coefficients; weighted nullptr: the rows' own weights, under which the
// design is centred.
bool Engine::solve_main_effects(size_t k, const WeightedDesign* weighted, const double* response, bool learn,
                                double& intercept, std::vector<double>& coef, std::vector<double>& lam, double& trace) {
    const EtaArrays& eta = etas[k];
    const int64_t q = mains_.q;
    const size_t Q = static_cast<size_t>(q), groups = mains_.counts.size();
    double total = 0.0, total_response = 0.0;
    for (size_t i = 0; i < static_cast<size_t>(n_); i++) {
        total += weighted == nullptr ? rows_.weight[i] : weighted->weight[i];
        total_response += response[i];
    }
    coef.assign(eta.coef, eta.coef + q);
    lam.assign(eta.lam, eta.lam + groups);
    trace = eta.trace;
    intercept = total_response / total;
    if (q == 0) return true;
    std::vector<double> gram, middle(Q, 0.0), right(Q);
    if (weighted == nullptr) {
        sum_design(mains_.gram.empty() ? rows_.weight : nullptr, response, mains_.gram, right);
        gram = mains_.gram;
    } else {
        sum_design(nullptr, response, gram, right);
        gram = weighted->gram;
        middle = weighted->middle;
        for (size_t a = 0; a < Q; a++) right[a] -= middle[a] * total_response;
    }
    double diagonal = 0.0;
    std::vector<double> added(Q), inverse(Q * Q);
    for (double& entry : gram) entry /= dispersion;
    for (size_t a = 0; a < Q; a++) diagonal += gram[a * Q + a] / static_cast<double>(Q);
    for (size_t a = 0; a < Q; a++) {
        added[a] =
            lam[static_cast<size_t>(mains_.group[a])] * mains_.relative_penalty[a] + tuning::MAIN_JITTER * diagonal;
        gram[a * Q + a] += added[a];
    }
    if (passes_.invert(gram.data(), q, inverse.data(), parallel_of_passes())) {
        std::vector<double> half(Q, 0.0);
        std::vector<double> edf(groups, 0.0), form(groups, 0.0);
        trace = 0.0;
        for (size_t a = 0; a < Q; a++)
            for (size_t b = a; b < Q; b++) half[b] += inverse[a * Q + b] * right[a] / dispersion;
        for (size_t a = 0; a < Q; a++) {
            double sum = 0.0, variance = 0.0;
            for (size_t b = a; b < Q; b++) {
                sum += inverse[a * Q + b] * half[b];
                variance += inverse[a * Q + b] * inverse[a * Q + b];
            }
            coef[a] = sum;
            const size_t g = static_cast<size_t>(mains_.group[a]);
            trace += dispersion * (1.0 - added[a] * variance);
            edf[g] += 1.0 - lam[g] * mains_.relative_penalty[a] * variance;
            form[g] += mains_.relative_penalty[a] * sum * sum;
        }
        if (learn)
            for (size_t g = 0; g < groups; g++)
                lam[g] = fellner_schall(edf[g], form[g], lam[g], tuning::SMALLEST_MAIN_LAM, mains_.largest_lam);
    }
    for (size_t a = 0; a < Q; a++) intercept -= middle[a] * coef[a];
    return true;
}

// Intercept and smooth main effects given the blocks, as far as sufficient decrease allows.
void Engine::step_main_effects(size_t k, bool learn) {
    const size_t K = etas.size(), n = static_cast<size_t>(n_);
    EtaArrays& eta = etas[k];
    read_states(k);
    const std::vector<double> blocks = fitted_;
    double weights = 0.0;
    for (size_t i = 0; i < n; i++) {
        const size_t at = i * K + k;
        working_weight_[i] = rows_.weight[i] * rows_.curvature[at];
        weights += working_weight_[i];
    }
    if (!(weights > std::numeric_limits<double>::min())) return;  // losses are flat far from the targets
    const WeightedDesign& weighted = weighted_design(k);
    for (size_t i = 0; i < n; i++) {
        const size_t at = i * K + k;
        response_[i] = weighted.weight[i] * (rows_.eta[at] - blocks[i]) - rows_.weight[i] * rows_.slope[at];
    }
    double intercept = 0.0, trace = 0.0;
    std::vector<double> coef, lam;
    solve_main_effects(k, &weighted, response_.data(), learn, intercept, coef, lam, trace);
    const std::vector<double> old_coef(eta.coef, eta.coef + mains_.q), old_lam(eta.lam, eta.lam + lam.size());
    const double old_intercept = eta.intercept, old_trace = eta.trace;
    double step = 1.0;
    for (int halving = 0; halving < static_cast<int>(tuning::MAIN_HALVINGS); halving++, step *= 0.5) {
        for (size_t a = 0; a < coef.size(); a++) eta.coef[a] = old_coef[a] + step * (coef[a] - old_coef[a]);
        eta.intercept = old_intercept + step * (intercept - old_intercept);
        std::copy(lam.begin(), lam.end(), eta.lam);
        eta.trace = trace;
        update_additive(k);
        try_eta(k, blocks);
        if (sufficient_decrease(k)) {
            accept_trial();
            return;
        }
        damped++;
    }
    std::copy(old_coef.begin(), old_coef.end(), eta.coef);
    std::copy(old_lam.begin(), old_lam.end(), eta.lam);
    eta.intercept = old_intercept;
    eta.trace = old_trace;
    update_additive(k);
}

}  // namespace ahofm
