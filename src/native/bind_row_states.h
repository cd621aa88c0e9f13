// Bindings of row states and of the small solves of the variational solver.
#pragma once

#include <algorithm>

#include "checks.h"
#include "product_states.h"

namespace {

using Ranks = std::vector<std::pair<int64_t, int64_t>>;  // (order, rank)

int64_t lanes_of_state(bool float64) { return float64 ? ahofm::state_lanes<double> : ahofm::state_lanes<float>; }

// Functions of a column: its main effect and its factors.
int64_t functions_of(const Ranks& ranks) {
    int64_t width = 1;
    for (const auto& [order, rank] : ranks) {
        if (order != ahofm::kProduct) within(order, 2, ahofm::kMaxStateOrder, "order");
        width = within(sum(width, within(rank, 0, kMostFunctions, "rank"), "rank"), 1, kMostFunctions,
                       "functions of a column");
    }
    return width;
}

int64_t state_size(const Ranks& ranks, bool float64) {
    functions_of(ranks);
    const int64_t lanes = lanes_of_state(float64);
    int64_t size = ahofm::kStateHead;
    for (const auto& [order, rank] : ranks)
        size = sum(size,
                   product((rank + lanes - 1) / lanes * lanes, ahofm::state_entries(static_cast<int>(order)), "state"),
                   "state");
    return size;
}

// States of n rows, (blocks of rows, numbers), and the layout of the factors in them.
struct State {
    using States = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu>;

    States kept;
    std::vector<ahofm::StatePanel> panels;
    ahofm::BlockTask task{};

    State(nb::handle state, int64_t n, const Ranks& ranks) {
        if (n < 0) refuse("the number of rows cannot be negative, got " + std::to_string(n));
        kept = unconverted<States>(state, "state", "array of two dimensions");
        task.float64 = is_float64(kept, "state");
        task.n = n;
        task.numbers = state_size(ranks, task.float64);
        expect_shape(kept, {n / ahofm::kBlock + (n % ahofm::kBlock > 0), product(ahofm::kBlock, task.numbers, "state")},
                     "state");
        const int64_t lanes = lanes_of_state(task.float64);
        task.width = 1;
        for (const auto& [order, rank] : ranks) {
            for (int64_t first = 0; first < rank; first += lanes)
                panels.push_back({static_cast<int>(order), task.width + first, std::min(rank - first, lanes)});
            task.width += rank;
        }
        task.state = kept.data();
        task.panels = panels.data();
        task.n_panels = static_cast<int>(panels.size());
    }
};

// (column, codes, means, variances) of one column.
struct Moments {
    AnyArray codes;
    Doubles mean, variance;
    ahofm::ColumnMoments moments{};

