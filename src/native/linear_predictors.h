// One pass over a chunk for all linear predictors: eta, then a loss's g or a given one, then sums per code.
//
// Tables and bins of many columns or factors are larger than the second-level cache. Columns are then cut into tiles of
// which one panel fits it, and a batch of rows is processed one panel of one tile at a time: every table row is used
// several times while it is cached. Otherwise a batch is one block, whose state stays in the first-level cache.
#pragma once

#include "codes.h"
#include "losses.h"
#include "steps.h"

namespace ahofm {
namespace {

// Measured at 50 and 200 columns of 256 codes, rank 16, on a core with 1.25 MiB of second-level cache.
constexpr int64_t kTileBytes = 384 << 10;   // of tables and bins
constexpr int64_t kStateBytes = 384 << 10;  // of a batch, when there are several tiles
constexpr int kBatchBlocks = 64;            // blocks of a batch at the most

template <class T>
class PredictorPass {
  public:
    PredictorPass(const Rows& rows, Predictor* predictors, int n_eta, Task& task)
        : rows_(rows), predictors_(predictors), K_(n_eta), task_(task), with_sums_(task.goal != Goal::eta),
          panels_(predictors, n_eta, rows.n_codes, 0, with_sums_), main_(K_ * rows.n_codes),
          main_bins_(with_sums_ ? K_ * rows.n_codes : 0), tiles_(rows.n_columns + 1), main_panel_(n_eta),
          forward_(panels_.size()), backward_(panels_.size()), n_tiles_(cut_tiles()), blocks_(blocks_of_a_batch()),
          states_(blocks_ * kBlock * panels_.state_per_row()), offsets_(blocks_ * kBlock * padded_cells()),
          eta_(blocks_ * K_ * kBlock), g_(blocks_ * K_ * kBlock) {
        panels_.place_states(states_.get(), blocks_ * kBlock);
        for (int k = 0; k < K_; k++) {
            main_panel_[k] = -1;
            for (int64_t c = 0; c < rows.n_codes; c++) main_of(k)[c] = static_cast<T>(predictors[k].main[c]);
        }
        if (with_sums_) std::memset(main_bins_.get(), 0, static_cast<size_t>(K_ * rows.n_codes) * sizeof(T));
        for (int q = 0; q < panels_.size(); q++) {
            const Panel<T>& panel = panels_.begin()[q];
            int& main_panel = main_panel_[panel.predictor];
            if (main_panel < 0 && takes_main(panel)) main_panel = q;
            forward_[q] = forward_of(panel, main_panel == q);
            backward_[q] = backward_of(panel, main_panel == q);
        }
    }

    BadCode run() {
        const int64_t between = flush_every(rows_.n_codes);
        int64_t since_flush = 0;
        for (int64_t row = 0; row < rows_.n; row += blocks_ * kBlock) {
            const int64_t end = row + blocks_ * kBlock < rows_.n ? row + blocks_ * kBlock : rows_.n;
            const BadCode bad = forward_batch(row, end);
            if (bad.column >= 0) return bad;
            if (task_.goal == Goal::eta) {
                each_block(row, end, [&](int64_t at, int n, int b) { write_eta(at, n, b); });
                continue;
            }
            each_block(row, end, [&](int64_t at, int n, int b) { make_g(at, n, b); });
            backward_batch(row, end);
            if ((since_flush += end - row) >= between) {
                flush_all();
                since_flush = 0;
            }
        }
        if (with_sums_) finish();
        return {};
    }

  private:
    int64_t bytes_per_code(int64_t lanes) const {
        return lanes * static_cast<int64_t>(sizeof(T)) * (with_sums_ ? 2 : 1);
    }

