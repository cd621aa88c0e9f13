// One step of coordinate ascent over a chunk of rows.
//
// A row's state holds, for every factor f of order d, the means E[e_a] and the covariances Cov(e_a, e_b) of the
// elementary symmetric polynomials of its columns' values, 1 <= b <= a <= d. The values are taken as independent, with
// known means m and variances s. Columns are added and removed one at a time, without divisions; with L the
// state without the column,
//
//     E[e_a]        = L_a + m L_{a-1}
//     Cov(e_a, e_b) = L_{a,b} + m (L_{a-1,b} + L_{a,b-1}) + (m^2 + s) L_{a-1,b-1} + s L_{a-1} L_{b-1}.
//
// Covariances rather than means of products: small covariances would otherwise be lost in rounding.
//
// A step adds one column and removes the next in a single visit to each row. That leaves the moments that the second
// column's penalised regression needs: g = E[e_{d-1}], its variance, and c = Cov(e_d, e_{d-1}). They are
// summed per code of that column.
//
// Of a product over all columns the state is its mean and its mean square. Columns are multiplied in and divided out,
// which loses no digits; absolute means are at least LEAST_PRODUCT_VALUE, too small to change predictions.
#pragma once

#include "codes.h"
#include "panels.h"
#include "tuning.h"

namespace ahofm {
namespace {

#if defined(__clang__)
#define AHOFM_UNROLL_ALL _Pragma("clang loop unroll(full)")
#else
#define AHOFM_UNROLL_ALL _Pragma("GCC unroll 64")
#endif

template <class T>
using Lanes = typename VectorOf<T, state_lanes<T>>::type;

// The type may alias and may be unaligned; a memcpy would go through the stack.
template <class T>
inline Lanes<T> load(const T* from) {
    return *reinterpret_cast<const Lanes<T>*>(from);
}

template <class T>
inline void store(T* to, Lanes<T> v) {
    *reinterpret_cast<Lanes<T>*>(to) = v;
}

// The state of one row and panel, while it is in registers. e_0 = 1 has no variance.
template <class T, int Order>
struct Moments {
    using Vector = Lanes<T>;
    static constexpr int size = state_entries(Order);
    static constexpr int place(int a, int b) { return Order + a * (a - 1) / 2 + b - 1; }

    Vector t[size];

    explicit Moments(const T* record) {
        AHOFM_UNROLL_ALL
        for (int k = 0; k < size; k++) t[k] = load(record + k * state_lanes<T>);
    }

    void write(T* record) const {
        AHOFM_UNROLL_ALL
        for (int k = 0; k < size; k++) store(record + k * state_lanes<T>, t[k]);
    }

    Vector mean(int a) const { return a == 0 ? broadcast<Vector>(T(1)) : t[a - 1]; }
    Vector covariance(int a, int b) const {
        return b == 0 ? broadcast<Vector>(T(0)) : a >= b ? t[place(a, b)] : t[place(b, a)];
    }

    // Change of Cov(e_a, e_b) by adding the column; b <= a.
    Vector change(int a, int b, Vector m, Vector s) const {
        Vector sum = s * (mean(a - 1) * mean(b - 1));
        if (b > 1) sum += m * (covariance(a - 1, b) + covariance(a, b - 1)) + (m * m + s) * covariance(a - 1, b - 1);
        else if (a > 1) sum += m * covariance(a - 1, b);
        return sum;
    }

    void add_column(Vector m, Vector s) {
        AHOFM_UNROLL_ALL
        for (int a = Order; a >= 1; a--) {
            AHOFM_UNROLL_ALL
            for (int b = a; b >= 1; b--) t[place(a, b)] += change(a, b, m, s);
        }
        AHOFM_UNROLL_ALL
        for (int a = Order; a >= 1; a--) t[a - 1] += m * mean(a - 1);
    }

