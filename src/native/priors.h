// The exact solve of K functions of one column under each Gaussian prior.
//
// Rows enter through sums per code, gram (codes, K, K) and rhs (codes, K), both divided by the dispersion. The
// posterior is
//
//     precision = blockdiag(gram) + prior precision        mean = precision^-1 rhs
//
// and each prior solves it in time linear in the codes. The same solves in NumPy are in ahofm/priors, with the
// formulas.
#pragma once

#include "local_basis.h"
#include "tuning.h"

namespace ahofm {
namespace {

// Conditions a Gaussian on functions of weighted mean zero. With U = precision^-1 C at the codes, blocks (codes,
// stride, stride) of which (K, K) are used, C the means as linear forms, it subtracts U (C'U)^-1 C' mean from the mean
// and U (C'U)^-1 U' from the covariance. Padding of U must be zero.
class Centring {
  public:
    Centring(const double* mass, const double* u, int64_t codes, int64_t K, int64_t stride, Arena& arena,
             const Parallel& parallel)
        : mass_(mass), u_(u), codes_(codes), K_(K), stride_(stride), inverse_(arena.zeros(stride * stride)),
          row_(arena.zeros(stride)), turned_(arena.take(kTasks * stride * stride)), parallel_(parallel) {
        over_slices(parallel, stride * stride, [&](int64_t begin, int64_t end) {
            for (int64_t b = 0; b < codes; b++)
                subtract_row(-mass[b], u + b * stride * stride + begin, end - begin, inverse_ + begin);
        });
        double trace = 0.0;
        for (int64_t f = 0; f < K; f++) trace += inverse_[f * stride + f];
        for (int64_t f = 0; f < stride; f++) {
            inverse_[f * stride + f] = f < K ? inverse_[f * stride + f] + tuning::CENTRING_JITTER * trace : 1.0;
            for (int64_t g = 0; g < f; g++)
                inverse_[f * stride + g] = inverse_[g * stride + f] =
                    0.5 * (inverse_[f * stride + g] + inverse_[g * stride + f]);
        }
        sound_ = with_small(stride, [&](auto small) { return small.invert(inverse_, stride); });
    }

    bool sound() const { return sound_; }

    // Multipliers (stride,) of U that remove the means of values (codes, K).
    void shift(const double* values, double* out) const {
        for (int64_t f = 0; f < stride_; f++) row_[f] = 0.0;
        for (int64_t b = 0; b < codes_; b++)
            for (int64_t f = 0; f < K_; f++) row_[f] += mass_[b] * values[b * K_ + f];
        for (int64_t f = 0; f < stride_; f++) out[f] = f < K_ ? dot(inverse_ + f * stride_, row_, stride_) : 0.0;
    }

    // Subtracts the shift from values (codes, K).
    void move(const double* shift, double* values) const {
        over_codes(parallel_, codes_, [&](int, int64_t b) {
            for (int64_t f = 0; f < K_; f++)
                values[b * K_ + f] -= dot(u_ + (b * stride_ + f) * stride_, shift, stride_);
        });
    }

    // Subtracts from variances (codes, K), which stay above zero.
    void condition(double* variance) const {
        with_small(stride_, [&](auto small) {
            over_codes(parallel_, codes_, [&](int task, int64_t b) {
                double* turned = turned_ + task * stride_ * stride_;
                small.template multiply<>(u_ + b * stride_ * stride_, inverse_, turned, stride_, stride_);
                for (int64_t f = 0; f < K_; f++) {
                    const double left =
                        variance[b * K_ + f] - dot(turned + f * stride_, u_ + (b * stride_ + f) * stride_, stride_);
                    variance[b * K_ + f] = left > 0.0 ? left : 0.0;
                }
            });
            return true;
        });
    }

    // Decrease by conditioning of the weighted sum of variances of differences of neighbours, by function.
    void condition_differences(const double* edges, double* differences, Arena& arena) const {
        double *neighbours = arena.take(kTasks * stride_ * stride_), *sums = arena.zeros(kTasks * stride_);
        with_small(stride_, [&](auto small) {
            over_codes(parallel_, codes_ - 1, [&](int task, int64_t b) {
                if (!(edges[b] > 0.0)) return;
                double *apart = neighbours + task * stride_ * stride_, *turned = turned_ + task * stride_ * stride_;
                const double *here = u_ + b * stride_ * stride_, *next = here + stride_ * stride_;
                for (int64_t i = 0; i < stride_ * stride_; i++) apart[i] = next[i] - here[i];
                small.template multiply<>(apart, inverse_, turned, stride_, stride_);
                for (int64_t f = 0; f < K_; f++)
                    sums[task * stride_ + f] += edges[b] * dot(turned + f * stride_, apart + f * stride_, stride_);
            });
            return true;
        });
        for (int64_t task = 0; task < kTasks; task++)
            for (int64_t f = 0; f < K_; f++) differences[f] -= sums[task * stride_ + f];
    }

