// The posterior of one column given all others: its main effect, then its factors, each an exact solve under its
// prior, with the Fellner-Schall update of its smoothing parameters.
#include "engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "fellner_schall.h"
#include "tuning.h"

namespace ahofm {

namespace {

// Several sums at a time: one alone waits for each addition.
bool all_finite(const double* values, int64_t count) {
    double sums[8] = {};  // NaN if any value is NaN or infinite
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int k = 0; k < 8; k++) sums[k] += values[i + k] * 0.0;
    for (; i < count; i++) sums[0] += values[i] * 0.0;
    double sum = 0.0;
    for (const double part : sums) sum += part;
    return sum == 0.0;
}

}  // namespace

void Engine::solve(size_t k, size_t j, bool learn, double damping) {
    const int64_t codes = columns_[j].n_codes - 1, W = width_;
    std::atomic<bool> finite{true};
    over_codes(codes, [&](int64_t b) {
        if (!all_finite(gram_.data() + b * W * W, W * W) || !all_finite(rhs_.data() + b * W, W)) finite = false;
    });
    if (!finite) throw Failed{"sums over rows are not finite"};
    for (const double jitter : tuning::COLUMN_JITTERS)
        if (try_solve(k, j, learn && damping == 0.0, damping, jitter)) return;
    throw Failed{"a block is not positive definite"};
}

// Sums of a column over the dispersion, damped and with a jitter: of the main effect given the factors' means, (codes,),
// then of the factors, (codes, factors, factors).
void Engine::scale_sums(const ColumnArrays& arrays, int64_t codes, double damping, double jitter) {
    const int64_t W = width_, K = W - 1;
    double *main_gram = scaled_gram_.data(), *factor_gram = main_gram + codes;
    double *main_rhs = scaled_rhs_.data(), *factor_rhs = main_rhs + codes;
    const double precision = 1.0 / dispersion, lifted = precision * (1.0 + damping), damped_by = damping * precision;
    over_codes(codes, [&](int64_t b) {
        const double *from = gram_.data() + b * W * W, *right = rhs_.data() + b * W, *mean = arrays.mean + b * W;
        double diagonal = 0.0;
        for (int64_t f = 0; f < W; f++) diagonal += from[f * W + f];
        const double lift = jitter * lifted * diagonal / static_cast<double>(W);
        main_gram[b] = from[0] * lifted + lift;
        double rest = right[0] * precision + damped_by * from[0] * mean[0];
        for (int64_t f = 0; f < K; f++) {
            const double* row = from + (1 + f) * W + 1;
            double* to = factor_gram + (b * K + f) * K;
            for (int64_t g = 0; g < K; g++) to[g] = row[g] * precision;
            to[f] = row[f] * lifted + lift;
            rest -= from[1 + f] * precision * mean[1 + f];
            factor_rhs[b * K + f] = right[1 + f] * precision + damped_by * row[f] * mean[1 + f];
        }
        main_rhs[b] = rest;
    });
}

// Factors in which the column has no function are not part of its solve: their sums do not count for the others.
void Engine::leave_out(const EngineColumn& column, double* gram, double* rhs) const {
    const int64_t codes = column.n_codes - 1, K = width_ - 1;
    for (int64_t f = 0; f < K; f++) {
        if (!column.leaves_out(f)) continue;
        for (int64_t b = 0; b < codes; b++) {
            rhs[b * K + f] = 0.0;
            for (int64_t g = 0; g < K; g++)
                if (g != f) gram[(b * K + f) * K + g] = gram[(b * K + g) * K + f] = 0.0;
        }
    }
}

