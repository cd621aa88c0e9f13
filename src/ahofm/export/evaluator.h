/* A cell of a row: a number, NaN where it is missing; or the text of a level in UTF-8, NULL where it is missing. */
typedef struct {
    double number;
    const char *text;
} ahofm_cell;

typedef struct {
    int kind; /* 0: a number, 1: levels that are numbers, 2: levels that are text */
    int count; /* breaks, or levels */
    int powers;
    int nodes;
    double start, period; /* no period: 0 */
    const double *places, *scales, *shifts, *values, *missing, *unseen, *node_places, *node_values;
    const char *const *levels;
} ahofm_column;

typedef struct {
    int order; /* 0: product factors */
    int first, rank;
    const double *loadings, *means;
} ahofm_group;

{{data}}

static inline int ahofm_below(const double *places, int count, double x) {
    int low = 0, high = count;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (places[mid] <= x) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* The remainder of a division that has the sign of the divisor. */
static inline double ahofm_modulo(double x, double period) {
    const double rest = fmod(x, period);
    return rest < 0.0 ? rest + period : rest;
}

static inline const double *ahofm_level(const ahofm_column *column, ahofm_cell cell) {
    int low = 0, high = column->count;
    if (column->kind == 2 ? cell.text == NULL : cell.number != cell.number) return column->missing;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        const int order = column->kind == 2 ? strcmp(column->levels[mid], cell.text)
                                            : (column->places[mid] > cell.number) - (column->places[mid] < cell.number);
        if (order == 0) return column->values + (size_t)mid * AHOFM_FUNCTIONS;
        if (order < 0) low = mid + 1;
        else high = mid;
    }
    return column->unseen;
}

/* Functions of one column: main effects of all linear predictors, then factors. */
static inline void ahofm_functions(const ahofm_column *column, ahofm_cell cell, double *out) {
    double x = cell.number, t;
    int f, m, piece;
    if (column->kind > 0 || x != x) {
        const double *row = column->kind > 0 ? ahofm_level(column, cell) : column->missing;
        for (f = 0; f < AHOFM_FUNCTIONS; f++) out[f] = row[f];
        return;
    }
    if (column->period > 0.0) {
        x = (ahofm_modulo(x, column->period) - ahofm_modulo(column->start, column->period)) / column->period;
        x = ahofm_modulo(x, 1.0);
        if (x >= 1.0) x = 0.0;
    }
    piece = ahofm_below(column->places, column->count, x);
    t = x * column->scales[piece] - column->shifts[piece];
    for (f = 0; f < AHOFM_FUNCTIONS; f++) out[f] = 0.0;
    for (m = column->powers - 1; m >= 0; m--) {
        const double *row = column->values + ((size_t)piece * column->powers + m) * AHOFM_FUNCTIONS;
        for (f = 0; f < AHOFM_FUNCTIONS; f++) out[f] = out[f] * t + row[f];
    }
    if (column->nodes > 0) { /* straight lines between nodes, constant outside; halves do not overflow */
        const double *at = column->node_places;
        const int below = ahofm_below(at, column->nodes, cell.number), k = below > 0 ? below - 1 : 0;
        const int next = k + 1 < column->nodes ? k + 1 : k;
        const double part = next > k && cell.number > at[k]
                                ? (0.5 * cell.number - 0.5 * at[k]) / (0.5 * at[next] - 0.5 * at[k]) : 0.0;
        const double *a = column->node_values + (size_t)k * AHOFM_FUNCTIONS;
        const double *b = column->node_values + (size_t)next * AHOFM_FUNCTIONS;
        for (f = 0; f < AHOFM_FUNCTIONS; f++) out[f] += (1.0 - part) * a[f] + part * b[f];
    }
}

/* Linear predictors of a row of AHOFM_COLUMNS cells. */
static inline void ahofm_linear_predictors(const ahofm_cell *row, double *eta) {
    double own[AHOFM_FUNCTIONS], e[AHOFM_STATES];
    int j, k, g, f, d;
    for (k = 0; k < AHOFM_LINEAR_PREDICTORS; k++) eta[k] = ahofm_intercepts[k];
    for (f = 0; f < AHOFM_STATES; f++) e[f] = 0.0;
    for (g = 0, d = 0; g < AHOFM_GROUPS; g++) /* d: where the states of a group begin */
        for (f = 0; f < ahofm_groups[g].rank; f++, d += ahofm_groups[g].order + 1) e[d] = 1.0;
    for (j = 0; j < AHOFM_COLUMNS; j++) {
        double *at = e;
        ahofm_functions(&ahofm_columns[j], row[j], own);
        for (k = 0; k < AHOFM_LINEAR_PREDICTORS; k++) eta[k] += own[k];
        for (g = 0; g < AHOFM_GROUPS; g++) {
            const int order = ahofm_groups[g].order;
            for (f = 0; f < ahofm_groups[g].rank; f++, at += order + 1) {
                const double phi = own[ahofm_groups[g].first + f];
                if (order == 0) at[0] *= phi;
                for (d = order; d >= 1; d--) at[d] += phi * at[d - 1];
            }
        }
    }
    for (g = 0, d = 0; g < AHOFM_GROUPS; g++)
        for (f = 0; f < ahofm_groups[g].rank; f++, d += ahofm_groups[g].order + 1)
            for (k = 0; k < AHOFM_LINEAR_PREDICTORS; k++)
                eta[k] += ahofm_groups[g].loadings[k * ahofm_groups[g].rank + f] * e[d + ahofm_groups[g].order];
}

