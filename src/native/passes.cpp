// The passes over one chunk, compiled once per instruction set (CMake sets AHOFM_PASSES to the name).
//
// A row looks its codes up in tables and runs a_t += phi_j * a_{t-1} (t = d..1) over the columns:
// a_d is the elementary symmetric polynomial e_d. The gradient for column j needs e_{d-1} of the
// *other* columns. phi_j is the same for all rows of a code, which gives two ways to remove it:
//   order 2    moment form: add g * e_1 into the bin of the code, subtract phi * sum(g) once at the end;
//   order > 2  removal per row: u = e_{d-1} - phi (e_{d-2} - phi (...)). One read-modify-write of a bin
//              per cell whatever the order, where moments need d - 1 and prefixes need d - 1 stores
//              (measured in one run, rank 16, Mrows/s at orders 2 / 3 / 4 with 256-bit vectors:
//              moments 22.5 / 17.6 / 12.7, removal 19.8 / 17.5 / 17.9, prefixes 14.8 / 8.3 / 8.0).
// Both subtract phi_j again and lose digits where one column dwarfs the others. A panel in which that would cost more than
// 1e-5 goes the careful way, as do orders above 5: e_{d-1} from what comes before and what comes after j, nothing subtracted.
// Factors of one order are cut into panels of 8 or 16 lanes, padded with zeros.
// Rows are float (or double on request); bins are emptied into float64 sums every few thousand rows.

#include <cstring>
#include <new>

#include "losses.h"
#include "passes.h"
#include "vector.h"

