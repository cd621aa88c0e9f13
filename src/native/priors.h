// The exact solve of K functions of one column under each Gaussian prior.
//
// Rows enter through sums per code, gram (codes, K, K) and rhs (codes, K), both divided by the dispersion. The posterior is
//
//     precision = blockdiag(gram) + prior precision        mean = precision^-1 rhs
//
// and each prior solves it in time linear in the codes. The same solves in NumPy are in ahofm/fit/priors, with the formulas.
#pragma once

#include "dense.h"

namespace ahofm {
namespace {

// Memory for one solve, given out piece by piece.
class Arena {
  public:
    Arena(double* memory, int64_t size) : next_(memory), end_(memory + size) {}

    double* take(int64_t count) {
        const int64_t rounded = (count + 7) / 8 * 8;
        if (next_ + rounded > end_) too_large();
        double* found = next_;
        next_ += rounded;
        return found;
    }

    double* zeros(int64_t count) {
        double* found = take(count);
        std::memset(found, 0, static_cast<size_t>(count) * sizeof(double));
        return found;
    }

  private:
    double *next_, *end_;
};

inline int64_t padded(int64_t n) { return n == 1 ? 1 : (n + 3) / 4 * 4; }

// Conditions a Gaussian on functions of weighted mean zero. With U = precision^-1 C at the codes (codes, K, ld), C the means as
// linear forms, it subtracts U (C'U)^-1 C' mean from the mean and U (C'U)^-1 U' from the covariance.
class Centring {
  public:
    Centring(const double* mass, const double* u, int64_t codes, int64_t K, int64_t ld, Arena& arena)
        : mass_(mass), u_(u), codes_(codes), K_(K), ld_(ld), inverse_(arena.zeros(K * K)), row_(arena.take(K)) {
        for (int64_t b = 0; b < codes; b++)
            for (int64_t f = 0; f < K; f++)
                for (int64_t g = 0; g < K; g++) inverse_[f * K + g] += mass[b] * u[(b * K + f) * ld + g];
        double trace = 0.0;
        for (int64_t f = 0; f < K; f++) trace += inverse_[f * K + f];
        for (int64_t f = 0; f < K; f++) {
            inverse_[f * K + f] += 1e-12 * trace;
            for (int64_t g = 0; g < f; g++) inverse_[f * K + g] = inverse_[g * K + f] = 0.5 * (inverse_[f * K + g] + inverse_[g * K + f]);
        }
        sound_ = invert_small(inverse_, K, K);
    }

    bool sound() const { return sound_; }

    // Multipliers (K,) of U that take away the means of values (codes, K) whose rows are `stride` apart.
    void shift(const double* values, int64_t stride, double* out) const {
        for (int64_t f = 0; f < K_; f++) row_[f] = 0.0;
        for (int64_t b = 0; b < codes_; b++)
            for (int64_t f = 0; f < K_; f++) row_[f] += mass_[b] * values[b * stride + f];
        for (int64_t f = 0; f < K_; f++) out[f] = dot(inverse_ + f * K_, row_, K_);
    }

    // What conditioning takes from the variance of a linear form, from its covariances (K,) with the means.
    double removed(const double* covariances) const {
        double total = 0.0;
        for (int64_t f = 0; f < K_; f++) total += covariances[f] * dot(inverse_ + f * K_, covariances, K_);
        return total;
    }

    // Subtracts from variances (codes, K), which stay above zero.
    void condition(double* variance) const {
        for (int64_t b = 0; b < codes_; b++)
            for (int64_t f = 0; f < K_; f++) {
                const double left = variance[b * K_ + f] - removed(u_ + (b * K_ + f) * ld_);
                variance[b * K_ + f] = left > 0.0 ? left : 0.0;
            }
    }

