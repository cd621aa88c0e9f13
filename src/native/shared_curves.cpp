// Sweeps of fits to several classes: working responses, and the steps of shared curves and loadings. Main effects are in
// shared_mains.cpp, the constants and scales of product factors in shared_products.cpp. The reference is
// ahofm/shared_curves/factors.py and shared_fit.py.
#include "shared_curves.h"

#include <algorithm>
#include <cmath>

#include "fellner_schall.h"
#include "tuning.h"

namespace ahofm {

namespace {

constexpr int kHighestUncertain = 3;  // order up to which variances of partners are used

}  // namespace

SharedCurves::SharedCurves(const Passes& passes, int64_t n, int64_t K, ClassTargets targets,
                           std::vector<SharedColumn> columns, std::vector<std::pair<int, int64_t>> ranks,
                           JointMains mains, double* loadings, double* loading_variance, const double* eta,
                           const SharedOptions& options)
    : passes_(passes), n_(n), K_(K), stride_((K + 3) / 4 * 4), targets_(std::move(targets)),
      columns_(std::move(columns)), mains_(std::move(mains)), loadings_(loadings), loading_variance_(loading_variance),
      options_(options) {
    for (const auto& [order, rank] : ranks) {
        orders_.push_back({order, F_, rank});
        if (order == kProduct) {
            product_rank_ = rank;
            first_product_ = F_;
        }
        F_ += rank;
        levels_ = std::max<int64_t>(levels_, order == kProduct ? 2 : order);
        if (order <= kHighestUncertain) moments_ = std::max<int64_t>(moments_, 2 * order);
        if (order == kProduct) moments_ = std::max<int64_t>(moments_, 1);
    }
    int64_t most = 0, memory = 0, parameters = 0;
    for (SharedColumn& column : columns_) {
        column.main.link();
        column.factors.link();
        most = std::max(most, column.n_codes);
        if (column.separate.mean != nullptr) memory = std::max(memory, passes_.solve_memory(column.main.task, 1));
        if (F_ == 0) continue;
        memory = std::max(memory, passes_.solve_memory(column.factors.task, F_));
        parameters = std::max(parameters, column.factors.n_lam());
        column.first.assign(sized(column.n_codes) + 1, 0);
        for (const uint32_t code : column.codes) column.first[code + 1]++;
        for (size_t b = 1; b < column.first.size(); b++) column.first[b] += column.first[b - 1];
        std::vector<uint32_t> next(column.first.begin(), column.first.end() - 1);
        column.sorted.resize(sized(n_));
        for (size_t i = 0; i < sized(n_); i++) column.sorted[next[column.codes[i]]++] = static_cast<uint32_t>(i);
    }
    eta_.assign(sized(n_ * stride_), 0.0);
    slope_.assign(sized(n_ * stride_), 0.0);
    weight_.resize(sized(n_));
    memory_.reserve(memory);
    for (int64_t k = 0; k < K_; k++)
        for (int64_t i = 0; i < n_; i++) eta_[sized(i * stride_ + k)] = eta[k * n_ + i];
    if (F_ == 0) return;
    padded_loadings_.assign(sized(F_ * stride_), 0.0);
    loadings_by_class_.resize(sized(K_ * F_));
    products_.resize(sized(F_ * F_));
    state_.resize(sized(n_ * levels_ * F_));
    rests_.resize(sized(n_ * (levels_ - 1) * F_));
    for (std::vector<double>* sums : {&response_, &added_, &terms_}) sums->assign(sized(n_ * F_), 0.0);
    gram_.resize(sized(most * F_ * F_));
    rhs_.resize(sized(most * F_));
    for (std::vector<double>* values : {&mean_, &variance_, &difference_, &new_values_, &new_variance_})
        values->resize(sized(most * F_));
    learned_lam_.resize(sized(parameters * F_));
    edf_.resize(sized(parameters * F_));
    constants_.assign(sized(F_), 0.0);
    constant_variance_.assign(sized(F_), 0.0);
    scale_.assign(sized(F_), 1.0);
    use_loadings();
    rebuild();
}

// Working weights and responses at the current linear predictors.
void SharedCurves::evaluate(bool bound) {
    if (evaluated_ && evaluated_bound_ == bound) return;
    passes_.class_losses({n_, K_, stride_, targets_.y.data(), targets_.weight, targets_.offset, eta_.data(),
                          options_.least_weight, options_.most_weight, bound, slope_.data(), weight_.data()},
                         &sums_);
    fisher_ = sums_.information / static_cast<double>(K_ - 1) / sums_.weights;
    evaluated_ = true;
    evaluated_bound_ = bound;
}

double SharedCurves::loss(bool bound) {
    evaluate(bound);
    return sums_.loss;
}

void SharedCurves::read_eta(double* out) const {
    for (int64_t k = 0; k < K_; k++)
        for (int64_t i = 0; i < n_; i++) out[k * n_ + i] = eta_[sized(i * stride_ + k)];
}

// Adds rows (n, depth) times coef (depth, stride) to the linear predictors.
void SharedCurves::add_eta(const double* rows, int64_t depth, const double* coef) {
    passes_.product({rows, depth, false, n_, coef, stride_, stride_, depth, eta_.data(), stride_});
    evaluated_ = false;
}

void SharedCurves::sweep(bool learn, bool bound, bool backwards, bool rebuilt) {
    sweep_mains(true, bound);
    for (size_t at = 0; at < columns_.size(); at++) {
        evaluate(bound);
        step_curves(backwards ? columns_.size() - 1 - at : at, learn);
    }
    if (rebuilt) rebuild();
    evaluate(bound);
    step_loadings();
}

SharedRows SharedCurves::rows_of(size_t j) {
    const SharedColumn& column = columns_[j];
    return {n_,
            F_,
            K_,
            stride_,
            levels_,
            moments_,
            orders_.data(),
            static_cast<int>(orders_.size()),
            column.codes.data(),
            column.n_codes,
            column.curves.values,
            column.curves.variance,
            padded_loadings_.data(),
            loadings_by_class_.data(),
            products_.data(),
            loading_variance_,
            tempering_,
            static_cast<double>(K_ - 1),
            weight_.data(),
            slope_.data(),
            state_.data(),
            moment_sums_.data(),
            rests_.data(),
            response_.data(),
            added_.data()};
}

void SharedCurves::rebuild() {
    std::fill(state_.begin(), state_.end(), 0.0);
    for (int64_t i = 0; i < n_ && product_rank_ > 0; i++)
        std::fill_n(state_.begin() + i * levels_ * F_ + first_product_, product_rank_, 1.0);
    for (size_t j = 0; j < columns_.size(); j++) passes_.shared_add(rows_of(j), false);
    if (tempering_ > 0.0) build_moments();
}

void SharedCurves::temper(double tempering) {
    tempering_ = tempering;
    build_moments();
}

void SharedCurves::build_moments() {
    moment_sums_.assign(sized(n_ * moments_ * F_), 0.0);
    if (moments_ == 0) return;
    for (int64_t i = 0; i < n_ && product_rank_ > 0; i++)
        std::fill_n(moment_sums_.begin() + i * moments_ * F_ + first_product_, product_rank_, 1.0);
    for (size_t j = 0; j < columns_.size(); j++) passes_.shared_add(rows_of(j), true);
}

// The loadings in the layouts of the passes, and their products.
void SharedCurves::use_loadings() {
    for (int64_t f = 0; f < F_; f++)
        for (int64_t k = 0; k < K_; k++)
            padded_loadings_[sized(f * stride_ + k)] = loadings_by_class_[sized(k * F_ + f)] = loadings_[f * K_ + k];
    for (int64_t f = 0; f < F_; f++)
        for (int64_t g = 0; g < F_; g++) {
            double sum = 0.0;
            for (int64_t k = 0; k < K_; k++) sum += loadings_[f * K_ + k] * loadings_[g * K_ + k];
            products_[sized(f * F_ + g)] = sum;
        }
}

// The curves of one column given all others.
void SharedCurves::step_curves(size_t j, bool learn) {
    SharedColumn& column = columns_[j];
    const SharedRows rows = rows_of(j);
    passes_.shared_slopes(rows);
    passes_.shared_sums(rows, column.sorted.data(), column.first.data(), column.n_codes - 1, gram_.data(), rhs_.data());
    leave_out(column);
    if (product_rank_ > 0) solve_constants(column, learn);
    solve_curves(column, learn);
    clear_left_out(column, learn);
    if (column.bounded) bound_curves(column);
    if (learn) learn_lam(column);
    if (product_rank_ > 0) scale_products(column);
    move_curves(j, learn);
}

// Takes the solved curves over: rows, linear predictors, and the caller's arrays. The scale of product factors goes into
// their loadings.
void SharedCurves::move_curves(size_t j, bool learn) {
    const CurveArrays& curves = columns_[j].curves;
    const int64_t codes = columns_[j].n_codes;
    for (int64_t b = 0; b < codes; b++)
        for (int64_t f = 0; f < F_; f++) {
            const size_t at = sized(b * F_ + f), g = sized(f);
            const bool neutral = b + 1 == codes, product = f >= first_product_ && f < first_product_ + product_rank_;
            double value = neutral ? constants_[g] : mean_[at] + constants_[g], variance = curves.variance[at];
            if (learn) variance = neutral ? 0.0 : variance_[at] + constant_variance_[g];
            value /= scale_[g];
            if (product && std::fabs(value) < tuning::LEAST_PRODUCT_VALUE)
                value = std::copysign(tuning::LEAST_PRODUCT_VALUE, value);
            new_values_[at] = value;
            new_variance_[at] = variance / (scale_[g] * scale_[g]);
            difference_[at] = value * scale_[g] - curves.values[at];
        }
    passes_.shared_move(rows_of(j), {difference_.data(), new_values_.data(), new_variance_.data(), eta_.data()});
    evaluated_ = false;
    std::copy_n(new_values_.begin(), codes * F_, curves.values);
    std::copy_n(new_variance_.begin(), codes * F_, curves.variance);
    if (product_rank_ == 0) return;
    for (int64_t f = 0; f < F_; f++) {
        for (int64_t k = 0; k < K_; k++) loadings_[f * K_ + k] *= scale_[sized(f)];
        loading_variance_[f] *= scale_[sized(f)] * scale_[sized(f)];
    }
    use_loadings();
}

// The posterior by the working weights; by Fisher's information, which is `fisher_` times that, what smoothing
// parameters are learned from: the same as smoothing parameters over fisher_, and variances over it.
void SharedCurves::solve_curves(SharedColumn& column, bool learn) {
    const int64_t codes = column.n_codes - 1, count = column.factors.n_lam() * F_;
    CurveArrays& curves = column.curves;
    for (int64_t i = 0; i < count; i++) learned_lam_[sized(i)] = curves.lam[i] / fisher_;
    for (const double jitter : tuning::COLUMN_JITTERS) {
        for (int64_t b = 0; b < codes; b++) {
            double* gram = gram_.data() + b * F_ * F_;
            double diagonal = 0.0;
            for (int64_t f = 0; f < F_; f++) diagonal += gram[f * F_ + f];
            for (int64_t f = 0; f < F_; f++) gram[f * F_ + f] += jitter * diagonal / static_cast<double>(F_);
        }
        if (!passes_.solve_curves({&column.factors.task, F_, gram_.data(), rhs_.data(), curves.lam,
                                   learn ? learned_lam_.data() : nullptr, mean_.data(), curves.smooth, curves.per_code,
                                   curves.form, variance_.data(), edf_.data(), memory_.data(), memory_.size()}))
            continue;
        for (size_t at = 0; at < sized(codes * F_) && learn; at++) variance_[at] /= fisher_;
        if (column.factors.task.kind == PriorKind::spline)
            std::fill(curves.per_code, curves.per_code + codes * F_, 0.0);
        return;
    }
    throw Failed{"a block of shared curves is not positive definite"};
}

// Factors in which the column has no curve are not part of its solve.
void SharedCurves::leave_out(const SharedColumn& column) {
    if (column.left_out.empty()) return;
    for (int64_t f = 0; f < F_; f++) {
        if (!column.left_out[sized(f)]) continue;
        for (int64_t b = 0; b + 1 < column.n_codes; b++) {
            rhs_[sized(b * F_ + f)] = 0.0;
            for (int64_t g = 0; g < F_; g++)
                if (g != f) gram_[sized((b * F_ + f) * F_ + g)] = gram_[sized((b * F_ + g) * F_ + f)] = 0.0;
        }
    }
}

// Zero curves of these factors, after a solve, without variance or degrees of freedom.
void SharedCurves::clear_left_out(const SharedColumn& column, bool learn) {
    if (column.left_out.empty()) return;
    const CurveArrays& curves = column.curves;
    for (int64_t f = 0; f < F_; f++) {
        if (!column.left_out[sized(f)]) continue;
        for (int64_t b = 0; b + 1 < column.n_codes; b++) {
            mean_[sized(b * F_ + f)] = curves.per_code[b * F_ + f] = 0.0;
            if (learn) variance_[sized(b * F_ + f)] = 0.0;
        }
        for (int64_t a = 0; a < column.factors.task.m; a++) curves.smooth[a * F_ + f] = 0.0;
        for (int64_t g = 0; g < column.factors.n_lam(); g++) {
            curves.form[g * F_ + f] = 0.0;
            if (learn) edf_[sized(g * F_ + f)] = 0.0;
        }
    }
}

// No value further from zero than so many times the curve's root mean square; its mean stays what it was.
void SharedCurves::bound_curves(const SharedColumn& column) {
    const size_t codes = sized(column.n_codes - 1), F = sized(F_);
    std::vector<double> square(F, 0.0), moved(F, 0.0), before(mean_.begin(), mean_.begin() + column.n_codes * F_ - F_);
    for (size_t b = 0; b < codes; b++)
        for (size_t f = 0; f < F; f++) square[f] += column.mass[b] * mean_[b * F + f] * mean_[b * F + f];
    bool any = false;
    for (size_t b = 0; b < codes; b++)
        for (size_t f = 0; f < F; f++) {
            const double limit = options_.relative_bounds * std::sqrt(square[f]);
            mean_[b * F + f] = clip(mean_[b * F + f], -limit, limit);
            any = any || mean_[b * F + f] != before[b * F + f];
            moved[f] += column.mass[b] * (before[b * F + f] - mean_[b * F + f]);
        }
    if (!any) return;
    for (size_t b = 0; b < codes; b++)
        for (size_t f = 0; f < F; f++) {
            mean_[b * F + f] += moved[f];
            column.curves.per_code[b * F + f] += mean_[b * F + f] - before[b * F + f];
        }
}

// New smoothing parameters; factors of one order share theirs.
void SharedCurves::learn_lam(SharedColumn& column) {
    for (int64_t g = 0; g < column.factors.n_lam(); g++)
        for (const SharedOrder& order : orders_) {
            double edf = 0.0, form = 0.0;
            double* lam = column.curves.lam + g * F_ + order.first;
            for (int64_t f = order.first; f < order.first + order.rank; f++) {
                edf += edf_[sized(g * F_ + f)];
                form += column.curves.form[g * F_ + f];
            }
            const double found =
                fellner_schall(edf, form, lam[0], column.factors.low[sized(g)], column.factors.high[sized(g)]);
            std::fill(lam, lam + order.rank, found);
        }
}

// The loadings of all classes given the curves: ridge regression, every factor's loadings with sum zero.
void SharedCurves::step_loadings() {
    const size_t F = sized(F_), stride = sized(stride_), K = sized(K_);
    std::vector<double> variances(F, 0.0), gram(F * F), right(F * stride, 0.0);
    passes_.shared_terms(rows_of(0), terms_.data(), variances.data());
    passes_.weighted_gram(terms_.data(), n_, F_, weight_.data(), gram.data());
    passes_.product({terms_.data(), F_, true, F_, slope_.data(), stride_, stride_, n_, right.data(), stride_});
    for (size_t f = 0; f < F; f++)
        for (size_t g = f; g < F; g++) gram[g * F + f] = gram[f * F + g];
    for (size_t f = 0; f < F; f++)
        for (size_t g = 0; g < F; g++)
            for (size_t k = 0; k < K; k++) right[f * stride + k] += gram[f * F + g] * loadings_[g * K + k];
    for (size_t f = 0; f < F; f++) gram[f * F + f] += variances[f];
    std::vector<double> information(gram), inverse(F * F);
    for (size_t f = 0; f < F; f++) gram[f * F + f] += options_.loading_lam;
    if (!passes_.solve_positive(gram.data(), F_, right.data(), stride_))
        throw Failed{"the loadings are not determined: their matrix is not positive definite"};
    for (size_t f = 0; f < F; f++) {
        double mean = 0.0;
        for (size_t k = 0; k < K; k++) mean += right[f * stride + k] / static_cast<double>(K_);
        for (size_t k = 0; k < K; k++) {
            const double found = right[f * stride + k] - mean;
            right[f * stride + k] = found - loadings_[f * K + k];
            loadings_[f * K + k] = found;
        }
        for (size_t k = K; k < stride; k++) right[f * stride + k] = 0.0;
    }
    if (tempering_ > 0.0) {
        for (double& one : information) one *= fisher_;
        for (size_t f = 0; f < F; f++) information[f * F + f] += options_.loading_lam;
        if (!passes_.invert(information.data(), F_, inverse.data(), {}))
            throw Failed{"the information about loadings is not positive definite"};
        for (size_t f = 0; f < F; f++) {
            loading_variance_[f] = 0.0;
            for (size_t g = f; g < F; g++) loading_variance_[f] += inverse[f * F + g] * inverse[f * F + g];
        }
    }
    add_eta(terms_.data(), F_, right.data());
    use_loadings();
}

}  // namespace ahofm
