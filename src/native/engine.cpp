#include "engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "pool.h"
#include "product_states.h"

namespace ahofm {

namespace {

constexpr double kLeastEdf = 1e-6, kLeastForm = 1e-18, kLargestStep = 5.0;  // of the Fellner-Schall rule
constexpr double kJitters[] = {1e-9, 1e-6, 1e-3};
constexpr double kDampings[] = {0.0, 1.0, 4.0, 16.0, 64.0, 256.0};
constexpr double kFarthestStep = 3.0;  // of a linear predictor in one block
constexpr double kFar = 10.0;          // times a function's values: beyond, removing it leaves large rounding errors
constexpr double kFarEta = 20.0;       // absolute linear predictor from which on curvatures are nearly zero
constexpr double kFall = 0.7;          // least ratio of the dispersion after and before a sweep with tensor smoothing
constexpr double kTensorLow = 1e-3, kTensorHigh = 1e10, kTensorGone = 100.0, kTensorFirstUp = 2.0;
constexpr int64_t kTensorFirst = 10;
constexpr double kTensorEdf = 1e-9, kTensorForm = 1e-24, kTensorMost = 0.75;
constexpr double kConstantPrecision = 1.0, kLeastProductScale = 1e-8;  // of product factors: ahofm/tuning/products.py
constexpr std::chrono::milliseconds kBetweenPolls{50};
constexpr int64_t kRowsOfRange = 4096, kMostRanges = 16;  // sums add range by range: bits do not depend on threads

double clip(double value, double low, double high) { return std::min(std::max(value, low), high); }

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

// Sizes of a padded row.
int64_t lanes_of(bool float64) { return float64 ? state_lanes<double> : state_lanes<float>; }

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

// The generalised Fellner-Schall rule: effective degrees of freedom over the quadratic form, in at most fivefold steps.
double fellner_schall(double edf, double form, double now, double low, double high) {
    const double wanted = std::max(edf, kLeastEdf) / std::max(form, kLeastForm);
    return clip(clip(wanted, now / kLargestStep, now * kLargestStep), low, high);
}

}  // namespace

void Prior::link() {
    task.values = values.data();
    task.products = products.data();
    task.weight = weight.data();
    task.places = places.data();
    task.entries = entries.data();
    task.transform = transform.data();
    task.rough = rough.data();
    task.group = group.data();
    task.mass = mass.empty() ? nullptr : mass.data();
    task.repeated = repeated.data();
    task.edges = edges.data();
    task.roughness = roughness.data();
    task.n_roughness = static_cast<int64_t>(roughness.size());
}

Engine::Engine(const Passes& passes, int64_t n, std::vector<EngineColumn> columns,
               std::vector<std::pair<int, int64_t>> ranks, bool float64, MainEffects mains, RowArrays rows,
               std::vector<EtaArrays> given, bool quadratic)
    : etas(std::move(given)), passes_(passes), n_(n), width_(1), numbers_(kStateHead), columns_(std::move(columns)),
      ranks_(std::move(ranks)), float64_(float64), quadratic_(quadratic), mains_(std::move(mains)), rows_(rows) {
    for (EngineColumn& column : columns_) {
        column.main.link();
        column.factors.link();
    }
    const int64_t lanes = lanes_of(float64_);
    for (const auto& [order, rank] : ranks_) {
        for (int64_t first = 0; first < rank; first += lanes)
            panels_.push_back({order, width_ + first, std::min(rank - first, lanes)});
        numbers_ += (rank + lanes - 1) / lanes * lanes * state_entries(order);
        width_ += rank;
        if (order == kProduct) products_ = rank;
    }
    const int64_t count = std::clamp<int64_t>(n_ / kRowsOfRange, 1, kMostRanges);
    const int64_t blocks = (n_ + kBlock - 1) / kBlock;
    for (int64_t r = 0; r < count; r++)
        ranges_.push_back({r * blocks / count * kBlock, std::min((r + 1) * blocks / count * kBlock, n_)});
    for (int64_t i = 0; i < n_; i++) total_ += rows_.weight[i];
    const size_t K = etas.size(), p = columns_.size();
    const size_t bytes = static_cast<size_t>(blocks * kBlock * numbers_) * (float64_ ? 8 : 4);
    states_.assign(K, std::vector<char>());
    for (auto& state : states_) state.resize(bytes);
    inserted_.assign(K, std::vector<std::vector<double>>(p));
    margins_.resize(K);
    for (auto& own : margins_) own.resize(p);
    own_.assign(K, std::vector<double>(static_cast<size_t>(n_)));
    int64_t most = 0, memory = 0;
    for (size_t j = 0; j < p; j++) {
        for (size_t k = 0; k < K; k++) inserted_[k][j].resize(static_cast<size_t>(columns_[j].n_codes * width_));
        most = std::max(most, columns_[j].n_codes);
        memory = std::max({memory, passes_.solve_memory(columns_[j].main.task, 1),
                           passes_.solve_memory(columns_[j].factors.task, width_ - 1)});
    }
    gram_.resize(static_cast<size_t>(most * width_ * width_));
    rhs_.resize(static_cast<size_t>(most * width_));
    scaled_gram_.resize(gram_.size());
    scaled_rhs_.resize(rhs_.size());
    memory_.resize(static_cast<size_t>(memory));
    mean_.resize(2 * static_cast<size_t>(most * width_));
    partial_.resize(ranges_.size());
    const size_t all = static_cast<size_t>(n_), both = all * K;
    for (std::vector<double>* part : {&fitted_, &work_, &response_, &working_weight_}) part->resize(all);
    if (!quadratic_) {
        for (std::vector<double>* part : {&new_eta_, &new_slope_, &new_curvature_, &new_variance_}) part->resize(both);
        new_value_.resize(all);
    }
    for (size_t k = 0; k < K; k++) own_part(k);
}

void Engine::poll() {
    const auto now = std::chrono::steady_clock::now();
    if (!stop || now - asked_ < kBetweenPolls) return;
    asked_ = now;
    if (stop()) throw Stopped{};
}

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
            etas[k].columns[j].mean, inserted_[k][j].data()};
}