  private:
    const double *mass_, *u_;
    int64_t codes_, K_, stride_;
    double *inverse_, *row_, *turned_;
    const Parallel& parallel_;
    bool sound_ = false;
};

inline double larger(double a, double b) { return a > b ? a : b; }

// ---- spline: few coordinates in which the penalty is diagonal, one dense problem for all functions

struct SplineSolution {
    double* coef;      // (m * K, count)
    double* variance;  // (codes, K)
};

// Upper triangle of sum_b V_b V_b' (x) gram_b, (m K, m K), and its mean diagonal.
inline double assemble_spline(const PriorTask& prior, int64_t K, const double* gram, double* matrix, Arena& arena,
                              const Parallel& parallel) {
    const int64_t m = prior.m, codes = prior.codes, pairs = m * (m + 1) / 2, packed = K * (K + 1) / 2, N = m * K;
    double* upper = arena.take(codes * packed);
    over_codes(parallel, codes, [&](int, int64_t b) {
        double* to = upper + b * packed;
        for (int64_t f = 0; f < K; f++)
            for (int64_t g = f; g < K; g++) *to++ = gram[(b * K + f) * K + g];
    });
    double* blocks = arena.take(pairs * packed);
    at_pairs(prior, upper, packed, blocks, arena, parallel);
    const auto rows = [&](int task) {
        const int64_t a = task;
        const double* from = blocks + (a * m - a * (a - 1) / 2) * packed;
        for (int64_t b = a; b < m; b++)
            for (int64_t f = 0; f < K; f++)
                for (int64_t g = f; g < K; g++) {
                    const double value = *from++;
                    matrix[(a * K + f) * N + b * K + g] = value;
                    matrix[(a * K + g) * N + b * K + f] = value;
                }
    };
    parallel(static_cast<int>(m), rows);
    double mean_diagonal = 0.0;
    for (int64_t i = 0; i < N; i++) mean_diagonal += matrix[i * N + i] / static_cast<double>(N);
    return mean_diagonal;
}

// Adds the penalty and a jitter to the diagonal of (m K, m K).
inline void penalise_spline(const PriorTask& prior, int64_t K, const double* lam, double mean_diagonal,
                            double* matrix) {
    const int64_t N = prior.m * K;
    for (int64_t a = 0; a < prior.m; a++)
        for (int64_t f = 0; f < K; f++)
            matrix[(a * K + f) * (N + 1)] +=
                lam[prior.group[a] * K + f] * prior.weight[a] + tuning::SPLINE_JITTER * mean_diagonal;
}

// edf (groups, K) and variances (codes, K) from W with W W' the covariance of the coefficients.
inline void spline_variances(const PriorTask& prior, int64_t K, const double* lam, const double* inverse, double* edf,
                             double* variance, Arena& arena, const Parallel& parallel) {
    const int64_t m = prior.m, codes = prior.codes, pairs = m * (m + 1) / 2, N = m * K;
    double* covariance = arena.take(pairs * K);  // same-function covariances, those off the diagonal twice
    for (int64_t group = 0; group < prior.groups; group++)
        for (int64_t f = 0; f < K; f++) edf[group * K + f] = 0.0;
    const auto covariances = [&](int task) {
        const int64_t a = task;
        double* to = covariance + (a * m - a * (a - 1) / 2) * K;
        for (int64_t b = a; b < m; b++)
            for (int64_t f = 0; f < K; f++) {
                const int64_t i = a * K + f, j = b * K + f;
                const double value = dot(inverse + i * N + j, inverse + j * N + j, N - j);
                *to++ = a == b ? value : 2.0 * value;
            }
    };
    parallel(static_cast<int>(m), covariances);
    for (int64_t a = 0; a < m; a++)
        for (int64_t f = 0; f < K; f++)
            edf[prior.group[a] * K + f] +=
                1.0 - lam[prior.group[a] * K + f] * prior.weight[a] * covariance[(a * m - a * (a - 1) / 2) * K + f];
    pairs_at_codes(prior, covariance, K, variance, arena, parallel);
    for (int64_t i = 0; i < codes * K; i++) variance[i] = larger(variance[i], 0.0);
}

// Solves for `count` right-hand sides (codes, K, count). Writes edf (groups, K).
inline bool solve_spline(const PriorTask& prior, int64_t K, const double* gram, const double* rhs, int64_t count,
                         const double* lam, const CouplingTask* coupling, double* edf, SplineSolution& out,
                         Arena& arena, const Parallel& parallel) {
    const int64_t m = prior.m, N = m * K;
    double* matrix = arena.take(N * N);
    penalise_spline(prior, K, lam, assemble_spline(prior, K, gram, matrix, arena, parallel), matrix);
    if (coupling != nullptr)
        for (int64_t a = 0; a < m; a++)
            for (int64_t f = 0; f < coupling->rank; f++)
                for (int64_t g = 0; g < coupling->rank; g++) {
                    const int64_t at = f * coupling->rank + g;
                    matrix[(a * K + f) * N + a * K + g] +=
                        prior.penalty[a] > 0.0 ? prior.penalty[a] * coupling->penalised[at] : coupling->null[at];
                }
    if (!factorise(matrix, N, N, parallel)) return false;
    double* inverse = arena.take(N * N);
    invert_triangle(matrix, N, N, inverse, parallel);
    double* right = arena.take(N * count);
    at_coordinates(prior, rhs, K * count, right, arena, parallel);
    apply_inverse(inverse, N, right, count, arena.take(N * count), out.coef, parallel);
    spline_variances(prior, K, lam, inverse, edf, out.variance, arena, parallel);
    return true;
}

// weight * coef^2 by group: (groups, K), from coefficients (m, K) whose entries are `stride` apart.
inline void spline_forms(const PriorTask& prior, int64_t K, const double* coef, int64_t stride, double* out) {
    for (int64_t i = 0; i < prior.groups * K; i++) out[i] = 0.0;
    for (int64_t a = 0; a < prior.m; a++)
        for (int64_t f = 0; f < K; f++) {
            const double c = coef[(a * K + f) * stride];
            out[prior.group[a] * K + f] += prior.weight[a] * c * c;
        }
}

inline bool solve_as_spline(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    SplineSolution found{task.smooth, task.variance};
    if (!solve_spline(prior, task.K, task.gram, task.rhs, 1, task.lam, task.coupling, task.edf, found, arena,
                      task.parallel))
        return false;
    spline_forms(prior, task.K, task.smooth, 1, task.form);
    at_codes(prior, task.smooth, task.K, task.mean, arena, task.parallel);
    return true;
}

// ---- iid: an independent effect per code, one small problem for each

// Covariances (codes, stride, stride), with padding of zeros, means and variances before centring.
template <int Vectors>
inline bool solve_iid_codes(Small<Vectors>, const SolveTask& task, int64_t stride, double* covariance, Arena& arena) {
    const int64_t K = task.K, codes = task.prior->codes;
    double *rights = arena.zeros(kTasks * stride), *founds = arena.take(kTasks * stride);
    bool sound[kTasks] = {};
    for (bool& each : sound) each = true;
    over_codes(task.parallel, codes, [&](int number, int64_t b) {
        double *inverse = covariance + b * stride * stride, *right = rights + number * stride,
               *found = founds + number * stride;
        pad_matrix(task.gram + b * K * K, K, stride, inverse);
        for (int64_t f = 0; f < K; f++) inverse[f * stride + f] += task.lam[f];
        if (task.coupling != nullptr)
            for (int64_t f = 0; f < task.coupling->rank; f++)
                for (int64_t g = 0; g < task.coupling->rank; g++)
                    inverse[f * stride + g] += task.coupling->penalised[f * task.coupling->rank + g];
        if (!Small<Vectors>::invert(inverse, stride)) {
            sound[number] = false;
            return;
        }
        for (int64_t f = 0; f < K; f++) right[f] = task.rhs[b * K + f];
        Small<Vectors>::apply(inverse, right, found, stride);
        for (int64_t f = 0; f < K; f++) {
            task.mean[b * K + f] = found[f];
            task.variance[b * K + f] = inverse[f * stride + f];
        }
        for (int64_t f = K; f < stride; f++) inverse[f * stride + f] = 0.0;
    });
    for (const bool each : sound)
        if (!each) return false;
    return true;
}

inline bool solve_as_iid(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, stride = padded(K);
    double* covariance = arena.take(codes * stride * stride);
    const bool solved =
        with_small(stride, [&](auto small) { return solve_iid_codes(small, task, stride, covariance, arena); });
    if (!solved) return false;
    if (prior.mass != nullptr) {
        for (int64_t b = 0; b < codes; b++)
            for (int64_t i = 0; i < stride * stride; i++) covariance[b * stride * stride + i] *= prior.mass[b];
        const Centring centring(prior.mass, covariance, codes, K, stride, arena, task.parallel);
        if (!centring.sound()) return false;
        double* shift = arena.take(stride);
        centring.shift(task.mean, shift);
        centring.move(shift, task.mean);
        centring.condition(task.variance);
    }
    for (int64_t f = 0; f < K; f++) {
        double variance = 0.0, square = 0.0;
        for (int64_t b = 0; b < codes; b++)
            if (prior.repeated[b]) {
                variance += task.variance[b * K + f];
                square += task.mean[b * K + f] * task.mean[b * K + f];
            }
        task.edf[f] = prior.free_levels - task.lam[f] * variance;
        task.form[f] = square;
    }
    std::memcpy(task.per_code, task.mean, static_cast<size_t>(codes * K) * sizeof(double));
    return true;
}

// ---- random walk: penalty of differences of neighbouring codes plus a small ridge; a chain of small problems

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
        const double left = out.variance[b] - covariance[b] * covariance[b] / form,
                     apart = b + 1 < codes ? covariance[b + 1] - covariance[b] : 0.0;
        out.variance[b] = left > 0.0 ? left : 0.0;
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
            centring.move(shift, task.mean);
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
        task.edf[f] = difference[f] * (prior_steps - larger(chain.differences[f], 0.0));
        task.edf[K + f] = value[f] * (prior_values - variance);
        task.form[f] = apart;
        task.form[K + f] = squares;
    }
    std::memcpy(task.per_code, task.mean, static_cast<size_t>(codes * K) * sizeof(double));
    return true;
}

