// The generalised Fellner-Schall update of a smoothing parameter (Wood and Fasiolo, 2017): lam <- edf / form, with
// form = u'Su of the coefficients and edf the effective degrees of freedom of the penalised ones. The reference is
// ahofm/priors/fellner_schall.py.
#pragma once

#include <algorithm>

#include "tuning.h"

namespace ahofm {

inline double clip(double value, double low, double high) { return std::min(std::max(value, low), high); }

// least_edf and least_form: of functions that have all but vanished; step_up: largest factor of an increase.
inline double fellner_schall(double edf, double form, double now, double low, double high,
                             double step_up = tuning::LAM_STEP, double least_edf = tuning::LEAST_EDF,
                             double least_form = tuning::LEAST_QUADRATIC_FORM) {
    const double wanted = std::max(edf, least_edf) / std::max(form, least_form);
    return clip(clip(wanted, now / tuning::LAM_STEP, now * step_up), low, high);
}

}  // namespace ahofm
