// Prediction at true values, float64.
//
// A batch of rows at a time: every column finds the pieces of its values and adds the main effects; then every panel
// runs through the rows with e_1 .. e_d in registers: Horner's rule for phi, a_t += phi * a_{t-1} (t = d..1). Batches
// are long enough that a panel's table, once in the first cache, is read many times.
//
// Contributions of the columns (Shapley values) take a second round over a row's phi, for e_{d-1} of the other columns:
// at orders 2 and 3 by e_q(others) = e_q - phi * e_{q-1}(others).
#pragma once

#include "panels.h"
#include "vector.h"

namespace ahofm {
namespace {

using CurveShape = Shape<double, kCurveLanes>;
using CurveVector = CurveShape::Vector;

// Cells of a block as the panels read them: row-major.
struct Cells {
    const uint32_t* rows;  // first table row of the cell's piece
    const double* t;
    const int* degrees;  // of each column
    int columns;
};

// Position of x within its period, in [0, 1); the same as `turn` in ahofm/columns/piecewise.py.
inline double turn(double x, double phase, double period) {
    double part = __builtin_fabs(x) < period ? x : __builtin_fmod(x, period);
    part += part < 0.0 ? period : 0.0;
    double fraction = (part - phase) / period;
    fraction += fraction < 0.0 ? 1.0 : 0.0;
    return fraction >= 1.0 ? 0.0 : fraction;
}

// Number of breaks at or below each x; 0 for NaN. Few breaks are all compared; many are searched by bisection,
// without branches, all rows of the block taking the same steps, so that one waits for memory while the others go on.
inline void count_breaks(const double* breaks, int64_t n, const double* x, int64_t* count) {
    constexpr int64_t kFew = 32;
    constexpr int lanes = AHOFM_VECTOR_BYTES / 8, together = 4;  // vectors
    using Integers = typename VectorOf<int64_t, lanes>::type;
    using Doubles = typename VectorOf<double, lanes>::type;
    if (n <= kFew) {
        for (int r = 0; r < kBlock; r += together * lanes) {
            const Doubles* from = reinterpret_cast<const Doubles*>(x + r);
            Integers found[together] = {};
            for (int64_t b = 0; b < n; b++) {
                const Doubles at = broadcast<Doubles>(breaks[b]);
                for (int v = 0; v < together; v++) found[v] -= at <= from[v];  // true is -1
            }
            for (int v = 0; v < together; v++) reinterpret_cast<Integers*>(count + r)[v] = found[v];
        }
        return;
    }
    for (int r = 0; r < kBlock; r++) count[r] = 0;
    int64_t length = n;
    while (length > 1) {
        const int64_t half = length / 2;
        for (int r = 0; r < kBlock; r++) count[r] += breaks[count[r] + half - 1] <= x[r] ? half : 0;
        length -= half;
    }
    for (int r = 0; r < kBlock; r++) count[r] += breaks[count[r]] <= x[r];
}

// One row of functions of one cell.
template <int Degree>
inline void horner(const CurveVector* c, CurveVector t, int degree, CurveVector (&phi)[CurveShape::count]) {
    constexpr int count = CurveShape::count;
    const int top = Degree < 0 ? degree : Degree;
    for (int v = 0; v < count; v++) phi[v] = c[top * count + v];
    for (int m = top - 1; m >= 0; m--)
        for (int v = 0; v < count; v++) phi[v] = phi[v] * t + c[m * count + v];
}

// Degree < 0: each column has its own.
template <int Order, int Degree>
void add_panel(const CurvePanel& panel, const Cells& cells, int64_t n, double* eta) {
    constexpr int count = CurveShape::count;
    const double* table = panel.table;
    CurveVector weights[count];
    __builtin_memcpy(weights, panel.weights, sizeof(weights));
    const uint32_t* rows = cells.rows;
    const double* t = cells.t;
    const int* degrees = cells.degrees;
    const int columns = cells.columns;
    for (int64_t r = 0; r < n; r++, rows += columns, t += columns) {
        CurveVector e[Order + 1][count] = {};
        for (int j = 0; j < columns; j++) {
            CurveVector phi[count];
            horner<Degree>(reinterpret_cast<const CurveVector*>(table + static_cast<int64_t>(rows[j]) * kCurveLanes),
                           broadcast<CurveVector>(t[j]), degrees[j], phi);
            for (int v = 0; v < count; v++) {
                for (int q = Order; q >= 2; q--) e[q][v] += phi[v] * e[q - 1][v];
                e[1][v] += phi[v];
            }
        }
        CurveVector top = weights[0] * e[Order][0];
        for (int v = 1; v < count; v++) top += weights[v] * e[Order][v];
        eta[r] += sum_lanes<double, CurveShape::lanes>(top);
    }
}

// Any order: e_1 .. e_order in memory.
inline void add_panel_general(const CurvePanel& panel, const Cells& cells, int64_t n, double* eta, double* state) {
    constexpr int count = CurveShape::count;
    const double* table = panel.table;
    const int order = panel.order;
    CurveVector weights[count];
    __builtin_memcpy(weights, panel.weights, sizeof(weights));
    const uint32_t* rows = cells.rows;
    const double* t = cells.t;
    CurveVector* e = reinterpret_cast<CurveVector*>(state);
    for (int64_t r = 0; r < n; r++, rows += cells.columns, t += cells.columns) {
        for (int k = 0; k < order * count; k++) e[k] = CurveVector{};
        for (int j = 0; j < cells.columns; j++) {
            CurveVector phi[count];
            horner<-1>(reinterpret_cast<const CurveVector*>(table + static_cast<int64_t>(rows[j]) * kCurveLanes),
                       broadcast<CurveVector>(t[j]), cells.degrees[j], phi);
            for (int v = 0; v < count; v++) {
                for (int q = order - 1; q >= 1; q--) e[q * count + v] += phi[v] * e[(q - 1) * count + v];
                e[v] += phi[v];
            }
        }
        CurveVector top = CurveVector{};
        for (int v = 0; v < count; v++) top += weights[v] * e[(order - 1) * count + v];
        eta[r] += sum_lanes<double, CurveShape::lanes>(top);
    }
}

// Products over all columns.
template <int Degree>
void add_products(const CurvePanel& panel, const Cells& cells, int64_t n, double* eta) {
    constexpr int count = CurveShape::count;
    CurveVector weights[count];
    __builtin_memcpy(weights, panel.weights, sizeof(weights));
    const uint32_t* rows = cells.rows;
    const double* t = cells.t;
    for (int64_t r = 0; r < n; r++, rows += cells.columns, t += cells.columns) {
        CurveVector product[count];
        for (int v = 0; v < count; v++) product[v] = weights[v];
        for (int j = 0; j < cells.columns; j++) {
            CurveVector psi[count];
            horner<Degree>(
                reinterpret_cast<const CurveVector*>(panel.table + static_cast<int64_t>(rows[j]) * kCurveLanes),
                broadcast<CurveVector>(t[j]), cells.degrees[j], psi);
            for (int v = 0; v < count; v++) product[v] *= psi[v];
        }
        CurveVector top = product[0];
        for (int v = 1; v < count; v++) top += product[v];
        eta[r] += sum_lanes<double, CurveShape::lanes>(top);
    }
}

// Shapley values of a product of functions with means m: of column j, delta_j = psi_j - m_j times the integral over t
// from 0 to 1 of the product over the others of (m + t delta). Gauss-Legendre nodes and weights, enough of them to be
// exact; nothing is divided.
template <int Degree>
void contributions_of_products(const CurvePanel& panel, const Cells& cells, int64_t n, CurveVector* phi,
                               CurveVector* after, double* contributions, int64_t stride) {
    constexpr int count = CurveShape::count;
    const int columns = cells.columns, length = columns * count;
    CurveVector weights[count];
    __builtin_memcpy(weights, panel.weights, sizeof(weights));
    const CurveVector* means = reinterpret_cast<const CurveVector*>(panel.means);
    CurveVector* sums = after + length + count;
    const uint32_t* rows = cells.rows;
    const double* t = cells.t;
    for (int64_t r = 0; r < n; r++, rows += columns, t += columns, contributions += stride) {
        for (int j = 0; j < columns; j++) {
            CurveVector psi[count];
            horner<Degree>(
                reinterpret_cast<const CurveVector*>(panel.table + static_cast<int64_t>(rows[j]) * kCurveLanes),
                broadcast<CurveVector>(t[j]), cells.degrees[j], psi);
            for (int v = 0; v < count; v++) {
                phi[j * count + v] = psi[v] - means[j * count + v];
                sums[j * count + v] = CurveVector{};
            }
        }
        for (int q = 0; q < panel.n_nodes; q++) {
            const CurveVector node = broadcast<CurveVector>(panel.nodes[q]);
            CurveVector before[count];
            for (int v = 0; v < count; v++) {
                after[length + v] = broadcast<CurveVector>(1.0);
                before[v] = weights[v] * panel.node_weights[q];
            }
            for (int k = length - 1; k >= 0; k--) after[k] = after[k + count] * (means[k] + node * phi[k]);
            for (int j = 0; j < columns; j++)
                for (int v = 0; v < count; v++) {
                    const int k = j * count + v;
                    sums[k] += before[v] * after[k + count];
                    before[v] *= means[k] + node * phi[k];
                }
        }
        for (int j = 0; j < columns; j++) {
            CurveVector sum = phi[j * count] * sums[j * count];
            for (int v = 1; v < count; v++) sum += phi[j * count + v] * sums[j * count + v];
            contributions[j] += sum_lanes<double, CurveShape::lanes>(sum);
        }
    }
}

// Orders 2 and 3. A column is removed again, which loses digits where it is much larger than the others, the more the
// higher the order.
template <int Order, int Degree>
void contributions_panel(const CurvePanel& panel, const Cells& cells, int64_t n, CurveVector* phi,
                         double* contributions, int64_t stride) {
    constexpr int count = CurveShape::count;
    CurveVector weights[count];
    __builtin_memcpy(weights, panel.weights, sizeof(weights));
    const uint32_t* rows = cells.rows;
    const double* t = cells.t;
    for (int64_t r = 0; r < n; r++, rows += cells.columns, t += cells.columns, contributions += stride) {
        CurveVector e[Order][count] = {};
        for (int j = 0; j < cells.columns; j++) {
            CurveVector value[count];
            horner<Degree>(
                reinterpret_cast<const CurveVector*>(panel.table + static_cast<int64_t>(rows[j]) * kCurveLanes),
                broadcast<CurveVector>(t[j]), cells.degrees[j], value);
            for (int v = 0; v < count; v++) {
                phi[j * count + v] = value[v];
                for (int q = Order - 1; q >= 2; q--) e[q][v] += value[v] * e[q - 1][v];
                e[1][v] += value[v];
            }
        }
        for (int j = 0; j < cells.columns; j++) {
            CurveVector sum = CurveVector{};
            for (int v = 0; v < count; v++) {
                const CurveVector value = phi[j * count + v];
                CurveVector others = e[1][v] - value;
                for (int q = 2; q < Order; q++) others = e[q][v] - value * others;
                sum += weights[v] * value * others;
            }
            contributions[j] += sum_lanes<double, CurveShape::lanes>(sum);
        }
    }
}

// Any order, from both sides: e_q(others) is a sum of products of e of the columns before and after; nothing is
// subtracted.
inline void contributions_panel_general(const CurvePanel& panel, const Cells& cells, int64_t n, CurveVector* phi,
                                        CurveVector* after, double* contributions, int64_t stride) {
    constexpr int count = CurveShape::count;
    const int order = panel.order, columns = cells.columns, length = order * count;  // e_0 .. e_{order-1}
    CurveVector weights[count];
    __builtin_memcpy(weights, panel.weights, sizeof(weights));
    const uint32_t* rows = cells.rows;
    const double* t = cells.t;
    CurveVector* before = after + static_cast<int64_t>(columns + 1) * length;
    const auto add_column = [&](CurveVector* e, const CurveVector* value) {
        for (int q = order - 1; q >= 1; q--)
            for (int v = 0; v < count; v++) e[q * count + v] += value[v] * e[(q - 1) * count + v];
    };
    const auto clear = [&](CurveVector* e) {
        for (int k = 0; k < length; k++) e[k] = k < count ? broadcast<CurveVector>(1.0) : CurveVector{};
    };
    for (int64_t r = 0; r < n; r++, rows += columns, t += columns, contributions += stride) {
        clear(after + static_cast<int64_t>(columns) * length);
        for (int j = columns - 1; j >= 0; j--) {
            CurveVector value[count];
            horner<-1>(reinterpret_cast<const CurveVector*>(panel.table + static_cast<int64_t>(rows[j]) * kCurveLanes),
                       broadcast<CurveVector>(t[j]), cells.degrees[j], value);
            for (int v = 0; v < count; v++) phi[j * count + v] = value[v];
            for (int k = 0; k < length; k++) after[j * length + k] = after[(j + 1) * length + k];
            add_column(after + j * length, value);
        }
        clear(before);
        for (int j = 0; j < columns; j++) {
            const CurveVector* rest = after + (j + 1) * length;
            CurveVector sum = CurveVector{};
            for (int v = 0; v < count; v++) {
                CurveVector others = CurveVector{};
                for (int q = 0; q < order; q++) others += before[q * count + v] * rest[(order - 1 - q) * count + v];
                sum += weights[v] * phi[j * count + v] * others;
            }
            contributions[j] += sum_lanes<double, CurveShape::lanes>(sum);
            add_column(before, phi + j * count);
        }
    }
}

class CurvePass {
  public:
    explicit CurvePass(const CurveTask& task)
        : task_(task), blocks_(blocks_of_a_batch(task.n_columns)), rows_(blocks_ * kBlock * task.n_columns),
          t_(blocks_ * kBlock * task.n_columns), degrees_(task.n_columns), eta_(blocks_ * kBlock * task.n_eta),
          state_(state_size(task)),
          phi_(task.contributions != nullptr ? static_cast<int64_t>(task.n_columns) * kCurveLanes : 0) {
        degree_ = task.places[0].degree;
        for (int j = 0; j < task.n_columns; j++) {
            degrees_[j] = task.places[j].degree;
            if (degrees_[j] != degree_) degree_ = -1;
        }
    }

