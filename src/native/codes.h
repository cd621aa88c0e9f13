// Codes of a block of rows, checked and turned into table rows.
#pragma once

#include "passes.h"

namespace ahofm {
namespace {

// Calls visit(codes + row) with the codes' own type.
template <class Visit>
auto with_codes(const Column& column, int64_t row, Visit visit) {
    if (column.width == 1) return visit(static_cast<const uint8_t*>(column.codes) + row);
    if (column.width == 2) return visit(static_cast<const uint16_t*>(column.codes) + row);
    return visit(static_cast<const uint32_t*>(column.codes) + row);
}

// Table rows of one column's cells, `stride` apart; false when a code is outside its table.
inline bool unpack_column(const Column& column, int64_t row, int rows, int stride, uint32_t* offsets) {
    return with_codes(column, row, [=](const auto* codes) {
        auto highest = codes[0];  // a loop of its own: it vectorises, which the scattered stores below do not
        for (int r = 1; r < rows; r++) highest = codes[r] > highest ? codes[r] : highest;
        for (int r = 0; r < rows; r++) offsets[static_cast<int64_t>(r) * stride] = column.start + static_cast<uint32_t>(codes[r]);
        return static_cast<uint32_t>(highest) < column.size;
    });
}

inline BadCode find_bad_code(const Rows& rows, int column, int64_t row, const uint32_t* offsets, int stride) {
    const Column& c = rows.columns[column];
    int r = 0;
    while (offsets[static_cast<int64_t>(r) * stride] - c.start < c.size) r++;
    return {column, row + r, offsets[static_cast<int64_t>(r) * stride] - c.start};
}

// Table rows of the cells of columns first .. last - 1 but `skip`, row-major.
inline BadCode unpack_block(const Rows& rows, int first, int last, int skip, int64_t row, int n, uint32_t* offsets) {
    const int stride = last - first - (skip >= first && skip < last);
    for (int j = first, at = 0; j < last; j++) {
        if (j == skip) continue;
        if (!unpack_column(rows.columns[j], row, n, stride, offsets + at)) return find_bad_code(rows, j, row, offsets + at, stride);
        at++;
    }
    return {};
}

// eta += the column's main effect. Columns outside, rows inside: the additions of different rows are independent.
inline void add_main(const Column& column, int64_t row, int rows, const double* main, double* eta) {
    with_codes(column, row, [=](const auto* codes) {
        const double* own = main + column.start;
        for (int r = 0; r < rows; r++) eta[r] += own[codes[r]];
        return 0;
    });
}

}  // namespace
}  // namespace ahofm