// ---- spline plus iid: the independent effects are eliminated exactly, code by code; what is left is a spline

// With t the precision of the independent effects, S and R the sums of a code: (S + t)^-1 into `local` (codes, stride,
// stride), t (S + t)^-1 S into `reduced` (codes, K, K) and t (S + t)^-1 [R, mass] into `right` (codes, K, count).
template <int Vectors>
inline bool eliminate_effects(Small<Vectors>, const SolveTask& task, const double* t, int64_t stride, int64_t count,
                              double* local, double* reduced, double* right, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K;
    const int64_t square = stride * stride;
    double *first = arena.take(kTasks * square), *keep = arena.zeros(kTasks * square),
           *products = arena.take(kTasks * square);
    double *sides = arena.zeros(kTasks * stride), *answers = arena.take(kTasks * stride);
    bool sound[kTasks] = {};
    for (bool& each : sound) each = true;
    over_codes(task.parallel, prior.codes, [&](int number, int64_t b) {
        double *S = first + number * square, *kept = keep + number * square, *product = products + number * square,
               *rhs = sides + number * stride, *solved = answers + number * stride;
        double *inverse = local + b * stride * stride, *to = reduced + b * K * K, *r = right + b * K * count;
        pad_matrix(task.gram + b * K * K, K, stride, S);
        std::memcpy(inverse, S, static_cast<size_t>(stride * stride) * sizeof(double));
        for (int64_t f = 0; f < K; f++) inverse[f * stride + f] += t[f];
        if (!Small<Vectors>::invert(inverse, stride)) {
            sound[number] = false;
            return;
        }
        for (int64_t f = 0; f < K; f++) {
            rhs[f] = task.rhs[b * K + f];
            for (int64_t g = 0; g < stride; g += 4)
                store4(kept + f * stride + g, t[f] * load4(inverse + f * stride + g));
        }
        Small<Vectors>::template multiply<>(kept, S, product, stride, stride);
        for (int64_t f = 0; f < K; f++)
            for (int64_t g = 0; g < K; g++) to[f * K + g] = 0.5 * (product[f * stride + g] + product[g * stride + f]);
        Small<Vectors>::apply(kept, rhs, solved, stride);
        std::memset(r, 0, static_cast<size_t>(K * count) * sizeof(double));
        for (int64_t f = 0; f < K; f++) {
            r[f * count] = solved[f];
            for (int64_t g = 0; g < K && prior.mass != nullptr; g++)
                r[f * count + 1 + g] = prior.mass[b] * kept[f * stride + g];
        }
    });
    for (const bool each : sound)
        if (!each) return false;
    return true;
}

