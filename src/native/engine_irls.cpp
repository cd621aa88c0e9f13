// Iteratively reweighted least squares: damped steps of one column, accepted where the loss sufficient_decrease sufficiently.
// The reference is ahofm/fit/solvers/variational/irls.py.
#include "engine.h"

#include <algorithm>
#include <cmath>

namespace ahofm {

namespace {

constexpr double kDampings[] = {0.0, 1.0, 4.0, 16.0, 64.0, 256.0};
constexpr double kFarthestStep = 3.0;  // of a linear predictor in one block
constexpr double kSufficientDecrease = 0.25, kRounding = 1e-12;
constexpr double kFarValue = 10.0;  // times a function's values: beyond, removing it leaves large rounding errors

}  // namespace

// One block of one linear predictor, with the least damping that gives sufficient decrease. A step that fails is taken
// with the family's majorants instead, if it has any: these always decrease the loss.
void Engine::step_column(size_t k, size_t j, bool learn) {
    const int at_column = static_cast<int>(j);
    set_working(k);
    swap(k, -1, at_column);
    keep(k, j);
    std::vector<double> curvature;
    bool bounded_below = false;
    for (const double damping : kDampings) {
        restore(k, j);
        solve(k, j, learn, damping);
        temper_variance(k, j);
        swap(k, at_column, -1);
        if (accept(k, false)) {
            etas[k].columns[j].solved = width_;
            return;
        }
        damped++;
        take_back(k, j);
        curvature.resize(new_curvature_.size());
        bounded_below = majorant(rows_.eta, rows_.variance, curvature.data());
        if (bounded_below) break;
    }
    restore(k, j);
    if (bounded_below) {
        temper_variance(k, j);
        swap(k, at_column, -1);
        std::vector<double> before(rows_.curvature, rows_.curvature + curvature.size());
        std::copy(curvature.begin(), curvature.end(), rows_.curvature);
        set_working(k);
        std::copy(before.begin(), before.end(), rows_.curvature);
        swap(k, -1, at_column);
        solve(k, j, learn, 0.0);
        etas[k].columns[j].solved = width_;
    } else {
        drop_unsolved(k, j);
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
        double excess = 0.0, allowed = 0.0, before = 0.0, farthest = 0.0;
    };
    const size_t K = etas.size();
    const bool decreases = use_majorant || majorises;  // where losses are finite
    std::vector<Sums> parts(ranges_.size());
    parallel(static_cast<int>(parts.size()), [&](int r) {
        const Range& range = ranges_[static_cast<size_t>(r)];
        Sums own;
        for (size_t i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); i++) {
            if (decreases) {
                own.excess += new_value_[i] * 0.0;
                continue;
            }
            const size_t at = i * K + k;
            const double step = new_eta_[at] - rows_.eta[at], bend = rows_.curvature[at] * step * step,
                         weight = rows_.weight[i];
            own.excess += weight * (new_value_[i] - rows_.value[i] - rows_.slope[at] * step - 0.5 * bend);
            own.allowed += kSufficientDecrease * weight * bend;
            own.before += weight * rows_.value[i];
            own.farthest = std::max(own.farthest, std::fabs(step));
        }
        parts[static_cast<size_t>(r)] = own;
    });
    Sums all;
    for (const Sums& own : parts) {
        all.excess += own.excess;
        all.allowed += own.allowed;
        all.before += own.before;
        all.farthest = std::max(all.farthest, own.farthest);
    }
    if (decreases) return all.excess == 0.0;
    if (!std::isfinite(all.excess) || all.farthest > kFarthestStep) return false;
    return all.excess <= all.allowed + kRounding * std::fabs(all.before);
}

// Removes a column whose solve was rejected. Removing subtracts: after very large values, states are built again.
void Engine::take_back(size_t k, size_t j) {
    const int64_t codes = columns_[j].n_codes;
    const ColumnArrays& own = etas[k].columns[j];
    bool far = false;
    for (int64_t f = 0; f < width_; f++) {
        double reached = 0.0, usual = 0.0;
        for (int64_t b = 0; b < codes; b++) {
            reached = std::max(reached, std::fabs(own.mean[b * width_ + f]));
            usual = std::max(usual, std::fabs(kept_.mean[static_cast<size_t>(b * width_ + f)]));
        }
        far = far || !(reached <= kFarValue * usual);
    }
    if (!far) return swap(k, -1, static_cast<int>(j));
    clear(k);
    for (size_t other = 0; other < columns_.size(); other++)
        if (other != j) swap(k, static_cast<int>(other), -1);
    set_working(k);  // also cleared; sums are computed again if the next step is rejected
}

void Engine::keep(size_t k, size_t j) {
    const EngineColumn& column = columns_[j];
    const ColumnArrays& own = etas[k].columns[j];
    const int64_t all = column.n_codes * width_, codes = column.n_codes - 1, K = width_ - 1;
    kept_.mean.assign(own.mean, own.mean + all);
    kept_.variance.assign(own.variance, own.variance + all);
    kept_.main_smooth.assign(own.main_smooth, own.main_smooth + column.main.task.m);
    kept_.main_rough.assign(own.main_rough, own.main_rough + codes);
    kept_.smooth.assign(own.smooth, own.smooth + column.factors.task.m * K);
    kept_.rough.assign(own.rough, own.rough + codes * K);
    kept_.main_lam.assign(own.main_lam, own.main_lam + column.main.n_lam());
    kept_.lam.assign(own.lam, own.lam + column.factors.n_lam() * K);
    kept_.edf.assign(own.edf, own.edf + column.factors.n_lam() * K);
    kept_.constants.assign(own.constants, own.constants + products_);
}

void Engine::restore(size_t k, size_t j) {
    ColumnArrays& own = etas[k].columns[j];
    std::copy(kept_.mean.begin(), kept_.mean.end(), own.mean);
    std::copy(kept_.variance.begin(), kept_.variance.end(), own.variance);
    std::copy(kept_.main_smooth.begin(), kept_.main_smooth.end(), own.main_smooth);
    std::copy(kept_.main_rough.begin(), kept_.main_rough.end(), own.main_rough);
    std::copy(kept_.smooth.begin(), kept_.smooth.end(), own.smooth);
    std::copy(kept_.rough.begin(), kept_.rough.end(), own.rough);
    std::copy(kept_.main_lam.begin(), kept_.main_lam.end(), own.main_lam);
    std::copy(kept_.lam.begin(), kept_.lam.end(), own.lam);
    std::copy(kept_.edf.begin(), kept_.edf.end(), own.edf);
    std::copy(kept_.constants.begin(), kept_.constants.end(), own.constants);
}

// Ends with the last solve; functions that have never been solved become zero.
void Engine::drop_unsolved(size_t k, size_t j) {
    ColumnArrays& own = etas[k].columns[j];
    const int64_t first = std::max<int64_t>(own.solved, 1), K = width_ - 1;
    for (int64_t f = first; f < width_; f++) {
        if (columns_[j].leaves_out(f - 1)) continue;  // functions that stay what they are
        for (int64_t b = 0; b < columns_[j].n_codes; b++) own.mean[b * width_ + f] = own.variance[b * width_ + f] = 0.0;
        if (f >= width_ - products_) own.constants[f - (width_ - products_)] = 0.0;
    }
    for (int64_t f = first - 1; f < K; f++) {
        for (int64_t a = 0; a < columns_[j].factors.task.m; a++) own.smooth[a * K + f] = 0.0;
        for (int64_t b = 0; b + 1 < columns_[j].n_codes; b++) own.rough[b * K + f] = 0.0;
    }
    own.solved = width_;
}

}  // namespace ahofm