namespace ahofm {
namespace {

template <class T>
class Buffer {  // cache-line aligned, so that a 16-float row never straddles two lines
  public:
    explicit Buffer(int64_t size)
        : data_(static_cast<T*>(::operator new(static_cast<size_t>(size > 0 ? size : 1) * sizeof(T), alignment))) {}
    ~Buffer() { ::operator delete(data_, alignment); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* get() const { return data_; }
    T& operator[](int64_t i) const { return data_[i]; }

  private:
    static constexpr std::align_val_t alignment{64};
    T* data_;
};

template <class T>
struct Panel {
    int order;
    int lanes;
    int predictor;
    int64_t first;  // first factor of the group in this panel
    int64_t used;   // lanes that are factors, not padding
    Factors* group;
    T* table;  // (codes, lanes)
    T* bins;   // (codes, lanes)
    T* state;  // (kBlock, up to order, lanes): what forward keeps of each row for backward
    bool careful;
};

constexpr int panel_lanes(int64_t left) { return left > 8 ? 16 : 8; }

int count_panels(const Predictor& predictor) {
    int count = 0;
    for (int k = 0; k < predictor.n_factors; k++)
        for (int64_t first = 0; first < predictor.factors[k].rank; first += panel_lanes(predictor.factors[k].rank - first)) count++;
    return count;
}

int64_t padded_rank(const Predictor& predictor) {
    int64_t lanes = 0;
    for (int k = 0; k < predictor.n_factors; k++)
        for (int64_t first = 0, step; first < predictor.factors[k].rank; first += step)
            lanes += step = panel_lanes(predictor.factors[k].rank - first);
    return lanes;
}

int highest_order(const Predictor& predictor) {
    int order = 1;
    for (int k = 0; k < predictor.n_factors; k++)
        if (predictor.factors[k].order > order) order = predictor.factors[k].order;
    return order;
}

// Cuts a predictor's factors into panels whose tables, bins and states lie one after another in the given storage.
template <class T>
int cut_panels(Predictor& predictor, int index, int64_t n_codes, Panel<T>* panels, T* tables, T* bins, T* states) {
    int count = 0;
    for (int k = 0; k < predictor.n_factors; k++) {
        Factors& group = predictor.factors[k];
        for (int64_t first = 0; first < group.rank;) {
            const int lanes = panel_lanes(group.rank - first);
            const int64_t used = group.rank - first < lanes ? group.rank - first : lanes;
            panels[count++] = {group.order, lanes, index, first, used, &group, tables, bins, states, false};
            for (int64_t c = 0; c < n_codes; c++)
                for (int f = 0; f < lanes; f++)
                    tables[c * lanes + f] = f < used ? static_cast<T>(group.table[c * group.rank + first + f]) : T(0);
            tables += n_codes * lanes;
            if (bins != nullptr) bins += n_codes * lanes;
            states += static_cast<int64_t>(kBlock) * group.order * lanes;
            first += lanes;
        }
    }
    return count;
}

// Calls visit(codes + row) with the codes' own type.
template <class Visit>
auto with_codes(const Column& column, int64_t row, Visit visit) {
    if (column.width == 1) return visit(static_cast<const uint8_t*>(column.codes) + row);
    if (column.width == 2) return visit(static_cast<const uint16_t*>(column.codes) + row);
    return visit(static_cast<const uint32_t*>(column.codes) + row);
}

// Table rows of one column's cells, `stride` apart; false when a code is outside its table.
bool unpack_column(const Column& column, int64_t row, int rows, int stride, uint32_t* offsets) {
    return with_codes(column, row, [=](const auto* codes) {
        bool inside = true;
        for (int r = 0; r < rows; r++) {
            inside &= static_cast<uint32_t>(codes[r]) < column.size;
            offsets[static_cast<int64_t>(r) * stride] = column.start + static_cast<uint32_t>(codes[r]);
        }
        return inside;
    });
}

// eta += the column's main effect. Columns outside, rows inside: the additions of different rows are independent.
void add_main(const Column& column, int64_t row, int rows, const double* main, double* eta) {
    with_codes(column, row, [=](const auto* codes) {
        const double* own = main + column.start;
        for (int r = 0; r < rows; r++) eta[r] += own[codes[r]];
        return 0;
    });
}

BadCode find_bad_code(const Rows& rows, int column, int64_t row, const uint32_t* offsets, int stride) {
    const Column& c = rows.columns[column];
    int r = 0;
    while (offsets[static_cast<int64_t>(r) * stride] - c.start < c.size) r++;
    return {column, row + r, offsets[static_cast<int64_t>(r) * stride] - c.start};
}

// Table rows of the block's cells, row-major, for all columns but `skip`.
BadCode unpack_block(const Rows& rows, int64_t row, int n, int skip, uint32_t* offsets) {
    const int stride = rows.n_columns - (skip >= 0);
    for (int j = 0, at = 0; j < rows.n_columns; j++) {
        if (j == skip) continue;
        if (!unpack_column(rows.columns[j], row, n, stride, offsets + at)) return find_bad_code(rows, j, row, offsets + at, stride);
        at++;
    }
    return {};
}

// e_1 .. e_Order of one row, kept in registers.
template <class T, int Lanes, int Order>
inline void symmetric_polynomials(const T* table, const uint32_t* offsets, int columns,
                                  typename Shape<T, Lanes>::Vector (&e)[Order + 1][Shape<T, Lanes>::count]) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    for (int t = 1; t <= Order; t++)
        for (int v = 0; v < S::count; v++) e[t][v] = Vector{};
    AHOFM_UNROLL
    for (int j = 0; j < columns; j++) {
        const Vector* phi = reinterpret_cast<const Vector*>(table + static_cast<int64_t>(offsets[j]) * Lanes);
        for (int v = 0; v < S::count; v++) {
            for (int t = Order; t >= 2; t--) e[t][v] += phi[v] * e[t - 1][v];
            e[1][v] += phi[v];
        }
    }
}

// eta += e_Order of all columns, summed over factors; e_1 .. e_{Order-1} are kept for backward.
template <class T, int Lanes, int Order>
void forward(const Panel<T>& panel, const uint32_t* offsets, int columns, int rows, double* eta) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const T* table = panel.table;
    Vector* state = reinterpret_cast<Vector*>(panel.state);
    for (int r = 0; r < rows; r++, offsets += columns) {
        Vector e[Order + 1][S::count];
        symmetric_polynomials<T, Lanes, Order>(table, offsets, columns, e);
        Vector top = e[Order][0];
        for (int v = 1; v < S::count; v++) top += e[Order][v];
        eta[r] += sum_lanes<T, S::lanes>(top);
        for (int t = 1; t < Order; t++)
            for (int v = 0; v < S::count; v++) *state++ = e[t][v];
    }
}

template <class T, int Lanes, int Order>
void backward(const Panel<T>& panel, const uint32_t* offsets, int columns, int rows, const double* g) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    // Vectors may alias anything: without copies the pointers would be read again after every store.
    const T* table = panel.table;
    T* bins = panel.bins;
    const Vector* state = reinterpret_cast<const Vector*>(panel.state);
    for (int r = 0; r < rows; r++, offsets += columns) {
        const Vector weight = broadcast<Vector>(static_cast<T>(g[r]));
        Vector ge[Order][S::count];
        for (int t = 1; t < Order; t++)
            for (int v = 0; v < S::count; v++) ge[t][v] = weight * *state++;
        AHOFM_UNROLL
        for (int j = 0; j < columns; j++) {
            const int64_t at = static_cast<int64_t>(offsets[j]) * Lanes;
            Vector* bin = reinterpret_cast<Vector*>(bins + at);
            if constexpr (Order == 2) {
                for (int v = 0; v < S::count; v++) bin[v] += ge[1][v];
            } else {
                const Vector* phi = reinterpret_cast<const Vector*>(table + at);
                for (int v = 0; v < S::count; v++) {
                    Vector gu = weight;
                    for (int t = 1; t < Order; t++) gu = ge[t][v] - phi[v] * gu;
                    bin[v] += gu;
                }
            }
        }
    }
}

