// Dense linear algebra on small matrices, row-major, float64: the sizes of a column's block (4 to 500).
//
// Factors are upper triangular, A = U'U, so that every inner loop runs along contiguous rows:
//
//     U      by blocks of rows: A[J, J:] -= U[:J, J]' U[:J, J:], then the block itself
//     W      U^-1 by blocks of rows from the last one up; A^-1 = W W'
#pragma once

#include <cmath>

#include "row_states.h"

namespace ahofm {
namespace {

using Four = VectorOf<double, 4>::type;

inline Four load4(const double* from) { return *reinterpret_cast<const Four*>(from); }
inline void store4(double* to, Four v) { *reinterpret_cast<Four*>(to) = v; }

inline double non_negative(double x) { return x > 0.0 ? x : 0.0; }

constexpr int64_t kTasks = 16;       // that the codes of a column are shared out to
constexpr int64_t kFewestCodes = 8;  // of a task

// Calls visit(task, b) for all codes b; those of one task follow one another.
template <class Visit>
inline void over_codes(const Parallel& parallel, int64_t codes, Visit visit) {
    const int64_t most = codes / kFewestCodes, count = most < 1 ? 1 : most < kTasks ? most : kTasks;
    const auto some = [&](int task) {
        for (int64_t b = task * codes / count; b < (task + 1) * codes / count; b++) visit(task, b);
    };
    parallel(static_cast<int>(count), some);
}

// The left factor of a product: element (i, k) is at data[i * row + k * column].
struct Left {
    const double* data;
    int64_t row, column;
};

// Vectors of products of matrices: twice as wide where the processor has them, with the same sums in the same order.
#if defined(AHOFM_AVX512)
constexpr int kWide = 8;
constexpr int kWideRows = 8;  // of a tile: three vectors of each, and three of the other factor, fit the registers
#else
constexpr int kWide = 4, kWideRows = 4;
#endif

template <int Lanes>
inline typename VectorOf<double, Lanes>::type load(const double* from) {
    return *reinterpret_cast<const typename VectorOf<double, Lanes>::type*>(from);
}
template <int Lanes>
inline void store(double* to, typename VectorOf<double, Lanes>::type v) {
    *reinterpret_cast<typename VectorOf<double, Lanes>::type*>(to) = v;
}

// C (Rows, Lanes * Count) += sign * sum_k a(i, k) b(k, :)
template <int Lanes, int Rows, int Count>
inline void product_tile(const Left& a, const double* b, int64_t ldb, int64_t depth, double sign, double* c,
                         int64_t ldc) {
    using Vector = typename VectorOf<double, Lanes>::type;
    Vector sum[Rows][Count] = {};
    const double* left = a.data;
    for (int64_t k = 0; k < depth; k++, left += a.column, b += ldb) {
        Vector right[Count];
        AHOFM_UNROLL_ALL
        for (int v = 0; v < Count; v++) right[v] = load<Lanes>(b + Lanes * v);
        AHOFM_UNROLL_ALL
        for (int i = 0; i < Rows; i++) {
            const Vector scale = broadcast<Vector>(left[i * a.row]);
            AHOFM_UNROLL_ALL
            for (int v = 0; v < Count; v++) sum[i][v] += scale * right[v];
        }
    }
    AHOFM_UNROLL_ALL
    for (int i = 0; i < Rows; i++) {
        AHOFM_UNROLL_ALL
        for (int v = 0; v < Count; v++) {
            double* to = c + i * ldc + Lanes * v;
            store<Lanes>(to, load<Lanes>(to) + sign * sum[i][v]);
        }
    }
}

template <int Lanes, int Rows, int Count>
inline void product_columns(const Left& a, int64_t rows, const double* b, int64_t ldb, int64_t depth, double sign,
                            double* c, int64_t ldc) {
    int64_t i = 0;
    for (; i + Rows <= rows; i += Rows)
        product_tile<Lanes, Rows, Count>({a.data + i * a.row, a.row, a.column}, b, ldb, depth, sign, c + i * ldc, ldc);
    if constexpr (Rows > 4)
        if (i + 4 <= rows) {
            product_tile<Lanes, 4, Count>({a.data + i * a.row, a.row, a.column}, b, ldb, depth, sign, c + i * ldc, ldc);
            i += 4;
        }
    for (; i < rows; i++)
        product_tile<Lanes, 1, Count>({a.data + i * a.row, a.row, a.column}, b, ldb, depth, sign, c + i * ldc, ldc);
}

// C (rows, columns) += sign * a (rows, depth) b (depth, columns)
inline void add_product(const Left& a, int64_t rows, const double* b, int64_t ldb, int64_t columns, int64_t depth,
                        double sign, double* c, int64_t ldc) {
    int64_t j = 0;
    for (; j + 3 * kWide <= columns; j += 3 * kWide)
        product_columns<kWide, kWideRows, 3>(a, rows, b + j, ldb, depth, sign, c + j, ldc);
    if (j + 2 * kWide <= columns) {
        product_columns<kWide, kWideRows, 2>(a, rows, b + j, ldb, depth, sign, c + j, ldc);
        j += 2 * kWide;
    }
    if (j + kWide <= columns) {
        product_columns<kWide, kWideRows, 1>(a, rows, b + j, ldb, depth, sign, c + j, ldc);
        j += kWide;
    }
    if (kWide > 4 && j + 4 <= columns) {
        product_columns<4, 4, 1>(a, rows, b + j, ldb, depth, sign, c + j, ldc);
        j += 4;
    }
    for (; j < columns; j++)
        for (int64_t i = 0; i < rows; i++) {
            if (a.column == 1) {
                double sum = 0.0;
                for (int64_t k = 0; k < depth; k++) sum += a.data[i * a.row + k] * b[k * ldb + j];
                c[i * ldc + j] += sign * sum;
            } else if (i == 0) {  // contiguous rows: all of them at once
                for (int64_t k = 0; k < depth; k++) {
                    const double factor = sign * b[k * ldb + j], *left = a.data + k * a.column;
                    for (int64_t r = 0; r < rows; r++) c[r * ldc + j] += factor * left[r * a.row];
                }
            }
        }
}

// to (n) -= factor * from (n)
inline void subtract_row(double factor, const double* from, int64_t n, double* to) {
    for (int64_t j = 0; j < n; j++) to[j] -= factor * from[j];
}

inline double dot(const double* a, const double* b, int64_t n) {
    Four sum[2] = {};
    int64_t k = 0;
    for (; k + 8 <= n; k += 8) {
        sum[0] += load4(a + k) * load4(b + k);
        sum[1] += load4(a + k + 4) * load4(b + k + 4);
    }
    double rest = 0.0;
    for (; k < n; k++) rest += a[k] * b[k];
    return sum_lanes<double, 4>(sum[0] + sum[1]) + rest;
}

constexpr int64_t kDenseBlock = 24, kSlice = 48;  // rows at a time, and columns of a task

// Calls task(begin, end) for slices of `columns` columns: always the same ones, whatever the number of threads.
template <class Task>
inline void over_slices(const Parallel& parallel, int64_t columns, Task task) {
    const auto slice = [&](int s) {
        const int64_t begin = s * kSlice;
        task(begin, columns - begin < kSlice ? columns : begin + kSlice);
    };
    parallel(static_cast<int>((columns + kSlice - 1) / kSlice), slice);
}

// In place, upper triangle: A = U'U. The lower triangle is not read. False when A is not positive definite.
inline bool factorise(double* a, int64_t n, int64_t ld, const Parallel& parallel = {}) {
    double scales[kDenseBlock];
    for (int64_t first = 0; first < n; first += kDenseBlock) {
        const int64_t size = n - first < kDenseBlock ? n - first : kDenseBlock, rest = n - first - size;
        double* block = a + first * ld + first;
        add_product({a + first, 1, ld}, size, a + first, ld, size, first, -1.0, block, ld);
        for (int64_t k = 0; k < size; k++) {
            double* row = block + k * ld;
            if (!(row[k] > 0.0)) return false;
            scales[k] = 1.0 / std::sqrt(row[k]);
            for (int64_t j = k; j < size; j++) row[j] *= scales[k];
            for (int64_t i = k + 1; i < size; i++) subtract_row(row[i], row + i, size - i, block + i * ld + i);
        }
        over_slices(parallel, rest, [&](int64_t begin, int64_t end) {
            const int64_t at = size + begin, columns = end - begin;
            add_product({a + first, 1, ld}, size, a + first + at, ld, columns, first, -1.0, block + at, ld);
            for (int64_t k = 0; k < size; k++) {
                double* row = block + k * ld + at;
                for (int64_t j = 0; j < columns; j++) row[j] *= scales[k];
                for (int64_t i = k + 1; i < size; i++)
                    subtract_row(block[k * ld + i], row, columns, block + i * ld + at);
            }
        });
    }
    return true;
}

// In place: b (n, m) becomes A^-1 b, with A = U'U.
inline void solve_triangles(const double* u, int64_t n, int64_t ld, double* b, int64_t m) {
    for (int64_t i = 0; i < n; i++) {
        const double scale = 1.0 / u[i * ld + i];
        for (int64_t k = 0; k < m; k++) b[i * m + k] *= scale;
        if (m == 1) subtract_row(b[i], u + i * ld + i + 1, n - i - 1, b + i + 1);
        else
            for (int64_t j = i + 1; j < n; j++) subtract_row(u[i * ld + j], b + i * m, m, b + j * m);
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        if (m == 1) b[i] -= dot(u + i * ld + i + 1, b + i + 1, n - i - 1);
        else
            for (int64_t j = i + 1; j < n; j++) subtract_row(u[i * ld + j], b + j * m, m, b + i * m);
        const double scale = 1.0 / u[i * ld + i];
        for (int64_t k = 0; k < m; k++) b[i * m + k] *= scale;
    }
}

// W = U^-1, upper triangle; the rest of `w` (n, n) becomes zero. Columns do not depend on each other; the last ones,
// which have most rows, come first.
inline void invert_triangle(const double* u, int64_t n, int64_t ld, double* w, const Parallel& parallel = {}) {
    const int64_t slices = (n + kSlice - 1) / kSlice;
    const auto columns = [&](int task) {
        const int64_t begin = (slices - 1 - task) * kSlice, end = n - begin < kSlice ? n : begin + kSlice;
        for (int64_t i = 0; i < n; i++)
            std::memset(w + i * n + begin, 0, static_cast<size_t>(end - begin) * sizeof(double));
        for (int64_t block = (end - 1) / kDenseBlock; block >= 0; block--) {
            const int64_t first = block * kDenseBlock, last = first + kDenseBlock < end ? first + kDenseBlock : end,
                          from = begin > last ? begin : last;  // columns right of the block: products with rows below
            if (from < end)
                add_product({u + first * ld + last, ld, 1}, last - first, w + last * n + from, n, end - from,
                            end - last, -1.0, w + first * n + from, n);
            for (int64_t i = last - 1; i >= first; i--) {
                double* row = w + i * n;
                if (i >= begin) row[i] = 1.0;
                const int64_t start = i > begin ? i : begin;
                for (int64_t k = i + 1; k < last; k++) {
                    const int64_t start_k = k > begin ? k : begin;
                    subtract_row(u[i * ld + k], w + k * n + start_k, end - start_k, row + start_k);
                }
                const double scale = 1.0 / u[i * ld + i];
                for (int64_t j = start; j < end; j++) row[j] *= scale;
            }
        }
    };
    parallel(static_cast<int>(slices), columns);
}

// to (n, m) = W W' from (n, m); `middle` holds n * m numbers.
inline void apply_inverse(const double* w, int64_t n, const double* from, int64_t m, double* middle, double* to,
                          const Parallel& parallel = {}) {
    std::memset(middle, 0, static_cast<size_t>(n * m) * sizeof(double));
    std::memset(to, 0, static_cast<size_t>(n * m) * sizeof(double));
    if (m == 1) {
        for (int64_t k = 0; k < n; k++)
            if (from[k] != 0.0) subtract_row(-from[k], w + k * n + k, n - k, middle + k);
        for (int64_t i = 0; i < n; i++) to[i] = dot(w + i * n + i, middle + i, n - i);
        return;
    }
    const int blocks = static_cast<int>((n + kDenseBlock - 1) / kDenseBlock);
    const auto half = [&](int block) {  // rows and columns beyond the triangle are zero
        const int64_t first = block * kDenseBlock, size = n - first < kDenseBlock ? n - first : kDenseBlock;
        add_product({w + first, 1, n}, size, from, m, m, first + size, 1.0, middle + first * m, m);
    };
    const auto whole = [&](int block) {
        const int64_t first = block * kDenseBlock, size = n - first < kDenseBlock ? n - first : kDenseBlock;
        add_product({w + first * n + first, n, 1}, size, middle + first * m, m, m, n - first, 1.0, to + first * m, m);
    };
    parallel(blocks, half);
    parallel(blocks, whole);
}

// Small square matrices of `stride` rows and columns, padded to whole vectors; Vectors is stride / 4 where it is known
// (1 to 8), else 0. Products whose tiles do not fit the registers go through `add_product`.
template <int Vectors>
struct Small {
    static int64_t columns(int64_t stride) { return Vectors > 0 ? 4 * Vectors : stride; }

