// The design of the smooth main effects at the rows, in functions of which few are not zero at a value.
//
//     D = B F - 1 c'      B (n, functions): a row has four numbers per block, of functions that follow one another
//                         F (functions, q): coordinates in these functions, zero outside of its parts
//                         c (q,): what is subtracted, so that columns of D have mean zero
//
// Sums over rows are sums of B, which F turns into those of D: a Gram matrix of 20 coordinates per column takes 16
// multiplications per row and pair of columns in place of 400.
#pragma once

#include <algorithm>
#include <vector>

#include "passes.h"

namespace ahofm {

struct LocalDesign {
    struct Part {  // of F that is not zero: rows first .. last - 1, columns begin .. end - 1
        int64_t first, last, begin, end;
    };
    LocalRows rows{};
    int64_t q = 0;
    std::vector<Part> parts;
    std::vector<double> transform;  // (functions, q)
    std::vector<double> centre;     // (q,)

    // F coef, (functions,), and what is to be added to B F coef.
    std::vector<double> in_functions(const double* coef, double& added) const {
        std::vector<double> found(static_cast<size_t>(rows.functions), 0.0);
        added = 0.0;
        for (int64_t b = 0; b < q; b++) added -= centre[static_cast<size_t>(b)] * coef[b];
        for (const Part& part : parts)
            for (int64_t a = part.first; a < part.last; a++)
                for (int64_t b = part.begin; b < part.end; b++)
                    found[static_cast<size_t>(a)] += transform[static_cast<size_t>(a * q + b)] * coef[b];
        return found;
    }

    // D' x from B' x and the sum of x.
    void sums(const double* of_functions, double total, double* out) const {
        for (int64_t b = 0; b < q; b++) out[b] = -centre[static_cast<size_t>(b)] * total;
        for (const Part& part : parts)
            for (int64_t a = part.first; a < part.last; a++)
                for (int64_t b = part.begin; b < part.end; b++)
                    out[b] += transform[static_cast<size_t>(a * q + b)] * of_functions[a];
    }

    // D' W D, upper triangle, from the upper triangle of B' W B, which is completed, B' w and the sum of w.
    void gram(const Passes& passes, double* of_functions, const double* weights, double total,
              std::vector<double>& out) const {
        const int64_t size = rows.functions;
        constexpr int64_t side = 32;  // of the squares in which it is completed: both ends stay in the cache
        for (int64_t first = 0; first < size; first += side)
            for (int64_t last = 0; last <= first; last += side)
                for (int64_t a = first; a < std::min(first + side, size); a++)
                    for (int64_t b = last; b < std::min(last + side, a); b++)
                        of_functions[a * size + b] = of_functions[b * size + a];
        std::vector<double> half(static_cast<size_t>(size * q), 0.0), weighted(static_cast<size_t>(q));
        for (const Part& part : parts)
            passes.product({of_functions + part.first, size, false, size,
                            transform.data() + part.first * q + part.begin, q, part.end - part.begin,
                            part.last - part.first, half.data() + part.begin, q});
        out.assign(static_cast<size_t>(q * q), 0.0);
        for (const Part& part : parts)
            passes.product({transform.data() + part.first * q + part.begin, q, true, part.end - part.begin,
                            half.data() + part.first * q + part.begin, q, q - part.begin, part.last - part.first,
                            out.data() + part.begin * q + part.begin, q});
        sums(weights, 0.0, weighted.data());
        for (int64_t a = 0; a < q; a++)
            for (int64_t b = a; b < q; b++) {
                const double ca = centre[static_cast<size_t>(a)], cb = centre[static_cast<size_t>(b)];
                out[static_cast<size_t>(a * q + b)] +=
                    total * ca * cb - ca * weighted[static_cast<size_t>(b)] - cb * weighted[static_cast<size_t>(a)];
            }
    }
};

// Sums of rows are those of parts of the rows, added in order: bits do not depend on the number of threads.
class DesignSums {
  public:
    DesignSums(const Passes& passes, const LocalDesign& design, int64_t n)
        : passes_(passes), design_(design), n_(n), count_(std::clamp<int64_t>(n / kRowsOfPart, 1, kMostParts)) {}

    int count() const { return static_cast<int>(count_); }

    // The sums of a part: D' x where x is given, D' W D where weights are.
    void reserve(const double* x, const double* weight) {
        const int64_t size = design_.rows.functions;
        x_ = x;
        weight_ = weight;
        stride_ = (x == nullptr ? 0 : size + 1) + (weight == nullptr ? 0 : size * size + size + 1);
        memory_.assign(static_cast<size_t>(count_ * stride_), 0.0);
    }

    void part(int at) {
        const int64_t begin = at * n_ / count_, end = (at + 1) * n_ / count_, size = design_.rows.functions;
        double* to = memory_.data() + at * stride_;
        if (weight_ != nullptr) {
            passes_.local_gram(design_.rows, begin, end, weight_, to);
            to = vector(begin, end, weight_, to + size * size);
        }
        if (x_ != nullptr) vector(begin, end, x_, to);
    }

    // gram (q, q), upper triangle; sums (q,). Those that were not asked for are left as they are.
    void total(std::vector<double>& gram, std::vector<double>& sums) {
        for (int64_t at = 1; at < count_; at++)
            for (int64_t i = 0; i < stride_; i++)
                memory_[static_cast<size_t>(i)] += memory_[static_cast<size_t>(at * stride_ + i)];
        const int64_t size = design_.rows.functions;
        const double* from = memory_.data();
        if (weight_ != nullptr) {
            const double* weights = from + size * size;
            design_.gram(passes_, memory_.data(), weights, weights[size], gram);
            from = weights + size + 1;
        }
        if (x_ == nullptr) return;
        sums.assign(static_cast<size_t>(design_.q), 0.0);
        design_.sums(from, from[size], sums.data());
    }

  private:
    static constexpr int64_t kRowsOfPart = 2048, kMostParts = 8;

    double* vector(int64_t begin, int64_t end, const double* x, double* to) {
        passes_.local_transposed_times(design_.rows, begin, end, x, to);
        double* total = to + design_.rows.functions;
        for (int64_t i = begin; i < end; i++) *total += x[i];
        return total + 1;
    }

    const Passes& passes_;
    const LocalDesign& design_;
    int64_t n_, count_, stride_ = 0;
    const double *x_ = nullptr, *weight_ = nullptr;
    std::vector<double> memory_;
};

}  // namespace ahofm