// The effects (codes, K, count) given the spline's values (codes, K, count), and variances.
template <int Vectors>
inline bool restore_effects(Small<Vectors>, const SolveTask& task, const double* t, int64_t stride, int64_t count,
                            const double* local, const double* smooth, const double* smooth_variance, double* effects,
                            double* effect_variance, Arena& arena) {
    constexpr int wide = Vectors > 0 ? Vectors + 1 : 0;
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K;
    const int64_t square = stride * stride, wider = stride * count;
    double *first = arena.take(kTasks * square), *inputs = arena.zeros(kTasks * wider),
           *rests = arena.take(kTasks * wider), *outputs = arena.take(kTasks * wider);
    over_codes(task.parallel, prior.codes, [&](int number, int64_t b) {
        double *S = first + number * square, *values = inputs + number * wider, *rest = rests + number * wider,
               *found = outputs + number * wider;
        const double* inverse = local + b * stride * stride;
        pad_matrix(task.gram + b * K * K, K, stride, S);
        std::memcpy(values, smooth + b * K * count, static_cast<size_t>(K * count) * sizeof(double));
        Small<Vectors>::template multiply<wide>(S, values, rest, stride, count);
        for (int64_t i = 0; i < stride * count; i += 4) store4(rest + i, -load4(rest + i));
        for (int64_t f = 0; f < K; f++) {
            rest[f * count] += task.rhs[b * K + f];
            if (prior.mass != nullptr) rest[f * count + 1 + f] += prior.mass[b];
        }
        Small<Vectors>::template multiply<wide>(inverse, rest, found, stride, count);
        std::memcpy(effects + b * K * count, found, static_cast<size_t>(K * count) * sizeof(double));
        for (int64_t f = 0; f < K; f++) {
            double answer_part = 0.0, total = 0.0;
            for (int64_t g = 0; g < K; g++) {  // derivative of the effects by the spline: (S + t)^-1 S
                const double scaled = inverse[f * stride + g] * t[g], answer = (f == g ? 1.0 : 0.0) - scaled,
                             variance = smooth_variance[b * K + g];
                answer_part += answer * answer * variance;
                total += scaled * scaled * variance;
            }
            effect_variance[b * K + f] = inverse[f * stride + f] + answer_part;
            task.variance[b * K + f] = inverse[f * stride + f] + total;
        }
    });
    return true;
}

