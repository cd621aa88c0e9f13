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
// which loses no digits; absolute means are at least kLeastFactor, too small to change predictions.
#pragma once

#include "codes.h"
#include "panels.h"

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

// Derivative of eta by a factor of the removed column, in one row: mean, variance, covariance with the rest of eta.
template <class T>
struct SlopeMoments {
    Lanes<T> g, variance, c;
};

template <class T>
struct PanelStep {
    T* state;  // of the block's first row, at this panel
    int n;
    const T* in;   // (codes, 2, lanes): means and variances; nullptr: no column is added
    const T* out;  // nullptr: no column is removed
    const uint32_t* in_rows;
    const uint32_t* out_rows;
    SlopeMoments<T>* slopes;  // (rows, panels), here at this panel
    int n_panels;
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
            SlopeMoments<T>& slope = step.slopes[static_cast<int64_t>(r) * step.n_panels];
            slope.g = moments.mean(Order - 1);
            slope.variance = variance > T(0) ? variance : broadcast<Lanes<T>>(T(0));  // rounding
            slope.c = moments.covariance(Order, Order - 1);
            step.fitted[r] += moments.mean(Order);
        }
        moments.write(record);
    }
}

constexpr double kLeastFactor = 1e-6;  // of a product's functions, whose root mean square is 1

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
            SlopeMoments<T>& slope = step.slopes[static_cast<int64_t>(r) * step.n_panels];
            slope.g = mean;
            slope.variance = variance > T(0) ? variance : broadcast<Lanes<T>>(T(0));
            slope.c = broadcast<Lanes<T>>(T(0));
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

// Means and variances of a column in the precision of the rows, in panels of lanes padded with zeros.
template <class T>
class MomentTables {
  public:
    static constexpr int lanes = state_lanes<T>;

    MomentTables(const BlockTask& task, const ColumnMoments& column)
        : size_(column.mean == nullptr ? 0 : column.size), main_(size_ * 2),
          tables_(size_ * 2 * lanes * task.n_panels) {
        for (int64_t c = 0; c < size_; c++) {
            const double *mean = column.mean + c * task.width, *variance = column.variance + c * task.width;
            main_[2 * c] = static_cast<T>(mean[0]);
            main_[2 * c + 1] = static_cast<T>(variance[0]);
            for (int k = 0; k < task.n_panels; k++) {
                const StatePanel& panel = task.panels[k];
                T* to = tables_.get() + (k * size_ + c) * 2 * lanes;
                const bool product = panel.order == kProduct;
                for (int f = 0; f < lanes; f++) {
                    to[f] = f < panel.used ? static_cast<T>(mean[panel.first + f]) : T(product);
                    to[lanes + f] = f < panel.used ? static_cast<T>(variance[panel.first + f]) : T(0);
                    if (product && __builtin_fabs(to[f]) < kLeastFactor)
                        to[f] = static_cast<T>(__builtin_copysign(kLeastFactor, to[f]));
                }
            }
        }
    }

    const T* main(uint32_t code) const { return main_.get() + 2 * static_cast<int64_t>(code); }
    const T* panel(int k) const { return size_ == 0 ? nullptr : tables_.get() + k * size_ * 2 * lanes; }
    bool empty() const { return size_ == 0; }

  private:
    int64_t size_;
    Buffer<T> main_, tables_;
};

template <class T>
class BlockPass {
  public:
    static constexpr int lanes = state_lanes<T>;

    explicit BlockPass(const BlockTask& task)
        : task_(task), in_(task, task.add_column), out_(task, task.remove_column), state_(static_cast<T*>(task.state)),
          slopes_(static_cast<int64_t>(kBlock) * task.n_panels), bin_size_(size_of_bin(task)),
          bins_(out_.empty() ? 0 : bin_size_ * task.remove_column.size) {
        clear_bins();
    }

    BadCode run() {
        const int64_t between = flush_every(8 * static_cast<int64_t>(task_.remove_column.size));
        int64_t since_flush = 0;
        for (int64_t row = 0; row < task_.n; row += kBlock) {
            const int n = static_cast<int>(task_.n - row < kBlock ? task_.n - row : kBlock);
            BadCode bad = in_.empty() ? BadCode{} : read_codes(task_.add_column, row, n, in_rows_);
            if (bad.column < 0 && !out_.empty()) bad = read_codes(task_.remove_column, row, n, out_rows_);
            if (bad.column >= 0) return bad;
            step(row, n);
            if (out_.empty()) continue;
            for (int r = 0; r < n; r++) add_row(state_ + row * task_.numbers + r * kStateHead, r);
            if ((since_flush += n) >= between) {
                flush();
                since_flush = 0;
            }
        }
        if (!out_.empty()) flush();
        return {};
    }

