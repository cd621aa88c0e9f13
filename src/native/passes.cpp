// The passes of one instruction set: compiled once for each, with AHOFM_PASSES and AHOFM_NAME set by CMake.

#include "block.h"
#include "chain.h"
#include "column.h"
#include "predict.h"
#include "predictors.h"

namespace ahofm {
namespace {

BadCode run_predictors(const Rows& rows, Predictor* predictors, int n_predictors, Task& task, bool float64) {
    return float64 ? PredictorPass<double>(rows, predictors, n_predictors, task).run()
                   : PredictorPass<float>(rows, predictors, n_predictors, task).run();
}

BadCode run_column(const Rows& rows, Predictor& predictor, const ColumnTask& task, bool float64) {
    return float64 ? ColumnPass<double>(rows, predictor, task).run() : ColumnPass<float>(rows, predictor, task).run();
}

BadCode run_curves(const CurveTask& task) { return CurvePass(task).run(); }

BadCode run_block(const BlockTask& task) {
    return task.float64 ? BlockPass<double>(task).run() : BlockPass<float>(task).run();
}

void read_state(const BlockTask& task, double* mean, double* variance) {
    if (task.float64) read_state_of<double>(task, mean, variance);
    else read_state_of<float>(task, mean, variance);
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

const Passes AHOFM_PASSES = {AHOFM_NAME,   run_predictors, run_column, run_curves,   run_block,
                             run_inverses, run_chain,      read_state, multiply_adds};

}  // namespace ahofm