// e_Order of the given columns, per factor: (rows, Lanes) into the panel's state.
template <class T, int Lanes, int Order>
void top_polynomial(const Panel<T>& panel, const uint32_t* offsets, int columns, int rows) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const T* table = panel.table;
    Vector* state = reinterpret_cast<Vector*>(panel.state);
    for (int r = 0; r < rows; r++, offsets += columns) {
        Vector e[Order + 1][S::count];
        symmetric_polynomials<T, Lanes, Order>(table, offsets, columns, e);
        for (int v = 0; v < S::count; v++) *state++ = e[Order][v];
    }
}

// Any order: the same recursions with the order as a run-time number and e in memory.
template <class T, int Lanes>
void symmetric_polynomials_general(const T* table, const uint32_t* offsets, int columns, int order, T* memory) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    Vector* e = reinterpret_cast<Vector*>(memory);  // e_t starts at vector (t - 1) * count
    for (int k = 0; k < order * S::count; k++) e[k] = Vector{};
    for (int j = 0; j < columns; j++) {
        const Vector* phi = reinterpret_cast<const Vector*>(table + static_cast<int64_t>(offsets[j]) * Lanes);
        for (int v = 0; v < S::count; v++) {
            const int highest = j + 1 < order ? j + 1 : order;  // of j + 1 columns, higher ones are zero
            for (int t = highest - 1; t >= 1; t--) e[t * S::count + v] += phi[v] * e[(t - 1) * S::count + v];
            e[v] += phi[v];
        }
    }
}

template <class T, int Lanes>
void forward_general(const Panel<T>& panel, const uint32_t* offsets, int columns, int rows, double* eta) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    for (int r = 0; r < rows; r++, offsets += columns) {
        T* e = panel.state + static_cast<int64_t>(r) * panel.order * Lanes;
        symmetric_polynomials_general<T, Lanes>(panel.table, offsets, columns, panel.order, e);
        Vector top = Vector{};
        for (int v = 0; v < S::count; v++) top += reinterpret_cast<const Vector*>(e)[(panel.order - 1) * S::count + v];
        eta[r] += sum_lanes<T, S::lanes>(top);
    }
}