    // Consecutive columns of a tile share kTileBytes per panel; a panel whose removal cancels needs all columns.
    int cut_tiles() {
        bool cancels = false;
        if (with_sums_)
            for (Panel<T>& panel : panels_) cancels |= panel.cancels = removal_cancels(panel, rows_);
        int widest = 0;
        for (const Panel<T>& panel : panels_) widest = panel.lanes > widest ? panel.lanes : widest;
        const int64_t per_code = bytes_per_code(widest);
        int n_tiles = 0;
        int64_t bytes = 0;
        tiles_[0] = 0;
        for (int j = 0; j < rows_.n_columns; j++) {
            const int64_t column_bytes = per_code * rows_.columns[j].size;
            if (!cancels && j > tiles_[n_tiles] && bytes + column_bytes > kTileBytes) {
                tiles_[++n_tiles] = j;
                bytes = 0;
            }
            bytes += column_bytes;
        }
        tiles_[++n_tiles] = rows_.n_columns;
        return n_tiles;
    }

    int64_t blocks_of_a_batch() const {
        if (panels_.size() == 0 || bytes_per_code(panels_.lanes()) * rows_.n_codes <= kTileBytes) return 1;
        const int64_t fit = kStateBytes / (panels_.state_per_row() * static_cast<int64_t>(sizeof(T)) * kBlock);
        return fit < 1 ? 1 : fit > kBatchBlocks ? kBatchBlocks : fit;
    }

    // visit(first row, rows, number of the block in its batch)
    template <class Visit>
    void each_block(int64_t row, int64_t end, Visit visit) {
        for (int b = 0; row < end; row += kBlock, b++)
            visit(row, static_cast<int>(end - row < kBlock ? end - row : kBlock), b);
    }

    T* main_of(int k) { return main_.get() + k * rows_.n_codes; }
    T* main_bins_of(int k) { return main_bins_.get() + k * rows_.n_codes; }
    double* eta_of(int block, int k) { return eta_.get() + (static_cast<int64_t>(block) * K_ + k) * kBlock; }
    double* g_of(int block, int k) { return g_.get() + (static_cast<int64_t>(block) * K_ + k) * kBlock; }

    int columns_of(int tile) const { return tiles_[tile + 1] - tiles_[tile]; }

    // Cells of a row before a tile, each tile padded; of the whole row by default.
    int64_t padded_cells(int tile = -1) const {
        int64_t cells = 0;
        for (int t = 0; t < (tile < 0 ? n_tiles_ : tile); t++) cells += padded_columns(columns_of(t));
        return cells;
    }

    // Table rows of a tile's cells in one block of the batch; forward fills them, backward reads them.
    uint32_t* offsets_of(int tile, int block) const {
        return offsets_.get() +
               kBlock * (padded_cells(tile) * blocks_ + static_cast<int64_t>(padded_columns(columns_of(tile))) * block);
    }

    Block tile_of(int tile, int n, int block) const {
        const int columns = columns_of(tile);
        return {offsets_of(tile, block),
                columns,
                padded_columns(columns),
                n,
                static_cast<int64_t>(block) * kBlock,
                tile == 0,
                tile + 1 == n_tiles_};
    }

    BadCode forward_batch(int64_t row, int64_t end) {
        BadCode bad;
        each_block(row, end, [&](int64_t at, int n, int b) { start_eta(at, n, b); });
        for (int tile = 0; tile < n_tiles_; tile++) {
            each_block(row, end, [&](int64_t at, int n, int b) {
                if (bad.column < 0)
                    bad = unpack_block(rows_, tiles_[tile], tiles_[tile + 1], -1, at, n, offsets_of(tile, b));
            });
            if (bad.column >= 0) return bad;
            for (int k = 0; k < K_; k++)
                if (main_panel_[k] < 0)
                    each_block(row, end,
                               [&](int64_t, int n, int b) { add_main(tile_of(tile, n, b), main_of(k), eta_of(b, k)); });
            for (int q = 0; q < panels_.size(); q++) {
                const Panel<T>& panel = panels_.begin()[q];
                const int k = panel.predictor;
                each_block(row, end, [&](int64_t, int n, int b) {
                    forward_[q](panel, tile_of(tile, n, b), main_of(k), eta_of(b, k));
                });
            }
        }
        return bad;
    }

    void start_eta(int64_t row, int n, int block) {
        for (int k = 0; k < K_; k++) {
            double* eta = eta_of(block, k);
            for (int r = 0; r < n; r++) eta[r] = predictors_[k].intercept;
            if (task_.offset.data != nullptr)
                for (int r = 0; r < n; r++) eta[r] += task_.offset.at((row + r) * K_ + k);
        }
    }