// Variances that row states are to contain.
void Engine::insert(size_t k, size_t j) {
    const double* variance = etas[k].columns[j].variance;
    std::vector<double>& own = inserted_[k][j];
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

// Mean of the blocks' part of every row, in fitted_, and its variance, in work_.
void Engine::fitted(size_t k) {
    Pool::run(static_cast<int>(ranges_.size()), threads, [&](int r) {
        const Range& range = ranges_[static_cast<size_t>(r)];
        passes_.read_state(task_of(k, range), fitted_.data() + range.begin, work_.data() + range.begin);
    });
}

void Engine::own_part(size_t k) {
    const EtaArrays& eta = etas[k];
    passes_.design_times(mains_.design, n_, mains_.q, eta.coef, own_[k].data());
    for (double& own : own_[k]) own += eta.intercept;
}

// Working weights and responses less the smooth main effects, stored in the heads of the states.
void Engine::set_working(size_t k) {
    const size_t K = etas.size();
    const std::vector<double>& own = own_[k];
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
            insert(k, j);
            swap(k, static_cast<int>(j), -1, false);
        }
        if (quadratic_) {
            set_working(k);
            continue;
        }
        fitted(k);
        for (size_t i = 0; i < static_cast<size_t>(n_); i++) {
            rows_.eta[i * etas.size() + k] = fitted_[i] + own_[k][i];
            rows_.variance[i * etas.size() + k] = work_[i];
        }
    }
    if (!quadratic_) at(true);
}

// Derivatives at the linear predictors, with majorants in place of curvatures that are nearly zero.
void Engine::at(bool evaluate) {
    if (evaluate && !losses(rows_.eta, rows_.value, rows_.slope, rows_.curvature)) throw Stopped{};
    double farthest = 0.0;
    const size_t both = static_cast<size_t>(n_) * etas.size();
    for (size_t i = 0; i < both && !use_majorant; i++) farthest = std::max(farthest, std::fabs(rows_.eta[i]));
    if (use_majorant || farthest > kFarEta)
        use_majorant = majorant(rows_.eta, rows_.variance, rows_.curvature) || use_majorant;
}

double Engine::largest() const {
    double found = 0.0;
    for (const EtaArrays& eta : etas)
        for (size_t j = 0; j < columns_.size(); j++)
            for (int64_t i = 0; i < columns_[j].n_codes * width_; i++)
                found = std::max(found, std::fabs(eta.columns[j].mean[i]));
    return found;
}

double Engine::information(size_t k) const {
    double sum = 0.0;
    for (size_t i = 0; i < static_cast<size_t>(n_); i++) sum += rows_.weight[i] * rows_.curvature[i * etas.size() + k];
    return sum / noise;
}

// ---- one column

void Engine::solve(size_t k, size_t j, bool learn, double damping) {
    const int64_t size = (columns_[j].n_codes - 1) * width_ * width_;
    if (!all_finite(gram_.data(), size) || !all_finite(rhs_.data(), size / width_))
        throw Failed{"sums over rows are not finite"};
    for (const double jitter : kJitters)
        if (try_solve(k, j, learn && damping == 0.0, damping, jitter)) return;
    throw Failed{"a block is not positive definite"};
}

