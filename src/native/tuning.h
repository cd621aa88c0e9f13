// Constants of fits that compiled code needs, with the names and values of ahofm/tuning, where it says what they are, why,
// and where they were measured. The module has them as `CONSTANTS`; tests/kernels/test_native_constants.py compares.
#pragma once

// Name and value of each.
#define AHOFM_CONSTANTS(X)                    \
    X(LARGEST_LAM_RATIO, 5.0)                 \
    X(LEAST_EDF, 1e-6)                        \
    X(LEAST_QUADRATIC_FORM, 1e-18)            \
    X(LEAST_EDF_OF_SURFACE, 1e-9)             \
    X(LEAST_QUADRATIC_FORM_OF_SURFACE, 1e-24) \
    X(SMALLEST_LAM, 1e-3)                     \
    X(SMALLEST_MAIN_LAM, 1e-6)                \
    X(LARGEST_SURFACE_LAM, 1e10)              \
    X(MOST_SURFACE_PRECISION, 100.0)          \
    X(LARGEST_FIRST_SURFACE_LAM_RATIO, 2.0)   \
    X(FIRST_SURFACE_STEPS, 10.0)              \
    X(LARGEST_SURFACE_EDF_PER_ROW, 0.75)      \
    X(LEAST_DISPERSION, 1e-9)                 \
    X(LEAST_DISPERSION_RATIO, 0.7)            \
    X(LARGEST_ETA_STEP, 3.0)                  \
    X(SUFFICIENT_DECREASE, 0.25)              \
    X(ROUNDING, 1e-12)                        \
    X(REBUILD_VALUE_RATIO, 10.0)              \
    X(MAJORANT_ETA, 20.0)                     \
    X(MAIN_HALVINGS, 8.0)                     \
    X(SPLINE_JITTER, 1e-8)                    \
    X(MAIN_JITTER, 1e-13)                     \
    X(MAIN_WEIGHTS_CHANGE, 0.02)              \
    X(CENTRING_JITTER, 1e-12)                 \
    X(LEAST_MASS, 1e-12)                      \
    X(CONSTANT_PRECISION, 1.0)                \
    X(LEAST_PRODUCT_SCALE, 1e-8)              \
    X(LEAST_PRODUCT_VALUE, 1e-6)

namespace ahofm::tuning {

#define AHOFM_DEFINE(name, value) constexpr double name = value;
AHOFM_CONSTANTS(AHOFM_DEFINE)
#undef AHOFM_DEFINE

constexpr double COLUMN_JITTERS[] = {1e-9, 1e-6, 1e-3};
constexpr double DAMPINGS[] = {0.0, 1.0, 4.0, 16.0, 64.0, 256.0};

}  // namespace ahofm::tuning
