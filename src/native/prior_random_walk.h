// Random walk: a penalty of differences of neighbouring codes, and a small ridge; a chain of small problems. NumPy's
// form is ahofm/priors/random_walk.py.
#pragma once

#include "centring.h"

namespace ahofm {
namespace {

struct ChainSolution {
    double* mean;         // (codes, K)
    double* variance;     // (codes, K)
    double* differences;  // (K,): sum over edges of edge * variance of the difference
    double* covariance;   // (codes, stride, stride): covariance with the weighted means, for centred functions
};

// Blocks A_b = gram_b + diag(lam_d (h_{b-1} + h_b) + lam_v) on the diagonal and -S_b = -diag(lam_d h_b) beside it. Both
// halves of the chain are eliminated from their ends to the middle, side by side, and solved from the middle outwards
// (van der Vorst's twisted factorisation). P_b is the inverse of a block after the elimination of those outside of it.
template <int Vectors>
class TwistedChain {
  public:
    TwistedChain(const PriorTask& prior, int64_t K, int64_t stride, const double* lam, const ChainSolution& out,
                 Arena& arena)
        : prior_(prior), K_(K), n_(Matrix::columns(stride)), block_(n_ * n_), middle_(prior.codes / 2),
          difference_(lam), value_(lam + K), out_(out), inverse_(arena.take(prior.codes * block_)),
          right_(arena.zeros(prior.codes * n_)) {
        for (int side = 0; side < 2; side++) {
            steps_[side] = arena.zeros(2 * n_);
            differences_[side] = arena.zeros(n_);
            memory_[side] = arena.take(5 * block_);
            solved_[side] = arena.zeros(2 * n_);
        }
    }

    bool solve(const double* gram, const double* rhs, const Parallel& parallel) {
        bool sound[2] = {};
        const auto inwards = [&](int side) { sound[side] = eliminate(side, gram, rhs); };
        parallel(2, inwards);
        if (!sound[0] || !sound[1] || !solve_middle(gram, rhs)) return false;
        const bool centred = prior_.mass != nullptr;
        const auto outwards = [&](int task) {
            if (task < 2) means_and_variances(task);
            else sum_masses(task - 2);
        };
        parallel(centred ? 4 : 2, outwards);
        for (int64_t f = 0; f < K_; f++) out_.differences[f] = differences_[0][f] + differences_[1][f];
        if (!centred) return true;
        double *U = out_.covariance + middle_ * block_, *product = memory_[0];
        set_mass(middle_);
        for (int side = 0; side < 2; side++) add_sums(side, middle_, product);
        multiply(inverse_ + middle_ * block_, U, product);
        std::memcpy(U, product, bytes());
        const auto covariances = [&](int side) { covariance_with_means(side); };
        parallel(2, covariances);
        return true;
    }

  private:
    using Matrix = Small<Vectors>;

    size_t bytes() const { return static_cast<size_t>(block_) * sizeof(double); }
    // From the end of a side to the middle: its codes are first, first + towards, ..., middle - towards.
    static int64_t towards(int side) { return side == 0 ? 1 : -1; }
    int64_t first(int side) const { return side == 0 ? 0 : prior_.codes - 1; }
    // Weight of the difference of a code and its neighbour, in that direction; 0 beyond the ends.
    double edge(int64_t b, int64_t direction) const {
        const int64_t at = direction > 0 ? b : b - 1;
        return at < 0 || at + 1 >= prior_.codes ? 0.0 : prior_.edges[at];
    }
    void multiply(const double* a, const double* b, double* c) const { Matrix::template multiply<>(a, b, c, n_, n_); }
    void set_step(double* step, double weight) const {
        for (int64_t f = 0; f < K_; f++) step[f] = difference_[f] * weight;
    }