// Solves for the constants of product factors given their functions; rhs becomes that of the functions given these.
bool Engine::solve_constants(size_t j, const ColumnArrays& own, const double* gram, double* rhs, Constants& found) {
    const int64_t codes = columns_[j].n_codes - 1, K = width_ - 1, R = products_, first = K - R;
    const size_t size = static_cast<size_t>(R);
    std::vector<double> precision(size * size, 0.0), inverse(size * size), left(size, 0.0), half(size, 0.0);
    for (int64_t b = 0; b < codes; b++) {
        const double* mean = own.mean + b * width_ + 1;
        for (int64_t f = 0; f < R; f++) {
            const double* row = gram + (b * K + first + f) * K;
            double sum = rhs[b * K + first + f];
            for (int64_t g = 0; g < K; g++) sum -= row[g] * (mean[g] - (g < first ? 0.0 : own.constants[g - first]));
            left[static_cast<size_t>(f)] += sum;
            for (int64_t g = 0; g < R; g++) precision[static_cast<size_t>(f * R + g)] += row[first + g];
        }
    }
    for (size_t f = 0; f < size; f++) precision[f * size + f] += kConstantPrecision;
    const std::vector<uint8_t>& left_out = columns_[j].left_out;
    const auto fixed = [&](size_t f) { return !left_out.empty() && left_out[static_cast<size_t>(first) + f]; };
    for (size_t f = 0; f < size; f++)
        for (size_t g = 0; g < size; g++) {  // constants that stay what they are
            if (fixed(g) && !fixed(f)) left[f] -= precision[f * size + g] * own.constants[g];
            if (fixed(f) || fixed(g)) precision[f * size + g] = f == g ? 1.0 : 0.0;
        }
    if (!passes_.invert(precision.data(), R, inverse.data())) return false;
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
            found.mean[f] = own.constants[f];
            found.variance[f] = 0.0;
        }
    for (int64_t b = 0; b < codes; b++)
        for (int64_t f = 0; f < K; f++) {
            const double* row = gram + (b * K + f) * K + first;
            for (int64_t g = 0; g < R; g++) rhs[b * K + f] -= row[g] * found.mean[static_cast<size_t>(g)];
        }
    return true;
}

// Scales functions of product factors to a root mean square of one and moves the scale to the loadings; row states do
// not change.
void Engine::rescale_products(size_t k) {
    for (int64_t f = 0; f < products_; f++) {
        const int64_t at = width_ - products_ + f, K = width_ - 1;
        for (size_t j = 0; j < columns_.size(); j++) {
            const EngineColumn& column = columns_[j];
            ColumnArrays& own = etas[k].columns[j];
            if (!column.left_out.empty() && column.left_out[static_cast<size_t>(at - 1)]) continue;
            const int64_t codes = column.n_codes - 1;
            double square = 0.0;
            for (int64_t b = 0; b < codes; b++)
                square += column.mass[static_cast<size_t>(b)] * own.mean[b * width_ + at] * own.mean[b * width_ + at];
            const double scale = std::sqrt(square);
            if (!(scale > kLeastProductScale)) continue;
            for (int64_t b = 0; b <= codes; b++) {
                own.mean[b * width_ + at] /= scale;
                own.variance[b * width_ + at] /= square;
                inserted_[k][j][static_cast<size_t>(b * width_ + at)] /= square;
            }
            for (int64_t a = 0; a < column.factors.task.m; a++) own.smooth[a * K + at - 1] /= scale;
            for (int64_t b = 0; b < codes; b++) own.rough[b * K + at - 1] /= scale;
            own.constants[f] /= scale;
            etas[k].loadings[f] *= scale;
        }
    }
}

// The main effect given the factors, then the factors given it; smoothing parameters by Fellner and Schall.
// Factors in which the column has no function are not part of its solve: their sums do not count for the others.
void Engine::leave_out(const EngineColumn& column, double* gram, double* rhs) const {
    const int64_t codes = column.n_codes - 1, K = width_ - 1;
    for (int64_t f = 0; f < K; f++) {
        if (!column.left_out[static_cast<size_t>(f)]) continue;
        for (int64_t b = 0; b < codes; b++) {
            rhs[b * K + f] = 0.0;
            for (int64_t g = 0; g < K; g++)
                if (g != f) gram[(b * K + f) * K + g] = gram[(b * K + g) * K + f] = 0.0;
        }
    }
}

