// Coordinate ascent over the columns of a variational fit, without the interpreter: row states, sums per code, exact
// solves under each prior, smoothing parameters, smooth main effects and tensor-product smoothing of pairs.
//
// The reference is ahofm/fit/solvers/variational: the same steps in NumPy, with the formulas. Arrays of the posterior
// belong to the caller and are read between sweeps; row states belong to the engine.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "passes.h"

namespace ahofm {

// A prior, with its own copies of the arrays that every solve needs.
struct Prior {
    PriorTask task{};
    std::vector<double> values, products, weight, rough, mass, edges, roughness, low, high;
    std::vector<double> entries, transform;
    std::vector<int64_t> group, places;
    std::vector<uint8_t> repeated;

    int64_t n_lam() const { return static_cast<int64_t>(low.size()); }
    void link();  // points the task at the memory
};

struct EngineColumn {
    const void* codes = nullptr;
    int code_width = 1;
    int64_t n_codes = 0;           // with the neutral one
    std::vector<double> mass;      // (n_codes - 1,)
    std::vector<double> farthest;  // (n_codes - 1,): bounds of factors in units of their root mean square
    bool bounded = false;
    std::vector<uint8_t>
        left_out;  // (width - 1,): factors in which the column has no function; empty if there are none
    Prior main, factors;
};

// Posterior and smoothing parameters of one column of one linear predictor: memory of the caller.
struct ColumnArrays {
    double *mean, *variance;           // (n_codes, width)
    double* main_lam;                  // (smoothing parameters of the main effect,)
    double* lam;                       // (smoothing parameters of the factors, width - 1)
    double *main_smooth, *main_rough;  // (m,), (n_codes - 1,)
    double *smooth, *rough;            // (m, width - 1), (n_codes - 1, width - 1)
    double* edf;                       // (smoothing parameters of the factors, width - 1)
    double* constants;                 // (product factors,): constants added to their functions, included in mean
    int64_t solved;                    // number of functions that have been solved at least once
};

struct MainEffects {
    int64_t q = 0;
    const double* design = nullptr;  // (n, q), centred with the weights of the rows
    std::vector<int64_t> group;      // (q,): which smoothing parameter a coefficient has
    std::vector<double> within, counts;
    double strongest = 1e8;
    std::vector<double> gram;  // (q, q), with the rows' own weights
};

// Smoothing parameters of tensor-product penalties of pairs; left_out when along is nullptr.
struct Tensor {
    double *along = nullptr, *plain = nullptr;  // (p, p)
    double edf = 0.0;
    int64_t age = 0;
};

struct EtaArrays {
    std::vector<ColumnArrays> columns;
    double* coef = nullptr;      // (q,)
    double* lam = nullptr;       // (groups of main effects,)
    double* loadings = nullptr;  // (product factors,), which come last
    double intercept = 0.0, trace = 0.0;
    Tensor tensor;
};

struct RowArrays {  // (n,) or (n, K)
    // y: without the offset where the loss is quadratic.
    const double *y = nullptr, *weight = nullptr, *offset = nullptr;
    double *eta = nullptr, *value = nullptr, *slope = nullptr, *curvature = nullptr, *variance = nullptr;
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
    std::vector<double> coef;                  // (coordinates, rank)
    std::vector<double> rough;                 // (coordinates,): penalties, 0 where there is none
    std::vector<double> square, stiff, plain;  // (rank, rank): B'B, B' diag(rough) B, B'B of unpenalised coordinates
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
    double noise = 1.0;
    bool use_majorant = false;  // majorants replace curvatures
    bool majorises = false;     // the family's own curvatures are majorants
    int64_t damped = 0;
    int threads = 1;

    // States of all rows from scratch, with a fraction of the columns' variances.
    void build(double tempering);
    // All columns once, smooth main effects jointly, tensor smoothing; the dispersion where losses are quadratic.
    void sweep(bool learn, bool learn_mains, bool backwards, double floor);
    // Losses and derivatives at the current linear predictors.
    void evaluate() { at(true); }
    double largest() const;

  private:
    struct Range {  // of rows, in whole blocks
        int64_t begin, end;
    };

    void poll();
    BlockTask task_of(size_t k, const Range& range);
    ColumnMoments moments_of(size_t k, size_t j, const Range& range);
    void insert(size_t k, size_t j);
    void swap(size_t k, int add, int remove, bool sums);
    void clear(size_t k);
    void fitted(size_t k);
    void set_working(size_t k);
    void own_part(size_t k);
    void at(bool evaluate);
    bool decreases(size_t k);
    void solve(size_t k, size_t j, bool learn, double damping);
    struct Constants {
        std::vector<double> mean, variance;  // (product factors,)
    };
    bool solve_constants(size_t j, const ColumnArrays& own, const double* gram, double* rhs, Constants& found);
    void rescale_products(size_t k);
    void leave_out(const EngineColumn& column, double* gram, double* rhs) const;
    bool try_solve(size_t k, size_t j, bool learn, double damping, double jitter);
    void bound(size_t j, const ColumnArrays& own, double* mean);
    void quadratic_sweep(bool learn, bool learn_mains, bool backwards);
    void guarded(size_t k, size_t j, bool learn);
    bool accept(size_t k, bool forced);
    void take_new();
    void take_back(size_t k, size_t j);
    void keep(size_t k, size_t j);
    void restore(size_t k, size_t j);
    void rest(size_t k, size_t j);
    bool solve_mains(size_t k, const double* weight, const double* response, bool learn, double& intercept,
                     std::vector<double>& coef, std::vector<double>& lam, double& trace);
    void move_mains(size_t k, bool learn);
    const TensorMargin& margin(size_t k, size_t j);
    void learn_tensor(size_t k, double information);
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
    std::vector<Range> ranges_;
    double total_ = 0.0, tempering_ = 0.0;
    std::chrono::steady_clock::time_point asked_ = std::chrono::steady_clock::now();
    std::vector<std::vector<char>> states_;                   // one per linear predictor
    std::vector<std::vector<std::vector<double>>> inserted_;  // variances that are in the row states: (eta, column)
    std::vector<std::vector<double>> own_;                    // intercept and smooth main effects of all rows
    std::vector<std::vector<std::unique_ptr<TensorMargin>>> margins_;
    std::vector<double> gram_, rhs_, scaled_gram_, scaled_rhs_, memory_, mean_, work_, response_;
    std::vector<std::vector<double>> partial_;
    std::vector<double> fitted_, new_eta_, new_value_, new_slope_, new_curvature_, new_variance_, working_weight_;
    struct Kept {
        std::vector<double> mean, variance, main_smooth, main_rough, smooth, rough, main_lam, lam, edf, constants;
    } kept_;
};

}  // namespace ahofm