    Moments() = default;
    Moments(nb::handle entry, int64_t n, int64_t width) {
        const nb::tuple given = tuple_of(entry, 4, "a column of the block solver", "(column, codes, means, variances)");
        const int column = static_cast<int>(within(integer(given[0], "column"), 0, INT32_MAX, "column"));
        codes = cast<AnyArray>(given[1], "codes", "a contiguous array of codes");
        mean = doubles(given[2], "means");
        variance = doubles(given[3], "variances");
        const int bytes = code_width(codes, "codes");
        expect_shape(codes, {n}, "codes");
        expect_dimensions(mean, 2, "means", "(codes, functions)");
        const uint32_t size = code_count(length(mean, 0), "means");
        expect_shape(mean, {size, width}, "means");
        expect_shape(variance, {size, width}, "variances");
        moments = {column, codes.data(), bytes, size, mean.data(), variance.data()};
    }
};

void swap_columns(const std::string& isa, nb::handle state, int64_t n, const Ranks& ranks,
                  const std::optional<nb::tuple>& add_column, const std::optional<nb::tuple>& remove_column,
                  const std::optional<DoublesOut>& gram, const std::optional<DoublesOut>& rhs) {
    const ahofm::Passes& passes = passes_named(isa);
    State parsed(state, n, ranks);
    ahofm::BlockTask& task = parsed.task;
    Moments in, out;
    if (add_column) in = Moments(*add_column, task.n, task.width);
    if (remove_column) {
        out = Moments(*remove_column, task.n, task.width);
        if (!gram || !rhs) refuse("a column that is taken out needs gram and rhs to sum into");
        const int64_t size = out.moments.size;
        expect_shape(*gram, {size, task.width, task.width}, "gram");
        expect_shape(*rhs, {size, task.width}, "rhs");
        task.gram = gram->data();
        task.rhs = rhs->data();
    }
    task.add_column = in.moments;
    task.remove_column = out.moments;
    const ahofm::BadCode bad = without_gil([&] { return passes.block(task); });
    raise_if_bad(bad, bad.column == in.moments.column ? in.moments.size : out.moments.size);
}

// Initialises states of zeros with the loadings (rank,) of product factors.
void start_state(const std::string& isa, nb::handle state, int64_t n, const Ranks& ranks, const Doubles& loadings) {
    passes_named(isa);
    const State parsed(state, n, ranks);
    int64_t rank = 0;
    for (const ahofm::StatePanel& panel : parsed.panels) rank += panel.order == ahofm::kProduct ? panel.used : 0;
    expect_shape(loadings, {rank}, "loadings");
    without_gil([&] { ahofm::start_products(parsed.task, loadings.data()); });
}

void read_state(const std::string& isa, nb::handle state, const Ranks& ranks, const DoublesOut& mean,
                const DoublesOut& variance) {
    const ahofm::Passes& passes = passes_named(isa);
    expect_dimensions(mean, 1, "mean", "(rows,)");
    const State parsed(state, length(mean, 0), ranks);
    expect_shape(variance, {parsed.task.n}, "variance");
    without_gil([&] { passes.read_state(parsed.task, mean.data(), variance.data()); });
}

void raise_if_singular(int64_t code) {
    if (code >= 0) refuse("the matrix of code " + std::to_string(code) + " is not positive definite");
}

// In place: the inverse of each matrix.
void inverses(const std::string& isa, const DoublesOut& matrices) {
    const ahofm::Passes& passes = passes_named(isa);
    expect_dimensions(matrices, 3, "matrices", "(count, n, n)");
    const int64_t codes = length(matrices, 0), width = length(matrices, 1);
    expect_shape(matrices, {codes, width, width}, "matrices");
    if (matrices.size() == 0) return;
    raise_if_singular(without_gil([&] { return passes.inverses(codes, width, matrices.data()); }));
}

void chain(const std::string& isa, const Doubles& gram, const Doubles& rhs, const Doubles& edges,
           const Doubles& lam_difference, const Doubles& lam_value, const DoublesOut& mean, const DoublesOut& variance,
           const DoublesOut& differences) {
    const ahofm::Passes& passes = passes_named(isa);
    expect_dimensions(rhs, 3, "rhs", "(codes, functions, count)");
    const int64_t codes = length(rhs, 0), width = length(rhs, 1), count = length(rhs, 2);
    if (codes < 1 || width < 1 || count < 1)
        refuse("rhs must have at least one code, one function and one right-hand side");
    expect_shape(gram, {codes, width, width}, "gram");
    expect_shape(edges, {codes - 1}, "edges");
    expect_shape(lam_difference, {width}, "lam_difference");
    expect_shape(lam_value, {width}, "lam_value");
    expect_shape(mean, {codes, width, count}, "mean");
    expect_shape(variance, {codes, width}, "variance");
    expect_shape(differences, {width}, "differences");
    const ahofm::ChainTask task{codes,
                                width,
                                count,
                                gram.data(),
                                rhs.data(),
                                edges.data(),
                                lam_difference.data(),
                                lam_value.data(),
                                mean.data(),
                                variance.data(),
                                differences.data()};
    raise_if_singular(without_gil([&] { return passes.chain(task); }));
}

// Sums by code of weight * slopes slopes' and of slopes * weighted_response, added to gram and rhs.
void code_sums(const std::string& isa, const AnyArray& codes, const Doubles& slopes, const Doubles& weight,
               const Doubles& weighted_response, const DoublesOut& gram, const DoublesOut& rhs) {
    const ahofm::Passes& passes = passes_named(isa);
    const int bytes = code_width(codes, "codes");
    expect_dimensions(rhs, 2, "rhs", "(codes, functions)");
    const int64_t n = length(codes, 0), n_codes = length(rhs, 0), width = length(rhs, 1);
    expect_shape(slopes, {n, width}, "slopes");
    expect_shape(weight, {n}, "weight");
    expect_shape(weighted_response, {n, width}, "weighted_response");
    expect_shape(gram, {n_codes, width, width}, "gram");
    const ahofm::CodeSumsTask task{n,           width,         n_codes,       codes.data(),
                                   bytes,       slopes.data(), weight.data(), weighted_response.data(),
                                   gram.data(), rhs.data()};
    raise_if_bad(without_gil([&] { return passes.code_sums(task); }), n_codes);
}

}  // namespace