    void write_eta(int64_t row, int n, int block) {
        for (int k = 0; k < K_; k++)
            for (int r = 0; r < n; r++) task_.eta[(row + r) * K_ + k] = eta_of(block, k)[r];
    }

    void make_g(int64_t row, int n, int block) {
        if (task_.goal == Goal::gradient) {
            double y[kBlock], weight[kBlock];
            for (int r = 0; r < n; r++) y[r] = task_.y.at(row + r);
            const bool weighted = task_.weight.data != nullptr;
            if (weighted)
                for (int r = 0; r < n; r++) weight[r] = task_.weight.at(row + r);
            const LossOfBlock loss = loss_functions[static_cast<int>(task_.loss)];
            task_.loss_sum += loss(n, K_, y, weighted ? weight : nullptr, eta_of(block, 0), g_of(block, 0));
        } else {
            for (int k = 0; k < K_; k++)
                for (int r = 0; r < n; r++) g_of(block, k)[r] = task_.g[(row + r) * K_ + k];
        }
        for (int k = 0; k < K_; k++)
            for (int r = 0; r < n; r++) predictors_[k].intercept_sum += g_of(block, k)[r];
    }

    void backward_batch(int64_t row, int64_t end) {
        for (int tile = 0; tile < n_tiles_; tile++) {
            for (int k = 0; k < K_; k++)
                if (main_panel_[k] < 0)
                    each_block(row, end, [&](int64_t, int n, int b) {
                        add_main_bins(tile_of(tile, n, b), g_of(b, k), main_bins_of(k));
                    });
            for (int q = 0; q < panels_.size(); q++) {
                const Panel<T>& panel = panels_.begin()[q];
                const int k = panel.predictor;
                each_block(row, end, [&](int64_t, int n, int b) {
                    backward_[q](panel, tile_of(tile, n, b), g_of(b, k), main_bins_of(k));
                });
            }
        }
    }

    static void add_main(const Block& block, const T* main, double* eta) {
        const uint32_t* at = block.offsets;
        for (int r = 0; r < block.rows; r++, at += block.stride)
            for (int j = 0; j < block.columns; j++) eta[r] += main[at[j]];
    }

    static void add_main_bins(const Block& block, const double* g, T* bins) {
        const uint32_t* at = block.offsets;
        for (int r = 0; r < block.rows; r++, at += block.stride) {
            const T g_r = static_cast<T>(g[r]);
            AHOFM_UNROLL
            for (int j = 0; j < block.columns; j++) bins[at[j]] += g_r;
        }
    }

    void flush_all() {
        for (Panel<T>& panel : panels_) flush(panel, rows_.n_codes);
        for (int k = 0; k < K_; k++)
            for (int64_t c = 0; c < rows_.n_codes; c++) predictors_[k].main_sums[c] += main_bins_of(k)[c];
        std::memset(main_bins_.get(), 0, static_cast<size_t>(K_ * rows_.n_codes) * sizeof(T));
    }

    void finish() {
        flush_all();
        for (Panel<T>& panel : panels_)
            if (panel.order == 2 && !panel.cancels)
                remove_own_moment(panel, rows_.n_codes, predictors_[panel.predictor].main_sums);
    }

    const Rows& rows_;
    Predictor* predictors_;
    const int K_;
    Task& task_;
    const bool with_sums_;
    Panels<T> panels_;
    Buffer<T> main_, main_bins_;  // (linear predictors, codes): in the rows' precision, to spare the first-level cache
    Buffer<int> tiles_;           // first column of each tile, and the end
    Buffer<int> main_panel_;      // of each linear predictor, the panel that sums its main effects; -1: none can
    Buffer<Forward<T>> forward_;
    Buffer<Backward<T>> backward_;
    const int n_tiles_;
    const int64_t blocks_;  // of a batch
    Buffer<T> states_;
    Buffer<uint32_t> offsets_;
    Buffer<double> eta_, g_;
};

}  // namespace
}  // namespace ahofm
