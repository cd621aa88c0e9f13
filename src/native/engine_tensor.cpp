// Tensor-product smoothing of pairs: smoothing parameters of every pair of columns, from the factors as margins.
// The reference is ahofm/priors/tensor.py.
#include "engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fellner_schall.h"
#include "tuning.h"

namespace ahofm {

// The margin of column j, computed again after its factors have changed.
const TensorMargin& Engine::margin(size_t k, size_t j) {
    std::unique_ptr<TensorMargin>& known = margins_[k][j];
    if (known) return *known;
    known = std::make_unique<TensorMargin>();
    const EngineColumn& column = columns_[j];
    const PriorTask& prior = column.factors.task;
    const int64_t codes = column.n_codes - 1, R = ranks_.front().second;
    const double* mean = etas[k].columns[j].mean;
    const bool iid = prior.kind == PriorKind::iid;
    const int64_t m = iid ? codes : prior.m;
    known->coef.assign(static_cast<size_t>(m * R), 0.0);
    known->penalty.resize(static_cast<size_t>(m));
    for (int64_t b = 0; b < codes; b++) {
        const double mass = column.mass[static_cast<size_t>(b)];
        for (int64_t a = iid ? b : 0; a < (iid ? b + 1 : m); a++) {
            const double factor = iid ? std::sqrt(mass) : mass * prior.values[b * m + a];
            for (int64_t f = 0; f < R; f++)
                known->coef[static_cast<size_t>(a * R + f)] += factor * mean[b * width_ + 1 + f];
        }
    }
    for (int64_t a = 0; a < m; a++)
        known->penalty[static_cast<size_t>(a)] =
            iid ? 1.0 / std::max(column.mass[static_cast<size_t>(a)], tuning::LEAST_MASS) : prior.penalty[a];
    for (std::vector<double>* part : {&known->gram, &known->penalised_gram, &known->null_gram})
        part->assign(static_cast<size_t>(R * R), 0.0);
    for (int64_t a = 0; a < m; a++) {
        const double* row = known->coef.data() + a * R;
        const double penalty = known->penalty[static_cast<size_t>(a)];
        for (int64_t f = 0; f < R; f++)
            for (int64_t g = 0; g < R; g++) {
                const size_t at = static_cast<size_t>(f * R + g);
                const double product = row[f] * row[g];
                known->gram[at] += product;
                known->penalised_gram[at] += penalty * product;
                if (penalty == 0.0) known->null_gram[at] += product;
            }
    }
    return *known;
}

// Tensor-product penalty of column j's factors of pairs, given its partners. What applies to all coordinates is added
// to factor_gram; lam, of the factors themselves, gets its lower bound.
Engine::TensorPenalty Engine::tensor_penalty(size_t k, size_t j, double* factor_gram, std::vector<double>& lam) {
    const EngineColumn& column = columns_[j];
    const TensorSmoothing& tensor = etas[k].tensor;
    const int64_t R = ranks_.front().second, K = width_ - 1, p = static_cast<int64_t>(columns_.size());
    const int64_t here = static_cast<int64_t>(j);
    TensorPenalty found;
    found.penalised.assign(static_cast<size_t>(R * R), 0.0);
    found.null.assign(static_cast<size_t>(R * R), 0.0);
    std::vector<double> all(static_cast<size_t>(R * R), 0.0);
    for (int64_t other = 0; other < p; other++) {
        if (other == here) continue;
        const TensorMargin& partner = margin(k, static_cast<size_t>(other));
        for (size_t i = 0; i < all.size(); i++) {
            found.penalised[i] += tensor.margin_lam[here * p + other] * partner.gram[i];
            found.null[i] += tensor.null_lam[here * p + other] * partner.null_gram[i];
            all[i] += tensor.margin_lam[other * p + here] * partner.penalised_gram[i];
        }
    }
    over_codes(column.n_codes - 1, [&](int64_t b) {
        for (int64_t f = 0; f < R; f++)
            for (int64_t g = 0; g < R; g++)
                factor_gram[(b * K + f) * K + g] +=
                    column.mass[static_cast<size_t>(b)] * all[static_cast<size_t>(f * R + g)];
    });
    for (int64_t g = 0; g < column.factors.n_lam(); g++)
        for (int64_t f = 0; f < R; f++)
            lam[static_cast<size_t>(g * K + f)] = column.factors.low[static_cast<size_t>(g)];
    for (int64_t f = 0; f < R; f++)
        for (int64_t g = 0; g < R; g++)
            if (f != g && (column.leaves_out(f) || column.leaves_out(g)))
                found.penalised[static_cast<size_t>(f * R + g)] = found.null[static_cast<size_t>(f * R + g)] = 0.0;
    found.task = {R, found.penalised.data(), found.null.data()};
    return found;
}

// New smoothing parameters of all pairs, with variances of coefficients computed as if columns were independent.
void Engine::update_tensor_lam(size_t k, double information) {
    TensorSmoothing& tensor = etas[k].tensor;
    const int64_t p = static_cast<int64_t>(columns_.size()), R = ranks_.front().second;
    std::vector<double> lam_unit(static_cast<size_t>(p), 1.0);
    for (int64_t j = 0; j < p; j++) {
        double least = std::numeric_limits<double>::infinity();
        for (const double penalty : margin(k, static_cast<size_t>(j)).penalty)
            if (penalty > 0.0) least = std::min(least, penalty);
        if (std::isfinite(least)) lam_unit[static_cast<size_t>(j)] = 1.0 / least;
    }
    const double largest_increase = static_cast<double>(tensor.age) < tuning::FIRST_SURFACE_STEPS
                                        ? tuning::LARGEST_FIRST_SURFACE_LAM_RATIO
                                        : tuning::LARGEST_LAM_RATIO;
    std::vector<double> edfs(static_cast<size_t>(p), 0.0);  // of the pairs of each column with later ones
    parallel(static_cast<int>(p), [&](int task) {
        const int64_t i = task;
        double& total_edf = edfs[static_cast<size_t>(i)];
        for (int64_t j = i + 1; j < p; j++) {
            const TensorMargin &a = margin(k, static_cast<size_t>(i)), &b = margin(k, static_cast<size_t>(j));
            double lam[3] = {tensor.margin_lam[i * p + j], tensor.margin_lam[j * p + i], tensor.null_lam[i * p + j]};
            double form[3] = {0.0, 0.0, 0.0}, edf[3] = {0.0, 0.0, 0.0};
            for (size_t s = 0; s < a.penalty.size(); s++) {
                const double *left = a.coef.data() + static_cast<int64_t>(s) * R, wa = a.penalty[s];
                for (size_t t = 0; t < b.penalty.size(); t++) {
                    const double *right = b.coef.data() + static_cast<int64_t>(t) * R, wb = b.penalty[t];
                    double value = 0.0;
                    for (int64_t f = 0; f < R; f++) value += left[f] * right[f];
                    const double square = value * value, null = wa == 0.0 && wb == 0.0 ? 1.0 : 0.0;
                    const double precision = lam[0] * wa + lam[1] * wb + lam[2] * null;
                    // Prior minus posterior variance.
                    const double reduction = information / (precision * (information + precision));
                    form[0] += wa * square;
                    form[1] += wb * square;
                    form[2] += null * square;
                    edf[0] += wa * reduction;
                    edf[1] += wb * reduction;
                    edf[2] += null * reduction;
                }
            }
            const double most[3] = {lam_unit[static_cast<size_t>(i)], lam_unit[static_cast<size_t>(j)], 1.0};
            for (int part = 0; part < 3; part++) {
                const double high = clip(information * tuning::MOST_SURFACE_PRECISION * most[part],
                                         tuning::SMALLEST_LAM, tuning::LARGEST_SURFACE_LAM);
                lam[part] = fellner_schall(lam[part] * edf[part], form[part], lam[part], tuning::SMALLEST_LAM, high,
                                           largest_increase, tuning::LEAST_EDF_OF_SURFACE,
                                           tuning::LEAST_QUADRATIC_FORM_OF_SURFACE);
            }
            tensor.margin_lam[i * p + j] = lam[0];
            tensor.margin_lam[j * p + i] = lam[1];
            tensor.null_lam[i * p + j] = tensor.null_lam[j * p + i] = lam[2];
            for (const double wa : a.penalty)
                for (const double wb : b.penalty)
                    total_edf += information /
                                 (information + lam[0] * wa + lam[1] * wb + (wa == 0.0 && wb == 0.0 ? lam[2] : 0.0));
        }
    });
    tensor.edf = 0.0;
    for (const double edf : edfs) tensor.edf += edf;
    tensor.age++;
}

}  // namespace ahofm