    BadCode run() {
        BadCode bad;
        const int64_t batch = blocks_ * kBlock;
        for (int64_t row = 0; row < task_.n; row += batch) {
            const int64_t n = task_.n - row < batch ? task_.n - row : batch;
            for (int k = 0; k < task_.n_eta; k++)
                for (int64_t r = 0; r < batch; r++) eta_[k * batch + r] = task_.intercepts[k];
            for (int64_t first = 0; first < n; first += kBlock)
                for (int j = 0; j < task_.n_columns; j++) {
                    bad = place_column(j, row, first, static_cast<int>(n - first < kBlock ? n - first : kBlock));
                    if (bad.column >= 0) return bad;
                }
            const Cells cells{rows_.get(), t_.get(), degrees_.get(), task_.n_columns};
            for (int q = 0; q < task_.n_panels; q++) {
                const CurvePanel& panel = task_.panels[q];
                if (task_.contributions != nullptr) contribute(panel, cells, n, row);
                else add(panel, cells, n, eta_.get() + panel.predictor * batch);
            }
            for (int64_t r = 0; task_.eta != nullptr && r < n; r++)
                for (int k = 0; k < task_.n_eta; k++) task_.eta[(row + r) * task_.n_eta + k] = eta_[k * batch + r];
        }
        return bad;
    }

