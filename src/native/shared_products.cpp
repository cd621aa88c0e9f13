// Product factors of several classes: the constants of their functions, and their scales. The reference is
// ahofm/shared_curves/products.py.
#include <algorithm>
#include <cmath>

#include "shared_curves.h"

namespace ahofm {

// Constants of product factors given their functions, with variances by Fisher's information; rhs becomes that of the
// functions given these.
void SharedCurves::solve_constants(const SharedColumn& column, bool learn) {
    const int64_t codes = column.n_codes - 1;
    const size_t R = sized(product_rank_), first = sized(first_product_), F = sized(F_);
    const double *values = column.curves.values, *neutral = values + codes * F_;
    std::vector<double> total(R * R, 0.0), found(R, 0.0), inverse(R * R);
    for (size_t b = 0; b < sized(codes); b++)
        for (size_t f = 0; f < R; f++) {
            const double* row = gram_.data() + (b * F + first + f) * F;
            found[f] += rhs_[b * F + first + f];
            for (size_t g = 0; g < F; g++) found[f] -= row[g] * (values[b * F + g] - neutral[g]);
            for (size_t g = 0; g < R; g++) total[f * R + g] += row[first + g];
        }
    std::vector<double> precision(total);
    for (size_t f = 0; f < R; f++) precision[f * R + f] += options_.constant_precision;
    if (!passes_.solve_positive(precision.data(), product_rank_, found.data(), 1))
        throw Failed{"the constants of product factors are not determined: their matrix is not positive definite"};
    std::copy(found.begin(), found.end(), constants_.begin() + first_product_);
    for (size_t b = 0; b < sized(codes); b++)
        for (size_t f = 0; f < F; f++)
            for (size_t g = 0; g < R; g++) rhs_[b * F + f] -= gram_[(b * F + f) * F + first + g] * found[g];
    if (!learn) return;
    for (size_t f = 0; f < R; f++) {
        for (size_t g = 0; g < R; g++) total[f * R + g] *= fisher_;
        total[f * R + f] += options_.constant_precision;
    }
    if (!passes_.invert(total.data(), product_rank_, inverse.data(), {}))
        throw Failed{"the information about constants of product factors is not positive definite"};
    for (size_t f = 0; f < R; f++) {
        double variance = 0.0;
        for (size_t g = f; g < R; g++) variance += inverse[f * R + g] * inverse[f * R + g];
        constant_variance_[first + f] = variance;
    }
}

// Root mean squares of product factors' functions, with constants; the functions themselves are divided by these.
void SharedCurves::scale_products(const SharedColumn& column) {
    const int64_t codes = column.n_codes - 1;
    for (int64_t f = first_product_; f < first_product_ + product_rank_; f++) {
        double square = 0.0;
        for (int64_t b = 0; b < codes; b++) {
            const double value = mean_[sized(b * F_ + f)] + constants_[sized(f)];
            square += column.mass[sized(b)] * value * value;
        }
        const double scale = std::sqrt(square) > options_.least_product_scale ? std::sqrt(square) : 1.0;
        scale_[sized(f)] = scale;
        for (int64_t b = 0; b < codes; b++) column.curves.per_code[b * F_ + f] /= scale;
        for (int64_t a = 0; a < column.factors.task.m; a++) column.curves.smooth[a * F_ + f] /= scale;
    }
}

}  // namespace ahofm
