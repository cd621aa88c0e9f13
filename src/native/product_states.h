// Initial row states of product factors: without any column, the product is the loading.
#pragma once

#include "passes.h"

namespace ahofm {

// loadings: (factors of all product panels,); padding lanes stay zero.
template <class T>
void start_products_of(const BlockTask& task, const double* loadings) {
    constexpr int lanes = state_lanes<T>;
    for (int64_t row = 0; row < task.n; row += kBlock) {
        T* at = static_cast<T*>(task.state) + row * task.numbers + kBlock * kStateHead;
        const double* panel_loadings = loadings;
        for (int k = 0; k < task.n_panels; k++) {
            const StatePanel& panel = task.panels[k];
            const int entries = state_entries(panel.order);
            for (int64_t r = 0; panel.order == kProduct && r < kBlock; r++)
                for (int64_t f = 0; f < panel.used; f++) {
                    at[r * entries * lanes + f] = static_cast<T>(panel_loadings[f]);
                    at[(r * entries + 1) * lanes + f] = static_cast<T>(panel_loadings[f] * panel_loadings[f]);
                }
            if (panel.order == kProduct) panel_loadings += panel.used;
            at += kBlock * entries * lanes;
        }
    }
}

inline void start_products(const BlockTask& task, const double* loadings) {
    if (task.float64) start_products_of<double>(task, loadings);
    else start_products_of<float>(task, loadings);
}

}  // namespace ahofm