// e_{order-1} of the columns before and after j: u_j = sum_s before_s * after_{order-1-s}.
template <class T, int Lanes>
void backward_careful(const Panel<T>& panel, const uint32_t* offsets, int columns, int rows, const double* g) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const T* table = panel.table;
    T* bins = panel.bins;
    const int order = panel.order;
    Buffer<T> memory(static_cast<int64_t>(columns + 1) * order * Lanes);
    Vector* after = reinterpret_cast<Vector*>(memory.get());  // (order, count), then `before` of each column
    for (int r = 0; r < rows; r++, offsets += columns) {
        const Vector weight = broadcast<Vector>(static_cast<T>(g[r]));
        for (int v = 0; v < S::count; v++) {
            Vector* before = after + order * S::count;
            for (int t = 0; t < order; t++) before[t * S::count + v] = broadcast<Vector>(T(t == 0));
            for (int j = 0; j + 1 < columns; j++, before += order * S::count) {
                const Vector phi = reinterpret_cast<const Vector*>(table + static_cast<int64_t>(offsets[j]) * Lanes)[v];
                Vector* next = before + order * S::count;
                next[v] = before[v];
                for (int t = 1; t < order; t++) next[t * S::count + v] = before[t * S::count + v] + phi * before[(t - 1) * S::count + v];
            }
            for (int t = 0; t < order; t++) after[t * S::count + v] = broadcast<Vector>(T(t == 0));
            for (int j = columns - 1; j >= 0; j--, before -= order * S::count) {
                const int64_t at = static_cast<int64_t>(offsets[j]) * Lanes;
                const Vector phi = reinterpret_cast<const Vector*>(table + at)[v];
                Vector u = Vector{};
                for (int t = 0; t < order; t++) u += before[t * S::count + v] * after[(order - 1 - t) * S::count + v];
                reinterpret_cast<Vector*>(bins + at)[v] += weight * u;
                for (int t = order - 1; t >= 1; t--) after[t * S::count + v] += phi * after[(t - 1) * S::count + v];
            }
        }
    }
}

template <class T, int Lanes>
void top_polynomial_general(const Panel<T>& panel, const uint32_t* offsets, int columns, int rows) {
    Buffer<T> e(panel.order * Lanes);
    for (int r = 0; r < rows; r++, offsets += columns) {
        symmetric_polynomials_general<T, Lanes>(panel.table, offsets, columns, panel.order, e.get());
        for (int f = 0; f < Lanes; f++) panel.state[r * Lanes + f] = e[(panel.order - 1) * Lanes + f];
    }
}

// Whether one column is so much larger than the others together that removing it again would cost digits: the error of
// e_{d-1} is about eps * (size of the column / size of the others)^(d-1), sizes as root mean squares over codes.
template <class T>
bool needs_care(const Panel<T>& panel, const Rows& rows) {
    if (panel.order > 5) return true;
    const double limit = 1e-5 / (sizeof(T) == 4 ? 6e-8 : 1.1e-16);
    Buffer<double> squares(rows.n_columns);
    for (int64_t f = 0; f < panel.used; f++) {
        for (int j = 0; j < rows.n_columns; j++) {
            const Column& column = rows.columns[j];
            double sum = 0.0;
            for (int64_t c = column.start; c < static_cast<int64_t>(column.start) + column.size; c++)
                sum += static_cast<double>(panel.table[c * panel.lanes + f]) * panel.table[c * panel.lanes + f];
            squares[j] = sum / column.size;
        }
        for (int j = 0; j < rows.n_columns; j++) {
            double others = 0.0;
            for (int i = 0; i < rows.n_columns; i++) others += i == j ? 0.0 : squares[i];
            if (others <= 0.0) continue;  // nothing but this column: no interaction, whatever the digits
            double loss_of_digits = 1.0;
            for (int t = 1; t < panel.order; t++) loss_of_digits *= squares[j] / others;
            if (loss_of_digits > limit * limit) return true;
        }
    }
    return false;
}