    void remove_column(Vector m, Vector s) {
        AHOFM_UNROLL_ALL
        for (int a = 1; a <= Order; a++) t[a - 1] -= m * mean(a - 1);
        AHOFM_UNROLL_ALL
        for (int a = 1; a <= Order; a++) {
            AHOFM_UNROLL_ALL
            for (int b = 1; b <= a; b++) t[place(a, b)] -= change(a, b, m, s);
        }
    }
};

// What a row leaves for the sums: weight and weighted residual, padded to a vector; then per panel the moments of the
// derivative of eta by the removed column's factors: mean g, variance, and covariance c with the rest of eta.
template <class T>
constexpr int64_t slopes_of_row(int64_t n_panels) {
    return state_lanes<T> * (1 + 3 * n_panels);
}

template <class T>
struct PanelStep {
    T* state;  // of the block's first row, at this panel
    int n;
    const T* in;   // (codes, 2, lanes): means and variances; nullptr: no column is added
    const T* out;  // nullptr: no column is removed
    const uint32_t* in_rows;
    const uint32_t* out_rows;
    T* slopes;  // of the block's first row, at this panel
    int64_t slope_numbers;
    Lanes<T>* fitted;  // (rows,): sums of E[e_d] over panels
};

template <class T, int Order>
void panel_step(const PanelStep<T>& step) {
    constexpr int lanes = state_lanes<T>;
    for (int r = 0; r < step.n; r++) {
        T* record = step.state + r * (Moments<T, Order>::size * lanes);
        Moments<T, Order> moments(record);
        if (step.in != nullptr) {
            const T* row = step.in + static_cast<int64_t>(step.in_rows[r]) * 2 * lanes;
            moments.add_column(load(row), load(row + lanes));
        }
        if (step.out != nullptr) {
            const T* row = step.out + static_cast<int64_t>(step.out_rows[r]) * 2 * lanes;
            moments.remove_column(load(row), load(row + lanes));
            const Lanes<T> variance = moments.covariance(Order - 1, Order - 1);
            T* slope = step.slopes + r * step.slope_numbers;
            store(slope, moments.mean(Order - 1));
            store(slope + lanes, variance > T(0) ? variance : broadcast<Lanes<T>>(T(0)));  // rounding
            store(slope + 2 * lanes, moments.covariance(Order, Order - 1));
            step.fitted[r] += moments.mean(Order);
        }
        moments.write(record);
    }
}

template <class T>
void product_step(const PanelStep<T>& step) {
    constexpr int lanes = state_lanes<T>;
    for (int r = 0; r < step.n; r++) {
        T* record = step.state + r * (2 * lanes);
        Lanes<T> mean = load(record), square = load(record + lanes);
        if (step.in != nullptr) {
            const T* row = step.in + static_cast<int64_t>(step.in_rows[r]) * 2 * lanes;
            const Lanes<T> m = load(row);
            mean *= m;
            square *= m * m + load(row + lanes);
        }
        if (step.out != nullptr) {
            const T* row = step.out + static_cast<int64_t>(step.out_rows[r]) * 2 * lanes;
            const Lanes<T> m = load(row);
            mean /= m;
            square /= m * m + load(row + lanes);
            const Lanes<T> variance = square - mean * mean;
            T* slope = step.slopes + r * step.slope_numbers;
            store(slope, mean);
            store(slope + lanes, variance > T(0) ? variance : broadcast<Lanes<T>>(T(0)));
            store(slope + 2 * lanes, broadcast<Lanes<T>>(T(0)));
        }
        store(record, mean);
        store(record + lanes, square);
    }
}

template <class T>
using PanelStepOf = void (*)(const PanelStep<T>&);

template <class T>
PanelStepOf<T> panel_step_of(int order) {
    static constexpr PanelStepOf<T> steps[] = {panel_step<T, 2>, panel_step<T, 3>, panel_step<T, 4>, panel_step<T, 5>,
                                               panel_step<T, 6>, panel_step<T, 7>, panel_step<T, 8>};
    static_assert(sizeof(steps) / sizeof(steps[0]) == kMaxStateOrder - 1, "one step per order");
    return order == kProduct ? product_step<T> : steps[order - 2];
}

// Means and variances of a column in the precision of the rows: main effect (codes, 2), then panels of lanes padded with
// zeros, (panels, codes, 2, lanes).
template <class T>
class MomentTables {
  public:
    static constexpr int lanes = state_lanes<T>;

    MomentTables(const void* memory, uint32_t size)
        : main_(static_cast<const T*>(memory)), tables_(main_ + mains(size)), size_(memory == nullptr ? 0 : size) {}

    static int64_t mains(int64_t size) { return (2 * size + lanes - 1) / lanes * lanes; }
    static int64_t numbers(const BlockTask& task, int64_t size) {
        return mains(size) + size * 2 * lanes * task.n_panels;
    }

