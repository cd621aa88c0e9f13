// Storage of factors in the passes: panels of 8 or 16 lanes, padded with zeros, in the precision of the rows.
#pragma once

#include <cstring>
#include <new>

#include "passes.h"

namespace ahofm {
namespace {

template <class T>
class Buffer {  // cache-line aligned, so that a 16-float row never straddles two lines
  public:
    explicit Buffer(int64_t size) : data_(static_cast<T*>(::operator new(bytes(size), alignment))) {}
    ~Buffer() { ::operator delete(data_, alignment); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    T* get() const { return data_; }
    T& operator[](int64_t i) const { return data_[i]; }

  private:
    static constexpr std::align_val_t alignment{64};

    static size_t bytes(int64_t size) {
        constexpr int64_t most = (int64_t(1) << 46) / static_cast<int64_t>(sizeof(T));  // beyond any address space
        if (size < 0 || size > most) too_large();
        return static_cast<size_t>(size > 0 ? size : 1) * sizeof(T);
    }

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
    T* table;     // (codes, lanes)
    T* loadings;  // (lanes,), 0 in the padding
    T* bins;      // (codes, lanes)
    T* state;     // (rows, order, lanes): e_1 .. e_order of each row, over the columns seen so far
    bool cancels;

    // Numbers of a row's state: the polynomials, or the product.
    int64_t entries() const { return (group->order == kProduct ? 1 : order) * static_cast<int64_t>(lanes); }
};

// All panels of some linear predictors, and their storage. Panels are of `below` orders less than their factors: a pass
// over one column needs only the polynomials of the others.
template <class T>
class Panels {
  public:
    Panels(Predictor* predictors, int n_eta, int64_t n_codes, int below, bool with_bins)
        : size_(count(predictors, n_eta)), list_(size_), tables_(n_codes * lanes(predictors, n_eta)),
          loadings_(lanes(predictors, n_eta)), bins_(with_bins ? n_codes * lanes(predictors, n_eta) : 0) {
        T *table = tables_.get(), *loadings = loadings_.get(), *bins = bins_.get();
        Panel<T>* panel = list_.get();
        for (int k = 0; k < n_eta; k++)
            for (int q = 0; q < predictors[k].n_factors; q++) {
                Factors& group = predictors[k].factors[q];
                for (int64_t first = 0; first < group.rank; first += panel++->lanes) {
                    const int lanes = width(group.rank - first);
                    const int64_t used = group.rank - first < lanes ? group.rank - first : lanes;
                    *panel = {
                        group.order - below, lanes, k, first, used, &group, table, loadings, bins, nullptr, false};
                    copy(group, first, used, lanes, n_codes, table);
                    for (int f = 0; f < lanes; f++)
                        loadings[f] = f < used ? static_cast<T>(group.loadings[first + f]) : T(0);
                    table += n_codes * lanes;
                    loadings += lanes;
                    if (with_bins) bins += n_codes * lanes;
                }
            }
        if (with_bins) std::memset(bins_.get(), 0, static_cast<size_t>(bins - bins_.get()) * sizeof(T));
    }

    Panel<T>* begin() const { return list_.get(); }
    Panel<T>* end() const { return list_.get() + size_; }
    int size() const { return size_; }

    int64_t lanes() const {
        int64_t total = 0;
        for (const Panel<T>& panel : *this) total += panel.lanes;
        return total;
    }

    // Elements of state a row needs.
    int64_t state_per_row() const {
        int64_t total = 0;
        for (const Panel<T>& panel : *this) total += panel.entries();
        return total;
    }

    void place_states(T* memory, int64_t rows) {
        for (Panel<T>& panel : *this) {
            panel.state = memory;
            memory += rows * panel.entries();
        }
    }

  private:
    static constexpr int width(int64_t left) { return left > 8 ? 16 : 8; }

    template <class Visit>
    static void each_width(const Predictor* predictors, int n_eta, Visit visit) {
        for (int k = 0; k < n_eta; k++)
            for (int q = 0; q < predictors[k].n_factors; q++)
                for (int64_t left = predictors[k].factors[q].rank; left > 0; left -= width(left)) visit(width(left));
    }

    static int count(const Predictor* predictors, int n_eta) {
        int total = 0;
        each_width(predictors, n_eta, [&](int) { total++; });
        return total;
    }

    static int64_t lanes(const Predictor* predictors, int n_eta) {
        int64_t total = 0;
        each_width(predictors, n_eta, [&](int lanes) { total += lanes; });
        return total;
    }

    static void copy(const Factors& group, int64_t first, int64_t used, int lanes, int64_t n_codes, T* table) {
        for (int64_t c = 0; c < n_codes; c++)
            for (int f = 0; f < lanes; f++)
                table[c * lanes + f] = f < used ? static_cast<T>(group.table[c * group.rank + first + f]) : T(0);
    }

    int size_;
    Buffer<Panel<T>> list_;
    Buffer<T> tables_, loadings_, bins_;
};

// Whether one column is so much larger than the others together that removing it again would cost digits: the error of
// e_{d-1} is about eps * (size of the column / size of the others)^(d-1), sizes as root mean squares over codes.
template <class T>
bool removal_cancels(const Panel<T>& panel, const Rows& rows) {
    if (panel.order > 5) return true;  // also of products, which need all columns at once
    const double limit = 1e-5 / (sizeof(T) == 4 ? 6e-8 : 1.1e-16);
    Buffer<double> squares(static_cast<int64_t>(rows.n_columns) * panel.lanes);  // mean square per column and factor
    double all[16] = {};
    for (int j = 0; j < rows.n_columns; j++) {
        const Column& column = rows.columns[j];
        const T* phi = panel.table + static_cast<int64_t>(column.start) * panel.lanes;
        double sums[16] = {};
        for (int64_t c = 0; c < column.size; c++, phi += panel.lanes)
            for (int f = 0; f < panel.lanes; f++) sums[f] += static_cast<double>(phi[f]) * phi[f];
        for (int f = 0; f < panel.lanes; f++)
            all[f] += squares[static_cast<int64_t>(j) * panel.lanes + f] = sums[f] / column.size;
    }
    for (int j = 0; j < rows.n_columns; j++)
        for (int f = 0; f < panel.used; f++) {
            const double square = squares[static_cast<int64_t>(j) * panel.lanes + f];
            if (square < 0.5 * all[f]) continue;  // not larger than the others together
            double others = 0.0;                  // summed again: all - own would cancel where own dominates
            for (int i = 0; i < rows.n_columns; i++)
                others += i == j ? 0.0 : squares[static_cast<int64_t>(i) * panel.lanes + f];
            if (others <= 0.0) continue;  // only this column is not zero: there is no interaction
            double loss_of_digits = 1.0;
            for (int t = 1; t < panel.order; t++) loss_of_digits *= square / others;
            if (loss_of_digits > limit * limit) return true;
        }
    return false;
}

template <class T, int Lanes>
void flush_full(const T* bins, int64_t n_codes, int64_t rank, double* sums) {
    for (int64_t c = 0; c < n_codes; c++)
        for (int f = 0; f < Lanes; f++) sums[c * rank + f] += bins[c * Lanes + f];
}

// Empties the bins into the float64 sums.
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

// Rows between two emptyings of the bins: few enough that rounding in float32 bins is negligible, and proportional to
// the number of codes, so that emptying takes a small part of the time.
inline int64_t flush_every(int64_t n_codes) { return 4 * n_codes > 512 ? 4 * n_codes : 512; }

}  // namespace
}  // namespace ahofm
