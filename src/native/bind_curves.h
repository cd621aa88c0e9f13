// Bindings of the pass over true values.
#pragma once

#include "checks.h"

namespace {

// One column of numbers or codes, and the mapping from its values to table rows.
struct Places {
    std::vector<Doubles> kept;  // owns converted arrays while pointers to them are in use
    std::vector<Numbers> numbers;
    std::vector<AnyArray> codes;
    std::vector<ahofm::Place> list;
    int64_t n = -1, n_rows = 0;

    Places(const nb::list& columns, const nb::list& given) {
        expect_any(columns.size(), "columns");
        if (columns.size() != given.size())
            refuse("columns: got " + std::to_string(columns.size()) + ", but there are curves of " +
                   std::to_string(given.size()));
        for (size_t j = 0; j < given.size(); j++) {
            const std::string name = "column " + std::to_string(j);
            ahofm::Place place = nb::isinstance<nb::tuple>(given[j])
                                     ? number_place(columns[j], given[j], name)
                                     : code_place(columns[j], integer(given[j], name + ": number of codes"), name);
            const int64_t pieces = place.numbers != nullptr ? place.n_breaks + 2 : place.size;
            place.start = static_cast<uint32_t>(n_rows);
            n_rows = sum(n_rows, product(pieces, place.degree + 1, name), name);
            if (n_rows > kMostCodes) refuse("more than 2^31 table rows over all columns");
            list.push_back(place);
        }
    }

  private:
    void expect_rows(int64_t rows, const std::string& name) {
        if (n < 0) n = rows;
        if (rows != n) refuse(name + " has " + std::to_string(rows) + " rows, expected " + std::to_string(n));
    }

    ahofm::Place number_place(nb::handle column, nb::handle entry, const std::string& name) {
        const nb::tuple given = tuple_of(entry, 6, name, "(breaks, scales, shifts, degree, phase, period)");
        numbers.push_back(cast<Numbers>(column, name, "an array of numbers with one dimension"));
        expect_some(numbers.back(), name);
        expect_rows(length(numbers.back(), 0), name);
        ahofm::Place place;
        static const double none = 0.0;  // without rows the array's address may be null
        place.numbers = numbers.back().data() != nullptr ? numbers.back().data() : &none;
        place.stride = numbers.back().stride(0);
        const double** const arrays[3] = {&place.breaks, &place.scales, &place.shifts};
        static const char* const parts[3] = {": breaks", ": scales", ": shifts"};
        for (size_t k = 0; k < 3; k++) {
            kept.push_back(doubles(given[k], name + parts[k]));
            if (k == 0) place.n_breaks = static_cast<int64_t>(kept.back().size());
            expect_shape(kept.back(), {place.n_breaks + (k > 0)}, name + parts[k]);
            *arrays[k] = kept.back().data();
        }
        place.degree = static_cast<int>(within(integer(given[3], name + ": degree"), 0, 1000, name + ": degree"));
        place.phase = number(given[4], name + ": phase");
        place.period = number(given[5], name + ": period");
        return place;
    }

    ahofm::Place code_place(nb::handle column, int64_t size, const std::string& name) {
        codes.push_back(cast<AnyArray>(column, name, "a contiguous array of codes"));
        ahofm::Place place;
        place.width = code_width(codes.back(), name + ": codes");
        expect_rows(length(codes.back(), 0), name);
        place.codes = codes.back().data();
        place.size = code_count(size, name);
        return place;
    }
};

// Predictors: (intercept, main (rows,), [(order, panels (count, rows, lanes), weights (count, lanes), products), ...]),
// products None or, of product factors, (means (count, columns, lanes), nodes (q,), node weights (q,)).
struct CurveParts {
    std::vector<Doubles> kept;
    std::vector<double> intercepts;
    std::vector<const double*> mains;
    std::vector<ahofm::CurvePanel> panels;

