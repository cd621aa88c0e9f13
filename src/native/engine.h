// Coordinate ascent over the columns of a variational fit, without the interpreter: row states, sums per code, exact
// solves under each prior, smoothing parameters, smooth main effects and tensor-product smoothing of pairs.
//
// The reference is ahofm/fit/solvers/variational: the same steps in NumPy, with the formulas. Arrays of the posterior
// belong to the caller and are read between sweeps; row states belong to the engine.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "local_design.h"
#include "passes.h"
#include "pool.h"

namespace ahofm {

// Memory of solves, as large as the largest may need: not initialised, since pages that are not used cost nothing then.
// It begins at a line of the cache, so that vectors do not cross two of them.
class Scratch {
  public:
    void reserve(int64_t count) {
        data_.reset(static_cast<double*>(::operator new(static_cast<size_t>(count) * sizeof(double), kLine)));
        size_ = count;
    }
    double* data() const { return data_.get(); }
    int64_t size() const { return size_; }

  private:
    static constexpr std::align_val_t kLine{64};
    struct Free {
        void operator()(double* data) const { ::operator delete(data, kLine); }
    };
    std::unique_ptr<double, Free> data_;
    int64_t size_ = 0;
};

// A prior, with its own copies of the arrays that every solve needs.
struct Prior {
    PriorTask task{};
    std::vector<double> values, products, relative_penalty, penalty, mass, edges, penalty_eigenvalues, low, high;
    std::vector<double> entries, transform;
    std::vector<int64_t> group, places;
    std::vector<uint8_t> repeated;

    int64_t n_lam() const { return static_cast<int64_t>(low.size()); }
    void link();  // points the task at the memory
};

// A column: its codes at the rows, and its priors.
struct EngineColumn {
    const void* codes = nullptr;          // (n,)
    int code_width = 1;                   // bytes of a code: 1, 2 or 4
    int64_t n_codes = 0;                  // with the neutral one
    std::vector<double> mass;             // (n_codes - 1,)
    std::vector<double> relative_bounds;  // (n_codes - 1,): bounds of factors in units of their root mean square
    bool bounded = false;                 // whether factors have these bounds
    std::vector<uint8_t>
        left_out;  // (width - 1,): factors in which the column has no function; empty if there are none
    Prior main, factors;

    bool leaves_out(int64_t factor) const { return !left_out.empty() && left_out[static_cast<size_t>(factor)]; }
};

// Posterior and smoothing parameters of one column of one linear predictor: memory of the caller.
struct ColumnArrays {
    double *mean, *variance;              // (n_codes, width)
    double* main_lam;                     // (smoothing parameters of the main effect,)
    double* lam;                          // (smoothing parameters of the factors, width - 1)
    double *main_smooth, *main_per_code;  // (m,): coefficients of the spline; (n_codes - 1,): one per code
    double *smooth, *per_code;            // (m, width - 1), (n_codes - 1, width - 1): the same of the factors
    double* edf;                          // (smoothing parameters of the factors, width - 1)
    double* constants;                    // (product factors,): constants added to their functions, included in mean
    int64_t solved;                       // number of functions that have been solved at least once
};

// Smooth main effects of all columns, with q coefficients.
struct MainEffects {
    int64_t q = 0;
    LocalDesign design;          // (n, q), centred with the weights of the rows; its rows are memory of the caller
    std::vector<int64_t> group;  // (q,): which smoothing parameter a coefficient has
    std::vector<double> relative_penalty;  // (q,): of a coefficient, within its group
    std::vector<double> counts;            // (groups,): coefficients of each
    double largest_lam = 0.0;
    std::vector<double> gram;  // (q, q): Gram matrix of the design with the rows' own weights, upper triangle
};

// Smoothing parameters of tensor-product penalties of pairs; absent when margin_lam is nullptr.
struct TensorSmoothing {
    double* margin_lam = nullptr;  // (p, p): (j, k) of the marginal penalty of column j in its surface with column k
    double* null_lam = nullptr;    // (p, p): of the null spaces of both penalties, symmetric
    double edf = 0.0;              // effective degrees of freedom of all surfaces
    int64_t age = 0;               // number of updates
};

// Posterior of one linear predictor.
struct EtaArrays {
    std::vector<ColumnArrays> columns;
    double* coef = nullptr;      // (q,)
    double* lam = nullptr;       // (groups of main effects,)
    double* loadings = nullptr;  // (product factors,), which come last
    double intercept = 0.0, trace = 0.0;
    TensorSmoothing tensor;
};

// Vectors of the rows: memory of the caller.
struct RowArrays {
    const double* y = nullptr;                      // (n,): without the offset where the loss is quadratic
    const double* weight = nullptr;                 // (n,)
    const double* offset = nullptr;                 // (n, K) or nullptr
    double* eta = nullptr;                          // (n, K): accepted linear predictors without offsets
    double* value = nullptr;                        // (n,): losses there
    double *slope = nullptr, *curvature = nullptr;  // (n, K): their derivatives
    double* variance = nullptr;                     // (n, K): of the linear predictors, by the columns in the states
};

// Losses of all rows at linear predictors; false when the callback has raised an exception.
using LossFunction = std::function<bool(const double* eta, double* value, double* slope, double* curvature)>;
// Curvatures of majorants; false when the family has none.
using MajorantFunction = std::function<bool(const double* eta, const double* variance, double* curvature)>;

struct Failed {  // thrown: a block that cannot be solved
    std::string why;
};

struct WrongCode {  // thrown: a code that its column does not have
    BadCode found;
    int64_t size;
};

struct Stopped {};  // thrown: a callback has raised an exception, or asked to stop

// One column as a margin of the tensor products of its pairs, in coordinates that are orthonormal under the rows.
struct TensorMargin {
    std::vector<double> coef;            // (coordinates, rank): B
    std::vector<double> penalty;         // (coordinates,): w, the diagonal of the marginal penalty, 0 in its null space
    std::vector<double> gram;            // (rank, rank): B'B
    std::vector<double> penalised_gram;  // (rank, rank): B' diag(w) B
    std::vector<double> null_gram;       // (rank, rank): B'B of the null space
};

class Engine {
  public:
    Engine(const Passes& passes, int64_t n, std::vector<EngineColumn> columns,
           std::vector<std::pair<int, int64_t>> ranks, bool float64, MainEffects mains, RowArrays rows,
           std::vector<EtaArrays> etas, bool quadratic);