// The steps above for one order and width.
template <class T>
struct Steps {
    void (*forward)(const Panel<T>&, const uint32_t*, int, int, double*);
    void (*backward)(const Panel<T>&, const uint32_t*, int, int, const double*);
};

template <class T, int Lanes>
Steps<T> steps_of_width(const Panel<T>& panel) {
    if (panel.careful) return {forward_general<T, Lanes>, backward_careful<T, Lanes>};
    switch (panel.order) {
        case 2: return {forward<T, Lanes, 2>, backward<T, Lanes, 2>};
        case 3: return {forward<T, Lanes, 3>, backward<T, Lanes, 3>};
        case 4: return {forward<T, Lanes, 4>, backward<T, Lanes, 4>};
        default: return {forward<T, Lanes, 5>, backward<T, Lanes, 5>};
    }
}

template <class T>
Steps<T> steps_of(const Panel<T>& panel) {
    return panel.lanes == 8 ? steps_of_width<T, 8>(panel) : steps_of_width<T, 16>(panel);
}

template <class T>
using TopPolynomial = void (*)(const Panel<T>&, const uint32_t*, int, int);

template <class T, int Lanes>
TopPolynomial<T> top_polynomial_of_width(int order) {
    switch (order) {
        case 1: return top_polynomial<T, Lanes, 1>;
        case 2: return top_polynomial<T, Lanes, 2>;
        case 3: return top_polynomial<T, Lanes, 3>;
        case 4: return top_polynomial<T, Lanes, 4>;
        default: return top_polynomial_general<T, Lanes>;
    }
}

template <class T>
TopPolynomial<T> top_polynomial_of(const Panel<T>& panel) {
    return panel.lanes == 8 ? top_polynomial_of_width<T, 8>(panel.order) : top_polynomial_of_width<T, 16>(panel.order);
}

template <class T, int Lanes>
void flush_full(const T* bins, int64_t n_codes, int64_t rank, double* sums) {
    for (int64_t c = 0; c < n_codes; c++)
        for (int f = 0; f < Lanes; f++) sums[c * rank + f] += bins[c * Lanes + f];
}

template <class T>
void flush(const Panel<T>& panel, int64_t n_codes) {
    double* sums = panel.group->sums + panel.first;
    const int64_t rank = panel.group->rank;
    if (panel.used == 16) {
        flush_full<T, 16>(panel.bins, n_codes, rank, sums);
    } else if (panel.used == 8) {
        flush_full<T, 8>(panel.bins, n_codes, rank, sums);
    } else {
        for (int64_t c = 0; c < n_codes; c++)
            for (int64_t f = 0; f < panel.used; f++) sums[c * rank + f] += panel.bins[c * panel.lanes + f];
    }
    std::memset(panel.bins, 0, static_cast<size_t>(n_codes * panel.lanes) * sizeof(T));
}

// The moment form's last step, with phi as the rows saw it (rounded to T).
template <class T>
void remove_own_moment(const Panel<T>& panel, int64_t n_codes, const double* g_per_code) {
    double* sums = panel.group->sums + panel.first;
    for (int64_t c = 0; c < n_codes; c++)
        for (int64_t f = 0; f < panel.used; f++)
            sums[c * panel.group->rank + f] -= static_cast<double>(panel.table[c * panel.lanes + f]) * g_per_code[c];
}

void load(const Reals& reals, int64_t row, int rows, int stride, double* out) {
    for (int r = 0; r < rows; r++) out[r] = reals.at((row + r) * stride);
}