// Zero functions of these factors, after a solve, without variance or degrees of freedom.
void Engine::clear_left_out(const EngineColumn& column, ColumnArrays& arrays, double* mean, double* variance,
                            std::vector<double>& form) const {
    const int64_t codes = column.n_codes - 1, K = width_ - 1, G = column.factors.n_lam();
    for (int64_t f = 0; f < K; f++) {
        if (!column.leaves_out(f)) continue;
        for (int64_t b = 0; b < codes; b++) mean[b * K + f] = variance[b * K + f] = arrays.per_code[b * K + f] = 0.0;
        for (int64_t a = 0; a < column.factors.task.m; a++) arrays.smooth[a * K + f] = 0.0;
        for (int64_t g = 0; g < G; g++) arrays.edf[g * K + f] = form[static_cast<size_t>(g * K + f)] = 0.0;
    }
}

// The main effect given the factors, then the factors given it; false where rounding has made a block indefinite.
bool Engine::try_solve(size_t k, size_t j, bool learn, double damping, double jitter) {
    const EngineColumn& column = columns_[j];
    ColumnArrays& arrays = etas[k].columns[j];
    const int64_t codes = column.n_codes - 1, W = width_, K = W - 1;
    scale_sums(arrays, codes, damping, jitter);
    double *main_gram = scaled_gram_.data(), *factor_gram = main_gram + codes;
    double *main_rhs = scaled_rhs_.data(), *factor_rhs = main_rhs + codes;
    std::vector<double> main_mean(static_cast<size_t>(codes)), main_variance(main_mean.size());
    std::vector<double> main_edf(static_cast<size_t>(column.main.n_lam())), main_form(main_edf.size());
    const int64_t memory = memory_.size();
    if (!passes_.solve_prior({&column.main.task, 1, main_gram, main_rhs, arrays.main_lam, nullptr, main_mean.data(),
                              main_variance.data(), arrays.main_smooth, arrays.main_per_code, main_edf.data(),
                              main_form.data(), memory_.data(), memory, parallel_of_passes()}))
        return false;
    const auto take_main = [&] {
        for (int64_t b = 0; b < codes; b++) {
            arrays.mean[b * W] = main_mean[static_cast<size_t>(b)];
            arrays.variance[b * W] = main_variance[static_cast<size_t>(b)];
        }
        for (size_t g = 0; g < main_edf.size() && learn; g++)
            arrays.main_lam[g] =
                fellner_schall(main_edf[g], main_form[g], arrays.main_lam[g], column.main.low[g], column.main.high[g]);
    };
    if (K == 0) {
        take_main();
        return true;
    }
    over_codes(codes, [&](int64_t b) {
        for (int64_t f = 0; f < K; f++)
            factor_rhs[b * K + f] -=
                gram_[static_cast<size_t>(b * W * W + 1 + f)] * (1.0 / dispersion) * main_mean[static_cast<size_t>(b)];
    });
    Constants constants;
    if (products_ > 0 && !solve_constants(j, arrays, factor_gram, factor_rhs, constants)) return false;
    const int64_t G = column.factors.n_lam();
    std::vector<double> lam(arrays.lam, arrays.lam + G * K), form(lam.size());
    TensorPenalty penalty;
    if (etas[k].tensor.margin_lam != nullptr) penalty = tensor_penalty(k, j, factor_gram, lam);
    leave_out(column, factor_gram, factor_rhs);
    double *mean = mean_.data(), *variance = mean_.data() + codes * W;
    if (!passes_.solve_prior({&column.factors.task, K, factor_gram, factor_rhs, lam.data(),
                              penalty.task.rank > 0 ? &penalty.task : nullptr, mean, variance, arrays.smooth,
                              arrays.per_code, arrays.edf, form.data(), memory_.data(), memory, parallel_of_passes()}))
        return false;
    for (int64_t b = 0; b < codes; b++)  // tensor smoothing prunes by its smoothing parameters, not by variances
        for (int64_t f = 0; f < penalty.task.rank; f++) variance[b * K + f] = 0.0;
    clear_left_out(column, arrays, mean, variance, form);
    take_main();
    if (column.bounded) bound(j, arrays, mean);
    for (int64_t b = 0; b < codes; b++)
        for (int64_t f = 0; f < K; f++) {
            arrays.mean[b * W + 1 + f] = mean[b * K + f];
            arrays.variance[b * W + 1 + f] = variance[b * K + f];
        }
    add_constants(arrays, codes, constants);
    if (learn) update_factor_lam(column, arrays, form, penalty.task.rank);
    return true;
}

