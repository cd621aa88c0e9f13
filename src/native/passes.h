// Inputs and outputs of the passes over one chunk of rows. Plain data, no Python, no STL:
// this header is compiled once per instruction set, and an inline STL function emitted with
// AVX instructions could be picked by the linker for a machine that has none.
#pragma once

#include <cstdint>

namespace ahofm {

// Calls task(argument, 0) .. task(argument, count - 1), in any order, on the threads that are free: nothing of it may
// depend on their number. Of the module, since threads are not compiled here.
struct Parallel {
    void* context = nullptr;
    void (*run)(void* context, int count, void (*task)(const void*, int), const void* argument) = nullptr;

    template <class Task>
    void operator()(int count, const Task& task) const {
        if (run == nullptr || count == 1) {
            for (int i = 0; i < count; i++) task(i);
            return;
        }
        run(context, count, [](const void* called, int i) { (*static_cast<const Task*>(called))(i); }, &task);
    }
};

// Throws MemoryError; defined by the module, since nothing of the STL may be compiled here.
[[noreturn]] void too_large();

// Rows are handled in blocks: small enough that looked-up table rows are still in L1 when the
// gradient needs them again, large enough that losses vectorise.
constexpr int kBlock = 32;

// One column of codes: codes[i] selects row `start + codes[i]` of every table.
struct Column {
    const void* codes;
    int width;  // bytes per code: 1, 2 or 4
    uint32_t start;
    uint32_t size;
};

// A vector of n reals in either precision; data == nullptr means absent.
struct Reals {
    const void* data = nullptr;
    bool is_double = true;