    std::vector<EtaArrays> etas;
    LossFunction losses;
    MajorantFunction majorant;
    // Called between columns, a few times a second: whether to stop. Columns are then consistent, row states are not.
    std::function<bool()> stop;
    double dispersion = 1.0;
    bool use_majorant = false;  // majorants replace curvatures
    bool majorises = false;     // the family's own curvatures are majorants
    int64_t damped = 0;
    // Threads of parallel regions: a fixed number, or those that the budget has left.
    int threads = 1;
    std::shared_ptr<ThreadBudget> budget;
    RegionSpans spans;  // where they are wanted, regions run on one thread and their tasks are timed

    // Calls task(0) .. task(count - 1); results do not depend on the number of threads.
    void parallel(int count, const std::function<void(int)>& task);
    Parallel parallel_of_passes() {
        return {this, [](void* engine, int count, void (*task)(const void*, int), const void* argument) {
                    static_cast<Engine*>(engine)->parallel(count, [=](int i) { task(argument, i); });
                }};
    }

    // States of all rows from scratch, with a fraction of the columns' variances.
    void build(double tempering);
    // All columns once, smooth main effects jointly, tensor smoothing; the dispersion where losses are quadratic.
    void sweep(bool learn, bool learn_mains, bool backwards, double floor);
    // Losses and derivatives at the current linear predictors.
    void evaluate();
    double largest() const;

  private:
    static constexpr int64_t kRowsOfTask = 512;   // in whole blocks
    static constexpr int64_t kRowsOfPart = 8192;  // whose slopes are in memory at a time

    struct Range {  // of rows, in whole blocks
        int64_t begin, end;
    };
    // Rows of a part of all rows, sorted by the code of one column, and how they are shared out to tasks.
    struct SortedRows {
        std::vector<uint32_t> rows, first_of_code;
        std::vector<CodeRun> runs;
        std::vector<int64_t> partial;  // of a run: number of its partial sums, -1 where it has whole codes
        int64_t n_partial = 0;
    };

    struct Hired {  // the threads of all parallel regions of one call
        explicit Hired(Engine& engine);
        ~Hired() { engine.team_.reset(); }
        Hired(const Hired&) = delete;
        Hired& operator=(const Hired&) = delete;
        Engine& engine;
    };
    // Helpers that the steps of columns are long enough for.
    int useful_helpers() const;
    // Calls task(), the step of a column; the first one on one thread, to see how long it takes.
    template <class Task>
    void time_step(Task task) {
        if (step_timed_) return task();
        team_->limit(0);
        const auto begun = std::chrono::steady_clock::now();
        task();
        step_time_ = std::chrono::steady_clock::now() - begun;
        step_timed_ = true;
        team_->limit(useful_helpers());
    }

