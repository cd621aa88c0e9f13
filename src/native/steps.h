// The arithmetic of one panel on one block of rows.
//
// A row looks its codes up in tables and runs a_t += phi_j * a_{t-1} (t = d..1) over the columns: a_d is the elementary
// symmetric polynomial e_d. The gradient for column j needs e_{d-1} of the *other* columns. phi_j is the same for all
// rows of a code, which gives two ways to remove it:
//   order 2    moment form: add g * e_1 into the bin of the code, subtract phi * sum(g) once at the end;
//   order > 2  removal per row: u = e_{d-1} - phi (e_{d-2} - phi (...)). One read-modify-write of a bin per cell
//              whatever the order, where moments need d - 1 and prefixes need d - 1 stores (measured in one run, rank
//              16, Mrows/s at orders 2 / 3 / 4 with 256-bit vectors: moments 22.5 / 17.6 / 12.7,
//              removal 19.8 / 17.5 / 17.9, prefixes 14.8 / 8.3 / 8.0).
// Both subtract phi_j again and lose digits where one column is much larger than the others. A panel whose relative
// error would exceed 1e-5, and orders above 5, use prefixes and suffixes instead: e_{d-1} from the polynomials of the
// columns before and after j, without subtraction.
#pragma once

#include "panels.h"
#include "vector.h"

namespace ahofm {
namespace {

// Columns of one tile for a block of rows: table rows of the cells (row-major), and where the block lies in the state.
struct Block {
    const uint32_t* offsets;
    int columns;
    int stride;  // of offsets, from row to row
    int rows;
    int64_t state_row;
    bool first_tile, last_tile;
};

// e_1 .. e_Order of one row, kept in registers: adds the given columns. Can also return the sum of their main
// effects: the first panel computes it, since it visits every cell in any case.
template <class T, int Lanes, int Order, bool WithMain>
inline T add_columns(const T* table, const uint32_t* offsets, int columns, const T* main,
                     typename Shape<T, Lanes>::Vector (&e)[Order + 1][Shape<T, Lanes>::count]) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    T sum = T(0);
    AHOFM_UNROLL
    for (int j = 0; j < columns; j++) {
        if constexpr (WithMain) sum += main[offsets[j]];
        const Vector* phi = reinterpret_cast<const Vector*>(table + static_cast<int64_t>(offsets[j]) * Lanes);
        for (int v = 0; v < S::count; v++) {
            for (int t = Order; t >= 2; t--) e[t][v] += phi[v] * e[t - 1][v];
            e[1][v] += phi[v];
        }
    }
    return sum;
}

// Adds the tile's columns to the state; after the last tile eta gets e_Order times the loadings, summed over factors.
template <class T, int Lanes, int Order, bool WithMain>
void forward(const Panel<T>& panel, const Block& block, const T* main, double* eta) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const T* table = panel.table;
    const uint32_t* offsets = block.offsets;
    Vector loadings[S::count];  // a copy, for the same reason as in `backward`
    for (int v = 0; v < S::count; v++) loadings[v] = reinterpret_cast<const Vector*>(panel.loadings)[v];
    Vector* state = reinterpret_cast<Vector*>(panel.state + block.state_row * Order * Lanes);
    for (int r = 0; r < block.rows; r++, offsets += block.stride, state += Order * S::count) {
        Vector e[Order + 1][S::count];
        for (int t = 1; t <= Order; t++)
            for (int v = 0; v < S::count; v++) e[t][v] = block.first_tile ? Vector{} : state[(t - 1) * S::count + v];
        const T sum = add_columns<T, Lanes, Order, WithMain>(table, offsets, block.columns, main, e);
        if constexpr (WithMain) eta[r] += sum;
        for (int t = 1; t <= Order; t++)
            for (int v = 0; v < S::count; v++) state[(t - 1) * S::count + v] = e[t][v];
        if (block.last_tile && eta != nullptr) {
            Vector top = loadings[0] * e[Order][0];
            for (int v = 1; v < S::count; v++) top += loadings[v] * e[Order][v];
            eta[r] += sum_lanes<T, S::lanes>(top);
        }
    }
}

