// Iteratively reweighted least squares: damped steps of one column, accepted where the loss decreases sufficiently.
// The reference is ahofm/fit/solvers/variational/irls.py.
#include "engine.h"

#include <algorithm>
#include <cmath>

#include "tuning.h"

namespace ahofm {

// One block of one linear predictor, with the least damping that gives sufficient decrease. A step that fails is taken
// with the family's majorants instead, if it has any: these always decrease the loss.
void Engine::step_column(size_t k, size_t j, bool learn) {
    const int at_column = static_cast<int>(j);
    linearise(k);
    swap(k, -1, at_column);
    keep(k, j);
    std::vector<double> curvature;
    bool with_majorant = false;
    for (const double damping : tuning::DAMPINGS) {
        restore(k, j);
        solve(k, j, learn, damping);
        temper_variance(k, j);
        swap(k, at_column, -1);
        if (accept(k, false)) {
            etas[k].columns[j].solved = width_;
            return;
        }
        damped++;
        undo_solve(k, j);
        curvature.resize(new_curvature_.size());
        with_majorant = majorant(rows_.eta, rows_.variance, curvature.data());
        if (with_majorant) break;
    }
    restore(k, j);
    if (with_majorant) {
        temper_variance(k, j);
        swap(k, at_column, -1);
        std::vector<double> before(rows_.curvature, rows_.curvature + curvature.size());
        std::copy(curvature.begin(), curvature.end(), rows_.curvature);
        linearise(k);
        std::copy(before.begin(), before.end(), rows_.curvature);
        swap(k, -1, at_column);
        solve(k, j, learn, 0.0);
        etas[k].columns[j].solved = width_;
    } else {
        zero_unsolved(k, j);
    }
    temper_variance(k, j);
    swap(k, at_column, -1);
    accept(k, true);
}

// Evaluates the losses at the current states; accepts the step when they decrease sufficiently, or when unchecked.
bool Engine::accept(size_t k, bool unchecked) {
    const size_t K = etas.size();
    read_states(k);
    try_eta(k, fitted_);
    if (!unchecked && !sufficient_decrease(k)) return false;
    over_rows([&](const Range& range) {
        for (int64_t i = range.begin; i < range.end; i++)
            rows_.variance[static_cast<size_t>(i) * K + k] = state_variance_[static_cast<size_t>(i)];
    });
    accept_trial();
    return true;
}

// Losses at linear predictor k as the blocks' part (n,) and the smooth main effects have it, and the others as they are.
void Engine::try_eta(size_t k, const std::vector<double>& blocks) {
    const size_t K = etas.size();
    over_rows([&](const Range& range) {
        const size_t begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
        if (K > 1) std::copy(rows_.eta + begin * K, rows_.eta + end * K, new_eta_.data() + begin * K);
        for (size_t i = begin; i < end; i++) new_eta_[i * K + k] = blocks[i] + additive_[k][i];
    });
    if (!losses(new_eta_.data(), new_value_.data(), new_slope_.data(), new_curvature_.data())) throw Stopped{};
}

// The linear predictors that were tried, with their losses, become the current ones.
void Engine::accept_trial() {
    const size_t K = etas.size();
    over_rows([&](const Range& range) {
        const size_t begin = static_cast<size_t>(range.begin), end = static_cast<size_t>(range.end);
        std::copy(new_eta_.data() + begin * K, new_eta_.data() + end * K, rows_.eta + begin * K);
        std::copy(new_value_.data() + begin, new_value_.data() + end, rows_.value + begin);
        std::copy(new_slope_.data() + begin * K, new_slope_.data() + end * K, rows_.slope + begin * K);
        std::copy(new_curvature_.data() + begin * K, new_curvature_.data() + end * K, rows_.curvature + begin * K);
    });
    majorise_if_far();
}

// Sufficient decrease: losses exceed their quadratic approximations by at most a quarter of weight * curvature *
// step^2.
bool Engine::sufficient_decrease(size_t k) {
    struct Sums {
        double excess = 0.0, allowed = 0.0, before = 0.0, largest_change = 0.0;
    };
    const size_t K = etas.size();
    const bool decreases = use_majorant || majorises;  // where losses are finite
    std::vector<Sums> of_ranges(ranges_.size());
    parallel(static_cast<int>(of_ranges.size()), [&](int r) {
        const Range& range = ranges_[static_cast<size_t>(r)];
        Sums sums;
        for (size_t i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); i++) {
            if (decreases) {
                sums.excess += new_value_[i] * 0.0;
                continue;
            }
            const size_t at = i * K + k;
            const double step = new_eta_[at] - rows_.eta[at], bend = rows_.curvature[at] * step * step,
                         weight = rows_.weight[i];
            sums.excess += weight * (new_value_[i] - rows_.value[i] - rows_.slope[at] * step - 0.5 * bend);
            sums.allowed += tuning::SUFFICIENT_DECREASE * weight * bend;
            sums.before += weight * rows_.value[i];
            sums.largest_change = std::max(sums.largest_change, std::fabs(step));
        }
        of_ranges[static_cast<size_t>(r)] = sums;
    });
    Sums all;
    for (const Sums& sums : of_ranges) {
        all.excess += sums.excess;
        all.allowed += sums.allowed;
        all.before += sums.before;
        all.largest_change = std::max(all.largest_change, sums.largest_change);
    }
    if (decreases) return all.excess == 0.0;
    if (!std::isfinite(all.excess) || all.largest_change > tuning::LARGEST_ETA_STEP) return false;
    return all.excess <= all.allowed + tuning::ROUNDING * std::fabs(all.before);
}