    static void fill(const BlockTask& task, const ColumnMoments& column, void* memory, int64_t code) {
        const int64_t size = column.size;
        T *main = static_cast<T*>(memory), *tables = main + mains(size);
        const double *mean = column.mean + code * task.width, *variance = column.variance + code * task.width;
        main[2 * code] = static_cast<T>(mean[0]);
        main[2 * code + 1] = static_cast<T>(variance[0]);
        for (int k = 0; k < task.n_panels; k++) {
            const StatePanel& panel = task.panels[k];
            T* to = tables + (k * size + code) * 2 * lanes;
            const bool product = panel.order == kProduct;
            for (int f = 0; f < lanes; f++) {
                to[f] = f < panel.used ? static_cast<T>(mean[panel.first + f]) : T(product);
                to[lanes + f] = f < panel.used ? static_cast<T>(variance[panel.first + f]) : T(0);
                if (product && __builtin_fabs(to[f]) < tuning::LEAST_PRODUCT_VALUE)
                    to[f] = static_cast<T>(__builtin_copysign(tuning::LEAST_PRODUCT_VALUE, to[f]));
            }
        }
    }

    static void fill(const BlockTask& task, const ColumnMoments& column, void* memory) {
        for (int64_t code = 0; code < column.size; code++) fill(task, column, memory, code);
    }

    const T* main(uint32_t code) const { return main_ + 2 * static_cast<int64_t>(code); }
    const T* panel(int k) const { return size_ == 0 ? nullptr : tables_ + k * size_ * 2 * lanes; }
    bool empty() const { return size_ == 0; }

  private:
    const T *main_, *tables_;
    int64_t size_;
};

// Moves the states of some rows: adds one column, removes another one, and leaves the slopes of the latter.
template <class T>
class RowMover {
  public:
    static constexpr int lanes = state_lanes<T>;

    explicit RowMover(const BlockTask& task)
        : task_(task), in_(task.add_tables, task.add_column.size), out_(task.remove_tables, task.remove_column.size),
          state_(static_cast<T*>(task.state)), slope_numbers_(slopes_of_row<T>(task.n_panels)) {}

    BadCode run(int64_t begin, int64_t end, int64_t first) {
        for (int64_t row = begin; row < end; row += kBlock) {
            const int n = static_cast<int>(end - row < kBlock ? end - row : kBlock);
            BadCode bad = in_.empty() ? BadCode{} : read_codes(task_.add_column, row, n, in_rows_);
            if (bad.column < 0 && !out_.empty()) bad = read_codes(task_.remove_column, row, n, out_rows_);
            if (bad.column >= 0) return bad;
            step(row, n, static_cast<T*>(task_.slopes) + (row - first) * slope_numbers_);
        }
        return {};
    }

  private:
    static BadCode read_codes(const ColumnMoments& column, int64_t row, int n, uint32_t* out) {
        const Column codes{column.codes, column.code_width, 0, column.size};
        const bool inside = with_codes(codes, row, [&](const auto* from) { return widen<0>(from, codes, n, out); });
        if (inside) return {};
        int r = 0;
        while (out[r] < column.size) r++;
        return {column.column, row + r, out[r]};
    }

    void step(int64_t row, int n, T* slopes) {
        T* block = state_ + row * task_.numbers;  // heads of all its rows, then panel after panel
        for (int r = 0; r < n; r++) {
            T* head = block + r * kStateHead;
            for (int k = 0; k < 2; k++) {
                if (!in_.empty()) head[k] += in_.main(in_rows_[r])[k];
                if (!out_.empty()) head[k] -= out_.main(out_rows_[r])[k];
            }
            fitted_[r] = broadcast<Lanes<T>>(T(0));
        }
        T* at = block + kBlock * kStateHead;
        for (int k = 0; k < task_.n_panels; k++) {
            const int order = task_.panels[k].order;
            panel_step_of<T>(order)({at, n, in_.panel(k), out_.panel(k), in_rows_, out_rows_,
                                     slopes + lanes * (1 + 3 * static_cast<int64_t>(k)), slope_numbers_, fitted_});
            at += kBlock * state_entries(order) * lanes;
        }
        for (int r = 0; r < n && !out_.empty(); r++) {
            const T *head = block + r * kStateHead, weight = head[2];
            T* to = slopes + r * slope_numbers_;
            to[0] = weight;
            to[1] = head[3] - weight * (head[0] + sum_lanes<T, lanes>(fitted_[r]));
        }
    }

    const BlockTask& task_;
    MomentTables<T> in_, out_;
    T* state_;
    int64_t slope_numbers_;
    uint32_t in_rows_[kBlock], out_rows_[kBlock];
    Lanes<T> fitted_[kBlock];
};

// Sums over the rows of each code: of the weight, of w g, of the right-hand side, and of w (g g' + variance). Rows of a
// code follow one another, so that its sums stay in registers and in the first-level cache.
template <class T>
class CodeSums {
  public:
    static constexpr int lanes = state_lanes<T>;