  private:
    static int64_t blocks_of_a_batch(int columns) {
        // Cells of a batch stay in the second-level cache; 1024 rows were fastest (32: 1.3 times slower).
        constexpr int64_t kCellBytes = int64_t(1) << 18, kMost = 32;
        const int64_t fit = kCellBytes / (static_cast<int64_t>(sizeof(uint32_t) + sizeof(double)) * kBlock * columns);
        return fit < 1 ? 1 : fit > kMost ? kMost : fit;
    }

    static int64_t state_size(const CurveTask& task) {
        int order = 2;  // as much as contributions of products need
        for (int q = 0; q < task.n_panels; q++)
            if (task.panels[q].order != kProduct) order = task.panels[q].order > order ? task.panels[q].order : order;
        const int64_t copies = task.contributions != nullptr ? task.n_columns + 2 : 1;
        return copies * order * kCurveLanes;
    }

    // Table row and t of each cell of a column in one block of the batch, and its main effects.
    BadCode place_column(int j, int64_t batch_row, int64_t first, int n) {
        const Place& place = task_.places[j];
        const int64_t row = batch_row + first;
        uint32_t at[kBlock];
        double t[kBlock] = {};
        if (place.numbers != nullptr) {
            place_numbers(place, row, n, at, t);
        } else {
            const BadCode bad = place.width == 1   ? place_codes<uint8_t>(place, j, row, n, at)
                                : place.width == 2 ? place_codes<uint16_t>(place, j, row, n, at)
                                                   : place_codes<uint32_t>(place, j, row, n, at);
            if (bad.column >= 0) return bad;
        }
        const int64_t columns = task_.n_columns;
        uint32_t* rows_out = rows_.get() + first * columns + j;
        double* t_out = t_.get() + first * columns + j;
        for (int r = 0; r < kBlock; r++) {
            rows_out[r * columns] = at[r];
            t_out[r * columns] = t[r];
        }
        for (int k = 0; k < task_.n_eta; k++) {
            const double* main = task_.mains[k] + place.degree;
            double value[kBlock];
            for (int r = 0; r < kBlock; r++) value[r] = main[at[r]];
            for (int m = 1; m <= place.degree; m++)
                for (int r = 0; r < kBlock; r++) value[r] = value[r] * t[r] + (main - m)[at[r]];
            double* eta = eta_.get() + k * blocks_ * kBlock + first;
            for (int r = 0; r < kBlock; r++) eta[r] += value[r];
            for (int r = 0; task_.contributions != nullptr && r < n; r++)
                task_.contributions[((row + r) * task_.n_eta + k) * columns + j] = value[r];
        }
        return {};
    }