    // The block of a code and its right-hand side, before elimination.
    void set_block(int64_t b, const double* gram, const double* rhs) {
        double *A = inverse_ + b * block_, *r = right_ + b * n_;
        const double sum = edge(b, -1) + edge(b, 1);
        pad_matrix(gram + b * K_ * K_, K_, n_, A);
        for (int64_t f = 0; f < K_; f++) {
            A[f * n_ + f] += difference_[f] * sum + value_[f];
            r[f] = rhs[b * K_ + f];
        }
    }

    // Subtracts what is left of the neighbour outside of it.
    void eliminate_neighbour(int side, int64_t b) {
        const int64_t outside = b - towards(side);
        const double weight = edge(b, -towards(side));
        if (!(weight > 0.0)) return;
        double *A = inverse_ + b * block_, *r = right_ + b * n_, *step = steps_[side], *solved = solved_[side];
        const double* P = inverse_ + outside * block_;
        set_step(step, weight);
        for (int64_t f = 0; f < K_; f++)
            for (int64_t g = 0; g < n_; g += 4)
                store4(A + f * n_ + g, load4(A + f * n_ + g) - step[f] * load4(P + f * n_ + g) * load4(step + g));
        Matrix::apply(P, right_ + outside * n_, solved, n_);
        for (int64_t f = 0; f < K_; f++) r[f] += step[f] * solved[f];
    }

    bool eliminate(int side, const double* gram, const double* rhs) {
        for (int64_t b = first(side); b != middle_; b += towards(side)) {
            set_block(b, gram, rhs);
            if (b != first(side)) eliminate_neighbour(side, b);
            if (!Matrix::invert(inverse_ + b * block_, n_)) return false;
        }
        return true;
    }

    bool solve_middle(const double* gram, const double* rhs) {
        set_block(middle_, gram, rhs);
        for (int side = 0; side < 2; side++)
            if (first(side) != middle_) eliminate_neighbour(side, middle_);
        double *P = inverse_ + middle_ * block_, *solved = solved_[0];
        if (!Matrix::invert(P, n_)) return false;
        Matrix::apply(P, right_ + middle_ * n_, solved, n_);
        for (int64_t f = 0; f < K_; f++) {
            out_.mean[middle_ * K_ + f] = solved[f];
            out_.variance[middle_ * K_ + f] = P[f * n_ + f];
        }
        std::memcpy(solved_[1], solved, static_cast<size_t>(n_) * sizeof(double));
        return true;
    }

    // From the middle outwards: means, variances, and variances of differences of neighbours.
    void means_and_variances(int side) {
        double *scaled = memory_[side], *across = scaled + block_, *now = across + block_, *last = now + block_,
               *step = steps_[side], *inner = solved_[side], *mean = inner + n_, *differences = differences_[side];
        std::memcpy(last, inverse_ + middle_ * block_, bytes());
        for (int64_t b = middle_ - towards(side); b >= 0 && b < prior_.codes; b -= towards(side)) {
            const double *P = inverse_ + b * block_, weight = edge(b, towards(side));
            double* r = right_ + b * n_;
            if (weight > 0.0) {
                set_step(step, weight);
                for (int64_t f = 0; f < K_; f++) r[f] += step[f] * inner[f];
                // across = P S last, now = P + across S P: covariance of this code with the inner one, and its own
                for (int64_t f = 0; f < n_; f++)
                    for (int64_t g = 0; g < n_; g += 4) store4(scaled + f * n_ + g, step[f] * load4(last + f * n_ + g));
                multiply(P, scaled, across);
                for (int64_t f = 0; f < n_; f++)
                    for (int64_t g = 0; g < n_; g += 4) store4(scaled + f * n_ + g, step[f] * load4(P + f * n_ + g));
                multiply(across, scaled, now);
                for (int64_t i = 0; i < block_; i += 4) store4(now + i, load4(now + i) + load4(P + i));
                for (int64_t f = 0; f < K_; f++)
                    differences[f] += weight * (now[f * n_ + f] + last[f * n_ + f] - 2.0 * across[f * n_ + f]);
            } else {
                std::memcpy(now, P, bytes());
            }
            Matrix::apply(P, r, mean, n_);
            for (int64_t f = 0; f < K_; f++) {
                out_.mean[b * K_ + f] = mean[f];
                out_.variance[b * K_ + f] = now[f * n_ + f];
            }
            double *swap = now, *other = mean;
            now = last;
            last = swap;
            mean = inner;
            inner = other;
        }
    }