    explicit CodeSums(const BlockTask& task)
        : task_(task), slope_numbers_(slopes_of_row<T>(task.n_panels)),
          weighted_(kTile * lanes * static_cast<int64_t>(task.n_panels)), bin_(size_of_bin(task.n_panels)) {}

    void run(const CodeRun& codes, const uint32_t* sorted, const uint32_t* first_of_code, bool added, double* gram,
             double* rhs) {
        const int64_t width = task_.width;
        for (uint32_t c = codes.first_code; c < codes.last_code; c++) {
            const uint32_t begin = first_of_code[c] > codes.begin ? first_of_code[c] : codes.begin,
                           end = first_of_code[c + 1] < codes.end ? first_of_code[c + 1] : codes.end;
            double *to = gram + (c - codes.first_code) * width * width, *right = rhs + (c - codes.first_code) * width;
            if (!added) {
                std::memset(to, 0, static_cast<size_t>(width * width) * sizeof(double));
                std::memset(right, 0, static_cast<size_t>(width) * sizeof(double));
            }
            if (begin >= end) continue;
            std::memset(bin_.get(), 0, static_cast<size_t>(size_of_bin(task_.n_panels)) * sizeof(T));
            for (uint32_t at = begin; at < end; at += kTile)
                add_rows(sorted + at, static_cast<int>(end - at < kTile ? end - at : kTile));
            write(to, right);
        }
    }

  private:
    static constexpr int kTile = 32;  // rows

    static int64_t size_of_bin(int64_t panels) {
        return lanes * (1 + 3 * panels) + lanes * lanes * panels * (panels + 1) / 2;
    }

    void add_rows(const uint32_t* rows, int n) {
        const T* slopes = static_cast<const T*>(task_.slopes);
        const int64_t panels = task_.n_panels;
        T* bin = bin_.get();
        for (int r = 0; r < n; r++) {
            const T* from = rows_[r] = slopes + rows[r] * slope_numbers_;
            const T weight = from[0], residual = from[1];
            bin[0] += weight;
            bin[1] += residual;
            T *to = bin + lanes, *weighted = weighted_.get() + r * lanes * panels;
            from += lanes;
            for (int64_t p = 0; p < panels; p++, to += 3 * lanes, from += 3 * lanes, weighted += lanes) {
                const Lanes<T> g = load(from), scaled = weight * g;
                store(weighted, scaled);
                store(to, load(to) + scaled);
                store(to + lanes, load(to + lanes) + g * residual - weight * load(from + 2 * lanes));
                store(to + 2 * lanes, load(to + 2 * lanes) + weight * load(from + lanes));
            }
        }
        T* gram = bin + lanes * (1 + 3 * panels);
        for (int p = 0; p < task_.n_panels; p++) {
            const int64_t used = task_.panels[p].used;
            int q = 0;
            for (; q + 2 <= p + 1 && lanes == 4; q += 2, gram += 2 * lanes * lanes) add_blocks<2>(p, q, used, n, gram);
            for (; q <= p; q++, gram += lanes * lanes) add_blocks<1>(p, q, used, n, gram);
        }
    }

    // Blocks (p, q), (p, q + 1), ... of w g g'.
    template <int Blocks>
    void add_blocks(int p, int q, int64_t used, int n, T* gram) const {
        int64_t f = 0;
        for (; f + lanes <= used; f += lanes) add_block_rows<Blocks, lanes>(p, q, f, n, gram);
        for (; f + 2 <= used; f += 2) add_block_rows<Blocks, 2>(p, q, f, n, gram);
        for (; f < used; f++) add_block_rows<Blocks, 1>(p, q, f, n, gram);
    }

    template <int Blocks, int Count>
    void add_block_rows(int p, int q, int64_t f, int n, T* gram) const {
        const int64_t stride = lanes * static_cast<int64_t>(task_.n_panels), place = lanes * (1 + 3 * q);
        const T* scale = weighted_.get() + p * lanes + f;
        Lanes<T> sum[Blocks][Count];
        AHOFM_UNROLL_ALL
        for (int b = 0; b < Blocks; b++) {
            AHOFM_UNROLL_ALL
            for (int k = 0; k < Count; k++) sum[b][k] = load(gram + (b * lanes + f + k) * lanes);
        }
        for (int r = 0; r < n; r++, scale += stride) {
            AHOFM_UNROLL_ALL
            for (int b = 0; b < Blocks; b++) {
                const Lanes<T> g = load(rows_[r] + place + 3 * lanes * b);
                AHOFM_UNROLL_ALL
                for (int k = 0; k < Count; k++) sum[b][k] += scale[k] * g;
            }
        }
        AHOFM_UNROLL_ALL
        for (int b = 0; b < Blocks; b++) {
            AHOFM_UNROLL_ALL
            for (int k = 0; k < Count; k++) store(gram + (b * lanes + f + k) * lanes, sum[b][k]);
        }
    }