template <class T, int Lanes, int Order, bool WithMain>
void backward(const Panel<T>& panel, const Block& block, const double* g, T* main_bins) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    // Vectors may alias anything: without copies the pointers would be read again after every store.
    const T* table = panel.table;
    T* bins = panel.bins;
    const uint32_t* offsets = block.offsets;
    const int columns = block.columns;
    Vector loadings[S::count];
    for (int v = 0; v < S::count; v++) loadings[v] = reinterpret_cast<const Vector*>(panel.loadings)[v];
    const Vector* state = reinterpret_cast<const Vector*>(panel.state + block.state_row * Order * Lanes);
    for (int r = 0; r < block.rows; r++, offsets += block.stride, state += Order * S::count) {
        const T g_r = static_cast<T>(g[r]);
        Vector ge[Order][S::count];  // of e_0 .. e_{Order-1}
        for (int v = 0; v < S::count; v++) {
            ge[0][v] = broadcast<Vector>(g_r) * loadings[v];
            for (int t = 1; t < Order; t++) ge[t][v] = ge[0][v] * state[(t - 1) * S::count + v];
        }
        AHOFM_UNROLL
        for (int j = 0; j < columns; j++) {
            const int64_t at = static_cast<int64_t>(offsets[j]) * Lanes;
            Vector* bin = reinterpret_cast<Vector*>(bins + at);
            if constexpr (WithMain) main_bins[offsets[j]] += g_r;
            if constexpr (Order == 2) {
                for (int v = 0; v < S::count; v++) bin[v] += ge[1][v];
            } else {
                const Vector* phi = reinterpret_cast<const Vector*>(table + at);
                for (int v = 0; v < S::count; v++) {
                    Vector gu = ge[0][v];
                    for (int t = 1; t < Order; t++) gu = ge[t][v] - phi[v] * gu;
                    bin[v] += gu;
                }
            }
        }
    }
}

// Any order: the same recursion with the order as a run-time number and e in memory.
template <class T, int Lanes>
void forward_general(const Panel<T>& panel, const Block& block, const T*, double* eta) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const uint32_t* offsets = block.offsets;
    const int order = panel.order;
    const Vector* loadings = reinterpret_cast<const Vector*>(panel.loadings);
    Vector* e =
        reinterpret_cast<Vector*>(panel.state + block.state_row * order * Lanes);  // e_t at vector (t - 1) * count
    for (int r = 0; r < block.rows; r++, offsets += block.stride, e += order * S::count) {
        if (block.first_tile)
            for (int k = 0; k < order * S::count; k++) e[k] = Vector{};
        for (int j = 0; j < block.columns; j++) {
            const Vector* phi = reinterpret_cast<const Vector*>(panel.table + static_cast<int64_t>(offsets[j]) * Lanes);
            for (int v = 0; v < S::count; v++) {
                for (int t = order - 1; t >= 1; t--) e[t * S::count + v] += phi[v] * e[(t - 1) * S::count + v];
                e[v] += phi[v];
            }
        }
        if (block.last_tile && eta != nullptr) {
            Vector top = Vector{};
            for (int v = 0; v < S::count; v++) top += loadings[v] * e[(order - 1) * S::count + v];
            eta[r] += sum_lanes<T, S::lanes>(top);
        }
    }
}

