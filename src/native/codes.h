// Codes of a block of rows, checked and turned into table rows.
#pragma once

#include "passes.h"
#include "vector.h"

namespace ahofm {
namespace {

// Calls visit(codes + row) with codes of their own type.
template <class Visit>
auto with_codes(const Column& column, int64_t row, Visit visit) {
    if (column.width == 1) return visit(static_cast<const uint8_t*>(column.codes) + row);
    if (column.width == 2) return visit(static_cast<const uint16_t*>(column.codes) + row);
    return visit(static_cast<const uint32_t*>(column.codes) + row);
}

inline BadCode find_bad_code(const Rows& rows, int column, int64_t row) {
    const Column& c = rows.columns[column];
    return with_codes(c, row, [&](const auto* codes) {
        int r = 0;
        while (static_cast<uint32_t>(codes[r]) < c.size) r++;
        return BadCode{column, row + r, static_cast<uint32_t>(codes[r])};
    });
}

// Counting sort of rows begin .. end - 1: `first` (codes + 1,) is where a code begins in `sorted`, whose rows count from
// `begin` and ascend within a code. Codes must have been checked.
inline void sort_by_code(const ColumnMoments& column, int64_t begin, int64_t end, uint32_t* first, uint32_t* sorted) {
    const Column codes{column.codes, column.code_width, 0, column.size};
    __builtin_memset(first, 0, (static_cast<size_t>(column.size) + 1) * sizeof(uint32_t));
    with_codes(codes, begin, [&](const auto* values) {
        for (int64_t i = 0; i < end - begin; i++) first[static_cast<uint32_t>(values[i]) + 1]++;
        for (uint32_t c = 0; c < column.size; c++) first[c + 1] += first[c];
        for (int64_t i = 0; i < end - begin; i++)
            sorted[first[static_cast<uint32_t>(values[i])]++] = static_cast<uint32_t>(i);
        return true;
    });
    for (uint32_t c = column.size; c > 0; c--) first[c] = first[c - 1];
    first[0] = 0;
}

constexpr int kGroup = 8;  // columns (and rows) that are transposed at a time

inline int padded_columns(int columns) { return (columns + kGroup - 1) / kGroup * kGroup; }

using Offsets8 = typename VectorOf<uint32_t, kGroup>::type;

// Table rows of a block of one column; false when a code is outside its table. Rows is the block's size where it is
// full: loops of known length vectorise without a remainder.
template <int Rows, class Code>
bool widen(const Code* codes, const Column& column, int n, uint32_t* out) {
    const int rows = Rows > 0 ? Rows : n;
    Code highest = 0;
    for (int r = 0; r < rows; r++) highest = codes[r] > highest ? codes[r] : highest;
    for (int r = 0; r < rows; r++) out[r] = column.start + static_cast<uint32_t>(codes[r]);
    return static_cast<uint32_t>(highest) < column.size;
}

#if defined(__clang__)
#define AHOFM_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define AHOFM_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Offsets8{__VA_ARGS__})
#endif

// Transposes eight columns by eight rows: one store per row instead of one per cell.
inline void store_turned(const uint32_t (&cells)[kGroup][kBlock], int row, int64_t stride, uint32_t* out) {
    Offsets8 v[kGroup], a[kGroup], b[kGroup];
    for (int k = 0; k < kGroup; k++) __builtin_memcpy(&v[k], &cells[k][row], sizeof(v[k]));
    for (int k = 0; k < 4; k++) {
        a[2 * k] = AHOFM_SHUFFLE(v[2 * k], v[2 * k + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        a[2 * k + 1] = AHOFM_SHUFFLE(v[2 * k], v[2 * k + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int k = 0; k < 4; k++) {
        const int at = k / 2 * 4 + k % 2;  // pairs (0, 2), (1, 3), (4, 6), (5, 7)
        b[k / 2 * 4 + k % 2 * 2] = AHOFM_SHUFFLE(a[at], a[at + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        b[k / 2 * 4 + k % 2 * 2 + 1] = AHOFM_SHUFFLE(a[at], a[at + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int k = 0; k < 4; k++) {
        const Offsets8 low = AHOFM_SHUFFLE(b[k], b[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        const Offsets8 high = AHOFM_SHUFFLE(b[k], b[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
        __builtin_memcpy(out + k * stride, &low, sizeof(low));
        __builtin_memcpy(out + (k + 4) * stride, &high, sizeof(high));
    }
}

// Table rows of the cells of columns first .. last - 1 but `skip`, row-major, padded_columns() apart.
inline BadCode unpack_block(const Rows& rows, int first, int last, int skip, int64_t row, int n, uint32_t* offsets) {
    const int stride = padded_columns(last - first - (skip >= first && skip < last));
    uint32_t cells[kGroup][kBlock] = {};
    for (int j = first, at = 0; at < stride; at += kGroup) {
        for (int size = 0; j < last && size < kGroup; j++) {
            if (j == skip) continue;
            const Column& column = rows.columns[j];
            const bool inside = with_codes(column, row, [&](const auto* codes) {
                return n == kBlock ? widen<kBlock>(codes, column, n, cells[size])
                                   : widen<0>(codes, column, n, cells[size]);
            });
            if (!inside) return find_bad_code(rows, j, row);
            size++;
        }
        for (int r = 0; r < n; r += kGroup)
            store_turned(cells, r, stride, offsets + static_cast<int64_t>(r) * stride + at);
    }
    return {};
}

}  // namespace
}  // namespace ahofm
