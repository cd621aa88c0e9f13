// Columns added to the states of all rows and removed from them, and the sums per code of a removed column.
//
// Two steps, both in parallel: rows move and leave the slopes of the removed column, then its codes sum them up. Rows
// are sorted by code, so that no two tasks add to the same sums. Sums of codes with many rows add task by task: bits do
// not depend on the number of threads.
#include <algorithm>
#include <limits>

#include "engine.h"

namespace ahofm {

namespace {

constexpr int64_t kRowsOfCode = 1024;  // rows of a code that one task sums up
constexpr uint32_t kCodeRows = 8;      // what a code costs beside its rows, in rows

}  // namespace

// Adds one column to the states of all rows, removes another one, and leaves its sums in gram_ and rhs_; -1 for none.
void Engine::swap(size_t k, int add, int remove) {
    BlockTask task = task_of(k, {0, n_});
    if (add >= 0) {
        task.add_column = moments_of(k, static_cast<size_t>(add), {0, n_});
        task.add_tables = add_tables_.data();
        passes_.fill_tables(task, task.add_column, task.add_tables, parallel_of_passes());
    }
    if (remove >= 0) {
        task.remove_column = moments_of(k, static_cast<size_t>(remove), {0, n_});
        task.remove_tables = remove_tables_.data();
        task.slopes = slopes_.data();
        passes_.fill_tables(task, task.remove_column, task.remove_tables, parallel_of_passes());
    }
    if (remove < 0) return move_rows(task, {0, n_});
    for (size_t part = 0; part < parts_.size(); part++) {
        move_rows(task, parts_[part]);
        sum_codes(task, static_cast<size_t>(remove), part);
    }
}

void Engine::move_rows(const BlockTask& task, const Range& part) {
    const int count = static_cast<int>((part.end - part.begin + kRowsOfTask - 1) / kRowsOfTask);
    std::vector<BadCode> bad(static_cast<size_t>(count));
    parallel(count, [&](int i) {
        const int64_t begin = part.begin + i * kRowsOfTask;
        bad[static_cast<size_t>(i)] =
            passes_.move_rows(task, begin, std::min(begin + kRowsOfTask, part.end), part.begin);
    });
    for (const BadCode& found : bad)
        if (found.column >= 0) throw WrongCode{found, columns_[static_cast<size_t>(found.column)].n_codes};
}

// Sorts the rows of every part by the code of column j. A task gets whole codes; codes of many rows have several tasks.
void Engine::sort_rows(size_t j) {
    const ColumnMoments moments = moments_of(0, j, {0, n_});
    const uint32_t codes = moments.size, most = static_cast<uint32_t>(kRowsOfCode);
    sorted_[j].resize(parts_.size());
    parallel(static_cast<int>(parts_.size()), [&](int part) {
        SortedRows& sorted = sorted_[j][static_cast<size_t>(part)];
        const Range& range = parts_[static_cast<size_t>(part)];
        sorted.rows.resize(static_cast<size_t>(range.end - range.begin));
        sorted.first_of_code.resize(codes + 1);
        passes_.sort_by_code(moments, range.begin, range.end, sorted.first_of_code.data(), sorted.rows.data());
        CodeRun run{0, 0, 0, 0};
        const auto close = [&](uint32_t next) {
            if (run.last_code > run.first_code) {
                sorted.runs.push_back(run);
                sorted.partial.push_back(-1);
            }
            run = {next, next, 0, std::numeric_limits<uint32_t>::max()};
        };
        close(0);
        uint32_t cost = 0;
        for (uint32_t c = 0; c < codes; c++) {
            const uint32_t begin = sorted.first_of_code[c], end = sorted.first_of_code[c + 1];
            if (end - begin > most) {
                close(c + 1);
                cost = 0;
                for (uint32_t at = begin; at < end; at += most) {
                    sorted.runs.push_back({c, c + 1, at, std::min(at + most, end)});
                    sorted.partial.push_back(sorted.n_partial++);
                }
                continue;
            }
            run.last_code = c + 1;
            cost += end - begin + kCodeRows;
            if (cost >= static_cast<uint32_t>(kRowsOfTask)) {
                close(c + 1);
                cost = 0;
            }
        }
        close(codes);
    });
}

// Sums by code of column j over the rows of a part, added to those of earlier parts.
void Engine::sum_codes(const BlockTask& task, size_t j, size_t part) {
    if (sorted_[j].empty()) sort_rows(j);
    const SortedRows& sorted = sorted_[j][part];
    const int64_t W = width_, numbers = W * (W + 1);
    const bool added = part > 0;
    partial_.resize(std::max(partial_.size(), static_cast<size_t>(sorted.n_partial * numbers)));
    parallel(static_cast<int>(sorted.runs.size()), [&](int r) {
        const CodeRun& run = sorted.runs[static_cast<size_t>(r)];
        const int64_t place = sorted.partial[static_cast<size_t>(r)], code = run.first_code;
        if (place >= 0) {
            double* sums = partial_.data() + place * numbers;
            passes_.sum_codes(task, run, sorted.rows.data(), sorted.first_of_code.data(), false, sums, sums + W * W);
        } else
            passes_.sum_codes(task, run, sorted.rows.data(), sorted.first_of_code.data(), added,
                              gram_.data() + code * W * W, rhs_.data() + code * W);
    });
    for (size_t r = 0; r < sorted.runs.size(); r++) {
        if (sorted.partial[r] < 0) continue;
        const CodeRun& run = sorted.runs[r];
        const double* sums = partial_.data() + sorted.partial[r] * numbers;
        double *gram = gram_.data() + run.first_code * W * W, *rhs = rhs_.data() + run.first_code * W;
        const bool first = !added && run.begin == sorted.first_of_code[run.first_code];
        for (int64_t i = 0; i < W * W; i++) gram[i] = first ? sums[i] : gram[i] + sums[i];
        for (int64_t i = 0; i < W; i++) rhs[i] = first ? sums[W * W + i] : rhs[i] + sums[W * W + i];
    }
}

}  // namespace ahofm