// Removes a column whose solve was rejected. Removing subtracts: after very large values, states are built again.
void Engine::undo_solve(size_t k, size_t j) {
    const int64_t codes = columns_[j].n_codes;
    const ColumnArrays& arrays = etas[k].columns[j];
    bool far = false;
    for (int64_t f = 0; f < width_; f++) {
        double reached = 0.0, usual = 0.0;
        for (int64_t b = 0; b < codes; b++) {
            reached = std::max(reached, std::fabs(arrays.mean[b * width_ + f]));
            usual = std::max(usual, std::fabs(kept_.mean[static_cast<size_t>(b * width_ + f)]));
        }
        far = far || !(reached <= tuning::REBUILD_VALUE_RATIO * usual);
    }
    if (!far) return swap(k, -1, static_cast<int>(j));
    clear(k);
    for (size_t other = 0; other < columns_.size(); other++)
        if (other != j) swap(k, static_cast<int>(other), -1);
    linearise(k);  // also cleared; sums are computed again if the next step is rejected
}

// A copy of a column's posterior before its step.
void Engine::keep(size_t k, size_t j) {
    const EngineColumn& column = columns_[j];
    const ColumnArrays& arrays = etas[k].columns[j];
    const int64_t all = column.n_codes * width_, codes = column.n_codes - 1, K = width_ - 1;
    kept_.mean.assign(arrays.mean, arrays.mean + all);
    kept_.variance.assign(arrays.variance, arrays.variance + all);
    kept_.main_smooth.assign(arrays.main_smooth, arrays.main_smooth + column.main.task.m);
    kept_.main_per_code.assign(arrays.main_per_code, arrays.main_per_code + codes);
    kept_.smooth.assign(arrays.smooth, arrays.smooth + column.factors.task.m * K);
    kept_.per_code.assign(arrays.per_code, arrays.per_code + codes * K);
    kept_.main_lam.assign(arrays.main_lam, arrays.main_lam + column.main.n_lam());
    kept_.lam.assign(arrays.lam, arrays.lam + column.factors.n_lam() * K);
    kept_.edf.assign(arrays.edf, arrays.edf + column.factors.n_lam() * K);
    kept_.constants.assign(arrays.constants, arrays.constants + products_);
}

// The posterior of a column as it was kept.
void Engine::restore(size_t k, size_t j) {
    ColumnArrays& arrays = etas[k].columns[j];
    std::copy(kept_.mean.begin(), kept_.mean.end(), arrays.mean);
    std::copy(kept_.variance.begin(), kept_.variance.end(), arrays.variance);
    std::copy(kept_.main_smooth.begin(), kept_.main_smooth.end(), arrays.main_smooth);
    std::copy(kept_.main_per_code.begin(), kept_.main_per_code.end(), arrays.main_per_code);
    std::copy(kept_.smooth.begin(), kept_.smooth.end(), arrays.smooth);
    std::copy(kept_.per_code.begin(), kept_.per_code.end(), arrays.per_code);
    std::copy(kept_.main_lam.begin(), kept_.main_lam.end(), arrays.main_lam);
    std::copy(kept_.lam.begin(), kept_.lam.end(), arrays.lam);
    std::copy(kept_.edf.begin(), kept_.edf.end(), arrays.edf);
    std::copy(kept_.constants.begin(), kept_.constants.end(), arrays.constants);
}

// Ends with the last solve; functions that have never been solved become zero.
void Engine::zero_unsolved(size_t k, size_t j) {
    ColumnArrays& arrays = etas[k].columns[j];
    const int64_t first = std::max<int64_t>(arrays.solved, 1), K = width_ - 1;
    for (int64_t f = first; f < width_; f++) {
        if (columns_[j].leaves_out(f - 1)) continue;  // functions that stay what they are
        for (int64_t b = 0; b < columns_[j].n_codes; b++)
            arrays.mean[b * width_ + f] = arrays.variance[b * width_ + f] = 0.0;
        if (f >= width_ - products_) arrays.constants[f - (width_ - products_)] = 0.0;
    }
    for (int64_t f = first - 1; f < K; f++) {
        for (int64_t a = 0; a < columns_[j].factors.task.m; a++) arrays.smooth[a * K + f] = 0.0;
        for (int64_t b = 0; b + 1 < columns_[j].n_codes; b++) arrays.per_code[b * K + f] = 0.0;
    }
    arrays.solved = width_;
}

}  // namespace ahofm