// Rows between two emptyings of the bins into float64: few enough that a float32 bin loses nothing that matters, and in
// proportion to the codes, so that emptying stays a small share of the work.
int64_t flush_every(int64_t n_codes) {
    const int64_t rows = 4 * n_codes > 512 ? 4 * n_codes : 512;
    return (rows + kBlock - 1) / kBlock * kBlock;
}

template <class T>
BadCode run_predictors(const Rows& rows, Predictor* predictors, int K, Task& task) {
    const bool with_sums = task.goal != Goal::eta;
    const int p = rows.n_columns;
    int n_panels = 0, order = 1;
    int64_t lanes = 0;
    for (int k = 0; k < K; k++) {
        n_panels += count_panels(predictors[k]);
        lanes += padded_rank(predictors[k]);
        order = highest_order(predictors[k]) > order ? highest_order(predictors[k]) : order;
    }
    Buffer<Panel<T>> panels(n_panels);
    Buffer<T> tables(rows.n_codes * lanes), bins(with_sums ? rows.n_codes * lanes : 0), states(kBlock * lanes * order);
    if (with_sums) std::memset(bins.get(), 0, static_cast<size_t>(rows.n_codes * lanes) * sizeof(T));
    int64_t used_lanes = 0, state_at = 0;
    for (int k = 0, at = 0; k < K; k++) {
        at += cut_panels<T>(predictors[k], k, rows.n_codes, panels.get() + at, tables.get() + rows.n_codes * used_lanes,
                            with_sums ? bins.get() + rows.n_codes * used_lanes : nullptr, states.get() + state_at);
        used_lanes += padded_rank(predictors[k]);
        state_at += kBlock * padded_rank(predictors[k]) * highest_order(predictors[k]);
    }

    Buffer<Steps<T>> steps(n_panels);
    for (int q = 0; q < n_panels; q++) {
        panels[q].careful = needs_care(panels[q], rows);
        steps[q] = steps_of(panels[q]);
    }

    Buffer<uint32_t> offsets(static_cast<int64_t>(kBlock) * p);
    Buffer<double> eta(static_cast<int64_t>(kBlock) * K), g(static_cast<int64_t>(kBlock) * K);
    double y[kBlock], weight[kBlock], offset[kBlock];
    const LossOfBlock loss = loss_functions[static_cast<int>(task.loss)];
    const int64_t between = flush_every(rows.n_codes);

    for (int64_t row = 0; row < rows.n; row += kBlock) {
        const int n = static_cast<int>(rows.n - row < kBlock ? rows.n - row : kBlock);
        const BadCode bad = unpack_block(rows, row, n, -1, offsets.get());
        if (bad.column >= 0) return bad;

        for (int k = 0; k < K; k++) {
            double* eta_k = eta.get() + k * kBlock;
            for (int r = 0; r < n; r++) eta_k[r] = predictors[k].intercept;
            for (int j = 0; j < p; j++) add_main(rows.columns[j], row, n, predictors[k].main, eta_k);
        }
        for (int q = 0; q < n_panels; q++)
            steps[q].forward(panels[q], offsets.get(), p, n, eta.get() + panels[q].predictor * kBlock);
        if (task.offset.data != nullptr)
            for (int k = 0; k < K; k++) {
                for (int r = 0; r < n; r++) offset[r] = task.offset.at((row + r) * K + k);
                for (int r = 0; r < n; r++) eta[k * kBlock + r] += offset[r];
            }

        if (task.goal == Goal::eta) {
            for (int k = 0; k < K; k++)
                for (int r = 0; r < n; r++) task.eta[(row + r) * K + k] = eta[k * kBlock + r];
            continue;
        }
        if (task.goal == Goal::gradient) {
            load(task.y, row, n, 1, y);
            if (task.weight.data != nullptr) load(task.weight, row, n, 1, weight);
            task.loss_sum += loss(n, K, y, task.weight.data != nullptr ? weight : nullptr, eta.get(), g.get());
        } else {
            for (int k = 0; k < K; k++)
                for (int r = 0; r < n; r++) g[k * kBlock + r] = task.g[(row + r) * K + k];
        }

        for (int k = 0; k < K; k++) {
            const double* g_k = g.get() + k * kBlock;
            double* sums = predictors[k].main_sums;
            const uint32_t* at = offsets.get();
            double total = 0.0;
            for (int r = 0; r < n; r++, at += p) {
                const double g_r = g_k[r];
                total += g_r;
                AHOFM_UNROLL
                for (int j = 0; j < p; j++) sums[at[j]] += g_r;
            }
            predictors[k].intercept_sum += total;
        }
        for (int q = 0; q < n_panels; q++)
            steps[q].backward(panels[q], offsets.get(), p, n, g.get() + panels[q].predictor * kBlock);
        if ((row + kBlock) % between == 0)
            for (int q = 0; q < n_panels; q++) flush(panels[q], rows.n_codes);
    }
    if (with_sums)
        for (int q = 0; q < n_panels; q++) {
            flush(panels[q], rows.n_codes);
            if (panels[q].order == 2 && !panels[q].careful) remove_own_moment(panels[q], rows.n_codes, predictors[panels[q].predictor].main_sums);
        }
    return {};
}

