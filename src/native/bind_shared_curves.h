// Bindings of sweeps of several classes (shared_curves.h).
#pragma once

#include <memory>
#include <utility>

#include "bind_priors.h"
#include "bind_row_states.h"
#include "shared_curves.h"

namespace {

// The sweeps, with references that keep the caller's arrays alive.
class BoundSharedCurves {
  public:
    BoundSharedCurves(const std::string& isa, const nb::dict& rows, const nb::list& columns, const Ranks& ranks,
                      const nb::dict& mains, const nb::dict& factors, const nb::dict& options)
        : passes_(passes_named(isa)) {
        const Doubles eta = doubles(entry(rows, "eta"), "eta");
        expect_dimensions(eta, 2, "eta", "(classes, rows)");
        const int64_t K = within(length(eta, 0), 2, 100'000, "classes"),
                      n = within(length(eta, 1), 1, UINT32_MAX - 1, "rows");
        int64_t F = 0, levels = 0;
        std::vector<std::pair<int, int64_t>> orders;
        for (const auto& [order, rank] : ranks) {
            const bool product = order == ahofm::kProduct;
            if (!product) within(order, 2, ahofm::kMaxStateOrder, "order");
            orders.emplace_back(static_cast<int>(order), within(rank, 1, 4096, "rank"));
            F += rank;
            levels = std::max<int64_t>(levels, product ? 2 : order);
        }
        within(F, 0, 4096, "factors");
        product(n, 8 * (8 * levels * F + 3 * (K + 4)), "rows of all factors");
        n_ = n;
        K_ = K;
        ahofm::ClassTargets targets;
        for (const double y : copied(entry(rows, "y"), {n}, "y")) {
            if (!is_index(y, K)) refuse("y must be the number of a class");
            targets.y.push_back(static_cast<uint32_t>(y));
        }
        targets.weight = arrays_.read(entry(rows, "weight"), {n}, "weight");
        if (!entry(rows, "offset").is_none()) targets.offset = arrays_.read(entry(rows, "offset"), {n, K}, "offset");
        expect_any(columns.size(), "columns");
        std::vector<ahofm::SharedColumn> parsed;
        for (nb::handle handle : columns) parsed.push_back(column_of(dictionary(handle, "a column"), F));
        double *loadings = arrays_.write(entry(factors, "loadings"), {F, K}, "loadings"),
               *variance = arrays_.write(entry(factors, "loading_variance"), {F}, "loading_variance");
        curves_ = std::make_unique<ahofm::SharedCurves>(passes_, n, K, std::move(targets), std::move(parsed),
                                                        std::move(orders), mains_of(mains), loadings, variance,
                                                        eta.data(), options_of(options));
    }

    void sweep_mains(bool learn, bool bound) {
        run([&] { curves_->sweep_mains(learn, bound); });
    }

    void sweep(bool learn, bool bound, bool backwards, bool rebuilt) {
        run([&] { curves_->sweep(learn, bound, backwards, rebuilt); });
    }

    void temper(double tempering) {
        if (!(tempering >= 0.0 && tempering <= 1.0)) refuse("tempering must be between 0 and 1");
        run([&] { curves_->temper(tempering); });
    }

    double loss(bool bound) {
        double found = 0.0;
        run([&] { found = curves_->loss(bound); });
        return found;
    }

    void read_eta(const DoublesOut& out) {
        expect_shape(out, {K_, n_}, "out");
        run([&] { curves_->read_eta(out.data()); });
    }

  private:
    template <class Code>
    std::vector<uint32_t> checked(const AnyArray& codes, int64_t n_codes) const {
        const Code* from = static_cast<const Code*>(codes.data());
        std::vector<uint32_t> found(from, from + n_);
        for (size_t i = 0; i < found.size(); i++)
            if (found[i] >= n_codes) raise_if_bad({0, static_cast<int64_t>(i), found[i]}, n_codes);
        return found;
    }

    ahofm::SharedColumn column_of(const nb::dict& given, int64_t F) {
        ahofm::SharedColumn column;
        const AnyArray codes = cast<AnyArray>(entry(given, "codes"), "codes", "an array");
        const int bytes = code_width(codes, "codes");
        expect_shape(codes, {n_}, "codes");
        column.n_codes = within(integer(entry(given, "n_codes"), "n_codes"), 2, kMostCodes, "n_codes");
        column.codes = bytes == 1   ? checked<uint8_t>(codes, column.n_codes)
                       : bytes == 2 ? checked<uint16_t>(codes, column.n_codes)
                                    : checked<uint32_t>(codes, column.n_codes);
        const int64_t known_codes = column.n_codes - 1;
        product(column.n_codes, product(F + 1, 8 * (F + 1), "sums"), "sums of a column");
        column.mass = copied(entry(given, "mass"), {known_codes}, "mass");
        column.bounded = cast<bool>(entry(given, "bounded"), "bounded", "a bool");
        if (!entry(given, "left_out").is_none())
            for (const double each : copied(entry(given, "left_out"), {F}, "left_out"))
                column.left_out.push_back(each != 0.0);
        if (!entry(given, "main").is_none()) {
            const nb::dict main = dictionary(entry(given, "main"), "main");
            column.main = prior_of(entry(main, "prior"), known_codes);
            solve_memory(passes_, column.main, 1);
            column.separate = {arrays_.write(entry(main, "mean"), {known_codes, K_}, "mean"),
                               arrays_.write(entry(main, "variance"), {known_codes, K_}, "variance"),
                               arrays_.write(entry(main, "smooth"), {column.main.task.m, K_}, "smooth"),
                               arrays_.write(entry(main, "per_code"), {known_codes, K_}, "per_code"),
                               arrays_.write(entry(main, "lam"), {column.main.n_lam()}, "lam")};
        }
        if (F == 0) return column;
        column.factors = prior_of(entry(given, "factors"), known_codes);
        solve_memory(passes_, column.factors, F);
        const int64_t parameters = column.factors.n_lam();
        column.curves = {arrays_.write(entry(given, "values"), {column.n_codes, F}, "values"),
                         arrays_.write(entry(given, "variance"), {column.n_codes, F}, "variance"),
                         arrays_.write(entry(given, "lam"), {parameters, F}, "lam"),
                         arrays_.write(entry(given, "form"), {parameters, F}, "form"),
                         arrays_.write(entry(given, "smooth"), {column.factors.task.m, F}, "smooth"),
                         arrays_.write(entry(given, "per_code"), {known_codes, F}, "per_code")};
        return column;
    }

    ahofm::JointMains mains_of(const nb::dict& given) {
        ahofm::JointMains mains;
        const Doubles design = doubles(entry(given, "design"), "design");
        expect_dimensions(design, 2, "design", "(rows, coefficients)");
        mains.q = within(length(design, 1), 1, 100'000, "coefficients of main effects");
        mains.design = arrays_.read(entry(given, "design"), {n_, mains.q}, "design");
        const Doubles lam = doubles(entry(given, "lam"), "lam");
        expect_dimensions(lam, 1, "lam", "(smoothing parameters,)");
        mains.n_lam = length(lam, 0);
        mains.lam = arrays_.write(entry(given, "lam"), {mains.n_lam}, "lam");
        for (const double number : copied(entry(given, "group"), {mains.q}, "group")) {
            if (number != -1.0 && !is_index(number, mains.n_lam))
                refuse("group must be whole numbers below " + std::to_string(mains.n_lam) + ", or -1");
            mains.group.push_back(static_cast<int64_t>(number));
        }
        mains.relative_penalty = copied(entry(given, "relative_penalty"), {mains.q}, "relative_penalty");
        mains.coef = arrays_.write(entry(given, "coef"), {mains.q, K_}, "coef");
        return mains;
    }

    static ahofm::SharedOptions options_of(const nb::dict& given) {
        const auto named = [&](const char* key) { return number(entry(given, key), key); };
        return {named("least_weight"),    named("most_weight"),        named("jitter"),
                named("smallest_lam"),    named("largest_lam"),        named("loading_lam"),
                named("relative_bounds"), named("constant_precision"), named("least_product_scale")};
    }

    template <class Task>
    void run(Task task) {
        if (busy_) refuse("the sweeps are running");
        const Busy busy(busy_);  // read and written under Python's lock
        raise_failure(failure_of(task));
    }

    const ahofm::Passes& passes_;
    KeptArrays arrays_;
    int64_t n_ = 0, K_ = 0;
    bool busy_ = false;
    std::unique_ptr<ahofm::SharedCurves> curves_;
};

void bind_shared_curves(nb::module_& m) {
    nb::class_<BoundSharedCurves>(m, "SharedCurves")
        .def(nb::init<const std::string&, const nb::dict&, const nb::list&, const Ranks&, const nb::dict&,
                      const nb::dict&, const nb::dict&>(),
             nb::arg("isa"), nb::arg("rows"), nb::arg("columns"), nb::arg("ranks"), nb::arg("mains"),
             nb::arg("factors"), nb::arg("options"))
        .def("sweep_mains", &BoundSharedCurves::sweep_mains, nb::arg("learn"), nb::arg("bound"))
        .def("sweep", &BoundSharedCurves::sweep, nb::arg("learn"), nb::arg("bound"), nb::arg("backwards"),
             nb::arg("rebuilt"))
        .def("temper", &BoundSharedCurves::temper, nb::arg("tempering"))
        .def("loss", &BoundSharedCurves::loss, nb::arg("bound"))
        .def("read_eta", &BoundSharedCurves::read_eta, nb::arg("out").noconvert());
}

}  // namespace
