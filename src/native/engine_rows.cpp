// States of the rows, the sums per code of a column, and working weights and responses.
#include "engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "pool.h"
#include "product_states.h"

namespace ahofm {

namespace {

constexpr double kLargeEta = 20.0;  // absolute linear predictor above which majorants replace curvatures

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
    std::vector<double>& own = tempered_[k][j];
    for (size_t i = 0; i < own.size(); i++) own[i] = tempering_ * variance[i];
    margins_[k][j].reset();
}

// Adds one column to the states of all rows, removes another one, and leaves its sums in gram_ and rhs_; -1 for none.
void Engine::swap(size_t k, int add, int remove, bool sums) {
    const int64_t codes = remove < 0 ? 0 : columns_[static_cast<size_t>(remove)].n_codes;
    const size_t size = static_cast<size_t>(codes * width_ * (width_ + 1));
    const size_t grams = static_cast<size_t>(codes * width_ * width_);
    if (ranges_.size() == 1) {
        std::fill_n(gram_.data(), grams, 0.0);
        std::fill_n(rhs_.data(), size - grams, 0.0);
    }
    std::vector<BadCode> bad(ranges_.size());
    Pool::run(static_cast<int>(ranges_.size()), threads, [&](int r) {
        const Range& range = ranges_[static_cast<size_t>(r)];
        BlockTask task = task_of(k, range);
        if (add >= 0) task.add_column = moments_of(k, static_cast<size_t>(add), range);
        if (remove >= 0) {
            std::vector<double>& own = partial_[static_cast<size_t>(r)];
            task.remove_column = moments_of(k, static_cast<size_t>(remove), range);
            if (ranges_.size() > 1) own.assign(size, 0.0);
            task.gram = ranges_.size() > 1 ? own.data() : gram_.data();
            task.rhs = ranges_.size() > 1 ? own.data() + grams : rhs_.data();
        }
        bad[static_cast<size_t>(r)] = passes_.block(task);
    });
    for (size_t r = 0; r < bad.size(); r++) {
        if (bad[r].column < 0) continue;
        bad[r].row += ranges_[r].begin;
        throw WrongCode{bad[r], columns_[static_cast<size_t>(bad[r].column)].n_codes};
    }
    if (!sums || ranges_.size() == 1) return;
    std::copy_n(partial_[0].data(), grams, gram_.data());
    std::copy_n(partial_[0].data() + grams, size - grams, rhs_.data());
    for (size_t r = 1; r < partial_.size(); r++) {
        for (size_t i = 0; i < grams; i++) gram_[i] += partial_[r][i];
        for (size_t i = grams; i < size; i++) rhs_[i - grams] += partial_[r][i];
    }
}

void Engine::clear(size_t k) {
    std::memset(states_[k].data(), 0, states_[k].size());
    if (products_ > 0) start_products(task_of(k, {0, n_}), etas[k].loadings);
}

// Mean of the blocks' part of every row, in fitted_, and its variance, in state_variance_.
void Engine::read_states(size_t k) {
    Pool::run(static_cast<int>(ranges_.size()), threads, [&](int r) {
        const Range& range = ranges_[static_cast<size_t>(r)];
        passes_.read_state(task_of(k, range), fitted_.data() + range.begin, state_variance_.data() + range.begin);
    });
}

void Engine::update_additive(size_t k) {
    const EtaArrays& eta = etas[k];
    passes_.design_times(mains_.design, n_, mains_.q, eta.coef, additive_[k].data());
    for (double& own : additive_[k]) own += eta.intercept;
}

// Working weights and responses less the smooth main effects, stored in the heads of the states.
void Engine::set_working(size_t k) {
    const size_t K = etas.size();
    const std::vector<double>& own = additive_[k];
    for (size_t i = 0; i < static_cast<size_t>(n_); i++) {
        const double weight = rows_.weight[i];
        if (quadratic_) {
            working_weight_[i] = weight;
            response_[i] = weight * (rows_.y[i] - own[i]);
        } else {
            const size_t at = i * K + k;
            working_weight_[i] = weight * rows_.curvature[at];
            response_[i] = working_weight_[i] * (rows_.eta[at] - own[i]) - weight * rows_.slope[at];
        }
    }
    if (float64_) write_heads<double>(states_[k].data(), numbers_, 0, n_, working_weight_.data(), response_.data());
    else write_heads<float>(states_[k].data(), numbers_, 0, n_, working_weight_.data(), response_.data());
}

void Engine::build(double tempering) {
    tempering_ = tempering;
    for (size_t k = 0; k < etas.size(); k++) {
        clear(k);
        for (size_t j = 0; j < columns_.size(); j++) {
            poll();
            temper_variance(k, j);
            swap(k, static_cast<int>(j), -1, false);
        }
        if (quadratic_) {
            set_working(k);
            continue;
        }
        read_states(k);
        for (size_t i = 0; i < static_cast<size_t>(n_); i++) {
            rows_.eta[i * etas.size() + k] = fitted_[i] + additive_[k][i];
            rows_.variance[i * etas.size() + k] = state_variance_[i];
        }
    }
    if (!quadratic_) evaluate();
}

void Engine::evaluate() {
    if (!losses(rows_.eta, rows_.value, rows_.slope, rows_.curvature)) throw Stopped{};
    majorise_if_far();
}

// Majorants in place of curvatures, for good once a linear predictor is so large that curvatures are nearly zero.
void Engine::majorise_if_far() {
    double farthest = 0.0;
    const size_t both = static_cast<size_t>(n_) * etas.size();
    for (size_t i = 0; i < both && !use_majorant; i++) farthest = std::max(farthest, std::fabs(rows_.eta[i]));
    if (use_majorant || farthest > kLargeEta)
        use_majorant = majorant(rows_.eta, rows_.variance, rows_.curvature) || use_majorant;
}

}  // namespace ahofm