    CurveParts(const nb::list& predictors, int64_t n_rows, int64_t n_columns) {
        expect_any(predictors.size(), "linear predictors");
        for (size_t k = 0; k < predictors.size(); k++) {
            const nb::tuple item =
                tuple_of(predictors[k], 3, "linear predictor " + std::to_string(k), "(intercept, main, [panels, ...])");
            intercepts.push_back(number(item[0], "intercept"));
            mains.push_back(keep(item[1], {n_rows}, "main"));
            for (nb::handle entry : list(item[2], "panels")) add(entry, static_cast<int>(k), n_rows, n_columns);
        }
    }

  private:
    const double* keep(nb::handle given, const std::vector<int64_t>& shape, const char* what) {
        kept.push_back(doubles(given, what));
        expect_shape(kept.back(), shape, what);
        return kept.back().data();
    }

    void add(nb::handle entry, int k, int64_t n_rows, int64_t n_columns) {
        const nb::tuple group = tuple_of(entry, 4, "panels", "(order, panels, weights, products)");
        const int64_t order = order_of(group[0], "order of curves");
        const Doubles table = doubles(group[1], "panels");
        expect_dimensions(table, 3, "panels", "(count, rows, lanes)");
        const int64_t count = length(table, 0);
        const double* tables = keep(group[1], {count, n_rows, ahofm::kCurveLanes}, "panels");
        const double* weights = keep(group[2], {count, ahofm::kCurveLanes}, "weights");
        const bool product = order == ahofm::kProduct;
        if (!product && order > n_columns) return;  // no subset of that many columns
        if (!product) within(order, 2, kHighestOrder, "order of curves");
        ahofm::CurvePanel panel{static_cast<int>(order), k, tables, weights};
        if (product) add_products(group[3], count, n_columns, panel);
        for (int64_t q = 0; q < count; q++) {
            panels.push_back(panel);
            panel.table += n_rows * ahofm::kCurveLanes;
            panel.weights += ahofm::kCurveLanes;
            if (product) panel.means += n_columns * ahofm::kCurveLanes;
        }
    }

    void add_products(nb::handle given, int64_t count, int64_t n_columns, ahofm::CurvePanel& panel) {
        const nb::tuple parts = tuple_of(given, 3, "products", "(means, nodes, node weights)");
        panel.means = keep(parts[0], {count, n_columns, ahofm::kCurveLanes}, "means");
        const Doubles nodes = doubles(parts[1], "nodes");
        expect_dimensions(nodes, 1, "nodes", "(nodes,)");
        panel.n_nodes = static_cast<int>(within(length(nodes, 0), 1, kMostFunctions, "nodes"));
        panel.nodes = keep(parts[1], {panel.n_nodes}, "nodes");
        panel.node_weights = keep(parts[2], {panel.n_nodes}, "node weights");
    }
};

// out: linear predictors (n, linear predictors), or contributions of the columns (n, linear predictors, columns).
void curves(const std::string& isa, const nb::list& columns, const nb::list& places, const nb::list& predictors,
            const DoublesOut& out) {
    const ahofm::Passes& passes = passes_named(isa);
    const Places parsed(columns, places);
    const int64_t n_columns = static_cast<int64_t>(parsed.list.size()), n_eta = static_cast<int64_t>(predictors.size());
    const CurveParts parts(predictors, parsed.n_rows, n_columns);
    expect_array(out, "out");
    const bool contributions = out.ndim() == 3;
    if (contributions) expect_shape(out, {parsed.n, n_eta, n_columns}, "out");
    else expect_shape(out, {parsed.n, n_eta}, "out");
    const ahofm::CurveTask task{parsed.n,
                                parsed.list.data(),
                                static_cast<int>(n_columns),
                                static_cast<int>(n_eta),
                                parts.intercepts.data(),
                                parts.mains.data(),
                                parts.panels.data(),
                                static_cast<int>(parts.panels.size()),
                                contributions ? nullptr : out.data(),
                                contributions ? out.data() : nullptr};
    const ahofm::BadCode bad = without_gil([&] { return passes.curves(task); });
    if (bad.column >= 0) raise_if_bad(bad, parsed.list[static_cast<size_t>(bad.column)].size);
}

}  // namespace
