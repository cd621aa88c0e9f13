// Tensor-product smoothing of pairs: smoothing parameters of every pair of columns, from the factors as margins.
// The reference is ahofm/priors/tensor.py.
#include "engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fellner_schall.h"

namespace ahofm {

namespace {

constexpr double kSmallestLam = 1e-3, kLargestLam = 1e10;
constexpr double kGone = 100.0;  // times the information: precision at which a coefficient has vanished
constexpr double kFirstStepUp = 2.0;
constexpr int64_t kFirstSteps = 10;
constexpr double kLeastEdf = 1e-9, kLeastForm = 1e-24;
constexpr double kLeastMass = 1e-12;  // of a code

}  // namespace

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
    known->rough.resize(static_cast<size_t>(m));
    for (int64_t b = 0; b < codes; b++) {
        const double mass = column.mass[static_cast<size_t>(b)];
        for (int64_t a = iid ? b : 0; a < (iid ? b + 1 : m); a++) {
            const double factor = iid ? std::sqrt(mass) : mass * prior.values[b * m + a];
            for (int64_t f = 0; f < R; f++)
                known->coef[static_cast<size_t>(a * R + f)] += factor * mean[b * width_ + 1 + f];
        }
    }
    for (int64_t a = 0; a < m; a++)
        known->rough[static_cast<size_t>(a)] =
            iid ? 1.0 / std::max(column.mass[static_cast<size_t>(a)], kLeastMass) : prior.rough[a];
    for (std::vector<double>* part : {&known->square, &known->stiff, &known->plain})
        part->assign(static_cast<size_t>(R * R), 0.0);
    for (int64_t a = 0; a < m; a++) {
        const double* row = known->coef.data() + a * R;
        const double rough = known->rough[static_cast<size_t>(a)];
        for (int64_t f = 0; f < R; f++)
            for (int64_t g = 0; g < R; g++) {
                const size_t at = static_cast<size_t>(f * R + g);
                const double product = row[f] * row[g];
                known->square[at] += product;
                known->stiff[at] += rough * product;
                if (rough == 0.0) known->plain[at] += product;
            }
    }
    return *known;
}

// Tensor-product penalty of column j's factors of pairs, given its partners. What applies to all coordinates is added
// to factor_gram; lam, of the factors themselves, gets its lower bound.
Engine::Coupling Engine::tensor_penalty(size_t k, size_t j, double* factor_gram, std::vector<double>& lam) {
    const EngineColumn& column = columns_[j];
    const Tensor& tensor = etas[k].tensor;
    const int64_t R = ranks_.front().second, K = width_ - 1, p = static_cast<int64_t>(columns_.size());
    const int64_t here = static_cast<int64_t>(j);
    Coupling found;
    found.rough.assign(static_cast<size_t>(R * R), 0.0);
    found.plain.assign(static_cast<size_t>(R * R), 0.0);
    std::vector<double> all(static_cast<size_t>(R * R), 0.0);
    for (int64_t other = 0; other < p; other++) {
        if (other == here) continue;
        const TensorMargin& partner = margin(k, static_cast<size_t>(other));
        for (size_t i = 0; i < all.size(); i++) {
            found.rough[i] += tensor.along[here * p + other] * partner.square[i];
            found.plain[i] += tensor.plain[here * p + other] * partner.plain[i];
            all[i] += tensor.along[other * p + here] * partner.stiff[i];
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
                found.rough[static_cast<size_t>(f * R + g)] = found.plain[static_cast<size_t>(f * R + g)] = 0.0;
    found.task = {R, found.rough.data(), found.plain.data()};
    return found;
}

// New smoothing parameters of all pairs, with variances of coefficients computed as if columns were independent.
void Engine::update_tensor_lam(size_t k, double information) {
    Tensor& tensor = etas[k].tensor;
    const int64_t p = static_cast<int64_t>(columns_.size()), R = ranks_.front().second;
    std::vector<double> lam_unit(static_cast<size_t>(p), 1.0);
    for (int64_t j = 0; j < p; j++) {
        double least = std::numeric_limits<double>::infinity();
        for (const double rough : margin(k, static_cast<size_t>(j)).rough)
            if (rough > 0.0) least = std::min(least, rough);
        if (std::isfinite(least)) lam_unit[static_cast<size_t>(j)] = 1.0 / least;
    }
    const double step_up = tensor.age < kFirstSteps ? kFirstStepUp : kLargestLamStep;
    std::vector<double> edfs(static_cast<size_t>(p), 0.0);  // of the pairs of each column with later ones
    parallel(static_cast<int>(p), [&](int task) {
        const int64_t i = task;
        double& total_edf = edfs[static_cast<size_t>(i)];
        for (int64_t j = i + 1; j < p; j++) {
            const TensorMargin &a = margin(k, static_cast<size_t>(i)), &b = margin(k, static_cast<size_t>(j));
            double now[3] = {tensor.along[i * p + j], tensor.along[j * p + i], tensor.plain[i * p + j]};
            double form[3] = {0.0, 0.0, 0.0}, edf[3] = {0.0, 0.0, 0.0};
            for (size_t s = 0; s < a.rough.size(); s++) {
                const double *left = a.coef.data() + static_cast<int64_t>(s) * R, wa = a.rough[s];
                for (size_t t = 0; t < b.rough.size(); t++) {
                    const double *right = b.coef.data() + static_cast<int64_t>(t) * R, wb = b.rough[t];
                    double value = 0.0;
                    for (int64_t f = 0; f < R; f++) value += left[f] * right[f];
                    const double square = value * value, plain = wa == 0.0 && wb == 0.0 ? 1.0 : 0.0;
                    const double precision = now[0] * wa + now[1] * wb + now[2] * plain;
                    const double rest = information / (precision * (information + precision));
                    form[0] += wa * square;
                    form[1] += wb * square;
                    form[2] += plain * square;
                    edf[0] += wa * rest;
                    edf[1] += wb * rest;
                    edf[2] += plain * rest;
                }
            }
            const double most[3] = {lam_unit[static_cast<size_t>(i)], lam_unit[static_cast<size_t>(j)], 1.0};
            for (int part = 0; part < 3; part++) {
                const double high = clip(information * kGone * most[part], kSmallestLam, kLargestLam);
                now[part] = fellner_schall(now[part] * edf[part], form[part], now[part], kSmallestLam, high, step_up,
                                           kLeastEdf, kLeastForm);
            }
            tensor.along[i * p + j] = now[0];
            tensor.along[j * p + i] = now[1];
            tensor.plain[i * p + j] = tensor.plain[j * p + i] = now[2];
            for (const double wa : a.rough)
                for (const double wb : b.rough)
                    total_edf += information /
                                 (information + now[0] * wa + now[1] * wb + (wa == 0.0 && wb == 0.0 ? now[2] : 0.0));
        }
    });
    tensor.edf = 0.0;
    for (const double own : edfs) tensor.edf += own;
    tensor.age++;
}

}  // namespace ahofm