// Adds the constants of product factors to their functions.
void Engine::add_constants(ColumnArrays& arrays, int64_t codes, const Constants& constants) {
    const int64_t first = width_ - products_;
    for (int64_t g = 0; g < products_; g++) {
        const size_t at = static_cast<size_t>(g);
        arrays.constants[g] = arrays.mean[codes * width_ + first + g] = constants.mean[at];
        for (int64_t b = 0; b < codes; b++) {
            arrays.mean[b * width_ + first + g] += constants.mean[at];
            arrays.variance[b * width_ + first + g] += constants.variance[at];
        }
    }
}

// Fellner-Schall updates of the factors' smoothing parameters; factors of one order share theirs. The first
// ``pairs`` factors have none: those of surfaces take their place.
void Engine::update_factor_lam(const EngineColumn& column, ColumnArrays& arrays, const std::vector<double>& form,
                               int64_t pairs) {
    const int64_t K = width_ - 1, G = column.factors.n_lam();
    int64_t first = 0;
    for (const auto& [order, rank] : ranks_) {
        for (int64_t g = 0; g < G && rank > 0; g++) {
            double edfs = 0.0, forms = 0.0;
            for (int64_t f = first; f < first + rank; f++) {
                edfs += arrays.edf[g * K + f];
                forms += form[static_cast<size_t>(g * K + f)];
            }
            const size_t at = static_cast<size_t>(g);
            const double found =
                fellner_schall(edfs, forms, arrays.lam[g * K + first], column.factors.low[at], column.factors.high[at]);
            for (int64_t f = std::max(first, pairs); f < first + rank; f++) arrays.lam[g * K + f] = found;
        }
        first += rank;
    }
}

// Solves for the constants of product factors given their functions; rhs becomes that of the functions given these.
bool Engine::solve_constants(size_t j, const ColumnArrays& arrays, const double* gram, double* rhs, Constants& found) {
    const int64_t codes = columns_[j].n_codes - 1, K = width_ - 1, R = products_, first = K - R;
    const size_t size = static_cast<size_t>(R);
    std::vector<double> precision(size * size, 0.0), inverse(size * size), left(size, 0.0), half(size, 0.0);
    for (int64_t b = 0; b < codes; b++) {
        const double* mean = arrays.mean + b * width_ + 1;
        for (int64_t f = 0; f < R; f++) {
            const double* row = gram + (b * K + first + f) * K;
            double sum = rhs[b * K + first + f];
            for (int64_t g = 0; g < K; g++) sum -= row[g] * (mean[g] - (g < first ? 0.0 : arrays.constants[g - first]));
            left[static_cast<size_t>(f)] += sum;
            for (int64_t g = 0; g < R; g++) precision[static_cast<size_t>(f * R + g)] += row[first + g];
        }
    }
    for (size_t f = 0; f < size; f++) precision[f * size + f] += tuning::CONSTANT_PRECISION;
    const auto fixed = [&](size_t f) { return columns_[j].leaves_out(first + static_cast<int64_t>(f)); };
    for (size_t f = 0; f < size; f++)
        for (size_t g = 0; g < size; g++) {  // constants that stay what they are
            if (fixed(g) && !fixed(f)) left[f] -= precision[f * size + g] * arrays.constants[g];
            if (fixed(f) || fixed(g)) precision[f * size + g] = f == g ? 1.0 : 0.0;
        }
    if (!passes_.invert(precision.data(), R, inverse.data(), {})) return false;
    found.mean.assign(size, 0.0);
    found.variance.assign(size, 0.0);
    for (size_t a = 0; a < size; a++)
        for (size_t b = a; b < size; b++) half[b] += inverse[a * size + b] * left[a];
    for (size_t a = 0; a < size; a++)
        for (size_t b = a; b < size; b++) {
            found.mean[a] += inverse[a * size + b] * half[b];
            found.variance[a] += inverse[a * size + b] * inverse[a * size + b];
        }
    for (size_t f = 0; f < size; f++)
        if (fixed(f)) {
            found.mean[f] = arrays.constants[f];
            found.variance[f] = 0.0;
        }
    over_codes(codes, [&](int64_t b) {
        for (int64_t f = 0; f < K; f++) {
            const double* row = gram + (b * K + f) * K + first;
            for (int64_t g = 0; g < R; g++) rhs[b * K + f] -= row[g] * found.mean[static_cast<size_t>(g)];
        }
    });
    return true;
}