bool Engine::try_solve(size_t k, size_t j, bool learn, double damping, double jitter) {
    const EngineColumn& column = columns_[j];
    ColumnArrays& own = etas[k].columns[j];
    const int64_t codes = column.n_codes - 1, W = width_, K = W - 1;
    // First of the main effect (codes, 1), then of the factors.
    double *gram = scaled_gram_.data(), *rhs = scaled_rhs_.data();
    double *main_gram = gram, *factor_gram = gram + codes, *main_rhs = rhs, *factor_rhs = rhs + codes;
    const double precision = 1.0 / noise, lifted = precision * (1.0 + damping);
    for (int64_t b = 0; b < codes; b++) {
        const double *from = gram_.data() + b * W * W, *right = rhs_.data() + b * W, *mean = own.mean + b * W;
        double diagonal = 0.0;
        for (int64_t f = 0; f < W; f++) diagonal += from[f * W + f];
        const double lift = jitter * lifted * diagonal / static_cast<double>(W), damped_by = damping * precision;
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
    }
    double *mean = mean_.data(), *variance = mean_.data() + codes * W;
    std::vector<double> form, main_mean(static_cast<size_t>(codes)), main_variance(main_mean.size());
    SolveTask task{&column.main.task, 1,
                   main_gram,         main_rhs,
                   own.main_lam,      nullptr,
                   main_mean.data(),  main_variance.data(),
                   own.main_smooth,   own.main_rough,
                   nullptr,           nullptr,
                   memory_.data(),    static_cast<int64_t>(memory_.size())};
    std::vector<double> main_edf(static_cast<size_t>(column.main.n_lam())), main_form(main_edf.size());
    task.edf = main_edf.data();
    task.form = main_form.data();
    if (!passes_.solve_prior(task)) return false;
    const auto take_main = [&] {
        for (int64_t b = 0; b < codes; b++) {
            own.mean[b * W] = main_mean[static_cast<size_t>(b)];
            own.variance[b * W] = main_variance[static_cast<size_t>(b)];
        }
        for (size_t g = 0; g < main_edf.size() && learn; g++)
            own.main_lam[g] =
                fellner_schall(main_edf[g], main_form[g], own.main_lam[g], column.main.low[g], column.main.high[g]);
    };
    if (K == 0) {
        take_main();
        return true;
    }
    for (int64_t b = 0; b < codes; b++)
        for (int64_t f = 0; f < K; f++)
            factor_rhs[b * K + f] -=
                gram_[static_cast<size_t>(b * W * W + 1 + f)] * precision * main_mean[static_cast<size_t>(b)];
    Constants constants;
    if (products_ > 0 && !solve_constants(j, own, factor_gram, factor_rhs, constants)) return false;
    const int64_t G = column.factors.n_lam();
    std::vector<double> lam(own.lam, own.lam + G * K), rough, plain;
    CouplingTask coupling{0, nullptr, nullptr};
    const bool coupled = etas[k].tensor.along != nullptr;
    if (coupled) {
        const int64_t R = ranks_.front().second, p = static_cast<int64_t>(columns_.size());
        rough.assign(static_cast<size_t>(R * R), 0.0);
        plain.assign(static_cast<size_t>(R * R), 0.0);
        std::vector<double> all(static_cast<size_t>(R * R), 0.0);
        const Tensor& tensor = etas[k].tensor;
        for (int64_t other = 0; other < p; other++) {
            if (other == static_cast<int64_t>(j)) continue;
            const TensorMargin& partner = margin(k, static_cast<size_t>(other));
            const int64_t here = static_cast<int64_t>(j);
            for (size_t i = 0; i < rough.size(); i++) {
                rough[i] += tensor.along[here * p + other] * partner.square[i];
                plain[i] += tensor.plain[here * p + other] * partner.plain[i];
                all[i] += tensor.along[other * p + here] * partner.stiff[i];
            }
        }
        for (int64_t b = 0; b < codes; b++)
            for (int64_t f = 0; f < R; f++)
                for (int64_t g = 0; g < R; g++)
                    factor_gram[(b * K + f) * K + g] +=
                        column.mass[static_cast<size_t>(b)] * all[static_cast<size_t>(f * R + g)];
        for (int64_t g = 0; g < G; g++)
            for (int64_t f = 0; f < R; f++)
                lam[static_cast<size_t>(g * K + f)] = column.factors.low[static_cast<size_t>(g)];
        for (int64_t f = 0; f < R && !column.left_out.empty(); f++)
            for (int64_t g = 0; g < R; g++)
                if (f != g && (column.left_out[static_cast<size_t>(f)] || column.left_out[static_cast<size_t>(g)]))
                    rough[static_cast<size_t>(f * R + g)] = plain[static_cast<size_t>(f * R + g)] = 0.0;
        coupling = {R, rough.data(), plain.data()};
    }
    if (!column.left_out.empty()) leave_out(column, factor_gram, factor_rhs);
    form.resize(static_cast<size_t>(G * K));
    task = SolveTask{&column.factors.task,
                     K,
                     factor_gram,
                     factor_rhs,
                     lam.data(),
                     coupled ? &coupling : nullptr,
                     mean,
                     variance,
                     own.smooth,
                     own.rough,
                     own.edf,
                     form.data(),
                     memory_.data(),
                     static_cast<int64_t>(memory_.size())};
    if (!passes_.solve_prior(task)) return false;
    if (coupled)  // these smoothing parameters prune: row states take the factors as known
        for (int64_t b = 0; b < codes; b++)
            for (int64_t f = 0; f < coupling.rank; f++) variance[b * K + f] = 0.0;
    for (int64_t f = 0; f < K && !column.left_out.empty(); f++) {
        if (!column.left_out[static_cast<size_t>(f)]) continue;
        for (int64_t b = 0; b < codes; b++) mean[b * K + f] = variance[b * K + f] = own.rough[b * K + f] = 0.0;
        for (int64_t a = 0; a < column.factors.task.m; a++) own.smooth[a * K + f] = 0.0;
        for (int64_t g = 0; g < G; g++) own.edf[g * K + f] = form[static_cast<size_t>(g * K + f)] = 0.0;
    }
    take_main();
    if (column.bounded) bound(j, own, mean);
    for (int64_t b = 0; b < codes; b++)
        for (int64_t f = 0; f < K; f++) {
            own.mean[b * W + 1 + f] = mean[b * K + f];
            own.variance[b * W + 1 + f] = variance[b * K + f];
        }
    for (int64_t g = 0; g < products_; g++) {
        const size_t at = static_cast<size_t>(g);
        own.constants[g] = own.mean[codes * W + W - products_ + g] = constants.mean[at];
        for (int64_t b = 0; b < codes; b++) {
            own.mean[b * W + W - products_ + g] += constants.mean[at];
            own.variance[b * W + W - products_ + g] += constants.variance[at];
        }
    }
    if (!learn) return true;
    int64_t first = 0;
    for (const auto& [order, rank] : ranks_) {  // functions of one order share their smoothing parameters
        for (int64_t g = 0; g < G && rank > 0; g++) {
            double edfs = 0.0, forms = 0.0;
            for (int64_t f = first; f < first + rank; f++) {
                edfs += own.edf[g * K + f];
                forms += form[static_cast<size_t>(g * K + f)];
            }
            const size_t at = static_cast<size_t>(g);
            const double found =
                fellner_schall(edfs, forms, own.lam[g * K + first], column.factors.low[at], column.factors.high[at]);
            for (int64_t f = first; f < first + rank; f++)
                if (!coupled || f >= coupling.rank) own.lam[g * K + f] = found;
        }
        first += rank;
    }
    return true;
}

