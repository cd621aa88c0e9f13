// Conditions a Gaussian on functions of weighted mean zero, as identifiability needs it.
//
// With U = precision^-1 C at the codes, blocks (codes, stride, stride) of which (K, K) are used, C the means as linear
// forms, it subtracts U (C'U)^-1 C' mean from the mean and U (C'U)^-1 U' from the covariance. Padding of U must be zero.
// NumPy's form is Centring in ahofm/priors/base.py.
#pragma once

#include "arena.h"
#include "dense.h"
#include "tuning.h"

namespace ahofm {
namespace {

class Centring {
  public:
    Centring(const double* mass, const double* u, int64_t codes, int64_t K, int64_t stride, Arena& arena,
             const Parallel& parallel)
        : mass_(mass), u_(u), codes_(codes), K_(K), stride_(stride), inverse_(arena.zeros(stride * stride)),
          row_(arena.zeros(stride)), product_(arena.take(kTasks * stride * stride)), parallel_(parallel) {
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
    void subtract(const double* shift, double* values) const {
        over_codes(parallel_, codes_, [&](int, int64_t b) {
            for (int64_t f = 0; f < K_; f++)
                values[b * K_ + f] -= dot(u_ + (b * stride_ + f) * stride_, shift, stride_);
        });
    }

    // Subtracts from variances (codes, K), which stay above zero.
    void condition(double* variance) const {
        with_small(stride_, [&](auto small) {
            over_codes(parallel_, codes_, [&](int task, int64_t b) {
                double* product = product_ + task * stride_ * stride_;
                small.template multiply<>(u_ + b * stride_ * stride_, inverse_, product, stride_, stride_);
                for (int64_t f = 0; f < K_; f++) {
                    const double decrease = dot(product + f * stride_, u_ + (b * stride_ + f) * stride_, stride_);
                    variance[b * K_ + f] = non_negative(variance[b * K_ + f] - decrease);
                }
            });
            return true;
        });
    }

    // Decrease by conditioning of the weighted sum of variances of differences of neighbours, by function.
    void condition_differences(const double* edges, double* differences, Arena& arena) const {
        double *differences_of_u = arena.take(kTasks * stride_ * stride_), *sums = arena.zeros(kTasks * stride_);
        with_small(stride_, [&](auto small) {
            over_codes(parallel_, codes_ - 1, [&](int task, int64_t b) {
                if (!(edges[b] > 0.0)) return;
                double *difference = differences_of_u + task * stride_ * stride_,
                       *product = product_ + task * stride_ * stride_;
                const double *here = u_ + b * stride_ * stride_, *next = here + stride_ * stride_;
                for (int64_t i = 0; i < stride_ * stride_; i++) difference[i] = next[i] - here[i];
                small.template multiply<>(difference, inverse_, product, stride_, stride_);
                for (int64_t f = 0; f < K_; f++)
                    sums[task * stride_ + f] +=
                        edges[b] * dot(product + f * stride_, difference + f * stride_, stride_);
            });
            return true;
        });
        for (int64_t task = 0; task < kTasks; task++)
            for (int64_t f = 0; f < K_; f++) differences[f] -= sums[task * stride_ + f];
    }

  private:
    const double *mass_, *u_;
    int64_t codes_, K_, stride_;
    double *inverse_, *row_, *product_;
    const Parallel& parallel_;
    bool sound_ = false;
};

}  // namespace
}  // namespace ahofm