    void set_mass(int64_t b) {
        double* U = out_.covariance + b * block_;
        std::memset(U, 0, bytes());
        for (int64_t f = 0; f < K_; f++) U[f * n_ + f] = prior_.mass[b];
    }

    // Adds S P of the neighbour outside times its sums.
    void add_sums(int side, int64_t b, double* product) {
        const double weight = edge(b, -towards(side));
        if (first(side) == b || !(weight > 0.0)) return;
        const int64_t outside = b - towards(side);
        double *U = out_.covariance + b * block_, *step = steps_[side] + n_;
        multiply(inverse_ + outside * block_, out_.covariance + outside * block_, product);
        set_step(step, weight);
        for (int64_t f = 0; f < n_; f++)
            for (int64_t g = 0; g < n_; g += 4)
                store4(U + f * n_ + g, load4(U + f * n_ + g) + step[f] * load4(product + f * n_ + g));
    }

    // Right-hand sides of the covariance with the weighted means, of a side's codes after elimination.
    void sum_masses(int side) {
        double* product = memory_[side] + 4 * block_;
        for (int64_t b = first(side); b != middle_; b += towards(side)) {
            set_mass(b);
            add_sums(side, b, product);
        }
    }

    void covariance_with_means(int side) {
        double *product = memory_[side] + 4 * block_, *step = steps_[side] + n_;
        for (int64_t b = middle_ - towards(side); b >= 0 && b < prior_.codes; b -= towards(side)) {
            const double weight = edge(b, towards(side));
            double* U = out_.covariance + b * block_;
            if (weight > 0.0) {
                const double* inner = U + towards(side) * block_;
                set_step(step, weight);
                for (int64_t f = 0; f < n_; f++)
                    for (int64_t g = 0; g < n_; g += 4)
                        store4(U + f * n_ + g, load4(U + f * n_ + g) + step[f] * load4(inner + f * n_ + g));
            }
            multiply(inverse_ + b * block_, U, product);
            std::memcpy(U, product, bytes());
        }
    }