// gram += h * u u' on and above the diagonal's blocks of 8, both padded to `padded` columns.
template <class T>
void add_outer(const T* u, T h, int64_t width, int64_t padded, T* gram) {
    using S = Shape<T, 8>;
    using Vector = typename S::Vector;
    for (int64_t a = 0; a < width; a++) {
        const Vector scaled = broadcast<Vector>(h * u[a]);
        const Vector* from = reinterpret_cast<const Vector*>(u);
        Vector* to = reinterpret_cast<Vector*>(gram + a * padded);
        for (int64_t v = a / 8 * S::count; v < padded / S::lanes; v++) to[v] += scaled * from[v];
    }
}

template <class T>
void flush_column(int64_t codes, int64_t width, int64_t padded, T* gradient, T* gram, const ColumnTask& task) {
    for (int64_t c = 0; c < codes; c++)
        for (int64_t a = 0; a < width; a++) {
            task.g_sums[c * width + a] += gradient[c * padded + a];
            gradient[c * padded + a] = T(0);
            T* row = gram + (c * width + a) * padded;
            for (int64_t b = a; b < width; b++) {
                task.h_sums[(c * width + a) * width + b] += row[b];
                if (b > a) task.h_sums[(c * width + b) * width + a] += row[b];
            }
            for (int64_t b = 0; b < padded; b++) row[b] = T(0);
        }
}