    void poll();
    BlockTask task_of(size_t k, const Range& range);
    ColumnMoments moments_of(size_t k, size_t j, const Range& range);
    void temper_variance(size_t k, size_t j);
    void swap(size_t k, int add, int remove);
    void move_rows(const BlockTask& task, const Range& part);
    void sum_codes(const BlockTask& task, size_t j, size_t part);
    void sort_rows(size_t j);
    // Calls task(b) for all codes b, neighbours in the same task.
    template <class Task>
    void over_codes(int64_t codes, Task task) {
        const int64_t count = std::clamp<int64_t>(codes / 16, 1, 16);
        parallel(static_cast<int>(count), [&](int r) {
            for (int64_t b = r * codes / count; b < (r + 1) * codes / count; b++) task(b);
        });
    }
    // Calls task(range) for ranges of all rows.
    template <class Task>
    void over_rows(Task task) {
        parallel(static_cast<int>(ranges_.size()), [&](int r) { task(ranges_[static_cast<size_t>(r)]); });
    }
    void clear(size_t k);
    void read_states(size_t k);
    void linearise(size_t k);
    void update_additive(size_t k);
    void majorise_if_far();
    void try_eta(size_t k, const std::vector<double>& blocks);
    bool sufficient_decrease(size_t k);
    void solve(size_t k, size_t j, bool learn, double damping);
    struct Constants {
        std::vector<double> mean, variance;  // (product factors,)
    };
    void leave_out(const EngineColumn& column, double* gram, double* rhs) const;
    void clear_left_out(const EngineColumn& column, ColumnArrays& arrays, double* mean, double* variance,
                        std::vector<double>& form) const;
    bool solve_constants(size_t j, const ColumnArrays& arrays, const double* gram, double* rhs, Constants& found);
    void rescale_products(size_t k);
    struct TensorPenalty {  // of the factors of pairs in a tensor-product penalty; rank 0: none
        TensorPenaltyTask task{0, nullptr, nullptr};
        std::vector<double> penalised, null;
    };
    TensorPenalty tensor_penalty(size_t k, size_t j, double* factor_gram, std::vector<double>& lam);
    void scale_sums(const ColumnArrays& arrays, int64_t codes, double damping, double jitter);
    void add_constants(ColumnArrays& arrays, int64_t codes, const Constants& constants);
    void update_factor_lam(const EngineColumn& column, ColumnArrays& arrays, const std::vector<double>& form,
                           int64_t pairs);
    bool try_solve(size_t k, size_t j, bool learn, double damping, double jitter);
    void bound(size_t j, const ColumnArrays& arrays, double* mean);
    void quadratic_sweep(bool learn, bool learn_mains, bool backwards);
    void step_column(size_t k, size_t j, bool learn);
    bool accept(size_t k, bool unchecked);
    void accept_trial();
    void undo_solve(size_t k, size_t j);
    void keep(size_t k, size_t j);
    void restore(size_t k, size_t j);
    void zero_unsolved(size_t k, size_t j);
    void sum_design(const double* weight, const double* rows, std::vector<double>& gram, std::vector<double>& sums);
    struct WeightedDesign {                // of the smooth main effects, at working weights
        std::vector<double> weight;        // (n,): empty before the first step
        std::vector<double> gram, middle;  // (q, q): of the design centred at (q,), upper triangle
        double total = 0.0;
    };
    const WeightedDesign& weighted_design(size_t k);
    bool solve_main_effects(size_t k, const WeightedDesign* weighted, const double* response, bool learn,
                            double& intercept, std::vector<double>& coef, std::vector<double>& lam, double& trace);
    void step_main_effects(size_t k, bool learn);
    const TensorMargin& margin(size_t k, size_t j);
    void update_tensor_lam(size_t k, double information);
    double information(size_t k) const;

    const Passes& passes_;
    int64_t n_, width_, numbers_;
    int64_t products_ = 0;  // product factors
    std::vector<EngineColumn> columns_;
    std::vector<std::pair<int, int64_t>> ranks_;
    bool float64_, quadratic_;
    MainEffects mains_;
    RowArrays rows_;
    std::vector<StatePanel> panels_;
    std::unique_ptr<Pool::Team> team_;
    std::chrono::steady_clock::duration step_time_{0};  // of a column, on one thread
    bool step_timed_ = false;                           // else it is an estimate, or not known
    std::vector<Range> ranges_;                         // of all rows: those of a task
    std::vector<Range> parts_;                          // of all rows: those whose slopes are in memory at a time
    double total_ = 0.0, tempering_ = 0.0;
    std::chrono::steady_clock::time_point polled_ = std::chrono::steady_clock::now();
    std::vector<std::vector<char>> states_;                   // one per linear predictor
    std::vector<std::vector<std::vector<double>>> tempered_;  // variances that are in the row states: (eta, column)
    std::vector<std::vector<double>> additive_;               // intercept and smooth main effects of all rows
    std::vector<WeightedDesign> weighted_designs_;            // one per linear predictor
    std::vector<std::vector<std::unique_ptr<TensorMargin>>> margins_;
    std::vector<double> gram_, rhs_, scaled_gram_, scaled_rhs_, mean_, state_variance_, response_;
    Scratch memory_;
    std::vector<std::vector<SortedRows>> sorted_;  // (column, part), made when they are needed
    std::vector<char> add_tables_, remove_tables_, slopes_;
    std::vector<double> partial_;  // sums of codes that several tasks share
    std::vector<double> fitted_, new_eta_, new_value_, new_slope_, new_curvature_, new_variance_, working_weight_;
    struct Kept {
        std::vector<double> mean, variance, main_smooth, main_per_code, smooth, per_code, main_lam, lam, edf, constants;
    } kept_;
};

}  // namespace ahofm