    static void place_numbers(const Place& place, int64_t row, int n, uint32_t* at, double* t) {
        double x[kBlock] = {};  // rows after the last are zeros, which are valid for every table
        int64_t piece[kBlock];
        for (int r = 0; r < n; r++)  // at any address
            __builtin_memcpy(&x[r],
                             reinterpret_cast<const char*>(place.numbers) +
                                 (row + r) * place.stride * static_cast<int64_t>(sizeof(double)),
                             sizeof(double));
        if (place.period > 0.0)
            for (int r = 0; r < n; r++) x[r] = x[r] == x[r] ? turn(x[r], place.phase, place.period) : x[r];
        count_breaks(place.breaks, place.n_breaks, x, piece);
        const uint32_t length = static_cast<uint32_t>(place.degree) + 1;
        for (int r = 0; r < kBlock; r++) {
            const bool present = x[r] == x[r];
            const double value = x[r] * place.scales[piece[r]] - place.shifts[piece[r]];
            t[r] = present ? value : 0.0;
            at[r] = place.start + length * static_cast<uint32_t>(present ? piece[r] : place.n_breaks + 1);
        }
    }

    template <class Code>
    static BadCode place_codes(const Place& place, int j, int64_t row, int n, uint32_t* at) {
        const Code* codes = static_cast<const Code*>(place.codes) + row;
        for (int r = 0; r < n; r++) {
            if (codes[r] >= place.size) return {j, row + r, static_cast<uint32_t>(codes[r])};
            at[r] = place.start + codes[r];
        }
        for (int r = n; r < kBlock; r++) at[r] = place.start;
        return {};
    }