template <class T>
BadCode run_column(const Rows& rows, const Predictor& given, const ColumnTask& task) {
    const int others = rows.n_columns - 1;
    const Column& own = rows.columns[task.column];
    Predictor predictor = given;
    int64_t width = 1;
    for (int k = 0; k < predictor.n_factors; k++) width += predictor.factors[k].rank;
    const int64_t padded = (width + 7) / 8 * 8, lanes = padded_rank(predictor);
    const bool with_sums = task.g_sums != nullptr;

    const int n_panels = count_panels(predictor);
    Buffer<Panel<T>> panels(n_panels);
    Buffer<T> tables(rows.n_codes * lanes), states(kBlock * lanes * highest_order(predictor));
    cut_panels<T>(predictor, 0, rows.n_codes, panels.get(), tables.get(), nullptr, states.get());
    for (int q = 0; q < n_panels; q++) panels[q].order -= 1;  // of the others only e_{d-1} is wanted

    Buffer<uint32_t> offsets(static_cast<int64_t>(kBlock) * (others > 0 ? others : 1));
    Buffer<T> u(kBlock * padded);
    for (int64_t k = 0; k < kBlock * padded; k++) u[k] = T(0);
    const int64_t bins = with_sums ? own.size : 0;
    Buffer<T> gradient(bins * padded), gram(bins * width * padded);
    for (int64_t k = 0; k < bins * padded; k++) gradient[k] = T(0);
    for (int64_t k = 0; k < bins * width * padded; k++) gram[k] = T(0);
    uint32_t own_rows[kBlock];
    const int64_t between = flush_every(4 * own.size);  // a bin of width^2 sums is dearer to empty

    for (int64_t row = 0; row < rows.n; row += kBlock) {
        const int n = static_cast<int>(rows.n - row < kBlock ? rows.n - row : kBlock);
        const BadCode bad = unpack_block(rows, row, n, task.column, offsets.get());
        if (bad.column >= 0) return bad;
        if (!unpack_column(own, row, n, 1, own_rows)) return find_bad_code(rows, task.column, row, own_rows, 1);

        for (int r = 0; r < n; r++) u[r * padded] = T(1);
        int64_t at = 1;
        for (int q = 0; q < n_panels; q++) {
            const Panel<T>& panel = panels[q];
            top_polynomial_of(panel)(panel, offsets.get(), others, n);
            for (int r = 0; r < n; r++)
                for (int64_t f = 0; f < panel.used; f++) u[r * padded + at + f] = panel.state[r * panel.lanes + f];
            at += panel.used;
        }
        if (task.u != nullptr)
            for (int r = 0; r < n; r++)
                for (int64_t k = 0; k < width; k++) task.u[(row + r) * width + k] = u[r * padded + k];
        if (!with_sums) continue;
        for (int r = 0; r < n; r++) {
            const int64_t code = own_rows[r] - own.start;
            const T* u_r = u.get() + r * padded;
            const T g = static_cast<T>(task.g[row + r]);
            T* bin = gradient.get() + code * padded;
            for (int64_t k = 0; k < padded; k++) bin[k] += g * u_r[k];
            add_outer<T>(u_r, static_cast<T>(task.h[row + r]), width, padded, gram.get() + code * width * padded);
        }
        if ((row + kBlock) % between == 0) flush_column(bins, width, padded, gradient.get(), gram.get(), task);
    }
    if (with_sums) flush_column(bins, width, padded, gradient.get(), gram.get(), task);
    return {};
}

BadCode predictors(const Rows& rows, Predictor* list, int K, Task& task, bool float64) {
    return float64 ? run_predictors<double>(rows, list, K, task) : run_predictors<float>(rows, list, K, task);
}

BadCode column(const Rows& rows, const Predictor& predictor, const ColumnTask& task, bool float64) {
    return float64 ? run_column<double>(rows, predictor, task) : run_column<float>(rows, predictor, task);
}

// Independent chains of multiply-adds on floats in registers: the machine's peak for the same vectors the passes use.
double fused_multiply_adds(int64_t repeats) {
    constexpr int lanes = AHOFM_VECTOR_BYTES / 4, chains = 10;
    using Vector = typename VectorOf<float, lanes>::type;
    Vector a[chains];
    for (int k = 0; k < chains; k++) a[k] = broadcast<Vector>(1.0f + 0.001f * static_cast<float>(k));
    Vector x = broadcast<Vector>(0.999f), b = broadcast<Vector>(0.001f);
    for (int64_t i = 0; i < repeats; i++) {
        for (int k = 0; k < chains; k++) a[k] = a[k] * x + b;
        __asm__ volatile("" : : "r"(&i) : );  // keeps the loop
    }
    float sink = 0.0f;
    for (int k = 0; k < chains; k++) sink += sum_lanes<float, lanes>(a[k]);
    volatile float keep = sink;
    (void)keep;
    return 2.0 * lanes * chains * static_cast<double>(repeats);
}

}  // namespace

const Passes AHOFM_PASSES = {AHOFM_NAME, predictors, column, fused_multiply_adds};

}  // namespace ahofm