    const PriorTask& prior_;
    const int64_t K_, n_, block_, middle_;
    const double *difference_, *value_;
    const ChainSolution& out_;
    double *inverse_, *right_;
    double *steps_[2], *differences_[2], *memory_[2], *solved_[2];  // by side
};

template <int Vectors>
inline bool solve_chain(Small<Vectors>, const SolveTask& task, int64_t stride, const ChainSolution& out, Arena& arena) {
    TwistedChain<Vectors> chain(*task.prior, task.K, stride, task.lam, out, arena);
    return chain.solve(task.gram, task.rhs, task.parallel);
}

// The same for one function: scalars in place of matrices, and centring in the same loops.
inline bool solve_chain_of_numbers(const PriorTask& prior, const double* gram, const double* rhs, const double* lam,
                                   const ChainSolution& out, double* covariance, Arena& arena) {
    const int64_t codes = prior.codes;
    double *inverse = arena.take(codes), *right = arena.take(codes);
    for (int64_t b = 0; b < codes; b++) {
        const double before = b > 0 ? prior.edges[b - 1] : 0.0, after = b + 1 < codes ? prior.edges[b] : 0.0,
                     step = lam[0] * before;
        double pivot = gram[b] + lam[0] * (before + after) + lam[1];
        right[b] = rhs[b];
        covariance[b] = prior.mass == nullptr ? 0.0 : prior.mass[b];
        if (before > 0.0) {
            pivot -= step * inverse[b - 1] * step;
            right[b] += step * inverse[b - 1] * right[b - 1];
            covariance[b] += step * inverse[b - 1] * covariance[b - 1];
        }
        if (!(pivot > 0.0)) return false;
        inverse[b] = 1.0 / pivot;
    }
    out.differences[0] = 0.0;
    for (int64_t b = codes - 1; b >= 0; b--) {
        const double after = b + 1 < codes ? prior.edges[b] : 0.0, step = lam[0] * after, P = inverse[b];
        out.mean[b] = P * (after > 0.0 ? right[b] + step * out.mean[b + 1] : right[b]);
        covariance[b] = P * (after > 0.0 ? covariance[b] + step * covariance[b + 1] : covariance[b]);
        out.variance[b] = P;
        if (after > 0.0) {
            const double across = P * step * out.variance[b + 1];
            out.variance[b] += across * step * P;
            out.differences[0] += after * (out.variance[b] + out.variance[b + 1] - 2.0 * across);
        }
    }
    if (prior.mass == nullptr) return true;
    double form = 0.0, mean = 0.0;
    for (int64_t b = 0; b < codes; b++) {
        form += prior.mass[b] * covariance[b];
        mean += prior.mass[b] * out.mean[b];
    }
    form += tuning::CENTRING_JITTER * form;
    if (!(form > 0.0)) return false;
    for (int64_t b = 0; b < codes; b++) {
        out.mean[b] -= covariance[b] * mean / form;
        const double conditioned = out.variance[b] - covariance[b] * covariance[b] / form,
                     apart = b + 1 < codes ? covariance[b + 1] - covariance[b] : 0.0;
        out.variance[b] = non_negative(conditioned);
        if (b + 1 < codes) out.differences[0] -= prior.edges[b] * apart * apart / form;
    }
    return true;
}

inline bool solve_as_random_walk(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, stride = padded(K);
    const double *difference = task.lam, *value = task.lam + K;
    ChainSolution chain{task.mean, task.variance, arena.take(K), nullptr};
    if (K == 1) {
        if (!solve_chain_of_numbers(prior, task.gram, task.rhs, task.lam, chain, arena.take(codes), arena))
            return false;
    } else {
        if (prior.mass != nullptr) chain.covariance = arena.take(codes * stride * stride);
        const bool solved =
            with_small(stride, [&](auto small) { return solve_chain(small, task, stride, chain, arena); });
        if (!solved) return false;
        if (prior.mass != nullptr) {
            const Centring centring(prior.mass, chain.covariance, codes, K, stride, arena, task.parallel);
            if (!centring.sound()) return false;
            double* shift = arena.take(stride);
            centring.shift(task.mean, shift);
            centring.subtract(shift, task.mean);
            centring.condition(task.variance);
            centring.condition_differences(prior.edges, chain.differences, arena);
        }
    }
    double prior_steps = 0.0, prior_values = 0.0;  // traces of the prior's variance, of differences and of values
    for (int64_t f = 0; f < K; f++) {
        double variance = 0.0, squares = 0.0, apart = 0.0;
        if (f == 0 || difference[f] != difference[f - 1] || value[f] != value[f - 1]) {
            prior_steps = prior_values = 0.0;
            for (int64_t i = 0; i < prior.n_eigenvalues; i++) {
                const double each = 1.0 / (difference[f] * prior.penalty_eigenvalues[i] + value[f]);
                prior_steps += prior.penalty_eigenvalues[i] * each;
                prior_values += each;
            }
        }
        for (int64_t b = 0; b < codes; b++) {
            const double mean = task.mean[b * K + f];
            variance += task.variance[b * K + f];
            squares += mean * mean;
            if (b + 1 < codes)
                apart += prior.edges[b] * (task.mean[(b + 1) * K + f] - mean) * (task.mean[(b + 1) * K + f] - mean);
        }
        task.edf[f] = difference[f] * (prior_steps - non_negative(chain.differences[f]));
        task.edf[K + f] = value[f] * (prior_values - variance);
        task.form[f] = apart;
        task.form[K + f] = squares;
    }
    std::memcpy(task.per_code, task.mean, static_cast<size_t>(codes * K) * sizeof(double));
    return true;
}

}  // namespace
}  // namespace ahofm