    void add(const CurvePanel& panel, const Cells& cells, int64_t n, double* eta) {
        switch (degree_) {
            case 1: return add_of_degree<1>(panel, cells, n, eta);
            case 3: return add_of_degree<3>(panel, cells, n, eta);
            default: return add_of_degree<-1>(panel, cells, n, eta);
        }
    }

    template <int Degree>
    void add_of_degree(const CurvePanel& panel, const Cells& cells, int64_t n, double* eta) {
        switch (panel.order) {
            case 2: return add_panel<2, Degree>(panel, cells, n, eta);
            case 3: return add_panel<3, Degree>(panel, cells, n, eta);
            case 4: return add_panel<4, Degree>(panel, cells, n, eta);
            case 5: return add_panel<5, Degree>(panel, cells, n, eta);
            case kProduct: return add_products<Degree>(panel, cells, n, eta);
            default: return add_panel_general(panel, cells, n, eta, state_.get());
        }
    }

    void contribute(const CurvePanel& panel, const Cells& cells, int64_t n, int64_t row) {
        switch (degree_) {
            case 1: return share_of_degree<1>(panel, cells, n, row);
            case 3: return share_of_degree<3>(panel, cells, n, row);
            default: return share_of_degree<-1>(panel, cells, n, row);
        }
    }

    template <int Degree>
    void share_of_degree(const CurvePanel& panel, const Cells& cells, int64_t n, int64_t row) {
        const int64_t columns = task_.n_columns, stride = columns * task_.n_eta;
        double* contributions = task_.contributions + row * stride + panel.predictor * columns;
        CurveVector* phi = reinterpret_cast<CurveVector*>(phi_.get());
        switch (panel.order) {
            case kProduct:
                return contributions_of_products<Degree>(
                    panel, cells, n, phi, reinterpret_cast<CurveVector*>(state_.get()), contributions, stride);
            case 2: return contributions_panel<2, Degree>(panel, cells, n, phi, contributions, stride);
            case 3: return contributions_panel<3, Degree>(panel, cells, n, phi, contributions, stride);
            default:
                return contributions_panel_general(panel, cells, n, phi, reinterpret_cast<CurveVector*>(state_.get()),
                                                   contributions, stride);
        }
    }

    const CurveTask& task_;
    const int64_t blocks_;  // of a batch
    Buffer<uint32_t> rows_;
    Buffer<double> t_;
    Buffer<int> degrees_;
    Buffer<double> eta_;  // (linear predictors, rows of a batch)
    Buffer<double> state_;
    Buffer<double> phi_;  // of one row in one panel
    int degree_;          // of all columns; -1: they differ
};

}  // namespace
}  // namespace ahofm
