// The generalised Fellner-Schall update of a smoothing parameter (Wood and Fasiolo, 2017): lam <- edf / quadratic form,
// the latter u'Su of the coefficients and edf their effective degrees of freedom. The reference is
// ahofm/priors/fellner_schall.py.
#pragma once

#include <algorithm>

#include "tuning.h"

namespace ahofm {

inline double clip(double value, double low, double high) { return std::min(std::max(value, low), high); }

// The smoothing parameter, between low and high, that follows lam. least_edf and least_form bound numerator and
// denominator, of functions that have all but vanished; largest_increase is the largest ratio of the new one to lam.
inline double fellner_schall(double edf, double form, double lam, double low, double high,
                             double largest_increase = tuning::LARGEST_LAM_RATIO, double least_edf = tuning::LEAST_EDF,
                             double least_form = tuning::LEAST_QUADRATIC_FORM) {
    const double ratio = std::max(edf, least_edf) / std::max(form, least_form);
    return clip(clip(ratio, lam / tuning::LARGEST_LAM_RATIO, lam * largest_increase), low, high);
}

}  // namespace ahofm
