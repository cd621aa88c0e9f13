// Bindings of the passes over codes: linear predictors with losses and sums, and one column.
#pragma once

#include "checks.h"

namespace {

// Columns of codes, and the first table row of each.
struct Table {
    std::vector<ahofm::Column> columns;
    ahofm::Rows rows{};

    Table(const std::vector<AnyArray>& codes, const std::vector<int64_t>& sizes) {
        expect_any(codes.size(), "codes", "one column");
        if (codes.size() != sizes.size())
            refuse("codes: " + std::to_string(codes.size()) + " columns but " + std::to_string(sizes.size()) +
                   " sizes");
        int64_t start = 0, n = 0;
        for (size_t j = 0; j < codes.size(); j++) {
            const std::string name = "codes of column " + std::to_string(j);
            const int width = code_width(codes[j], name);
            if (j == 0) n = length(codes[j], 0);
            expect_shape(codes[j], {n}, name);
            if (sizes[j] < 1)
                refuse("column " + std::to_string(j) + " has no codes: its size is " + std::to_string(sizes[j]));
            if (sizes[j] > kMostCodes - start) refuse("more than 2^31 codes over all columns");
            columns.push_back({codes[j].data(), width, static_cast<uint32_t>(start), static_cast<uint32_t>(sizes[j])});
            start += sizes[j];
        }
        rows = {n, columns.data(), static_cast<int>(columns.size()), start};
    }

    void raise_if_bad(const ahofm::BadCode& bad) const {
        if (bad.column >= 0) ::raise_if_bad(bad, columns[static_cast<size_t>(bad.column)].size);
    }
};

// (intercept, main, main_sums or None, [(order, table, loadings, sums or None), ...]) in the form that passes read.
struct Predictors {
    std::vector<Doubles> kept;  // owns converted arrays while pointers to them are in use
    std::vector<DoublesOut> written;
    std::vector<std::vector<ahofm::Factors>> factors;
    std::vector<ahofm::Predictor> list;

    Predictors(const nb::list& given, int64_t n_codes, bool with_sums) {
        expect_any(given.size(), "linear predictors");
        factors.resize(given.size());
        for (size_t k = 0; k < given.size(); k++) {
            const nb::tuple item = tuple_of(given[k], 4, "linear predictor " + std::to_string(k),
                                            "(intercept, main, main sums or None, [factors, ...])");
            kept.push_back(doubles(item[1], "main"));
            const double* main = kept.back().data();
            expect_shape(kept.back(), {n_codes}, "main");
            double* const main_sums = with_sums ? sums(item[2], {n_codes}, "main sums") : nullptr;
            for (nb::handle entry : ::list(item[3], "factors")) factors[k].push_back(group(entry, n_codes, with_sums));
            list.push_back({number(item[0], "intercept"), main, 0.0, main_sums, factors[k].data(),
                            static_cast<int>(factors[k].size())});
        }
    }

    int count() const { return static_cast<int>(list.size()); }

    std::vector<double> intercept_sums() const {
        std::vector<double> found;
        for (const ahofm::Predictor& predictor : list) found.push_back(predictor.intercept_sum);
        return found;
    }

  private:
    double* sums(nb::handle given, const std::vector<int64_t>& shape, const char* what) {
        written.push_back(output(given, shape, what));
        return written.back().data();
    }