  private:
    // Sums of weight and of the weighted residual; of w g, of the right-hand side, of w variance; of w g g' in blocks
    // of panels on and below the diagonal.
    static int64_t size_of_bin(const BlockTask& task) {
        return lanes * (1 + 3 * static_cast<int64_t>(task.n_panels)) + gram_size(task.n_panels);
    }

    static int64_t gram_size(int64_t panels) { return lanes * lanes * panels * (panels + 1) / 2; }

    static BadCode read_codes(const ColumnMoments& column, int64_t row, int n, uint32_t* out) {
        const Column codes{column.codes, column.code_width, 0, column.size};
        const bool inside = with_codes(codes, row, [&](const auto* from) { return widen<0>(from, codes, n, out); });
        if (inside) return {};
        int r = 0;
        while (out[r] < column.size) r++;
        return {column.column, row + r, out[r]};
    }

    void step(int64_t row, int n) {
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
            panel_step_of<T>(order)(
                {at, n, in_.panel(k), out_.panel(k), in_rows_, out_rows_, slopes_.get() + k, task_.n_panels, fitted_});
            at += kBlock * state_entries(order) * lanes;
        }
    }

    void add_row(const T* head, int r) {
        const T weight = head[2], residual = head[3] - weight * (head[0] + sum_lanes<T, lanes>(fitted_[r]));
        const SlopeMoments<T>* slopes = slopes_.get() + static_cast<int64_t>(r) * task_.n_panels;
        T* bin = bins_.get() + out_rows_[r] * bin_size_;
        bin[0] += weight;
        bin[1] += residual;
        T* to = bin + lanes;
        T* gram = to + 3 * lanes * static_cast<int64_t>(task_.n_panels);
        for (int p = 0; p < task_.n_panels; p++, to += 3 * lanes) {
            const SlopeMoments<T>& slope = slopes[p];
            const Lanes<T> weighted = weight * slope.g;
            store(to, load(to) + weighted);
            store(to + lanes, load(to + lanes) + slope.g * residual - weight * slope.c);
            store(to + 2 * lanes, load(to + 2 * lanes) + weight * slope.variance);
            for (int q = 0; q <= p; q++, gram += lanes * lanes) {
                if (task_.panels[p].used == lanes) add_products<lanes>(weighted, slopes[q].g, lanes, gram);
                else add_products<0>(weighted, slopes[q].g, task_.panels[p].used, gram);
            }
        }
    }

    // Rows of a block of the gram. Used is their number where it is known: the loop is then unrolled.
    template <int Used>
    static void add_products(Lanes<T> weighted, Lanes<T> g, int64_t used, T* gram) {
        T scale[lanes];
        store(scale, weighted);
        const int64_t count = Used > 0 ? Used : used;
        AHOFM_UNROLL_ALL
        for (int64_t f = 0; f < count; f++) store(gram + f * lanes, load(gram + f * lanes) + scale[f] * g);
    }

    void flush() {
        const int64_t width = task_.width;
        for (int64_t c = 0; c < task_.remove_column.size; c++) {
            const T* bin = bins_.get() + c * bin_size_;
            double *gram = task_.gram + c * width * width, *rhs = task_.rhs + c * width;
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
                for (int q = 0; q <= p; q++, blocks += lanes * lanes) add_block(panel, task_.panels[q], blocks, gram);
            }
        }
        clear_bins();
    }

    void add_block(const StatePanel& rows, const StatePanel& columns, const T* block, double* gram) const {
        const int64_t width = task_.width;
        for (int64_t f = 0; f < rows.used; f++)
            for (int64_t h = 0; h < columns.used; h++) {
                const double value = block[f * lanes + h];
                gram[(rows.first + f) * width + columns.first + h] += value;
                if (rows.first != columns.first) gram[(columns.first + h) * width + rows.first + f] += value;
            }
    }

    void clear_bins() {
        if (!out_.empty())
            std::memset(bins_.get(), 0, static_cast<size_t>(bin_size_ * task_.remove_column.size) * sizeof(T));
    }

    const BlockTask& task_;
    MomentTables<T> in_, out_;
    T* state_;
    Buffer<SlopeMoments<T>> slopes_;
    int64_t bin_size_;
    Buffer<T> bins_;
    uint32_t in_rows_[kBlock], out_rows_[kBlock];
    Lanes<T> fitted_[kBlock];
};

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
            const T* own = at + row * state_entries(order) * lanes;
            Lanes<T> variances = load(own + (state_entries(order) - 1) * lanes);
            const Lanes<T> means = load(own + (order == kProduct ? 0 : order - 1) * lanes);
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