    // Vectors of rows of `count` times four numbers.
    template <int count>
    struct Row {
        static constexpr int lanes = count % (kWide / 4) == 0 ? kWide : 4, vectors = 4 * count / lanes;
        using Vector = typename VectorOf<double, lanes>::type;
    };

    // c = a b, with b and c of `Count` times four numbers a row, or `width` numbers when Count is 0.
    template <int Count = Vectors>
    static void multiply(const double* a, const double* b, double* c, int64_t stride, int64_t width) {
        const int64_t n = columns(stride);
        using R = Row<Count>;
        if constexpr (Vectors > 0 && Count > 0 && R::vectors <= 4) {
            using Vector = typename R::Vector;
            for (int64_t i = 0; i < n; i += 4) {
                Vector sum[4][R::vectors] = {};
                AHOFM_UNROLL_ALL
                for (int64_t k = 0; k < 4 * Vectors; k++) {
                    Vector right[R::vectors];
                    AHOFM_UNROLL_ALL
                    for (int v = 0; v < R::vectors; v++) right[v] = load<R::lanes>(b + k * 4 * Count + R::lanes * v);
                    AHOFM_UNROLL_ALL
                    for (int r = 0; r < 4; r++) {
                        const Vector scale = broadcast<Vector>(a[(i + r) * n + k]);
                        AHOFM_UNROLL_ALL
                        for (int v = 0; v < R::vectors; v++) sum[r][v] += scale * right[v];
                    }
                }
                AHOFM_UNROLL_ALL
                for (int r = 0; r < 4; r++) {
                    AHOFM_UNROLL_ALL
                    for (int v = 0; v < R::vectors; v++)
                        store<R::lanes>(c + (i + r) * 4 * Count + R::lanes * v, sum[r][v]);
                }
            }
        } else {
            std::memset(c, 0, static_cast<size_t>(n * width) * sizeof(double));
            add_product({a, n, 1}, n, b, width, width, n, 1.0, c, width);
        }
    }

