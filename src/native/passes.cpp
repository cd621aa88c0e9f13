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

void local_times(const LocalRows& rows, int64_t begin, int64_t end, const double* coef, double* out) {
    for (int64_t i = begin; i < end; i++) {
        const int32_t* places = rows.places + i * rows.blocks;
        const double* entries = rows.entries + i * rows.blocks * kLocal;
        Four sum = {};
        for (int64_t b = 0; b < rows.blocks; b++) sum += load4(entries + kLocal * b) * load4(coef + places[b]);
        out[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

void local_transposed_times(const LocalRows& rows, int64_t begin, int64_t end, const double* x, double* out) {
    for (int64_t i = begin; i < end; i++) {
        const int32_t* places = rows.places + i * rows.blocks;
        const double* entries = rows.entries + i * rows.blocks * kLocal;
        for (int64_t b = 0; b < rows.blocks; b++) {
            double* to = out + places[b];
            store4(to, load4(to) + x[i] * load4(entries + kLocal * b));
        }
    }
}

constexpr int64_t kGramRows =
    256;  // of which the sums of a pair of blocks, and what it reads, stay in the nearest cache

// The sums of a pair of blocks over some rows; its products are added up first where places are the same in all rows.
void add_block_products(const double* weighted, const double* right, const int32_t* left_places,
                        const int32_t* right_places, int64_t count, bool fixed, int64_t functions, double* out) {
    if (fixed) {
        Four sums[kLocal] = {};
        for (int64_t r = 0; r < count; r++) {
            const Four vector = load4(right + kLocal * r);
            AHOFM_UNROLL_ALL
            for (int s = 0; s < kLocal; s++) sums[s] += weighted[kLocal * r + s] * vector;
        }
        double* to = out + left_places[0] * functions + right_places[0];
        for (int s = 0; s < kLocal; s++, to += functions) store4(to, load4(to) + sums[s]);
        return;
    }
    for (int64_t r = 0; r < count; r++) {
        const Four vector = load4(right + kLocal * r);
        double* to = out + left_places[r] * functions + right_places[r];
        for (int s = 0; s < kLocal; s++, to += functions) store4(to, load4(to) + weighted[kLocal * r + s] * vector);
    }
}

void local_gram(const LocalRows& rows, int64_t begin, int64_t end, const double* weight, double* out) {
    const int64_t blocks = rows.blocks;
    Buffer<double> entries(blocks * kGramRows * kLocal), weighted(kGramRows * kLocal);
    Buffer<int32_t> places(blocks * kGramRows);
    Buffer<uint8_t> fixed(blocks);
    for (int64_t first = begin; first < end; first += kGramRows) {
        const int64_t count = end - first < kGramRows ? end - first : kGramRows;
        for (int64_t b = 0; b < blocks; b++) fixed[b] = 1;
        for (int64_t r = 0; r < count; r++)
            for (int64_t b = 0; b < blocks; b++) {
                const int64_t from = (first + r) * blocks + b, to = b * kGramRows + r;
                store4(entries.get() + kLocal * to, load4(rows.entries + kLocal * from));
                places[to] = rows.places[from];
                if (places[to] != places[b * kGramRows]) fixed[b] = 0;
            }
        for (int64_t a = 0; a < blocks; a++) {
            const double* left = entries.get() + a * kGramRows * kLocal;
            for (int64_t r = 0; r < count; r++)
                store4(weighted.get() + kLocal * r, weight[first + r] * load4(left + kLocal * r));
            for (int64_t b = a; b < blocks; b++)
                add_block_products(weighted.get(), entries.get() + b * kGramRows * kLocal, places.get() + a * kGramRows,
                                   places.get() + b * kGramRows, count, fixed[a] && fixed[b], rows.functions, out);
        }
    }
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
                                local_times,
                                local_transposed_times,
                                local_gram,
                                run_class_losses,
                                run_shared_slopes,
                                run_shared_sums,
                                run_shared_move,
                                run_shared_add,
                                run_shared_terms,
                                multiply_adds};

}  // namespace ahofm