// Bounds absolute values by a multiple of the function's root mean square; the change is added to the effect of the
// code.
void Engine::bound(size_t j, const ColumnArrays& own, double* mean) {
    const EngineColumn& column = columns_[j];
    const int64_t codes = column.n_codes - 1, K = width_ - 1;
    const bool spline = column.factors.task.kind == PriorKind::spline;
    bool any = false;
    std::vector<double> limits(static_cast<size_t>(K)), lost(static_cast<size_t>(K));
    for (int64_t f = 0; f < K; f++) {
        double square = 0.0;
        for (int64_t b = 0; b < codes; b++)
            square += column.mass[static_cast<size_t>(b)] * mean[b * K + f] * mean[b * K + f];
        limits[static_cast<size_t>(f)] = std::sqrt(square);
        for (int64_t b = 0; b < codes; b++) {
            const double limit = column.farthest[static_cast<size_t>(b)] * limits[static_cast<size_t>(f)],
                         value = mean[b * K + f];
            const double excess = value - clip(value, -limit, limit);
            lost[static_cast<size_t>(f)] += column.mass[static_cast<size_t>(b)] * excess;
            any = any || excess != 0.0;
        }
    }
    if (spline) std::fill(own.rough, own.rough + codes * K, 0.0);
    if (!any) return;
    for (int64_t b = 0; b < codes; b++)
        for (int64_t f = 0; f < K; f++) {
            const double limit = column.farthest[static_cast<size_t>(b)] * limits[static_cast<size_t>(f)],
                         before = mean[b * K + f];
            mean[b * K + f] =
                clip(before, -limit, limit) + lost[static_cast<size_t>(f)];  // the function's mean does not change
            own.rough[b * K + f] += mean[b * K + f] - before;
        }
}

// ---- sweeps

void Engine::sweep(bool learn, bool learn_mains, bool backwards, double floor) {
    if (quadratic_) {
        quadratic_sweep(learn, learn_mains, backwards);
    } else {
        for (size_t k = 0; k < etas.size(); k++) {
            for (size_t j = 0; j < columns_.size(); j++) {
                poll();
                guarded(k, backwards ? columns_.size() - 1 - j : j, learn);
            }
            rescale_products(k);
            poll();
            move_mains(k, learn_mains);
        }
    }
    bool tensors = false;
    for (size_t k = 0; k < etas.size(); k++) {
        if (learn && etas[k].tensor.along != nullptr) learn_tensor(k, information(k));
        tensors = tensors || etas[k].tensor.along != nullptr;
    }
    if (!quadratic_) return;
    const double lowest = tensors ? std::max(floor, kFall * noise) : floor;
    double sum = 0.0;
    for (size_t i = 0; i < static_cast<size_t>(n_); i++)
        sum += rows_.weight[i] * (rows_.slope[i] * rows_.slope[i] + rows_.variance[i]);
    const EtaArrays& eta = etas[0];
    const double used = eta.trace + (tensors ? noise * std::min(eta.tensor.edf, kTensorMost * total_) : 0.0);
    const double found = (sum + used) / total_;
    if (!std::isfinite(found)) throw Failed{"the dispersion is not finite"};
    noise = std::max({found, lowest, 1e-9});
}

