// Sweeps of fits to several classes with shared curves, without the interpreter: working responses, main effects of all
// classes, the curves of every column, and the loadings.
//
// The reference is ahofm/shared_curves: the same steps in NumPy, with the formulas. Arrays of curves, loadings and main
// effects belong to the caller and are read between sweeps; rows' states and linear predictors belong to this object.
#pragma once

#include <utility>
#include <vector>

#include "engine.h"

namespace ahofm {

inline size_t sized(int64_t count) { return static_cast<size_t>(count); }

// Constants of ahofm/tuning.
struct SharedOptions {
    double least_weight, most_weight;  // working weights of rows
    double jitter;                     // of the mean diagonal, added to it in the joint solve of main effects
    double smallest_lam, largest_lam;  // of smooth main effects
    double loading_lam;                // penalty of squared loadings
    double relative_bounds;            // bounds of curves, in units of their root mean square
    double constant_precision;         // of the constants of product factors
    double least_product_scale;        // root mean square below which a function of theirs is not scaled to one
};

// A main effect that is not in the joint design: memory of the caller; mean is nullptr where it is in the design.
struct SeparateMain {
    double *mean = nullptr, *variance = nullptr, *smooth = nullptr, *per_code = nullptr;  // (codes, K), ..., (m, K)
    double* lam = nullptr;  // (smoothing parameters,), the same for all classes
};

// Shared curves of one column: memory of the caller. Product factors have values with their constants, which are what
// they have at the neutral code; smooth and per_code are those of the functions without constants.
struct CurveArrays {
    double *values = nullptr, *variance = nullptr;  // (n_codes, F), the neutral code last
    double *lam = nullptr, *form = nullptr;         // (smoothing parameters, F)
    double *smooth = nullptr, *per_code = nullptr;  // (m, F), (n_codes - 1, F)
};

struct SharedColumn {
    std::vector<uint32_t> codes;          // (n,)
    int64_t n_codes = 0;                  // with the neutral one
    std::vector<double> mass;             // (n_codes - 1,)
    bool bounded = false;                 // whether curves stay within bounds
    std::vector<uint8_t> left_out;        // (F,): factors in which the column has no curve; empty if there are none
    std::vector<uint32_t> sorted, first;  // rows by code
    Prior main, factors;
    SeparateMain separate;
    CurveArrays curves;
};

struct JointMains {
    int64_t q = 0;                         // intercept included
    const double* design = nullptr;        // (n, q)
    std::vector<int64_t> group;            // (q,): which smoothing parameter; -1 for the intercept
    std::vector<double> relative_penalty;  // (q,): within its group
    int64_t n_lam = 0;
    double *coef = nullptr, *lam = nullptr;  // (q, K) and (groups,): memory of the caller
};

struct ClassTargets {
    std::vector<uint32_t> y;
    const double *weight = nullptr, *offset = nullptr;  // (n,); (n, K) or nullptr
};

class SharedCurves {
  public:
    SharedCurves(const Passes& passes, int64_t n, int64_t K, ClassTargets targets, std::vector<SharedColumn> columns,
                 std::vector<std::pair<int, int64_t>> ranks, JointMains mains, double* loadings,
                 double* loading_variance, const double* eta, const SharedOptions& options);

    // One step of all main effects.
    void sweep_mains(bool learn, bool bound);
    // Main effects, the curves of every column, and the loadings; `rebuilt`: states from scratch before the loadings.
    void sweep(bool learn, bool bound, bool backwards, bool rebuilt);
    // Variances of partners in pairs, triples and products count, multiplied by this, from now on.
    void temper(double tempering);
    // Sum of the losses at the current linear predictors.
    double loss(bool bound);
    void read_eta(double* out) const;  // (K, n)

  private:
    void evaluate(bool bound);
    SharedRows rows_of(size_t j);
    void add_eta(const double* rows, int64_t depth, const double* coef);
    void step_joint(bool learn);
    void learn_joint(const std::vector<double>& gram, const std::vector<double>& penalty);
    void step_main(SharedColumn& column, bool learn);
    void step_curves(size_t j, bool learn);
    void solve_curves(SharedColumn& column, bool learn);
    void leave_out(const SharedColumn& column);
    void solve_constants(const SharedColumn& column, bool learn);
    void move_curves(size_t j, bool learn);
    void scale_products(const SharedColumn& column);
    void clear_left_out(const SharedColumn& column, bool learn);
    void bound_curves(const SharedColumn& column);
    void learn_lam(SharedColumn& column);
    void step_loadings();
    void use_loadings();
    void rebuild();
    void build_moments();

    const Passes& passes_;
    int64_t n_, K_, stride_, F_ = 0, levels_ = 0, moments_ = 0;
    int64_t product_rank_ = 0, first_product_ = 0;  // product factors
    ClassTargets targets_;
    std::vector<SharedColumn> columns_;
    std::vector<SharedOrder> orders_;
    JointMains mains_;
    double *loadings_, *loading_variance_;  // (F, K) and (F,)
    SharedOptions options_;
    double tempering_ = 0.0, fisher_ = 1.0;
    bool evaluated_ = false, evaluated_bound_ = false;  // whether slopes and weights are those of eta_
    ClassLossSums sums_{};
    std::vector<double> eta_, slope_, weight_;
    std::vector<double> padded_loadings_, loadings_by_class_, products_;
    std::vector<double> state_, moment_sums_, rests_, response_, added_, terms_;
    std::vector<double> constants_, constant_variance_, scale_;  // (F,): 0, 0 and 1 but for product factors
    std::vector<double> gram_, rhs_, mean_, variance_, learned_lam_, edf_, difference_, new_values_, new_variance_;
    Scratch memory_;
};

}  // namespace ahofm
