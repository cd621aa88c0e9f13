// One pass over a chunk for one column: the derivatives u of eta by its functions, and per-code sums of g u and h u u'.
#pragma once

#include "codes.h"
#include "steps.h"

namespace ahofm {
namespace {

template <class T>
class ColumnPass {
  public:
    ColumnPass(const Rows& rows, Predictor& predictor, const ColumnTask& task)
        : rows_(rows), task_(task), own_(rows.columns[task.column]), others_(rows.n_columns - 1),
          with_sums_(task.g_sums != nullptr), width_(width_of(predictor)), padded_((width_ + 7) / 8 * 8),
          panels_(&predictor, 1, rows.n_codes, 1, false),  // e_{d-1} of the other columns: one order less
          states_(kBlock * panels_.state_per_row()),
          offsets_(static_cast<int64_t>(kBlock) * padded_columns(rows.n_columns)), own_offsets_(kBlock * kGroup),
          u_(kBlock * padded_), gradient_(bins() * padded_), gram_(bins() * width_ * padded_) {
        panels_.place_states(states_.get(), kBlock);
        clear(u_, kBlock * padded_);
        clear(gradient_, bins() * padded_);
        clear(gram_, bins() * width_ * padded_);
    }

    BadCode run() {
        const int64_t between = flush_every(4 * bins());  // bins of width^2 sums are more expensive to empty
        int64_t since_flush = 0;
        for (int64_t row = 0; row < rows_.n; row += kBlock) {
            const int n = static_cast<int>(rows_.n - row < kBlock ? rows_.n - row : kBlock);
            BadCode bad = unpack_block(rows_, 0, rows_.n_columns, task_.column, row, n, offsets_.get());
            if (bad.column < 0)
                bad = unpack_block(rows_, task_.column, task_.column + 1, -1, row, n, own_offsets_.get());
            if (bad.column >= 0) return bad;
            make_u(n);
            if (task_.u != nullptr) write_u(row, n);
            if (!with_sums_) continue;
            for (int r = 0; r < n; r++) add_row(row + r, own_offsets_[r * kGroup] - own_.start, u_.get() + r * padded_);
            if ((since_flush += n) >= between) {
                flush_sums();
                since_flush = 0;
            }
        }
        if (with_sums_) flush_sums();
        return {};
    }

  private:
    static int64_t width_of(const Predictor& predictor) {
        int64_t width = 1;
        for (int k = 0; k < predictor.n_factors; k++) width += predictor.factors[k].rank;
        return width;
    }

    static void clear(const Buffer<T>& buffer, int64_t size) {
        std::memset(buffer.get(), 0, static_cast<size_t>(size) * sizeof(T));
    }

    int64_t bins() const { return with_sums_ ? own_.size : 0; }

    void make_u(int n) {
        for (int r = 0; r < n; r++) u_[r * padded_] = T(1);
        int64_t at = 1;
        for (const Panel<T>& panel : panels_) {
            forward_of(panel, false)(panel, {offsets_.get(), others_, padded_columns(others_), n, 0, true, true},
                                     nullptr, nullptr);
            for (int r = 0; r < n; r++) {
                const T* top = panel.state + (r + 1) * panel.entries() - panel.lanes;
                for (int64_t f = 0; f < panel.used; f++) u_[r * padded_ + at + f] = panel.loadings[f] * top[f];
            }
            at += panel.used;
        }
    }

    void write_u(int64_t row, int n) {
        for (int r = 0; r < n; r++)
            for (int64_t k = 0; k < width_; k++) task_.u[(row + r) * width_ + k] = u_[r * padded_ + k];
    }

    // The gram's upper triangle, in whole blocks of 8.
    void add_row(int64_t row, int64_t code, const T* u) {
        using S = Shape<T, 8>;
        using Vector = typename S::Vector;
        const Vector* from = reinterpret_cast<const Vector*>(u);
        const int64_t vectors = padded_ / S::lanes;
        const T g = static_cast<T>(task_.g[row]), h = static_cast<T>(task_.h[row]);
        Vector* bin = reinterpret_cast<Vector*>(gradient_.get() + code * padded_);
        for (int64_t v = 0; v < vectors; v++) bin[v] += broadcast<Vector>(g) * from[v];
        T* gram = gram_.get() + code * width_ * padded_;
        for (int64_t a = 0; a < width_; a++, gram += padded_) {
            const Vector scaled = broadcast<Vector>(h * u[a]);
            Vector* to = reinterpret_cast<Vector*>(gram);
            for (int64_t v = a / 8 * S::count; v < vectors; v++) to[v] += scaled * from[v];
        }
    }

    void flush_sums() {
        for (int64_t c = 0; c < bins(); c++)
            for (int64_t a = 0; a < width_; a++) {
                task_.g_sums[c * width_ + a] += gradient_[c * padded_ + a];
                const T* row = gram_.get() + (c * width_ + a) * padded_;
                for (int64_t b = a; b < width_; b++) {
                    task_.h_sums[(c * width_ + a) * width_ + b] += row[b];
                    if (b > a) task_.h_sums[(c * width_ + b) * width_ + a] += row[b];
                }
            }
        clear(gradient_, bins() * padded_);
        clear(gram_, bins() * width_ * padded_);
    }

    const Rows& rows_;
    const ColumnTask& task_;
    const Column& own_;
    const int others_;
    const bool with_sums_;
    const int64_t width_, padded_;
    Panels<T> panels_;
    Buffer<T> states_;
    Buffer<uint32_t> offsets_, own_offsets_;
    Buffer<T> u_, gradient_, gram_;
};

}  // namespace
}  // namespace ahofm