void Engine::quadratic_sweep(bool learn, bool learn_mains, bool backwards) {
    int waiting = -1;
    for (size_t step = 0; step < columns_.size(); step++) {
        const size_t j = backwards ? columns_.size() - 1 - step : step;
        poll();
        swap(0, waiting, static_cast<int>(j), true);
        solve(0, j, learn, 0.0);
        etas[0].columns[j].solved = width_;
        insert(0, j);
        waiting = static_cast<int>(j);
    }
    if (waiting >= 0) swap(0, waiting, -1, false);
    rescale_products(0);
    fitted(0);
    for (size_t i = 0; i < static_cast<size_t>(n_); i++) {
        rows_.variance[i] = work_[i];
        response_[i] = rows_.weight[i] * (rows_.y[i] - fitted_[i]);
    }
    EtaArrays& eta = etas[0];
    std::vector<double> coef, lam;
    solve_mains(0, nullptr, response_.data(), learn_mains, eta.intercept, coef, lam, eta.trace);
    std::copy(coef.begin(), coef.end(), eta.coef);
    std::copy(lam.begin(), lam.end(), eta.lam);
    own_part(0);
    set_working(0);
    for (size_t i = 0; i < static_cast<size_t>(n_); i++) {
        rows_.eta[i] = fitted_[i] + own_[0][i];
        rows_.slope[i] = rows_.eta[i] - rows_.y[i];
        rows_.value[i] = 0.5 * rows_.slope[i] * rows_.slope[i];
    }
}

// One block of one linear predictor, with the least damping that gives sufficient decrease. A step that fails is taken
// with the family's majorants instead, if it has any: these always decrease the loss.
void Engine::guarded(size_t k, size_t j, bool learn) {
    const int at_column = static_cast<int>(j);
    set_working(k);
    swap(k, -1, at_column, true);
    keep(k, j);
    std::vector<double> curvature;
    bool bounded_below = false;
    for (const double damping : kDampings) {
        restore(k, j);
        solve(k, j, learn, damping);
        insert(k, j);
        swap(k, at_column, -1, false);
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
        insert(k, j);
        swap(k, at_column, -1, false);
        std::vector<double> before(rows_.curvature, rows_.curvature + curvature.size());
        std::copy(curvature.begin(), curvature.end(), rows_.curvature);
        set_working(k);
        std::copy(before.begin(), before.end(), rows_.curvature);
        swap(k, -1, at_column, true);
        solve(k, j, learn, 0.0);
        etas[k].columns[j].solved = width_;
    } else {
        rest(k, j);
    }
    insert(k, j);
    swap(k, at_column, -1, false);
    accept(k, true);
}

// Evaluates the losses at the current states; accepts the step when they decrease sufficiently, or when forced.
bool Engine::accept(size_t k, bool forced) {
    const size_t K = etas.size(), n = static_cast<size_t>(n_);
    fitted(k);
    std::copy(rows_.eta, rows_.eta + n * K, new_eta_.begin());
    for (size_t i = 0; i < n; i++) new_eta_[i * K + k] = fitted_[i] + own_[k][i];
    if (!losses(new_eta_.data(), new_value_.data(), new_slope_.data(), new_curvature_.data())) throw Stopped{};
    if (!forced && !decreases(k)) return false;
    for (size_t i = 0; i < n; i++) rows_.variance[i * K + k] = work_[i];
    take_new();
    return true;
}

// The linear predictors that were tried, with their losses, become the current ones.
void Engine::take_new() {
    std::copy(new_eta_.begin(), new_eta_.end(), rows_.eta);
    std::copy(new_value_.begin(), new_value_.end(), rows_.value);
    std::copy(new_slope_.begin(), new_slope_.end(), rows_.slope);
    std::copy(new_curvature_.begin(), new_curvature_.end(), rows_.curvature);
    at(false);
}

