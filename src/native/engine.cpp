// Construction, and one sweep: steps 1 to 5 of ahofm/fit/solvers/variational/coordinate_ascent.py.
#include "engine.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "tuning.h"

namespace ahofm {

namespace {

constexpr std::chrono::milliseconds kBetweenPolls{50};

// Of a column's step, on one thread, for each thread that helps. A step has some forty regions, and what one
// core has written another has to fetch: measured on sixteen cores, steps of .4 ms took longer with seven helpers than
// alone, steps of 8 ms 37 % of the time.
constexpr std::chrono::microseconds kStepOfHelper{400};

// Processor time of the calling thread.
double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Factors of a row that one vector holds; ranks are padded to multiples of it.
int64_t lanes_of(bool float64) { return float64 ? state_lanes<double> : state_lanes<float>; }

}  // namespace

void Prior::link() {
    task.values = values.data();
    task.products = products.data();
    task.relative_penalty = relative_penalty.data();
    task.places = places.data();
    task.entries = entries.data();
    task.transform = transform.data();
    task.penalty = penalty.data();
    task.group = group.data();
    task.mass = mass.empty() ? nullptr : mass.data();
    task.repeated = repeated.data();
    task.edges = edges.data();
    task.penalty_eigenvalues = penalty_eigenvalues.data();
    task.n_eigenvalues = static_cast<int64_t>(penalty_eigenvalues.size());
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
    const int64_t blocks = (n_ + kBlock - 1) / kBlock;
    for (int64_t row = 0; row < n_; row += kRowsOfTask) ranges_.push_back({row, std::min(row + kRowsOfTask, n_)});
    for (int64_t row = 0; row < n_; row += kRowsOfPart) parts_.push_back({row, std::min(row + kRowsOfPart, n_)});
    sorted_.resize(columns_.size());
    for (int64_t i = 0; i < n_; i++) total_ += rows_.weight[i];
    const size_t K = etas.size(), p = columns_.size();
    const size_t bytes = static_cast<size_t>(blocks * kBlock * numbers_) * (float64_ ? 8 : 4);
    states_.assign(K, std::vector<char>());
    for (auto& state : states_) state.resize(bytes);
    tempered_.assign(K, std::vector<std::vector<double>>(p));
    weighted_designs_.resize(K);
    margins_.resize(K);
    for (auto& margins : margins_) margins.resize(p);
    additive_.assign(K, std::vector<double>(static_cast<size_t>(n_)));
    int64_t most = 0, memory = 0;
    for (size_t j = 0; j < p; j++) {
        for (size_t k = 0; k < K; k++) tempered_[k][j].resize(static_cast<size_t>(columns_[j].n_codes * width_));
        most = std::max(most, columns_[j].n_codes);
        memory = std::max({memory, passes_.solve_memory(columns_[j].main.task, 1),
                           passes_.solve_memory(columns_[j].factors.task, width_ - 1)});
    }
    gram_.resize(static_cast<size_t>(most * width_ * width_));
    rhs_.resize(static_cast<size_t>(most * width_));
    scaled_gram_.resize(gram_.size());
    scaled_rhs_.resize(rhs_.size());
    memory_.reserve(memory);
    mean_.resize(2 * static_cast<size_t>(most * width_));
    const BlockTask task = task_of(0, {0, n_});
    const size_t bytes_of_number = float64_ ? 8 : 4;
    for (std::vector<char>* tables : {&add_tables_, &remove_tables_})
        tables->resize(static_cast<size_t>(passes_.table_numbers(task, static_cast<uint32_t>(most))) * bytes_of_number);
    slopes_.resize(static_cast<size_t>(std::min(n_, kRowsOfPart) * passes_.slope_numbers(task)) * bytes_of_number);
    const size_t all = static_cast<size_t>(n_), both = all * K;
    for (std::vector<double>* part : {&fitted_, &state_variance_, &response_, &working_weight_}) part->resize(all);
    if (!quadratic_) {
        for (std::vector<double>* part : {&new_eta_, &new_slope_, &new_curvature_, &new_variance_}) part->resize(both);
        new_value_.resize(all);
    }
    for (size_t k = 0; k < K; k++) update_additive(k);
}

void Engine::parallel(int count, const std::function<void(int)>& task) {
    if (!spans.wanted) {
        if (team_ != nullptr) team_->run(count, task);
        else Pool::run(count, threads, task);
        return;
    }
    double total = 0.0, longest = 0.0;
    for (int i = 0; i < count; i++) {
        const double begun = thread_seconds();
        task(i);
        const double seconds = thread_seconds() - begun;
        total += seconds;
        longest = std::max(longest, seconds);
    }
    spans.add(count, total, longest);
}

void Engine::poll() {
    const auto now = std::chrono::steady_clock::now();
    if (!stop || now - polled_ < kBetweenPolls) return;
    polled_ = now;
    if (stop()) throw Stopped{};
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
    return sum / dispersion;
}

Engine::Hired::Hired(Engine& given) : engine(given) {
    ThreadBudget* shared = engine.budget.get();
    engine.team_ =
        shared == nullptr ? std::make_unique<Pool::Team>(engine.threads) : std::make_unique<Pool::Team>(shared);
    engine.team_->limit(engine.useful_helpers());
}

int Engine::useful_helpers() const {
    return static_cast<int>(std::min<int64_t>(step_time_ / kStepOfHelper, std::numeric_limits<int>::max()));
}

void Engine::sweep(bool learn, bool learn_mains, bool backwards, double floor) {
    const Hired hired(*this);
    if (quadratic_) {
        quadratic_sweep(learn, learn_mains, backwards);
    } else {
        for (size_t k = 0; k < etas.size(); k++) {
            for (size_t j = 0; j < columns_.size(); j++) {
                poll();
                time_step([&] { step_column(k, backwards ? columns_.size() - 1 - j : j, learn); });
            }
            rescale_products(k);
            poll();
            step_main_effects(k, learn_mains);
        }
    }
    bool tensors = false;
    for (size_t k = 0; k < etas.size(); k++) {
        if (learn && etas[k].tensor.margin_lam != nullptr) update_tensor_lam(k, information(k));
        tensors = tensors || etas[k].tensor.margin_lam != nullptr;
    }
    if (!quadratic_) return;
    const double lowest = tensors ? std::max(floor, tuning::LEAST_DISPERSION_RATIO * dispersion) : floor;
    double sum = 0.0;
    for (size_t i = 0; i < static_cast<size_t>(n_); i++)
        sum += rows_.weight[i] * (rows_.slope[i] * rows_.slope[i] + rows_.variance[i]);
    const EtaArrays& eta = etas[0];
    const double used =
        eta.trace +
        (tensors ? dispersion * std::min(eta.tensor.edf, tuning::LARGEST_SURFACE_EDF_PER_ROW * total_) : 0.0);
    const double found = (sum + used) / total_;
    if (!std::isfinite(found)) throw Failed{"the dispersion is not finite"};
    dispersion = std::max({found, lowest, tuning::LEAST_DISPERSION});
}

void Engine::quadratic_sweep(bool learn, bool learn_mains, bool backwards) {
    int waiting = -1;
    for (size_t step = 0; step < columns_.size(); step++) {
        const size_t j = backwards ? columns_.size() - 1 - step : step;
        poll();
        time_step([&] {
            swap(0, waiting, static_cast<int>(j));
            solve(0, j, learn, 0.0);
        });
        etas[0].columns[j].solved = width_;
        temper_variance(0, j);
        waiting = static_cast<int>(j);
    }
    if (waiting >= 0) swap(0, waiting, -1);
    rescale_products(0);
    read_states(0);
    over_rows([&](const Range& range) {
        for (size_t i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); i++) {
            rows_.variance[i] = state_variance_[i];
            response_[i] = rows_.weight[i] * (rows_.y[i] - fitted_[i]);
        }
    });
    EtaArrays& eta = etas[0];
    std::vector<double> coef, lam;
    solve_main_effects(0, nullptr, response_.data(), learn_mains, eta.intercept, coef, lam, eta.trace);
    std::copy(coef.begin(), coef.end(), eta.coef);
    std::copy(lam.begin(), lam.end(), eta.lam);
    update_additive(0);
    linearise(0);
    over_rows([&](const Range& range) {
        for (size_t i = static_cast<size_t>(range.begin); i < static_cast<size_t>(range.end); i++) {
            rows_.eta[i] = fitted_[i] + additive_[0][i];
            rows_.slope[i] = rows_.eta[i] - rows_.y[i];
            rows_.value[i] = 0.5 * rows_.slope[i] * rows_.slope[i];
        }
    });
}

}  // namespace ahofm