    ahofm::Factors group(nb::handle entry, int64_t n_codes, bool with_sums) {
        const nb::tuple item = tuple_of(entry, 4, "factors", "(order, table, loadings, sums or None)");
        const int64_t order = order_of(item[0], "order of a factor table");
        if (order != ahofm::kProduct) within(order, 2, kHighestOrder, "order of a factor table");
        kept.push_back(doubles(item[1], "factor table"));
        const Doubles table = kept.back();
        expect_dimensions(table, 2, "a factor table", "(codes, rank)");
        const int64_t rank = within(length(table, 1), 0, kMostFunctions, "rank of a factor table");
        expect_shape(table, {n_codes, rank}, "factor table");
        kept.push_back(doubles(item[2], "loadings"));
        expect_shape(kept.back(), {rank}, "loadings");
        return {static_cast<int>(order), rank, table.data(), kept.back().data(),
                with_sums ? sums(item[3], {n_codes, rank}, "factor sums") : nullptr};
    }
};

void run_predictors(const ahofm::Passes& passes, const Table& table, Predictors& parsed, ahofm::Task& task,
                    bool float64) {
    table.raise_if_bad(
        without_gil([&] { return passes.predictors(table.rows, parsed.list.data(), parsed.count(), task, float64); }));
}

void eta(const std::string& isa, bool float64, const std::vector<AnyArray>& codes, const std::vector<int64_t>& sizes,
         const nb::list& predictors, const std::optional<AnyArray>& offset, const DoublesOut& out) {
    const ahofm::Passes& passes = passes_named(isa);
    const Table table(codes, sizes);
    Predictors parsed(predictors, table.rows.n_codes, false);
    expect_shape(out, {table.rows.n, parsed.count()}, "out");
    ahofm::Task task{ahofm::Goal::eta};
    task.offset = reals(offset, {table.rows.n, parsed.count()}, "offset");
    task.eta = out.data();
    run_predictors(passes, table, parsed, task, float64);
}

std::pair<double, std::vector<double>> value_and_gradient(const std::string& isa, bool float64,
                                                          const std::vector<AnyArray>& codes,
                                                          const std::vector<int64_t>& sizes, const nb::list& predictors,
                                                          const std::string& loss, const std::optional<AnyArray>& y,
                                                          const std::optional<AnyArray>& weight,
                                                          const std::optional<AnyArray>& offset) {
    static const char* const names[ahofm::kLosses] = {"gaussian", "bernoulli", "poisson", "gamma", "multinomial"};
    const ahofm::Passes& passes = passes_named(isa);
    const Table table(codes, sizes);
    Predictors parsed(predictors, table.rows.n_codes, true);
    const int64_t n = table.rows.n, K = parsed.count();
    ahofm::Task task{ahofm::Goal::gradient};
    int which = 0;
    while (which < ahofm::kLosses && loss != names[which]) which++;
    if (which == ahofm::kLosses) refuse("loss '" + loss + "' is not built in");
    task.loss = static_cast<ahofm::Loss>(which);
    if (task.loss != ahofm::Loss::multinomial && K != 1)
        refuse("loss '" + loss + "' has one linear predictor, got " + std::to_string(K));
    if (!y) refuse("y: a target is needed");
    task.y = reals(y, {n}, "y");
    task.weight = reals(weight, {n}, "weight");
    task.offset = reals(offset, {n, K}, "offset");
    run_predictors(passes, table, parsed, task, float64);
    return {task.loss_sum, parsed.intercept_sums()};
}

std::vector<double> pull_back(const std::string& isa, bool float64, const std::vector<AnyArray>& codes,
                              const std::vector<int64_t>& sizes, const nb::list& predictors, const Doubles& g) {
    const ahofm::Passes& passes = passes_named(isa);
    const Table table(codes, sizes);
    Predictors parsed(predictors, table.rows.n_codes, true);
    expect_shape(g, {table.rows.n, parsed.count()}, "g");
    ahofm::Task task{ahofm::Goal::pull_back};
    task.g = g.data();
    run_predictors(passes, table, parsed, task, float64);
    return parsed.intercept_sums();
}

void column(const std::string& isa, bool float64, const std::vector<AnyArray>& codes, const std::vector<int64_t>& sizes,
            const nb::list& predictor, int which, const std::optional<Doubles>& g, const std::optional<Doubles>& h,
            const std::optional<DoublesOut>& u, const std::optional<DoublesOut>& g_sums,
            const std::optional<DoublesOut>& h_sums) {
    const ahofm::Passes& passes = passes_named(isa);
    const Table table(codes, sizes);
    Predictors parsed(predictor, table.rows.n_codes, false);
    if (parsed.count() != 1) refuse("one linear predictor is needed, got " + std::to_string(parsed.count()));
    if (which < 0 || which >= table.rows.n_columns)
        refuse("column " + std::to_string(which) + " is out of range: there are " +
               std::to_string(table.rows.n_columns));
    const int64_t n = table.rows.n, column_codes = table.columns[static_cast<size_t>(which)].size;
    int64_t width = 1;
    for (const ahofm::Factors& group : parsed.factors[0])
        width = within(width + group.rank, 1, kMostFunctions, "functions of a column");
    ahofm::ColumnTask task{which};
    if (u) {
        expect_shape(*u, {n, width}, "u");
        task.u = u->data();
    }
    if (g || h || g_sums || h_sums) {
        if (!g || !h || !g_sums || !h_sums) refuse("g, h and both sums are given together or not at all");
        expect_shape(*g, {n}, "g");
        expect_shape(*h, {n}, "h");
        expect_shape(*g_sums, {column_codes, width}, "g sums");
        expect_shape(*h_sums, {column_codes, width, width}, "h sums");
        task.g = g->data();
        task.h = h->data();
        task.g_sums = g_sums->data();
        task.h_sums = h_sums->data();
    }
    table.raise_if_bad(without_gil([&] { return passes.column(table.rows, parsed.list[0], task, float64); }));
}

}  // namespace