static inline double ahofm_logistic(double eta) { return 1.0 / (1.0 + exp(-eta)); }

/* Of levels in an order. */
static inline double ahofm_expected_level(double eta) {
    double total = AHOFM_LOWEST_LEVEL;
    int k;
    for (k = 0; k < AHOFM_THRESHOLDS; k++) total += ahofm_logistic(eta - ahofm_thresholds[k]);
    return total;
}

/* The mean of a row, or the probabilities of several classes: AHOFM_MEANS numbers. Offsets, one for each linear predictor,
   may be NULL. */
static inline void ahofm_predict(const ahofm_cell *row, const double *offsets, double *mean) {
    double eta[AHOFM_LINEAR_PREDICTORS], top, total = 0.0;
    int k;
    ahofm_linear_predictors(row, eta);
    for (k = 0; offsets != NULL && k < AHOFM_LINEAR_PREDICTORS; k++) eta[k] += offsets[k];
    top = eta[0];
    if (AHOFM_MEANS == 1) {
        mean[0] = AHOFM_MEAN(eta);
        return;
    }
    for (k = 1; k < AHOFM_LINEAR_PREDICTORS; k++) top = eta[k] > top ? eta[k] : top;
    for (k = 0; k < AHOFM_LINEAR_PREDICTORS; k++) total += mean[k] = exp(eta[k] - top);
    for (k = 0; k < AHOFM_LINEAR_PREDICTORS; k++) mean[k] /= total;
}

/* Probabilities of all classes, or of all levels in an order: AHOFM_PROBABILITIES numbers, none of other models. */
static inline void ahofm_probabilities(const ahofm_cell *row, const double *offsets, double *out) {
    double eta[AHOFM_LINEAR_PREDICTORS], below = 0.0;
    int k;
    if (AHOFM_PROBABILITIES == 0) return;
    if (AHOFM_THRESHOLDS == 0) {
        ahofm_predict(row, offsets, AHOFM_MEANS == 1 ? out + 1 : out);
        if (AHOFM_MEANS == 1) out[0] = 1.0 - out[1];
        return;
    }
    ahofm_linear_predictors(row, eta);
    if (offsets != NULL) eta[0] += offsets[0];
    for (k = 0; k < AHOFM_THRESHOLDS; k++) {
        const double next = ahofm_logistic(ahofm_thresholds[k] - eta[0]);
        out[k] = next - below;
        below = next;
    }
    out[AHOFM_THRESHOLDS] = 1.0 - below;
}

/* Shapley values of one factor, added to those of the columns: `own` are its functions, one for each column. */
static inline void ahofm_add_factor(const ahofm_group *group, int f, double loading, const double *own, double *shares) {
    double after[AHOFM_COLUMNS + 1][AHOFM_MOST_ORDER + 1], before[AHOFM_MOST_ORDER + 1];
    const int d = group->order;
    int j, q, node;
    if (d == 0) { /* an integral over (0, 1), exact at its nodes */
        for (node = 0; node < AHOFM_NODES; node++) {
            const double t = ahofm_nodes[node];
            double left = loading * ahofm_weights[node];
            after[AHOFM_COLUMNS][0] = 1.0;
            for (j = AHOFM_COLUMNS - 1; j >= 0; j--) {
                const double mean = group->means[j * group->rank + f];
                after[j][0] = after[j + 1][0] * (mean + t * (own[j] - mean));
            }
            for (j = 0; j < AHOFM_COLUMNS; j++) {
                const double mean = group->means[j * group->rank + f];
                shares[j] += (own[j] - mean) * left * after[j + 1][0];
                left *= mean + t * (own[j] - mean);
            }
        }
        return;
    }
    for (q = 0; q < d; q++) before[q] = after[AHOFM_COLUMNS][q] = q == 0;
    for (j = AHOFM_COLUMNS - 1; j >= 0; j--)
        for (q = 0; q < d; q++) after[j][q] = after[j + 1][q] + (q > 0 ? own[j] * after[j + 1][q - 1] : 0.0);
    for (j = 0; j < AHOFM_COLUMNS; j++) {
        double others = 0.0;
        for (q = 0; q < d; q++) others += before[q] * after[j + 1][d - 1 - q];
        shares[j] += loading * own[j] * others / d;
        for (q = d - 1; q >= 1; q--) before[q] += own[j] * before[q - 1];
    }
}

/* Shapley values of linear predictor k: AHOFM_COLUMNS numbers. Returns the base: with it they add up to the linear
   predictor, without an offset. */
static inline double ahofm_contributions(const ahofm_cell *row, int k, double *shares) {
    double all[AHOFM_COLUMNS][AHOFM_FUNCTIONS], own[AHOFM_COLUMNS];
    int j, g, f;
    for (j = 0; j < AHOFM_COLUMNS; j++) {
        ahofm_functions(&ahofm_columns[j], row[j], all[j]);
        shares[j] = all[j][k];
    }
    for (g = 0; g < AHOFM_GROUPS; g++)
        for (f = 0; f < ahofm_groups[g].rank; f++) {
            const double loading = ahofm_groups[g].loadings[k * ahofm_groups[g].rank + f];
            if (loading == 0.0) continue;
            for (j = 0; j < AHOFM_COLUMNS; j++) own[j] = all[j][ahofm_groups[g].first + f];
            ahofm_add_factor(&ahofm_groups[g], f, loading, own, shares);
        }
    return ahofm_bases[k];
}