  private:
    const double *mass_, *u_;
    int64_t codes_, K_, ld_;
    double *inverse_, *row_;
    bool sound_ = false;
};

inline double larger(double a, double b) { return a > b ? a : b; }

// ---- spline: few coordinates in which the penalty is diagonal, one dense problem for all functions

struct SplineSolution {
    double* coef;      // (m * K, count)
    double* variance;  // (codes, K)
};

// Solves for `count` right-hand sides (codes, K, count). Writes edf (groups, K).
inline bool solve_spline(const PriorTask& prior, int64_t K, const double* gram, const double* rhs, int64_t count, const double* lam,
                         const CouplingTask* coupling, double* edf, SplineSolution& out, Arena& arena) {
    const int64_t m = prior.m, codes = prior.codes, pairs = m * (m + 1) / 2, packed = K * (K + 1) / 2, N = m * K;
    double* upper = arena.take(codes * packed);
    for (int64_t b = 0; b < codes; b++) {
        double* to = upper + b * packed;
        for (int64_t f = 0; f < K; f++)
            for (int64_t g = f; g < K; g++) *to++ = gram[(b * K + f) * K + g];
    }
    double* blocks = arena.zeros(pairs * packed);
    add_product({prior.products, 1, pairs}, pairs, upper, packed, packed, codes, 1.0, blocks, packed);
    double* matrix = arena.take(N * N);
    const double* from = blocks;
    for (int64_t a = 0; a < m; a++)
        for (int64_t b = a; b < m; b++)
            for (int64_t f = 0; f < K; f++)
                for (int64_t g = f; g < K; g++) {
                    const double value = *from++;
                    matrix[(a * K + f) * N + b * K + g] = value;
                    matrix[(a * K + g) * N + b * K + f] = value;
                }
    double mean_diagonal = 0.0;
    for (int64_t i = 0; i < N; i++) mean_diagonal += matrix[i * N + i] / static_cast<double>(N);
    for (int64_t a = 0; a < m; a++)
        for (int64_t f = 0; f < K; f++)
            matrix[(a * K + f) * (N + 1)] += lam[prior.group[a] * K + f] * prior.weight[a] + 1e-8 * mean_diagonal;
    if (coupling != nullptr)
        for (int64_t a = 0; a < m; a++)
            for (int64_t f = 0; f < coupling->rank; f++)
                for (int64_t g = 0; g < coupling->rank; g++) {
                    const int64_t at = f * coupling->rank + g;
                    matrix[(a * K + f) * N + a * K + g] += prior.rough[a] > 0.0 ? prior.rough[a] * coupling->rough[at] : coupling->plain[at];
                }
    if (!factorise(matrix, N, N)) return false;
    double* inverse = arena.take(N * N);
    invert_triangle(matrix, N, N, inverse);
    double* right = arena.zeros(N * count);
    add_product({prior.values, 1, m}, m, rhs, K * count, K * count, codes, 1.0, right, K * count);
    apply_inverse(inverse, N, right, count, arena.take(N * count), out.coef);
    double* own = arena.take(pairs * K);  // same-function covariances, those off the diagonal twice
    for (int64_t group = 0; group < prior.groups; group++)
        for (int64_t f = 0; f < K; f++) edf[group * K + f] = 0.0;
    for (int64_t a = 0, pair = 0; a < m; a++)
        for (int64_t b = a; b < m; b++, pair++)
            for (int64_t f = 0; f < K; f++) {
                const int64_t i = a * K + f, j = b * K + f;
                const double covariance = dot(inverse + i * N + j, inverse + j * N + j, N - j);
                own[pair * K + f] = a == b ? covariance : 2.0 * covariance;
                if (a == b) edf[prior.group[a] * K + f] += 1.0 - lam[prior.group[a] * K + f] * prior.weight[a] * covariance;
            }
    std::memset(out.variance, 0, static_cast<size_t>(codes * K) * sizeof(double));
    add_product({prior.products, pairs, 1}, codes, own, K, K, pairs, 1.0, out.variance, K);
    for (int64_t i = 0; i < codes * K; i++) out.variance[i] = larger(out.variance[i], 0.0);
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
    if (!solve_spline(prior, task.K, task.gram, task.rhs, 1, task.lam, task.coupling, task.edf, found, arena)) return false;
    spline_forms(prior, task.K, task.smooth, 1, task.form);
    std::memset(task.mean, 0, static_cast<size_t>(prior.codes * task.K) * sizeof(double));
    add_product({prior.values, prior.m, 1}, prior.codes, task.smooth, task.K, task.K, prior.m, 1.0, task.mean, task.K);
    return true;
}

// ---- iid: an independent effect per code, one small problem for each

inline bool solve_as_iid(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, ld = K;
    double* covariance = arena.take(codes * K * ld);
    std::memcpy(covariance, task.gram, static_cast<size_t>(codes * K * K) * sizeof(double));
    for (int64_t b = 0; b < codes; b++) {
        double* own = covariance + b * K * K;
        for (int64_t f = 0; f < K; f++) own[f * K + f] += task.lam[f];
        if (task.coupling != nullptr)
            for (int64_t f = 0; f < task.coupling->rank; f++)
                for (int64_t g = 0; g < task.coupling->rank; g++) own[f * K + g] += task.coupling->rough[f * task.coupling->rank + g];
        if (!invert_small(own, K, K)) return false;
        for (int64_t f = 0; f < K; f++) {
            task.mean[b * K + f] = dot(own + f * K, task.rhs + b * K, K);
            task.variance[b * K + f] = own[f * K + f];
        }
    }
    if (prior.mass != nullptr) {
        for (int64_t b = 0; b < codes; b++)
            for (int64_t i = 0; i < K * K; i++) covariance[b * K * K + i] *= prior.mass[b];
        const Centring centring(prior.mass, covariance, codes, K, K, arena);
        if (!centring.sound()) return false;
        double* shift = arena.take(K);
        centring.shift(task.mean, K, shift);
        for (int64_t b = 0; b < codes; b++)
            for (int64_t f = 0; f < K; f++) task.mean[b * K + f] -= dot(covariance + (b * K + f) * K, shift, K);
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
    std::memcpy(task.rough, task.mean, static_cast<size_t>(codes * K) * sizeof(double));
    return true;
}

// ---- random walk: differences of neighbouring codes, and a little the values themselves; a chain of small problems

struct Walk {
    double* mean;         // (codes, K)
    double* variance;     // (codes, K)
    double* differences;  // (K,): sum over edges of edge * variance of the difference
    double* spread;       // (codes, K, ld): covariance with the weighted means; only when there is mass
};

// Blocks A_b = gram_b + diag(lam_d (h_{b-1} + h_b) + lam_v) on the diagonal and -diag(lam_d h_b) beside it: elimination along the
// chain, and back. Fixed is ld where it is known, so that loops over rows are unrolled.
template <int Fixed>
inline bool solve_chain(const PriorTask& prior, int64_t K, int64_t given, const double* gram, const double* rhs, const double* lam, Walk& out,
                        Arena& arena) {
    const int64_t ld = Fixed > 0 ? Fixed : given, codes = prior.codes, block = ld * ld;
    const bool centred = prior.mass != nullptr;
    double *inverse = arena.take(codes * block), *right = arena.take(codes * ld), *forms = centred ? arena.take(codes * block) : nullptr;
    double *step = arena.zeros(ld), *scaled = arena.zeros(ld), *across = arena.take(block), *last = arena.take(block), *now = arena.take(block);
    double* solved = arena.zeros(ld);
    const double *difference = lam, *value = lam + K;
    for (int64_t b = 0; b < codes; b++) {
        double *A = inverse + b * block, *r = right + b * ld, *C = centred ? forms + b * block : nullptr;
        const double before = b > 0 ? prior.edges[b - 1] : 0.0, after = b + 1 < codes ? prior.edges[b] : 0.0;
        std::memset(A, 0, static_cast<size_t>(block) * sizeof(double));
        for (int64_t f = 0; f < ld; f++) r[f] = f < K ? rhs[b * K + f] : 0.0;
        for (int64_t f = 0; f < K; f++) {
            for (int64_t g = 0; g < K; g++) A[f * ld + g] = gram[(b * K + f) * K + g];
            A[f * ld + f] += difference[f] * (before + after) + value[f];
        }
        for (int64_t f = K; f < ld; f++) A[f * ld + f] = 1.0;
        if (centred) {
            std::memset(C, 0, static_cast<size_t>(block) * sizeof(double));
            for (int64_t f = 0; f < K; f++) C[f * ld + f] = prior.mass[b];
        }
        if (before > 0.0) {
            const double *P = A - block, *r0 = r - ld;
            for (int64_t f = 0; f < K; f++) step[f] = difference[f] * before;
            for (int64_t f = 0; f < K; f++) {
                for (int64_t g = 0; g < ld; g++) A[f * ld + g] -= step[f] * P[f * ld + g] * step[g];
                double sum = 0.0;
                for (int64_t g = 0; g < ld; g++) sum += P[f * ld + g] * r0[g];
                r[f] += step[f] * sum;
                if (centred) {
                    const double* C0 = C - block;
                    for (int64_t g = 0; g < ld; g++) {
                        const double factor = step[f] * P[f * ld + g];
                        for (int64_t h = 0; h < ld; h++) C[f * ld + h] += factor * C0[g * ld + h];
                    }
                }
            }
        }
        if (!(Fixed > 0 ? eliminate<Fixed>(A, ld, ld) : invert_small(A, ld, ld))) return false;
    }
    for (int64_t f = 0; f < K; f++) out.differences[f] = 0.0;
    for (int64_t b = codes - 1; b >= 0; b--) {
        const double *P = inverse + b * block, after = b + 1 < codes ? prior.edges[b] : 0.0;
        double* r = right + b * ld;
        if (after > 0.0)
            for (int64_t f = 0; f < K; f++) {
                step[f] = difference[f] * after;
                r[f] += step[f] * solved[f];
            }
        for (int64_t f = 0; f < ld; f++) {
            double sum = 0.0;
            for (int64_t g = 0; g < ld; g++) sum += P[f * ld + g] * r[g];
            scaled[f] = sum;
        }
        for (int64_t f = 0; f < ld; f++) solved[f] = scaled[f];
        for (int64_t f = 0; f < K; f++) out.mean[b * K + f] = solved[f];
        if (centred) {
            double *C = forms + b * block, *U = out.spread + b * K * ld;
            if (after > 0.0) {
                const double* next = out.spread + (b + 1) * K * ld;
                for (int64_t f = 0; f < K; f++)
                    for (int64_t h = 0; h < ld; h++) C[f * ld + h] += step[f] * next[f * ld + h];
            }
            for (int64_t f = 0; f < K; f++) {
                double* row = U + f * ld;
                for (int64_t h = 0; h < ld; h++) row[h] = 0.0;
                for (int64_t g = 0; g < ld; g++)
                    for (int64_t h = 0; h < ld; h++) row[h] += P[f * ld + g] * C[g * ld + h];
            }
        }
        std::memcpy(now, P, static_cast<size_t>(block) * sizeof(double));
        if (after > 0.0) {  // across = P S last, now = P + across S P: the covariance of this code with the next, and its own
            for (int64_t f = 0; f < ld; f++) {
                double* row = across + f * ld;
                for (int64_t h = 0; h < ld; h++) row[h] = 0.0;
                for (int64_t g = 0; g < K; g++) {
                    const double factor = P[f * ld + g] * step[g];
                    for (int64_t h = 0; h < ld; h++) row[h] += factor * last[g * ld + h];
                }
            }
            for (int64_t f = 0; f < ld; f++)
                for (int64_t g = 0; g < K; g++) {
                    const double factor = across[f * ld + g] * step[g];
                    for (int64_t h = 0; h < ld; h++) now[f * ld + h] += factor * P[g * ld + h];
                }
            for (int64_t f = 0; f < K; f++)
                out.differences[f] += after * (now[f * ld + f] + last[f * ld + f] - 2.0 * across[f * ld + f]);
        }
        for (int64_t f = 0; f < K; f++) out.variance[b * K + f] = now[f * ld + f];
        double* swap = now;
        now = last;
        last = swap;
    }
    return true;
}

inline bool solve_as_walk(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, ld = padded(K);
    const double *difference = task.lam, *value = task.lam + K;
    Walk walk{task.mean, task.variance, arena.take(K), prior.mass == nullptr ? nullptr : arena.take(codes * K * ld)};
    bool solved = false;
    switch (ld) {
        case 1: solved = solve_chain<1>(prior, K, ld, task.gram, task.rhs, task.lam, walk, arena); break;
        case 4: solved = solve_chain<4>(prior, K, ld, task.gram, task.rhs, task.lam, walk, arena); break;
        case 8: solved = solve_chain<8>(prior, K, ld, task.gram, task.rhs, task.lam, walk, arena); break;
        case 12: solved = solve_chain<12>(prior, K, ld, task.gram, task.rhs, task.lam, walk, arena); break;
        default: solved = solve_chain<0>(prior, K, ld, task.gram, task.rhs, task.lam, walk, arena);
    }
    if (!solved) return false;
    if (prior.mass != nullptr) {
        const Centring centring(prior.mass, walk.spread, codes, K, ld, arena);
        if (!centring.sound()) return false;
        double *shift = arena.take(K), *apart = arena.take(K);
        centring.shift(task.mean, K, shift);
        for (int64_t b = 0; b < codes; b++)
            for (int64_t f = 0; f < K; f++) task.mean[b * K + f] -= dot(walk.spread + (b * K + f) * ld, shift, K);
        centring.condition(task.variance);
        for (int64_t b = 0; b + 1 < codes; b++)
            for (int64_t f = 0; f < K && prior.edges[b] > 0.0; f++) {
                const double *here = walk.spread + (b * K + f) * ld, *next = here + K * ld;
                for (int64_t g = 0; g < K; g++) apart[g] = next[g] - here[g];
                walk.differences[f] -= prior.edges[b] * centring.removed(apart);
            }
    }
    double prior_steps = 0.0, prior_values = 0.0;  // traces of the prior's variance, of differences and of values
    for (int64_t f = 0; f < K; f++) {
        double variance = 0.0, squares = 0.0, apart = 0.0;
        if (f == 0 || difference[f] != difference[f - 1] || value[f] != value[f - 1]) {
            prior_steps = prior_values = 0.0;
            for (int64_t i = 0; i < prior.n_roughness; i++) {
                const double each = 1.0 / (difference[f] * prior.roughness[i] + value[f]);
                prior_steps += prior.roughness[i] * each;
                prior_values += each;
            }
        }
        for (int64_t b = 0; b < codes; b++) {
            const double own = task.mean[b * K + f];
            variance += task.variance[b * K + f];
            squares += own * own;
            if (b + 1 < codes) apart += prior.edges[b] * (task.mean[(b + 1) * K + f] - own) * (task.mean[(b + 1) * K + f] - own);
        }
        task.edf[f] = difference[f] * (prior_steps - larger(walk.differences[f], 0.0));
        task.edf[K + f] = value[f] * (prior_values - variance);
        task.form[f] = apart;
        task.form[K + f] = squares;
    }
    std::memcpy(task.rough, task.mean, static_cast<size_t>(codes * K) * sizeof(double));
    return true;
}

// ---- spline plus iid: the independent effects are eliminated exactly, code by code; what is left is a spline

inline bool solve_as_spline_iid(const SolveTask& task, Arena& arena) {
    const PriorTask& prior = *task.prior;
    const int64_t K = task.K, codes = prior.codes, m = prior.m, count = prior.mass == nullptr ? 1 : 1 + K;
    const double* ridge = task.lam + prior.groups * K;  // t: precision of the independent effects
    double *local = arena.take(codes * K * K), *reduced = arena.take(codes * K * K), *right = arena.take(codes * K * count);
    double* product = arena.take(K * K);
    std::memcpy(local, task.gram, static_cast<size_t>(codes * K * K) * sizeof(double));
    for (int64_t b = 0; b < codes; b++) {  // (S + t)^-1, t (S + t)^-1 S and t (S + t)^-1 R
        double *own = local + b * K * K, *to = reduced + b * K * K, *r = right + b * K * count;
        const double* S = task.gram + b * K * K;
        for (int64_t f = 0; f < K; f++) own[f * K + f] += ridge[f];
        if (!invert_small(own, K, K)) return false;
        for (int64_t f = 0; f < K; f++) {
            for (int64_t g = 0; g < K; g++) product[f * K + g] = 0.0;
            for (int64_t h = 0; h < K; h++) {
                const double factor = ridge[f] * own[f * K + h];
                for (int64_t g = 0; g < K; g++) product[f * K + g] += factor * S[h * K + g];
            }
            r[f * count] = ridge[f] * dot(own + f * K, task.rhs + b * K, K);
            for (int64_t g = 0; g + 1 < count; g++) r[f * count + 1 + g] = prior.mass[b] * ridge[f] * own[f * K + g];
        }
        for (int64_t f = 0; f < K; f++)
            for (int64_t g = 0; g < K; g++) to[f * K + g] = 0.5 * (product[f * K + g] + product[g * K + f]);
    }
    SplineSolution found{arena.take(m * K * count), arena.take(codes * K)};
    if (!solve_spline(prior, K, reduced, right, count, task.lam, nullptr, task.edf, found, arena)) return false;
    double *smooth = arena.zeros(codes * K * count), *rough = arena.take(codes * K * count), *rough_variance = arena.take(codes * K);
    add_product({prior.values, m, 1}, codes, found.coef, K * count, K * count, m, 1.0, smooth, K * count);
    double* rest = arena.take(K * count);
    for (int64_t b = 0; b < codes; b++) {
        const double *own = local + b * K * K, *S = task.gram + b * K * K, *s = smooth + b * K * count;
        for (int64_t f = 0; f < K; f++) {
            double* row = rest + f * count;
            for (int64_t r = 0; r < count; r++) row[r] = r == 0 ? task.rhs[b * K + f] : r - 1 == f ? prior.mass[b] : 0.0;
            for (int64_t g = 0; g < K; g++) subtract_row(S[f * K + g], s + g * count, count, row);
        }
        for (int64_t f = 0; f < K; f++) {
            double* row = rough + (b * K + f) * count;
            for (int64_t r = 0; r < count; r++) row[r] = 0.0;
            double own_part = 0.0, total = 0.0;
            for (int64_t g = 0; g < K; g++) {
                subtract_row(-own[f * K + g], rest + g * count, count, row);
                const double variance = found.variance[b * K + g], answer = (f == g ? 1.0 : 0.0) - ridge[g] * own[g * K + f];
                own_part += answer * answer * variance;  // how independent effects answer to the spline: (S + t)^-1 S
                total += own[f * K + g] * own[f * K + g] * ridge[g] * ridge[g] * variance;
            }
            rough_variance[b * K + f] = own[f * K + f] + own_part;
            task.variance[b * K + f] = own[f * K + f] + total;
        }
    }
    double* shift = arena.zeros(count);
    shift[0] = 1.0;
    if (prior.mass != nullptr) {
        double *total = arena.take(codes * K), *spread = arena.take(codes * K * K);
        for (int64_t i = 0; i < codes * K; i++) {
            total[i] = smooth[i * count] + rough[i * count];
            for (int64_t g = 0; g < K; g++) spread[i * K + g] = smooth[i * count + 1 + g] + rough[i * count + 1 + g];
        }
        const Centring centring(prior.mass, spread, codes, K, K, arena);
        if (!centring.sound()) return false;
        centring.shift(total, K, shift + 1);
        for (int64_t g = 0; g < K; g++) shift[1 + g] = -shift[1 + g];
        centring.condition(task.variance);
    }
    for (int64_t i = 0; i < m * K; i++) task.smooth[i] = dot(found.coef + i * count, shift, count);
    for (int64_t i = 0; i < codes * K; i++) {
        task.rough[i] = dot(rough + i * count, shift, count);
        task.mean[i] = dot(smooth + i * count, shift, count) + task.rough[i];
    }
    spline_forms(prior, K, task.smooth, 1, task.form);
    for (int64_t f = 0; f < K; f++) {
        double variance = 0.0, square = 0.0;
        for (int64_t b = 0; b < codes; b++)
            if (prior.repeated[b]) {
                variance += rough_variance[b * K + f];
                square += task.rough[b * K + f] * task.rough[b * K + f];
            }
        task.edf[prior.groups * K + f] = prior.free_levels - ridge[f] * variance;
        task.form[prior.groups * K + f] = square;
    }
    return true;
}

bool solve_prior(const SolveTask& task) {
    Arena arena(task.memory, task.memory_size);
    switch (task.prior->kind) {
        case PriorKind::spline: return solve_as_spline(task, arena);
        case PriorKind::random_walk: return solve_as_walk(task, arena);
        case PriorKind::iid: return solve_as_iid(task, arena);
        default: return solve_as_spline_iid(task, arena);
    }
}

// Numbers of memory that a solve of K functions takes at most.
int64_t solve_memory(const PriorTask& prior, int64_t K) {
    const int64_t codes = prior.codes, ld = padded(K), m = prior.m, N = m * K, count = 1 + K;
    int64_t size = 1024 + 64 * K + 8 * ld * ld + 3 * codes * ld * ld + 2 * codes * ld;
    if (prior.kind == PriorKind::spline || prior.kind == PriorKind::spline_iid)
        size += codes * K * (K + 1) / 2 + m * (m + 1) / 2 * (K * (K + 1) / 2 + K) + 2 * N * N + 3 * N * count + codes * K;
    if (prior.kind == PriorKind::spline_iid) size += 3 * codes * K * K + 4 * codes * K * count + 4 * codes * K;
    return size;
}

}  // namespace
}  // namespace ahofm