    void write(double* gram, double* rhs) const {
        const int64_t width = task_.width;
        const T* bin = bin_.get();
        gram[0] += bin[0];
        rhs[0] += bin[1];
        const T* from = bin + lanes;
        const T* blocks = from + 3 * lanes * static_cast<int64_t>(task_.n_panels);
        for (int p = 0; p < task_.n_panels; p++, from += 3 * lanes) {
            const StatePanel& panel = task_.panels[p];
            for (int64_t f = 0; f < panel.used; f++) {
                const int64_t k = panel.first + f;
                gram[k] += from[f];
                gram[k * width] += from[f];
                rhs[k] += from[lanes + f];
                gram[k * width + k] += from[2 * lanes + f];
            }
            for (int q = 0; q <= p; q++, blocks += lanes * lanes) write_block(panel, task_.panels[q], blocks, gram);
        }
    }

    void write_block(const StatePanel& rows, const StatePanel& columns, const T* block, double* gram) const {
        const int64_t width = task_.width;
        for (int64_t f = 0; f < rows.used; f++)
            for (int64_t h = 0; h < columns.used; h++) {
                const double value = block[f * lanes + h];
                gram[(rows.first + f) * width + columns.first + h] += value;
                if (rows.first != columns.first) gram[(columns.first + h) * width + rows.first + f] += value;
            }
    }

    const BlockTask& task_;
    int64_t slope_numbers_;
    Buffer<T> weighted_, bin_;
    const T* rows_[kTile];
};

// Both steps for a chunk of rows whose codes are not sorted; sums are added to gram and rhs.
template <class T>
BadCode swap_in_chunk(BlockTask task) {
    constexpr int64_t part = 8192;
    const uint32_t codes = task.remove_column.mean == nullptr ? 0 : task.remove_column.size;
    const int64_t most = task.n < part ? task.n : part;
    Buffer<T> in(task.add_column.mean == nullptr ? 0 : MomentTables<T>::numbers(task, task.add_column.size)),
        out(codes == 0 ? 0 : MomentTables<T>::numbers(task, codes)),
        slopes(codes == 0 ? 0 : most * slopes_of_row<T>(task.n_panels));
    Buffer<uint32_t> first(static_cast<int64_t>(codes) + 1), sorted(most);
    if (task.add_column.mean != nullptr) MomentTables<T>::fill(task, task.add_column, task.add_tables = in.get());
    if (codes > 0) MomentTables<T>::fill(task, task.remove_column, task.remove_tables = out.get());
    task.slopes = slopes.get();
    RowMover<T> mover(task);
    CodeSums<T> sums(task);
    for (int64_t begin = 0; begin < task.n; begin += part) {
        const int64_t end = task.n - begin < part ? task.n : begin + part;
        const BadCode bad = mover.run(begin, end, begin);
        if (bad.column >= 0) return bad;
        if (codes == 0) continue;
        sort_by_code(task.remove_column, begin, end, first.get(), sorted.get());
        sums.run({0, codes, 0, static_cast<uint32_t>(end - begin)}, sorted.get(), first.get(), true, task.gram,
                 task.rhs);
    }
    return {};
}

// Mean and variance of each row's linear predictor, from the columns in the state.
template <class T>
void read_state_of(const BlockTask& task, double* mean, double* variance) {
    constexpr int lanes = state_lanes<T>;
    for (int64_t i = 0; i < task.n; i++) {
        const int64_t row = i % kBlock;
        const T* block = static_cast<const T*>(task.state) + (i - row) * task.numbers;
        double m = block[row * kStateHead], v = block[row * kStateHead + 1];
        const T* at = block + kBlock * kStateHead;
        for (int k = 0; k < task.n_panels; k++) {
            const int order = task.panels[k].order;
            const T* record = at + row * state_entries(order) * lanes;
            Lanes<T> variances = load(record + (state_entries(order) - 1) * lanes);
            const Lanes<T> means = load(record + (order == kProduct ? 0 : order - 1) * lanes);
            if (order == kProduct) variances -= means * means;
            m += sum_lanes<T, lanes>(means);
            v += sum_lanes<T, lanes>(variances > T(0) ? variances : broadcast<Lanes<T>>(T(0)));
            at += kBlock * state_entries(order) * lanes;
        }
        mean[i] = m;
        variance[i] = v;
    }
}

}  // namespace
}  // namespace ahofm
