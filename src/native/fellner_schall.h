// The generalised Fellner-Schall update of a smoothing parameter (Wood and Fasiolo, 2017): lam <- edf / form, with
// form = u'Su of the coefficients and edf the effective degrees of freedom of the penalised ones. The reference is
// ahofm/priors/fellner_schall.py, with the constants of ahofm/tuning.
#pragma once

#include <algorithm>

namespace ahofm {

constexpr double kLargestLamStep = 5.0;  // factor of one update, at most

inline double clip(double value, double low, double high) { return std::min(std::max(value, low), high); }

// least_edf and least_form: of functions that have all but vanished; step_up: largest factor of an increase.
inline double fellner_schall(double edf, double form, double now, double low, double high,
                             double step_up = kLargestLamStep, double least_edf = 1e-6, double least_form = 1e-18) {
    const double wanted = std::max(edf, least_edf) / std::max(form, least_form);
    return clip(clip(wanted, now / kLargestLamStep, now * step_up), low, high);
}

}  // namespace ahofm