    double at(int64_t i) const {
        return is_double ? static_cast<const double*>(data)[i] : static_cast<const float*>(data)[i];
    }
};

// All factors of one order: table and sums are (codes, rank), row-major.
struct Factors {
    int order;
    int64_t rank;
    const double* table;
    const double* loadings;  // (rank,): weights of the factors' terms
    double* sums;
};

// One linear predictor at the codes, and the derivatives of a loss by its entries.
struct Predictor {
    double intercept;
    const double* main;  // (codes,)
    double intercept_sum;
    double* main_sums;  // (codes,)
    Factors* factors;
    int n_factors;
};

// Coded rows of a chunk.
struct Rows {
    int64_t n;
    const Column* columns;
    int n_columns;
    int64_t n_codes;  // over all columns: rows of a table
};

enum class Loss : int { gaussian, bernoulli, poisson, gamma, multinomial };
constexpr int kLosses = 5;

enum class Goal : int { eta, gradient, pull_back };

// One pass over the rows for all linear predictors.
struct Task {
    Goal goal;
    Loss loss = Loss::gaussian;
    Reals y{}, weight{};        // (n,)
    Reals offset{};             // (n, linear predictors)
    double* eta = nullptr;      // out, (n, linear predictors)
    const double* g = nullptr;  // in, (n, linear predictors)
    double loss_sum = 0.0;
};

// First code found outside its table; column < 0 when all are inside.
struct BadCode {
    int column = -1;
    int64_t row = 0;
    uint32_t code = 0;
};

// One column's derivatives: u(i, 0) = 1, u(i, k) = e_{d-1} of the other columns for factor k.
struct ColumnTask {
    int column;
    const double* g = nullptr;  // (n,)
    const double* h = nullptr;  // (n,)
    double* u = nullptr;        // out, (n, width)
    double* g_sums = nullptr;   // out, (codes of the column, width)
    double* h_sums = nullptr;   // out, (codes of the column, width, width)
};

// A panel of curves: this many functions side by side, one cache line.
constexpr int kCurveLanes = 8;

// One column at true values. A value lies in one piece of a piecewise polynomial (or has a code), which is `degree + 1`
// rows of every table: coefficients of t^0, t^1, ... with t = x * scale - shift. After the pieces comes one more, for
// missing values.
struct Place {
    const double* numbers = nullptr;  // every `stride`-th; nullptr: codes
    int64_t stride = 1;
    const void* codes = nullptr;
    int width = 1;  // bytes per code: 1, 2 or 4
    const double* breaks = nullptr;
    int64_t n_breaks = 0;
    const double* scales = nullptr;  // (n_breaks + 1,)
    const double* shifts = nullptr;  // (n_breaks + 1,)
    double period = 0.0;             // 0: none
    double phase = 0.0;              // where a period begins, in [0, period)
    int degree = 0;
    uint32_t start = 0;  // first row of every table
    uint32_t size = 0;   // number of codes
};

// Curves of up to kCurveLanes factors of one order and one linear predictor.
struct CurvePanel {
    int order;
    int predictor;
    const double* table;    // (rows of all columns, kCurveLanes)
    const double* weights;  // (kCurveLanes,): loadings of the factors, over the order for contributions
    // For contributions of products: means of the functions, (columns, kCurveLanes), and nodes of the integral.
    const double* means = nullptr;
    const double *nodes = nullptr, *node_weights = nullptr;
    int n_nodes = 0;
};

// Linear predictors, or contributions of the columns, at true values of rows.
struct CurveTask {
    int64_t n;
    const Place* places;
    int n_columns;
    int n_eta;
    const double* intercepts;
    const double* const* mains;  // one table (rows of all columns,) per linear predictor
    const CurvePanel* panels;
    int n_panels;
    double* eta;  // out, (n, linear predictors); nullptr: contributions are computed
    double*
        contributions;  // out, (n, linear predictors, columns): main effect, weight * phi * e_{order - 1} of the others
};

// State of a row in the variational solver: a head (mean and variance of the main effects' sum, weight, weighted
// target), then per panel of factors their moments (row_states.h), lane by lane; all in one precision.
template <class T>
constexpr int state_lanes = 32 / static_cast<int>(sizeof(T));
constexpr int kStateHead = 8;
constexpr int kMaxStateOrder = 8;

// The order that stands for product factors, products over all columns (ahofm.orders.PRODUCT).
constexpr int kProduct = 10000;

// Means of e_1 .. e_order and their covariances; of a product its mean and its mean square.
constexpr int state_entries(int order) { return order == kProduct ? 2 : order * (order + 3) / 2; }

// Factors of one order that a vector holds.
struct StatePanel {
    int order;
    int64_t first;  // of the column's functions, main effect included
    int64_t used;   // lanes that are factors, not padding
};

// Posterior means and variances of one column's functions at its codes; mean == nullptr: no column.
struct ColumnMoments {
    int column = -1;
    const void* codes = nullptr;
    int code_width = 1;
    uint32_t size = 0;
    const double* mean = nullptr;      // (size, width)
    const double* variance = nullptr;  // (size, width)
};

// Row states of a chunk, and the columns to add to them and to remove from them.
struct BlockTask {
    int64_t n;
    int64_t width;  // functions of a column: its main effect and its factors
    bool float64;
    void* state;
    int64_t numbers;  // of a row; a block of kBlock rows has its heads first, then its panels
    const StatePanel* panels;
    int n_panels;
    ColumnMoments add_column, remove_column;
    double* gram = nullptr;  // out, (codes of the removed column, width, width)
    double* rhs = nullptr;   // out, (codes of the removed column, width)
    // Memory of the two steps below: tables of both columns, and what rows leave for the sums.
    void *add_tables = nullptr, *remove_tables = nullptr;
    void* slopes = nullptr;  // (rows of a part, slope_numbers)
};

// Some rows of one code, or all rows of several consecutive codes: rows are sorted by the removed column's code, and
// ascend within it.
struct CodeRun {
    uint32_t first_code, last_code;
    uint32_t begin, end;  // in the sorted rows
};

// The problem of a random walk (chain.h): everything float64, codes in the order of the random walk.
struct ChainTask {
    int64_t codes, width;
    int64_t count;                 // of right-hand sides
    const double* gram;            // (codes, width, width)
    const double* rhs;             // (codes, width, count)
    const double* edges;           // (codes - 1,): weight of each difference of neighbours
    const double* lam_difference;  // (width,): smoothing parameters of squared differences
    const double* lam_value;       // (width,): smoothing parameters of squares
    double* mean;                  // out, (codes, width, count): the inverse times each right-hand side
    double* variance;              // out, (codes, width)
    double* differences;           // out, (width,): sum over edges of weight * variance of the difference
};

// The Gaussian prior of a column's functions (priors.h); fields that a kind of prior does not use are nullptr or 0.
enum class PriorKind : int { spline, random_walk, iid, spline_iid };

struct PriorTask {
    PriorKind kind;
    int64_t codes;                   // without the neutral one
    int64_t m = 0;                   // coordinates of the spline
    int64_t groups = 0;              // of those, each with a smoothing parameter of its own
    const double* values = nullptr;  // (codes, m)
    int64_t nonzero =
        0;  // local functions that are not zero at a code (local_basis.h); 0: values and products are dense
    int64_t functions = 0;                     // their number
    const int64_t* places = nullptr;           // (codes, nonzero), ascending
    const double* entries = nullptr;           // (codes, nonzero)
    const double* transform = nullptr;         // (functions, m)
    const double* products = nullptr;          // (codes, m (m + 1) / 2): values_a values_b, a <= b
    const int64_t* group = nullptr;            // (m,)
    const double* relative_penalty = nullptr;  // (m,): within its group
    const double* penalty = nullptr;           // (m,): its diagonal, 0 in the null space
    const double* mass = nullptr;       // (codes,): functions have this weighted mean zero; nullptr: they need not
    const uint8_t* repeated = nullptr;  // (codes,): codes that the precision of independent effects is learned from
    double prior_trace = 0.0;           // sum of prior variances of those effects, in units of one effect's
    const double* edges = nullptr;      // (codes - 1,): weight of each difference of neighbours
    const double* penalty_eigenvalues = nullptr;  // (n_eigenvalues,): of the matrix of squared differences
    int64_t n_eigenvalues = 0;
};

// Matrices (rank, rank) between the first factors of a column, from the tensor-product priors of its pairs.
struct TensorPenaltyTask {
    int64_t rank;
    const double* penalised;  // times the penalty of a coordinate
    const double* null;       // of coordinates in the null space of the penalty
};

// One exact solve of K functions of a column under its prior (priors.h).
struct SolveTask {
    const PriorTask* prior;
    int64_t K;
    const double* gram;  // (codes, K, K)
    const double* rhs;   // (codes, K)
    const double* lam;   // (smoothing parameters, K)
    const TensorPenaltyTask* tensor_penalty;
    double* mean;      // out, (codes, K)
    double* variance;  // out, (codes, K)
    double* smooth;    // out, (m, K): coefficients of the spline
    double* per_code;  // out, (codes, K): one coefficient per code
    double* edf;       // out, (smoothing parameters, K)
    double* form;      // out, (smoothing parameters, K): the quadratic forms they multiply
    double* memory;
    int64_t memory_size;
    Parallel parallel{};
};

// Losses of rows and their derivatives by the linear predictors.
enum class Family : int { bernoulli, poisson, gamma, negative_binomial, tweedie, multinomial };

struct LossTask {
    Family family;
    double parameter;  // size of the negative binomial, power of Tweedie
    int64_t n, K;
    const double* y;       // (n,)
    const double* offset;  // (n, K) or nullptr
    const double* eta;     // (n, K)
    double* value;         // out, (n,)
    double* slope;         // out, (n, K)
    double* curvature;     // out, (n, K)
};

// Sums over the rows of each code (code_sums.h).
struct CodeSumsTask {
    int64_t n, width, n_codes;
    const void* codes;  // (n,)
    int code_bytes;
    const double* slopes;             // (n, width)
    const double* weight;             // (n,)
    const double* weighted_response;  // (n, width)
    double* gram;                     // added to, (n_codes, width, width): weight * slopes slopes'
    double* rhs;                      // added to, (n_codes, width): slopes * weighted_response
};

// Rows of several classes: losses, working weights and responses (class_passes.h).
struct ClassLossTask {
    int64_t n, K, stride;  // stride: K padded to whole vectors
    const uint32_t* y;     // (n,), below K
    const double* weight;  // (n,)
    const double* offset;  // (n, K) or nullptr
    const double* eta;     // (n, stride)
    double least_weight, most_weight;
    bool bound;              // the largest weight for all rows
    double* slope;           // out, (n, stride), downhill; the padding is not written
    double* working_weight;  // out, (n,)
};

struct ClassLossSums {
    double loss, information, weights;
};

// Factors first .. first + rank - 1, of one order.
struct SharedOrder {
    int order;
    int64_t first, rank;
};

// Rows as they see the F shared curves of one column.
struct SharedRows {
    int64_t n, F, K, stride;
    int64_t levels;   // of states: the highest order
    int64_t moments;  // sums over columns of v curve^k, k = 0, 1, ..., and of v^2; v are tempered variances
    const SharedOrder* orders;
    int n_orders;
    const uint32_t* codes;            // (n,)
    const double *values, *variance;  // (codes with the neutral one, F)
    const double* loadings;           // (F, stride)
    const double* loadings_by_class;  // (K, F)
    const double* products;           // (F, F): loadings loadings'
    const double* loading_variance;   // (F,)
    double tempering, classes_less_one;
    const double* weight;  // (n,): working weights
    const double* slope;   // (n, stride)
    double* state;         // (n, levels, F)
    double* moment_sums;   // (n, moments, F)
    double* rests;         // (n, levels - 1, F): of the other columns, the slope first
    double* response;      // (n, F): what a row adds to the right-hand side
    double* added;         // (n, F): what it adds to the diagonal
};

struct SharedMove {
    const double *difference, *values, *variance;  // (codes with the neutral one, F): new less old, and new
    double* eta;                                   // (n, stride)
};

// c (rows, columns) += a (rows, depth) b (depth, columns); `transposed`: a is stored as (depth, rows).
struct Product {
    const double* a;
    int64_t lda;
    bool transposed;
    int64_t rows;
    const double* b;
    int64_t ldb, columns, depth;
    double* c;
    int64_t ldc;
};

// The solve of a column's shared curves (priors.h).
struct CurvesSolve {
    const PriorTask* prior;
    int64_t K;
    const double *gram, *rhs;                 // (codes, K, K) and (codes, K)
    const double* lam;                        // (smoothing parameters, K)
    const double* learned_lam;                // the same, of variance and edf; nullptr: these are not computed
    double *mean, *smooth, *per_code, *form;  // out, as in SolveTask; a spline has no per_code part
    double *variance, *edf;                   // out
    double* memory;
    int64_t memory_size;
};

// Functions at rows, of which each row has kLocal numbers per block: those of functions that follow one another.
constexpr int kLocal = 4;

struct LocalRows {
    int64_t blocks, functions;
    const int32_t* places;  // (n, blocks): the first function of each; ascending, or the same for several blocks
    const double* entries;  // (n, blocks, kLocal)
};

// Solves of one instruction set.
struct Solves {
    const char* name;
    bool (*solve_prior)(const SolveTask&);  // false: not positive definite
    int64_t (*solve_memory)(const PriorTask&, int64_t K);
    // The upper triangle of (q, q).
    void (*weighted_gram)(const double* design, int64_t n, int64_t q, const double* weight, double* out);
    // Of an upper triangle; W with W W' the inverse.
    bool (*invert)(double* matrix, int64_t n, double* inverse, const Parallel& parallel);
    void (*product)(const Product&);
    bool (*solve_curves)(const CurvesSolve&);  // false: not positive definite, as below
    bool (*solve_positive)(double* matrix, int64_t n, double* right, int64_t m);
};

// Passes over rows of one instruction set.
struct RowPasses {
    const char* rows_name;
    BadCode (*predictors)(const Rows&, Predictor*, int n_eta, Task&, bool float64);
    BadCode (*column)(const Rows&, Predictor&, const ColumnTask&, bool float64);
    BadCode (*curves)(const CurveTask&);
    BadCode (*block)(const BlockTask&);
    // The same in steps. Numbers that the tables of a column have, and that a row leaves for the sums.
    int64_t (*table_numbers)(const BlockTask&, uint32_t codes);
    int64_t (*slope_numbers)(const BlockTask&);
    void (*fill_tables)(const BlockTask&, const ColumnMoments&, void* tables, const Parallel& parallel);
    void (*sort_by_code)(const ColumnMoments&, int64_t begin, int64_t end, uint32_t* first, uint32_t* sorted);
    // Moves the states of rows begin .. end - 1, with begin a multiple of kBlock; slopes begin with row `first`.
    BadCode (*move_rows)(const BlockTask&, int64_t begin, int64_t end, int64_t first);
    // Sums of a run: gram and rhs of its codes; `added`: to what is there.
    void (*sum_codes)(const BlockTask&, const CodeRun&, const uint32_t* sorted, const uint32_t* first_of_code,
                      bool added, double* gram, double* rhs);
    int64_t (*inverses)(int64_t codes, int64_t width, double* matrices);  // first code that failed, or -1
    int64_t (*chain)(const ChainTask&);                                   // likewise
    BadCode (*code_sums)(const CodeSumsTask&);
    void (*read_state)(const BlockTask&, double* mean, double* variance);
    void (*losses)(const LossTask&);
    bool (*majorants)(const LossTask&, const double* variance);  // curvatures alone; false: the family has none
    // Of rows begin .. end - 1 of a matrix B of local functions: B coef, of all rows (n,); B' x, added to (functions,); the
    // upper triangle of B' diag(weight) B, added to (functions, functions).
    void (*local_times)(const LocalRows&, int64_t begin, int64_t end, const double* coef, double* out);
    void (*local_transposed_times)(const LocalRows&, int64_t begin, int64_t end, const double* x, double* out);
    void (*local_gram)(const LocalRows&, int64_t begin, int64_t end, const double* weight, double* out);
    void (*class_losses)(const ClassLossTask&, ClassLossSums*);
    void (*shared_slopes)(const SharedRows&);
    void (*shared_sums)(const SharedRows&, const uint32_t* sorted, const uint32_t* first_of_code, int64_t codes,
                        double* gram, double* rhs);
    void (*shared_move)(const SharedRows&, const SharedMove&);
    void (*shared_add)(const SharedRows&, bool moments);
    void (*shared_terms)(const SharedRows&, double* terms, double* variances);
    double (*multiply_adds)(int64_t repeats);  // probe: floating-point operations done
};

// What a processor runs: solves may have wider vectors than passes over rows, which wait for the cache.
struct Passes : RowPasses, Solves {};

extern const RowPasses baseline_passes;
extern const Solves baseline_solves;
#if defined(AHOFM_X86)
extern const RowPasses avx2_passes;
extern const Solves avx2_solves, avx512_solves;
#endif

}  // namespace ahofm