// Sufficient decrease: losses exceed their quadratic approximations by at most a quarter of weight * curvature *
// step^2.
bool Engine::decreases(size_t k) {
    const size_t K = etas.size(), n = static_cast<size_t>(n_);
    if (use_majorant || majorises) {
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) sum += new_value_[i] * 0.0;
        return sum == 0.0;
    }
    double excess = 0.0, allowed = 0.0, before = 0.0, farthest = 0.0;
    for (size_t i = 0; i < n; i++) {
        const size_t at = i * K + k;
        const double step = new_eta_[at] - rows_.eta[at], bend = rows_.curvature[at] * step * step,
                     weight = rows_.weight[i];
        excess += weight * (new_value_[i] - rows_.value[i] - rows_.slope[at] * step - 0.5 * bend);
        allowed += 0.25 * weight * bend;
        before += weight * rows_.value[i];
        farthest = std::max(farthest, std::fabs(step));
    }
    if (!std::isfinite(excess) || farthest > kFarthestStep) return false;
    return excess <= allowed + 1e-12 * std::fabs(before);
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
        far = far || !(reached <= kFar * usual);
    }
    if (!far) return swap(k, -1, static_cast<int>(j), false);
    clear(k);
    for (size_t other = 0; other < columns_.size(); other++)
        if (other != j) swap(k, static_cast<int>(other), -1, false);
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
void Engine::rest(size_t k, size_t j) {
    ColumnArrays& own = etas[k].columns[j];
    const int64_t first = std::max<int64_t>(own.solved, 1), K = width_ - 1;
    const std::vector<uint8_t>& left_out = columns_[j].left_out;  // functions that stay what they are
    for (int64_t f = first; f < width_; f++) {
        if (!left_out.empty() && left_out[static_cast<size_t>(f - 1)]) continue;
        for (int64_t b = 0; b < columns_[j].n_codes; b++) own.mean[b * width_ + f] = own.variance[b * width_ + f] = 0.0;
        if (f >= width_ - products_) own.constants[f - (width_ - products_)] = 0.0;
    }
    for (int64_t f = first - 1; f < K; f++) {
        for (int64_t a = 0; a < columns_[j].factors.task.m; a++) own.smooth[a * K + f] = 0.0;
        for (int64_t b = 0; b + 1 < columns_[j].n_codes; b++) own.rough[b * K + f] = 0.0;
    }
    own.solved = width_;
}

// ---- smooth main effects of all columns together

// Normal equations of the intercept and the coefficients; weights nullptr: the rows' own weights, under which the
// design is centred.
bool Engine::solve_mains(size_t k, const double* weight, const double* response, bool learn, double& intercept,
                         std::vector<double>& coef, std::vector<double>& lam, double& trace) {
    const EtaArrays& eta = etas[k];
    const int64_t q = mains_.q;
    const size_t Q = static_cast<size_t>(q), groups = mains_.counts.size();
    double total = 0.0, pulled = 0.0;
    for (size_t i = 0; i < static_cast<size_t>(n_); i++) {
        total += weight == nullptr ? rows_.weight[i] : weight[i];
        pulled += response[i];
    }
    coef.assign(eta.coef, eta.coef + q);
    lam.assign(eta.lam, eta.lam + groups);
    trace = eta.trace;
    intercept = pulled / total;
    if (q == 0) return true;
    std::vector<double> gram(Q * Q), middle(Q, 0.0), right(Q);
    passes_.design_transposed_times(mains_.design, n_, q, response, right.data());
    if (weight == nullptr) {
        if (mains_.gram.empty()) {
            mains_.gram.resize(Q * Q);
            passes_.weighted_gram(mains_.design, n_, q, rows_.weight, mains_.gram.data());
        }
        gram = mains_.gram;
    } else {
        passes_.weighted_gram(mains_.design, n_, q, weight, gram.data());
        passes_.design_transposed_times(mains_.design, n_, q, weight, middle.data());
        for (double& one : middle) one /= total;
        for (size_t a = 0; a < Q; a++) {
            right[a] -= middle[a] * pulled;
            for (size_t b = a; b < Q; b++) gram[a * Q + b] -= total * middle[a] * middle[b];
        }
    }
    double diagonal = 0.0;
    std::vector<double> added(Q), inverse(Q * Q);
    for (double& one : gram) one /= noise;
    for (size_t a = 0; a < Q; a++) diagonal += gram[a * Q + a] / static_cast<double>(Q);
    for (size_t a = 0; a < Q; a++) {
        added[a] = lam[static_cast<size_t>(mains_.group[a])] * mains_.within[a] + 1e-13 * diagonal;
        gram[a * Q + a] += added[a];
    }
    if (passes_.invert(gram.data(), q, inverse.data())) {
        std::vector<double> half(Q, 0.0), variance(Q);
        std::vector<double> edf(groups, 0.0), form(groups, 0.0);
        trace = 0.0;
        for (size_t a = 0; a < Q; a++)
            for (size_t b = a; b < Q; b++) half[b] += inverse[a * Q + b] * right[a] / noise;
        for (size_t a = 0; a < Q; a++) {
            double sum = 0.0, own = 0.0;
            for (size_t b = a; b < Q; b++) {
                sum += inverse[a * Q + b] * half[b];
                own += inverse[a * Q + b] * inverse[a * Q + b];
            }
            coef[a] = sum;
            const size_t g = static_cast<size_t>(mains_.group[a]);
            trace += noise * (1.0 - added[a] * own);
            edf[g] += 1.0 - lam[g] * mains_.within[a] * own;
            form[g] += mains_.within[a] * sum * sum;
        }
        if (learn)
            for (size_t g = 0; g < groups; g++)
                lam[g] = fellner_schall(edf[g], form[g], lam[g], 1e-6, mains_.strongest);
    }
    for (size_t a = 0; a < Q; a++) intercept -= middle[a] * coef[a];
    return true;
}