inline bool solve_as_spline_iid(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, m = prior.m, stride = padded(K), count = stride + 4;
    const double* t = task.lam + prior.groups * K;
    double *local = arena.take(codes * stride * stride), *reduced = arena.take(codes * K * K),
           *right = arena.take(codes * K * count);
    const bool eliminated = with_small(stride, [&](auto small) {
        return eliminate_effects(small, task, t, stride, count, local, reduced, right, arena);
    });
    SplineSolution found{arena.take(m * K * count), arena.take(codes * K)};
    if (!eliminated ||
        !solve_spline(prior, K, reduced, right, count, task.lam, nullptr, task.edf, found, arena, task.parallel))
        return false;
    double *smooth = arena.zeros(codes * K * count), *effects = arena.take(codes * K * count),
           *effect_variance = arena.take(codes * K);
    at_codes(prior, found.coef, K * count, smooth, arena, task.parallel);
    with_small(stride, [&](auto small) {
        return restore_effects(small, task, t, stride, count, local, smooth, found.variance, effects, effect_variance,
                               arena);
    });
    double* shift = arena.zeros(count);
    shift[0] = 1.0;
    if (prior.mass != nullptr) {
        double *total = arena.take(codes * K), *covariance = arena.zeros(codes * stride * stride);
        for (int64_t b = 0; b < codes; b++)
            for (int64_t f = 0; f < K; f++) {
                const double *s = smooth + (b * K + f) * count, *r = effects + (b * K + f) * count;
                total[b * K + f] = s[0] + r[0];
                for (int64_t g = 0; g < K; g++) covariance[(b * stride + f) * stride + g] = s[1 + g] + r[1 + g];
            }
        const Centring centring(prior.mass, covariance, codes, K, stride, arena, task.parallel);
        if (!centring.sound()) return false;
        double* moved = arena.take(stride);
        centring.shift(total, moved);
        for (int64_t g = 0; g < K; g++) shift[1 + g] = -moved[g];
        centring.condition(task.variance);
    }
    for (int64_t i = 0; i < m * K; i++) task.smooth[i] = dot(found.coef + i * count, shift, count);
    over_codes(task.parallel, codes, [&](int, int64_t b) {
        for (int64_t i = b * K; i < (b + 1) * K; i++) {
            task.per_code[i] = dot(effects + i * count, shift, count);
            task.mean[i] = dot(smooth + i * count, shift, count) + task.per_code[i];
        }
    });
    spline_forms(prior, K, task.smooth, 1, task.form);
    for (int64_t f = 0; f < K; f++) {
        double variance = 0.0, square = 0.0;
        for (int64_t b = 0; b < codes; b++)
            if (prior.repeated[b]) {
                variance += effect_variance[b * K + f];
                square += task.per_code[b * K + f] * task.per_code[b * K + f];
            }
        task.edf[prior.groups * K + f] = prior.free_levels - t[f] * variance;
        task.form[prior.groups * K + f] = square;
    }
    return true;
}

