// The passes over rows of one instruction set: compiled once for each, with AHOFM_PASSES and AHOFM_NAME set by CMake.

#include "chain.h"
#include "class_passes.h"
#include "code_sums.h"
#include "column.h"
#include "dense.h"
#include "linear_predictors.h"
#include "predict.h"
#include "row_losses.h"
#include "row_states.h"

namespace ahofm {
namespace {

BadCode run_predictors(const Rows& rows, Predictor* predictors, int n_eta, Task& task, bool float64) {
    return float64 ? PredictorPass<double>(rows, predictors, n_eta, task).run()
                   : PredictorPass<float>(rows, predictors, n_eta, task).run();
}

BadCode run_column(const Rows& rows, Predictor& predictor, const ColumnTask& task, bool float64) {
    return float64 ? ColumnPass<double>(rows, predictor, task).run() : ColumnPass<float>(rows, predictor, task).run();
}

BadCode run_curves(const CurveTask& task) { return CurvePass(task).run(); }

BadCode run_block(const BlockTask& task) {
    return task.float64 ? swap_in_chunk<double>(task) : swap_in_chunk<float>(task);
}

int64_t table_numbers(const BlockTask& task, uint32_t codes) {
    return task.float64 ? MomentTables<double>::numbers(task, codes) : MomentTables<float>::numbers(task, codes);
}

int64_t slope_numbers(const BlockTask& task) {
    return task.float64 ? slopes_of_row<double>(task.n_panels) : slopes_of_row<float>(task.n_panels);
}

void fill_tables(const BlockTask& task, const ColumnMoments& column, void* tables, const Parallel& parallel) {
    over_codes(parallel, column.size, [&](int, int64_t code) {
        if (task.float64) MomentTables<double>::fill(task, column, tables, code);
        else MomentTables<float>::fill(task, column, tables, code);
    });
}

BadCode move_rows(const BlockTask& task, int64_t begin, int64_t end, int64_t first) {
    return task.float64 ? RowMover<double>(task).run(begin, end, first) : RowMover<float>(task).run(begin, end, first);
}

void sum_codes(const BlockTask& task, const CodeRun& codes, const uint32_t* sorted, const uint32_t* first_of_code,
               bool added, double* gram, double* rhs) {
    if (task.float64) CodeSums<double>(task).run(codes, sorted, first_of_code, added, gram, rhs);
    else CodeSums<float>(task).run(codes, sorted, first_of_code, added, gram, rhs);
}

void read_state(const BlockTask& task, double* mean, double* variance) {
    if (task.float64) read_state_of<double>(task, mean, variance);
    else read_state_of<float>(task, mean, variance);
}

void design_times(const double* design, int64_t n, int64_t q, const double* coef, double* out) {
    for (int64_t i = 0; i < n; i++) out[i] = dot(design + i * q, coef, q);
}

void design_transposed_times(const double* design, int64_t n, int64_t q, const double* rows, double* out) {
    std::memset(out, 0, static_cast<size_t>(q) * sizeof(double));
    for (int64_t i = 0; i < n; i++) subtract_row(-rows[i], design + i * q, q, out);
}

// Independent chains of multiply-adds in registers: the peak of one core with the vectors the passes use.
double multiply_adds(int64_t repeats) {
    constexpr int lanes = AHOFM_VECTOR_BYTES / 4, chains = 10;
    using Vector = typename VectorOf<float, lanes>::type;
    Vector a[chains];
    for (int k = 0; k < chains; k++) a[k] = broadcast<Vector>(1.0f + 0.001f * static_cast<float>(k));
    const Vector x = broadcast<Vector>(0.999f), b = broadcast<Vector>(0.001f);
    for (int64_t i = 0; i < repeats; i++)
        for (int k = 0; k < chains; k++) a[k] = a[k] * x + b;
    float sum = 0.0f;
    for (int k = 0; k < chains; k++) sum += sum_lanes<float, lanes>(a[k]);
    volatile float keep = sum;  // so that the loop is not dropped
    (void)keep;
    return 2.0 * lanes * chains * static_cast<double>(repeats);
}

}  // namespace

const RowPasses AHOFM_PASSES = {AHOFM_NAME,
                                run_predictors,
                                run_column,
                                run_curves,
                                run_block,
                                table_numbers,
                                slope_numbers,
                                fill_tables,
                                sort_by_code,
                                move_rows,
                                sum_codes,
                                run_inverses,
                                run_chain,
                                run_code_sums,
                                read_state,
                                run_losses,
                                run_majorants,
                                design_times,
                                design_transposed_times,
                                run_class_losses,
                                run_shared_slopes,
                                run_shared_sums,
                                run_shared_move,
                                run_shared_add,
                                run_shared_terms,
                                multiply_adds};

}  // namespace ahofm