// Intercept and smooth main effects given the blocks, as far as sufficient decrease allows.
void Engine::move_mains(size_t k, bool learn) {
    const size_t K = etas.size(), n = static_cast<size_t>(n_);
    EtaArrays& eta = etas[k];
    fitted(k);
    const std::vector<double> blocks = fitted_;
    double weights = 0.0;
    for (size_t i = 0; i < n; i++) {
        const size_t at = i * K + k;
        working_weight_[i] = rows_.weight[i] * rows_.curvature[at];
        response_[i] = working_weight_[i] * (rows_.eta[at] - blocks[i]) - rows_.weight[i] * rows_.slope[at];
        weights += working_weight_[i];
    }
    if (!(weights > std::numeric_limits<double>::min())) return;  // losses are flat far from the targets
    double intercept = 0.0, trace = 0.0;
    std::vector<double> coef, lam;
    solve_mains(k, working_weight_.data(), response_.data(), learn, intercept, coef, lam, trace);
    const std::vector<double> old_coef(eta.coef, eta.coef + mains_.q), old_lam(eta.lam, eta.lam + lam.size());
    const double old_intercept = eta.intercept, old_trace = eta.trace;
    double step = 1.0;
    for (int halving = 0; halving < 8; halving++, step *= 0.5) {
        for (size_t a = 0; a < coef.size(); a++) eta.coef[a] = old_coef[a] + step * (coef[a] - old_coef[a]);
        eta.intercept = old_intercept + step * (intercept - old_intercept);
        std::copy(lam.begin(), lam.end(), eta.lam);
        eta.trace = trace;
        own_part(k);
        std::copy(rows_.eta, rows_.eta + n * K, new_eta_.begin());
        for (size_t i = 0; i < n; i++) new_eta_[i * K + k] = blocks[i] + own_[k][i];
        if (!losses(new_eta_.data(), new_value_.data(), new_slope_.data(), new_curvature_.data())) throw Stopped{};
        if (decreases(k)) {
            take_new();
            return;
        }
        damped++;
    }
    std::copy(old_coef.begin(), old_coef.end(), eta.coef);
    std::copy(old_lam.begin(), old_lam.end(), eta.lam);
    eta.intercept = old_intercept;
    eta.trace = old_trace;
    own_part(k);
}

// ---- tensor-product smoothing of pairs

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
            iid ? 1.0 / std::max(column.mass[static_cast<size_t>(a)], 1e-12) : prior.rough[a];
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

// New smoothing parameters of all pairs, with variances of coefficients computed as if columns were independent.
void Engine::learn_tensor(size_t k, double information) {
    Tensor& tensor = etas[k].tensor;
    const int64_t p = static_cast<int64_t>(columns_.size()), R = ranks_.front().second;
    std::vector<double> softest(static_cast<size_t>(p), 1.0);
    for (int64_t j = 0; j < p; j++) {
        double least = std::numeric_limits<double>::infinity();
        for (const double rough : margin(k, static_cast<size_t>(j)).rough)
            if (rough > 0.0) least = std::min(least, rough);
        if (std::isfinite(least)) softest[static_cast<size_t>(j)] = 1.0 / least;
    }
    const double up = tensor.age < kTensorFirst ? kTensorFirstUp : kLargestStep;
    double total_edf = 0.0;
    std::vector<double> squares;
    for (int64_t i = 0; i < p; i++)
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
            const double most[3] = {softest[static_cast<size_t>(i)], softest[static_cast<size_t>(j)], 1.0};
            for (int part = 0; part < 3; part++) {
                const double wanted = std::max(now[part] * edf[part], kTensorEdf) / std::max(form[part], kTensorForm);
                const double high = clip(information * kTensorGone * most[part], kTensorLow, kTensorHigh);
                now[part] = clip(clip(wanted, now[part] / kLargestStep, now[part] * up), kTensorLow, high);
            }
            tensor.along[i * p + j] = now[0];
            tensor.along[j * p + i] = now[1];
            tensor.plain[i * p + j] = tensor.plain[j * p + i] = now[2];
            for (const double wa : a.rough)
                for (const double wb : b.rough)
                    total_edf += information /
                                 (information + now[0] * wa + now[1] * wb + (wa == 0.0 && wb == 0.0 ? now[2] : 0.0));
        }
    tensor.edf = total_edf;
    tensor.age++;
}

}  // namespace ahofm