    // to (stride,) = a from (stride,)
    static void apply(const double* a, const double* from, double* to, int64_t stride) {
        const int64_t n = columns(stride);
        for (int64_t i = 0; i < n; i++) {
            Four sum = {};
            for (int64_t k = 0; k < n; k += 4) sum += load4(a + i * n + k) * load4(from + k);
            to[i] = sum_lanes<double, 4>(sum);
        }
    }

    // In place: the inverse of a symmetric positive definite matrix, by elimination of one variable after another.
    // False when a pivot is not positive.
    static bool invert(double* a, int64_t stride) {
        const int64_t n = columns(stride);
        if constexpr (Vectors > 0) {
            using R = Row<Vectors>;
            using Vector = typename R::Vector;
            for (int64_t k = 0; k < n; k++) {
                double* pivot = a + k * n;
                if (!(pivot[k] > 0.0)) return false;
                const double inverse = 1.0 / pivot[k];
                Vector row[R::vectors];
                AHOFM_UNROLL_ALL
                for (int v = 0; v < R::vectors; v++) row[v] = load<R::lanes>(pivot + R::lanes * v) * inverse;
                AHOFM_UNROLL_ALL
                for (int64_t i = 0; i < 4 * Vectors; i++) {
                    const double factor = a[i * n + k];
                    AHOFM_UNROLL_ALL
                    for (int v = 0; v < R::vectors; v++) {
                        double* to = a + i * n + R::lanes * v;
                        store<R::lanes>(to, load<R::lanes>(to) - factor * row[v]);
                    }
                    // The element is inserted after the load: stored before it, the load would wait for the store.
                    a[i * n + k] = -factor * inverse;
                }
                AHOFM_UNROLL_ALL
                for (int v = 0; v < R::vectors; v++) store<R::lanes>(pivot + R::lanes * v, row[v]);
                pivot[k] = inverse;
            }
            return true;
        } else {
            for (int64_t k = 0; k < n; k++) {
                double* pivot = a + k * n;
                if (!(pivot[k] > 0.0)) return false;
                const double inverse = 1.0 / pivot[k];
                pivot[k] = 1.0;
                for (int64_t j = 0; j < n; j++) pivot[j] *= inverse;
                for (int64_t i = 0; i < n; i++) {
                    if (i == k) continue;
                    const double factor = a[i * n + k];
                    a[i * n + k] = 0.0;
                    subtract_row(factor, pivot, n, a + i * n);
                }
            }
            return true;
        }
    }
};

inline int64_t padded(int64_t n) { return (n + 3) / 4 * 4; }

// Calls visit(Small<V>{}) with the number of vectors in a row of that stride.
template <class Visit>
inline bool with_small(int64_t stride, Visit visit) {
    switch (stride / 4) {
        case 1: return visit(Small<1>{});
        case 2: return visit(Small<2>{});
        case 3: return visit(Small<3>{});
        case 4: return visit(Small<4>{});
        case 5: return visit(Small<5>{});
        case 6: return visit(Small<6>{});
        case 7: return visit(Small<7>{});
        case 8: return visit(Small<8>{});
        default: return visit(Small<0>{});
    }
}

// The top left (n, n) of a padded matrix, with ones on the rest of the diagonal.
inline void pad_matrix(const double* from, int64_t n, int64_t stride, double* to) {
    if (n == stride) {
        std::memcpy(to, from, static_cast<size_t>(n * n) * sizeof(double));
        return;
    }
    std::memset(to, 0, static_cast<size_t>(stride * stride) * sizeof(double));
    for (int64_t i = 0; i < n; i++) std::memcpy(to + i * stride, from + i * n, static_cast<size_t>(n) * sizeof(double));
    for (int64_t i = n; i < stride; i++) to[i * stride + i] = 1.0;
}

}  // namespace
}  // namespace ahofm