// Scales functions of product factors to a root mean square of one and moves the scale to the loadings; row states do
// not change.
void Engine::rescale_products(size_t k) {
    for (int64_t f = 0; f < products_; f++) {
        const int64_t at = width_ - products_ + f, K = width_ - 1;
        for (size_t j = 0; j < columns_.size(); j++) {
            const EngineColumn& column = columns_[j];
            ColumnArrays& arrays = etas[k].columns[j];
            if (column.leaves_out(at - 1)) continue;
            const int64_t codes = column.n_codes - 1;
            double square = 0.0;
            for (int64_t b = 0; b < codes; b++)
                square +=
                    column.mass[static_cast<size_t>(b)] * arrays.mean[b * width_ + at] * arrays.mean[b * width_ + at];
            const double scale = std::sqrt(square);
            if (!(scale > tuning::LEAST_PRODUCT_SCALE)) continue;
            for (int64_t b = 0; b <= codes; b++) {
                arrays.mean[b * width_ + at] /= scale;
                arrays.variance[b * width_ + at] /= square;
                tempered_[k][j][static_cast<size_t>(b * width_ + at)] /= square;
            }
            for (int64_t a = 0; a < column.factors.task.m; a++) arrays.smooth[a * K + at - 1] /= scale;
            for (int64_t b = 0; b < codes; b++) arrays.per_code[b * K + at - 1] /= scale;
            arrays.constants[f] /= scale;
            etas[k].loadings[f] *= scale;
        }
    }
}

// Bounds absolute values by a multiple of the function's root mean square; the change is added to the effect of the
// code.
void Engine::bound(size_t j, const ColumnArrays& arrays, double* mean) {
    const EngineColumn& column = columns_[j];
    const int64_t codes = column.n_codes - 1, K = width_ - 1;
    const bool spline = column.factors.task.kind == PriorKind::spline;
    std::atomic<bool> any{false};
    std::vector<double> limits(static_cast<size_t>(K)), lost(static_cast<size_t>(K));
    over_codes(K, [&](int64_t f) {
        double square = 0.0;
        for (int64_t b = 0; b < codes; b++)
            square += column.mass[static_cast<size_t>(b)] * mean[b * K + f] * mean[b * K + f];
        limits[static_cast<size_t>(f)] = std::sqrt(square);
        for (int64_t b = 0; b < codes; b++) {
            const double limit = column.relative_bounds[static_cast<size_t>(b)] * limits[static_cast<size_t>(f)],
                         value = mean[b * K + f];
            const double excess = value - std::clamp(value, -limit, limit);
            lost[static_cast<size_t>(f)] += column.mass[static_cast<size_t>(b)] * excess;
            if (excess != 0.0) any = true;
        }
    });
    if (spline) std::fill(arrays.per_code, arrays.per_code + codes * K, 0.0);
    if (!any) return;
    for (int64_t b = 0; b < codes; b++)
        for (int64_t f = 0; f < K; f++) {
            const double limit = column.relative_bounds[static_cast<size_t>(b)] * limits[static_cast<size_t>(f)],
                         before = mean[b * K + f];
            mean[b * K + f] = std::clamp(before, -limit, limit) +
                              lost[static_cast<size_t>(f)];  // the function's mean does not change
            arrays.per_code[b * K + f] += mean[b * K + f] - before;
        }
}

}  // namespace ahofm
