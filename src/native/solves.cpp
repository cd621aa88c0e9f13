// The solves of one instruction set: compiled once for each, with AHOFM_SOLVES and AHOFM_NAME set by CMake.

#include "priors.h"

namespace ahofm {
namespace {

constexpr int64_t kGramRows = 64;

// X'diag(w)X, rows in pieces that stay in the cache; columns in blocks on and above the diagonal.
void weighted_gram(const double* design, int64_t n, int64_t q, const double* weight, double* out) {
    constexpr int64_t side = 48;
    std::memset(out, 0, static_cast<size_t>(q * q) * sizeof(double));
    Buffer<double> scaled(kGramRows * q);
    for (int64_t first = 0; first < n; first += kGramRows) {
        const int64_t rows = n - first < kGramRows ? n - first : kGramRows;
        const double* part = design + first * q;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t j = 0; j < q; j++) scaled[r * q + j] = weight[first + r] * part[r * q + j];
        for (int64_t a = 0; a < q; a += side)
            add_product({scaled.get() + a, 1, q}, q - a < side ? q - a : side, part + a, q, q - a, rows, 1.0,
                        out + a * q + a, q);
    }
}

bool invert_matrix(double* matrix, int64_t n, double* inverse, const Parallel& parallel) {
    if (!factorise(matrix, n, n, parallel)) return false;
    invert_triangle(matrix, n, n, inverse, parallel);
    return true;
}

void run_product(const Product& product) {
    add_product({product.a, product.transposed ? 1 : product.lda, product.transposed ? product.lda : 1}, product.rows,
                product.b, product.ldb, product.columns, product.depth, 1.0, product.c, product.ldc);
}

// In place: b (n, m) becomes A^-1 b, with A (n, n) positive definite, of which the upper triangle is read.
bool solve_positive(double* a, int64_t n, double* b, int64_t m) {
    if (!factorise(a, n, n)) return false;
    solve_triangles(a, n, n, b, m);
    return true;
}

}  // namespace

const Solves AHOFM_SOLVES = {AHOFM_NAME,    solve_prior, solve_memory, weighted_gram,
                             invert_matrix, run_product, solve_curves, solve_positive};

}  // namespace ahofm
