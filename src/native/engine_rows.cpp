// States of the rows, and working weights and responses.
#include "engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "product_states.h"
#include "tuning.h"

namespace ahofm {

namespace {

template <class T>
void write_heads(void* state, int64_t numbers, int64_t begin, int64_t end, const double* weight,
                 const double* response) {
    T* base = static_cast<T*>(state);
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = i % kBlock;
        T* head = base + (i - row) * numbers + row * kStateHead;
        head[2] = static_cast<T>(weight[i]);
        head[3] = static_cast<T>(response[i]);
    }
}

}  // namespace

BlockTask Engine::task_of(size_t k, const Range& range) {
    BlockTask task{};
    task.n = range.end - range.begin;
    task.width = width_;
    task.float64 = float64_;
    task.state = states_[k].data() + range.begin * numbers_ * (float64_ ? 8 : 4);
    task.numbers = numbers_;
    task.panels = panels_.data();
    task.n_panels = static_cast<int>(panels_.size());
    return task;
}

ColumnMoments Engine::moments_of(size_t k, size_t j, const Range& range) {
    const EngineColumn& column = columns_[j];
    const char* codes = static_cast<const char*>(column.codes) + range.begin * column.code_width;
    return {static_cast<int>(j),     codes,
            column.code_width,       static_cast<uint32_t>(column.n_codes),
            etas[k].columns[j].mean, tempered_[k][j].data()};
}

// Variances that row states are to contain.
void Engine::temper_variance(size_t k, size_t j) {
    const double* variance = etas[k].columns[j].variance;
    std::vector<double>& tempered = tempered_[k][j];
    for (size_t i = 0; i < tempered.size(); i++) tempered[i] = tempering_ * variance[i];
    margins_[k][j].reset();
}

void Engine::clear(size_t k) {
    const size_t row = static_cast<size_t>(numbers_) * (float64_ ? 8 : 4);
    over_rows([&](const Range& range) {
        const int64_t end = (range.end + kBlock - 1) / kBlock * kBlock;  // with the padding of the last block
        std::memset(states_[k].data() + static_cast<size_t>(range.begin) * row, 0,
                    static_cast<size_t>(end - range.begin) * row);
    });
    if (products_ > 0) start_products(task_of(k, {0, n_}), etas[k].loadings);
}

// Mean of the blocks' part of every row, in fitted_, and its variance, in state_variance_.
void Engine::read_states(size_t k) {
    over_rows([&](const Range& range) {
        passes_.read_state(task_of(k, range), fitted_.data() + range.begin, state_variance_.data() + range.begin);
    });
}

void Engine::update_additive(size_t k) {
    double added = 0.0;
    const std::vector<double> coef = mains_.design.in_functions(etas[k].coef, added);
    added += etas[k].intercept;
    over_rows([&](const Range& range) {
        double* additive = additive_[k].data();
        passes_.local_times(mains_.design.rows, range.begin, range.end, coef.data(), additive);
        for (int64_t i = range.begin; i < range.end; i++) additive[i] += added;
    });
}

// Working weights and responses less the smooth main effects, stored in the heads of the states.
void Engine::linearise(size_t k) {
    const size_t K = etas.size();
    const std::vector<double>& additive = additive_[k];
    over_rows([&](const Range& range) {
        for (size_t i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); i++) {
            const double weight = rows_.weight[i];
            if (quadratic_) {
                working_weight_[i] = weight;
                response_[i] = weight * (rows_.y[i] - additive[i]);
            } else {
                const size_t at = i * K + k;
                working_weight_[i] = weight * rows_.curvature[at];
                response_[i] = working_weight_[i] * (rows_.eta[at] - additive[i]) - weight * rows_.slope[at];
            }
        }
        const auto write = float64_ ? write_heads<double> : write_heads<float>;
        write(states_[k].data(), numbers_, range.begin, range.end, working_weight_.data(), response_.data());
    });
}

void Engine::build(double tempering) {
    const Hired hired(*this);
    tempering_ = tempering;
    for (size_t k = 0; k < etas.size(); k++) {
        clear(k);
        for (size_t j = 0; j < columns_.size(); j++) {
            poll();
            temper_variance(k, j);
            const auto begun = std::chrono::steady_clock::now();
            swap(k, static_cast<int>(j), -1);
            if (step_time_.count() > 0) continue;
            step_time_ = std::chrono::steady_clock::now() - begun;
            team_->limit(useful_helpers());  // rows alone, without the solve
        }
        if (quadratic_) {
            linearise(k);
            continue;
        }
        read_states(k);
        over_rows([&](const Range& range) {
            for (size_t i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); i++) {
                rows_.eta[i * etas.size() + k] = fitted_[i] + additive_[k][i];
                rows_.variance[i * etas.size() + k] = state_variance_[i];
            }
        });
    }
    if (!quadratic_) evaluate();
}

void Engine::evaluate() {
    for (WeightedDesign& weighted : weighted_designs_) weighted.weight.clear();
    if (!losses(rows_.eta, rows_.value, rows_.slope, rows_.curvature)) throw Stopped{};
    majorise_if_far();
}

// Majorants in place of curvatures, for good once a linear predictor is so large that curvatures are nearly zero.
void Engine::majorise_if_far() {
    double largest_eta = 0.0;
    const size_t both = static_cast<size_t>(n_) * etas.size();
    for (size_t i = 0; i < both && !use_majorant; i++) largest_eta = std::max(largest_eta, std::fabs(rows_.eta[i]));
    if (use_majorant || largest_eta > tuning::MAJORANT_ETA)
        use_majorant = majorant(rows_.eta, rows_.variance, rows_.curvature) || use_majorant;
}

}  // namespace ahofm
