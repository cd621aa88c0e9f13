// What an engine is made of: dictionaries of the caller, checked, and the arrays in them, which it keeps.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bind_design.h"
#include "bind_priors.h"
#include "bind_row_states.h"

namespace {

class EngineArguments {
  public:
    EngineArguments(bool float64, const nb::dict& rows, const nb::list& columns, const Ranks& ranks,
                    const nb::dict& mains, const nb::list& etas)
        : float64_(float64), width_(functions_of(ranks)), products_(products_of(ranks)),
          K_(within(static_cast<int64_t>(etas.size()), 1, 100'000, "linear predictors")), n_(count_rows(rows)) {
        product(n_ + ahofm::kBlock, product(state_size(ranks, float64), 8 * K_, "state"), "state");
        for (const auto& [order, rank] : ranks) orders_.emplace_back(static_cast<int>(order), rank);
        expect_any(columns.size(), "columns");
        rows_ = rows_of(rows);
        for (nb::handle handle : columns) columns_.push_back(column_of(dictionary(handle, "a column")));
        mains_ = mains_of(mains);
        for (nb::handle handle : etas) etas_.push_back(eta_of(dictionary(handle, "a linear predictor")));
    }

    int64_t n() const { return n_; }
    int64_t K() const { return K_; }
    const ahofm::RowArrays& rows() const { return rows_; }

    // Called once: the engine takes what is not the caller's.
    std::unique_ptr<ahofm::Engine> engine(const ahofm::Passes& passes, bool quadratic) {
        for (const ahofm::EngineColumn& column : columns_) {
            solve_memory(passes, column.main, 1);
            solve_memory(passes, column.factors, width_ - 1);
        }
        return std::make_unique<ahofm::Engine>(passes, n_, std::move(columns_), std::move(orders_), float64_,
                                               std::move(mains_), rows_, std::move(etas_), quadratic);
    }

  private:
    static int64_t products_of(const Ranks& ranks) {
        int64_t products = 0;
        for (size_t k = 0; k < ranks.size(); k++) {
            if (ranks[k].first != ahofm::kProduct) continue;
            if (k + 1 < ranks.size()) refuse("product factors come after those of all orders");
            products = ranks[k].second;
        }
        return products;
    }

    static int64_t count_rows(const nb::dict& rows) {
        const DoublesOut eta = unconverted<DoublesOut>(entry(rows, "eta"), "eta", "float64 array");
        expect_dimensions(eta, 2, "eta", "(rows, linear predictors)");
        return within(length(eta, 0), 1, INT64_MAX / 64, "rows");
    }

    ahofm::RowArrays rows_of(const nb::dict& given) {
        ahofm::RowArrays rows;
        rows.y = arrays_.read(entry(given, "y"), {n_}, "y");
        rows.weight = arrays_.read(entry(given, "weight"), {n_}, "weight");
        if (!entry(given, "offset").is_none()) rows.offset = arrays_.read(entry(given, "offset"), {n_, K_}, "offset");
        rows.eta = arrays_.write(entry(given, "eta"), {n_, K_}, "eta");
        rows.value = arrays_.write(entry(given, "value"), {n_}, "value");
        rows.slope = arrays_.write(entry(given, "slope"), {n_, K_}, "slope");
        rows.curvature = arrays_.write(entry(given, "curvature"), {n_, K_}, "curvature");
        rows.variance = arrays_.write(entry(given, "variance"), {n_, K_}, "variance");
        return rows;
    }

    ahofm::MainEffects mains_of(const nb::dict& given) {
        ahofm::MainEffects mains;
        const nb::dict design = dictionary(entry(given, "design"), "design");
        mains.design = design_of(design, n_, arrays_);
        mains.q = mains.design.q;
        mains.counts = numbers_of(entry(given, "counts"), "counts");
        mains.group = indices_of(entry(given, "group"), static_cast<int64_t>(mains.counts.size()), "group");
        mains.relative_penalty = copied(entry(given, "relative_penalty"), {mains.q}, "relative_penalty");
        if (static_cast<int64_t>(mains.group.size()) != mains.q) refuse("group must have an entry per coefficient");
        mains.largest_lam = number(entry(given, "largest_lam"), "largest_lam");
        return mains;
    }

    ahofm::EngineColumn column_of(const nb::dict& given) {
        ahofm::EngineColumn column;
        const AnyArray& codes = arrays_.codes(entry(given, "codes"), n_);
        column.code_width = code_width(codes, "codes");
        column.codes = codes.data();
        column.n_codes = code_count(integer(entry(given, "n_codes"), "n_codes"), "a column");
        within(column.n_codes, 2, kMostCodes, "n_codes");
        const int64_t known_codes = column.n_codes - 1;
        column.mass = copied(entry(given, "mass"), {known_codes}, "mass");
        column.relative_bounds = copied(entry(given, "relative_bounds"), {known_codes}, "relative_bounds");
        column.bounded = cast<bool>(entry(given, "bounded"), "bounded", "a bool");
        if (!entry(given, "left_out").is_none())
            for (const double each : copied(entry(given, "left_out"), {width_ - 1}, "left_out"))
                column.left_out.push_back(each != 0.0);
        column.main = prior_of(entry(given, "main"), known_codes);
        column.factors = prior_of(entry(given, "factors"), known_codes);
        return column;
    }

    ahofm::ColumnArrays column_arrays_of(const nb::dict& given, const ahofm::EngineColumn& column) {
        const int64_t known_codes = column.n_codes - 1, factors = width_ - 1;
        const auto array = [&](const char* key, const std::vector<int64_t>& shape) {
            return arrays_.write(entry(given, key), shape, key);
        };
        ahofm::ColumnArrays arrays{};
        arrays.mean = array("mean", {column.n_codes, width_});
        arrays.variance = array("variance", {column.n_codes, width_});
        arrays.main_lam = array("main_lam", {column.main.n_lam()});
        arrays.lam = array("lam", {column.factors.n_lam(), factors});
        arrays.main_smooth = array("main_smooth", {column.main.task.m});
        arrays.main_per_code = array("main_per_code", {known_codes});
        arrays.smooth = array("smooth", {column.factors.task.m, factors});
        arrays.per_code = array("per_code", {known_codes, factors});
        arrays.edf = array("edf", {column.factors.n_lam(), factors});
        arrays.constants = array("constants", {products_});
        arrays.solved = within(integer(entry(given, "solved"), "solved"), 0, width_, "solved");
        return arrays;
    }

    ahofm::TensorSmoothing tensor_of(const nb::dict& given) {
        if (width_ < 2) refuse("tensor smoothing needs factors of pairs");
        for (const ahofm::EngineColumn& column : columns_)
            if (column.factors.task.kind != ahofm::PriorKind::spline &&
                column.factors.task.kind != ahofm::PriorKind::iid)
                refuse("tensor smoothing needs splines or independent effects");
        const int64_t p = static_cast<int64_t>(columns_.size());
        ahofm::TensorSmoothing tensor;
        tensor.margin_lam = arrays_.write(entry(given, "margin_lam"), {p, p}, "margin_lam");
        tensor.null_lam = arrays_.write(entry(given, "null_lam"), {p, p}, "null_lam");
        tensor.edf = number(entry(given, "edf"), "edf");
        tensor.age = integer(entry(given, "age"), "age");
        return tensor;
    }

    ahofm::EtaArrays eta_of(const nb::dict& given) {
        ahofm::EtaArrays eta;
        const nb::list by_column = list(entry(given, "columns"), "columns");
        if (by_column.size() != columns_.size()) refuse("a linear predictor needs arrays for every column");
        for (size_t j = 0; j < columns_.size(); j++)
            eta.columns.push_back(column_arrays_of(dictionary(by_column[j], "arrays of a column"), columns_[j]));
        eta.coef = arrays_.write(entry(given, "coef"), {mains_.q}, "coef");
        eta.lam = arrays_.write(entry(given, "lam"), {static_cast<int64_t>(mains_.counts.size())}, "lam");
        eta.loadings = arrays_.write(entry(given, "loadings"), {products_}, "loadings");
        eta.intercept = number(entry(given, "intercept"), "intercept");
        eta.trace = number(entry(given, "trace"), "trace");
        if (!entry(given, "margin_lam").is_none()) eta.tensor = tensor_of(given);
        return eta;
    }

    const bool float64_;
    const int64_t width_, products_, K_, n_;
    KeptArrays arrays_;
    ahofm::RowArrays rows_;
    std::vector<std::pair<int, int64_t>> orders_;
    std::vector<ahofm::EngineColumn> columns_;
    ahofm::MainEffects mains_;
    std::vector<ahofm::EtaArrays> etas_;
};

}  // namespace