// u_j = sum_s (e_s of the columns before j) * (e_{order-1-s} of those after it). The block must hold all columns.
template <class T, int Lanes>
void backward_prefix_suffix(const Panel<T>& panel, const Block& block, const double* g, T*) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const T* table = panel.table;
    T* bins = panel.bins;
    const uint32_t* offsets = block.offsets;
    const int order = panel.order, columns = block.columns;
    const int step = order * S::count;
    const Vector* loadings = reinterpret_cast<const Vector*>(panel.loadings);
    Buffer<T> memory(static_cast<int64_t>(columns + 1) * order * Lanes);
    Vector* after = reinterpret_cast<Vector*>(memory.get());  // (order, count), then `before` of each column
    for (int r = 0; r < block.rows; r++, offsets += block.stride) {
        for (int v = 0; v < S::count; v++) {
            const Vector weight = broadcast<Vector>(static_cast<T>(g[r])) * loadings[v];
            Vector* before = after + step;
            for (int t = 0; t < order; t++)
                before[t * S::count + v] = after[t * S::count + v] = broadcast<Vector>(T(t == 0));
            for (int j = 0; j + 1 < columns; j++, before += step) {
                const Vector phi = reinterpret_cast<const Vector*>(table + static_cast<int64_t>(offsets[j]) * Lanes)[v];
                Vector* next = before + step;
                next[v] = before[v];
                for (int t = 1; t < order; t++)
                    next[t * S::count + v] = before[t * S::count + v] + phi * before[(t - 1) * S::count + v];
            }
            for (int j = columns - 1; j >= 0; j--, before -= step) {
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

// A product over all columns: the state of a row is the product over the columns seen so far.
template <class T, int Lanes>
void forward_product(const Panel<T>& panel, const Block& block, const T*, double* eta) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const uint32_t* offsets = block.offsets;
    const Vector* loadings = reinterpret_cast<const Vector*>(panel.loadings);
    Vector* state = reinterpret_cast<Vector*>(panel.state + block.state_row * Lanes);
    for (int r = 0; r < block.rows; r++, offsets += block.stride, state += S::count) {
        for (int v = 0; v < S::count; v++) {
            Vector product = block.first_tile ? broadcast<Vector>(T(1)) : state[v];
            for (int j = 0; j < block.columns; j++)
                product *= reinterpret_cast<const Vector*>(panel.table + static_cast<int64_t>(offsets[j]) * Lanes)[v];
            state[v] = product;
        }
        if (block.last_tile && eta != nullptr) {
            Vector top = Vector{};
            for (int v = 0; v < S::count; v++) top += loadings[v] * state[v];
            eta[r] += sum_lanes<T, S::lanes>(top);
        }
    }
}

// The product of the columns before j times that of those after it. The block must hold all columns.
template <class T, int Lanes>
void backward_product(const Panel<T>& panel, const Block& block, const double* g, T*) {
    using S = Shape<T, Lanes>;
    using Vector = typename S::Vector;
    const uint32_t* offsets = block.offsets;
    const int columns = block.columns;
    const Vector* loadings = reinterpret_cast<const Vector*>(panel.loadings);
    Buffer<T> memory(static_cast<int64_t>(columns) * Lanes);
    Vector* before = reinterpret_cast<Vector*>(memory.get());  // (columns, count)
    const auto phi = [&](int j) {
        return reinterpret_cast<const Vector*>(panel.table + static_cast<int64_t>(offsets[j]) * Lanes);
    };
    for (int r = 0; r < block.rows; r++, offsets += block.stride) {
        for (int v = 0; v < S::count; v++) {
            Vector product = broadcast<Vector>(static_cast<T>(g[r])) * loadings[v];
            for (int j = 0; j < columns; j++) {
                before[j * S::count + v] = product;
                product *= phi(j)[v];
            }
            Vector after = broadcast<Vector>(T(1));
            for (int j = columns - 1; j >= 0; j--) {
                Vector* bin = reinterpret_cast<Vector*>(panel.bins + static_cast<int64_t>(offsets[j]) * Lanes);
                bin[v] += before[j * S::count + v] * after;
                after *= phi(j)[v];
            }
        }
    }
}

// Last step of the moment form, with phi and loadings rounded to T as in the rows.
template <class T>
void remove_own_moment(const Panel<T>& panel, int64_t n_codes, const double* g_per_code) {
    double* sums = panel.group->sums + panel.first;
    for (int64_t c = 0; c < n_codes; c++)
        for (int64_t f = 0; f < panel.used; f++)
            sums[c * panel.group->rank + f] -= static_cast<double>(panel.loadings[f]) *
                                               static_cast<double>(panel.table[c * panel.lanes + f]) * g_per_code[c];
}

template <class T>
using Forward = void (*)(const Panel<T>&, const Block&, const T* main, double* eta);
template <class T>
using Backward = void (*)(const Panel<T>&, const Block&, const double* g, T* main_bins);

template <class T, int Lanes, bool WithMain>
Forward<T> forward_of_width(int order) {
    switch (order) {
        case 1: return forward<T, Lanes, 1, WithMain>;
        case 2: return forward<T, Lanes, 2, WithMain>;
        case 3: return forward<T, Lanes, 3, WithMain>;
        case 4: return forward<T, Lanes, 4, WithMain>;
        case 5: return forward<T, Lanes, 5, WithMain>;
        default: return forward_general<T, Lanes>;
    }
}

template <class T, int Lanes, bool WithMain>
Backward<T> backward_of_width(int order) {
    switch (order) {
        case 2: return backward<T, Lanes, 2, WithMain>;
        case 3: return backward<T, Lanes, 3, WithMain>;
        case 4: return backward<T, Lanes, 4, WithMain>;
        default: return backward<T, Lanes, 5, WithMain>;
    }
}

template <class T>
Forward<T> forward_of(const Panel<T>& panel, bool with_main) {
    if (panel.group->order == kProduct) return panel.lanes == 8 ? forward_product<T, 8> : forward_product<T, 16>;
    if (panel.lanes == 8)
        return with_main ? forward_of_width<T, 8, true>(panel.order) : forward_of_width<T, 8, false>(panel.order);
    return with_main ? forward_of_width<T, 16, true>(panel.order) : forward_of_width<T, 16, false>(panel.order);
}

template <class T>
Backward<T> backward_of(const Panel<T>& panel, bool with_main) {
    if (panel.group->order == kProduct) return panel.lanes == 8 ? backward_product<T, 8> : backward_product<T, 16>;
    if (panel.cancels) return panel.lanes == 8 ? backward_prefix_suffix<T, 8> : backward_prefix_suffix<T, 16>;
    if (panel.lanes == 8)
        return with_main ? backward_of_width<T, 8, true>(panel.order) : backward_of_width<T, 8, false>(panel.order);
    return with_main ? backward_of_width<T, 16, true>(panel.order) : backward_of_width<T, 16, false>(panel.order);
}

// A panel whose step can also sum the main effects.
template <class T>
bool takes_main(const Panel<T>& panel) {
    return panel.order <= 5 && !panel.cancels;
}

}  // namespace
}  // namespace ahofm