bool solve_prior(const SolveTask& task) {
    Arena arena(task.memory, task.memory_size);
    switch (task.prior->kind) {
        case PriorKind::spline: return solve_as_spline(task, arena);
        case PriorKind::random_walk: return solve_as_random_walk(task, arena);
        case PriorKind::iid: return solve_as_iid(task, arena);
        default: return solve_as_spline_iid(task, arena);
    }
}

// Curves of a column that several classes share: the mean with smoothing parameters `lam`; where there are others to
// learn from, variances and degrees of freedom with those.
bool solve_curves(const CurvesSolve& task) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, N = prior.m * K, codes = prior.codes;
    Arena arena(task.memory, task.memory_size);
    if (prior.kind != PriorKind::spline) {
        double *unused = arena.take((codes + prior.m) * K + 8), *per_code = arena.take(codes * K),
               *forms = arena.take((prior.groups + 2) * K), *edf = arena.take((prior.groups + 2) * K);
        const int64_t left = arena.left();
        double* memory = arena.take(left);
        const SolveTask own{task.prior, K,           task.gram,     task.rhs, task.lam,  nullptr, task.mean,
                            unused,     task.smooth, task.per_code, edf,      task.form, memory,  left};
        if (!solve_prior(own)) return false;
        if (task.learned_lam == nullptr) return true;
        return solve_prior({task.prior, K, task.gram, task.rhs, task.learned_lam, nullptr, unused, task.variance,
                            unused + codes * K, per_code, task.edf, forms, memory, left});
    }
    double *matrix = arena.take(N * N), *other = task.learned_lam == nullptr ? nullptr : arena.take(N * N);
    const double diagonal = assemble_spline(prior, K, task.gram, matrix, arena, {});
    if (other != nullptr) std::memcpy(other, matrix, static_cast<size_t>(N * N) * sizeof(double));
    penalise_spline(prior, K, task.lam, diagonal, matrix);
    if (!factorise(matrix, N, N)) return false;
    at_coordinates(prior, task.rhs, K, task.smooth, arena, {});
    solve_triangles(matrix, N, N, task.smooth, 1);
    spline_forms(prior, K, task.smooth, 1, task.form);
    at_codes(prior, task.smooth, K, task.mean, arena, {});
    if (other == nullptr) return true;
    penalise_spline(prior, K, task.learned_lam, diagonal, other);
    if (!factorise(other, N, N)) return false;
    invert_triangle(other, N, N, matrix);
    spline_variances(prior, K, task.learned_lam, matrix, task.edf, task.variance, arena, {});
    return true;
}

// Upper bound of the doubles that a solve of K functions needs.
int64_t solve_memory(const PriorTask& prior, int64_t K) {
    const int64_t codes = prior.codes, stride = padded(K), m = prior.m, N = m * K, count = stride + 4;
    int64_t size = 4096 + 8 * kTasks * stride * (stride + 8) + 2 * codes * stride * stride + 3 * codes * stride;
    if (prior.kind == PriorKind::spline || prior.kind == PriorKind::spline_iid)
        size += codes * K * (K + 1) / 2 + m * (m + 1) / 2 * (K * (K + 1) / 2 + K) + 2 * N * N + 3 * N * count +
                codes * K + 2 * local_memory(prior, K * (K + 1) / 2) + 2 * local_memory(prior, K * count);
    if (prior.kind == PriorKind::spline_iid) size += codes * stride * stride + 4 * codes * K * count + 4 * codes * K;
    return size + 2 * (codes + m + 2) * K;
}

}  // namespace
}  // namespace ahofm
