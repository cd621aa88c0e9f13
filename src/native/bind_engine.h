// Bindings of the engine (engine.h) and of single solves under a prior, which contract tests compare with NumPy.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include "bind_row_states.h"
#include "checks.h"
#include "engine.h"
#include "pool.h"

namespace {

nb::object entry(const nb::dict& given, const char* key) {
    if (!given.contains(key)) refuse(std::string("'") + key + "' is missing");
    return given[key];
}

nb::dict dictionary(nb::handle given, const std::string& what) { return cast<nb::dict>(given, what, "a dict"); }

std::vector<double> copied(nb::handle given, const std::vector<int64_t>& shape, const std::string& what) {
    const Doubles array = doubles(given, what);
    expect_shape(array, shape, what);
    return std::vector<double>(array.data(), array.data() + array.size());
}

// Integers from 0 to a bound, exclusive.
bool is_index(double number, int64_t below) {
    return number >= 0.0 && number < static_cast<double>(below) && number == std::floor(number);
}

// An array of one dimension, of any length.
std::vector<double> numbers_of(nb::handle given, const std::string& what) {
    const Doubles array = doubles(given, what);
    expect_dimensions(array, 1, what, "(n,)");
    return std::vector<double>(array.data(), array.data() + array.size());
}

std::vector<int64_t> indices_of(nb::handle given, int64_t below, const std::string& what) {
    std::vector<int64_t> found;
    for (const double number : numbers_of(given, what)) {
        if (!is_index(number, below)) refuse(what + " must be whole numbers below " + std::to_string(below));
        found.push_back(static_cast<int64_t>(number));
    }
    return found;
}

// Local functions (local_basis.h) of a spline that has coordinates.
void read_local_basis(const nb::dict& given, ahofm::Prior& prior) {
    const int64_t codes = prior.task.codes, m = prior.task.m;
    const Doubles transform = doubles(entry(given, "transform"), "transform");
    expect_dimensions(transform, 2, "transform", "(functions, coordinates)");
    const int64_t functions = within(static_cast<int64_t>(transform.shape(0)), 1, 10'000, "local functions");
    prior.transform = copied(entry(given, "transform"), {functions, m}, "transform");
    const Doubles entries = doubles(entry(given, "entries"), "entries");
    expect_dimensions(entries, 2, "entries", "(codes, functions that are not zero)");
    const int64_t nonzero = within(static_cast<int64_t>(entries.shape(1)), 1, functions, "functions that are not zero");
    prior.entries = copied(entry(given, "entries"), {codes, nonzero}, "entries");
    prior.places = indices_of(entry(given, "places"), functions, "places");
    if (static_cast<int64_t>(prior.places.size()) != codes * nonzero)
        refuse("places must have one number for each entry");
    for (size_t s = 1; s < prior.places.size(); s++)
        if (s % static_cast<size_t>(nonzero) != 0 && prior.places[s] <= prior.places[s - 1])
            refuse("places must ascend at each code");
    prior.task.nonzero = nonzero;
    prior.task.functions = functions;
}

ahofm::Prior prior_of(nb::handle handle, int64_t codes) {
    const nb::dict given = dictionary(handle, "a prior");
    ahofm::Prior prior;
    prior.task.codes = within(codes, 1, kMostCodes, "codes of a prior");
    prior.task.kind = static_cast<ahofm::PriorKind>(within(integer(entry(given, "kind"), "kind"), 0, 3, "kind"));
    const bool splines = prior.task.kind == ahofm::PriorKind::spline || prior.task.kind == ahofm::PriorKind::spline_iid;
    const bool effects = prior.task.kind == ahofm::PriorKind::iid || prior.task.kind == ahofm::PriorKind::spline_iid;
    prior.low = numbers_of(entry(given, "low"), "low");
    prior.high = copied(entry(given, "high"), {prior.n_lam()}, "high");
    int64_t expected = effects ? 1 : 0;
    if (splines) {
        prior.weight = numbers_of(entry(given, "weight"), "weight");
        const int64_t m = within(static_cast<int64_t>(prior.weight.size()), 1, 10'000, "coordinates of a prior");
        prior.task.m = m;
        prior.values = copied(entry(given, "values"), {codes, m}, "values");
        prior.penalty = copied(entry(given, "penalty"), {m}, "penalty");
        prior.group = indices_of(entry(given, "group"), m, "group");
        if (static_cast<int64_t>(prior.group.size()) != m) refuse("group must have an entry per coordinate");
        prior.task.groups = 1 + *std::max_element(prior.group.begin(), prior.group.end());
        expected += prior.task.groups;
        if (given.contains("places") && !entry(given, "places").is_none()) read_local_basis(given, prior);
        const bool dense = prior.task.nonzero == 0;
        prior.products.reserve(dense ? static_cast<size_t>(product(codes, m * (m + 1) / 2, "products")) : 0);
        for (int64_t b = 0; b < codes && dense; b++)
            for (int64_t a = 0; a < m; a++)
                for (int64_t c = a; c < m; c++)
                    prior.products.push_back(prior.values[static_cast<size_t>(b * m + a)] *
                                             prior.values[static_cast<size_t>(b * m + c)]);
    }
    if (prior.task.kind == ahofm::PriorKind::random_walk) {
        prior.edges = copied(entry(given, "edges"), {codes - 1}, "edges");
        prior.penalty_eigenvalues = numbers_of(entry(given, "penalty_eigenvalues"), "penalty_eigenvalues");
        expected = 2;
    }
    if (effects) {
        for (const double each : copied(entry(given, "repeated"), {codes}, "repeated"))
            prior.repeated.push_back(each != 0.0);
        prior.task.free_levels = number(entry(given, "free_levels"), "free_levels");
    }
    if (!entry(given, "mass").is_none()) prior.mass = copied(entry(given, "mass"), {codes}, "mass");
    if (prior.n_lam() != expected)
        refuse("low must have " + std::to_string(expected) + " numbers, got " + std::to_string(prior.n_lam()));
    return prior;
}

// Memory of a solve; throws for sizes whose squares overflow.
int64_t solve_memory(const ahofm::Passes& passes, const ahofm::Prior& prior, int64_t K) {
    within(product(prior.task.m, K, "coefficients of a column"), 0, 1 << 30, "coefficients of a column");
    product(product(prior.task.codes, K + 8, "sums"), 16 * (K + 8), "sums of a column");
    return passes.solve_memory(prior.task, K);
}

// One solve: outputs are (mean, variance, smooth, per_code, edf, form), in the shapes of SolveTask.
bool solve_prior(const std::string& isa, nb::handle handle, const Doubles& gram, const Doubles& rhs, const Doubles& lam,
                 const nb::list& outputs) {
    const ahofm::Passes& passes = passes_named(isa);
    expect_dimensions(rhs, 2, "rhs", "(codes, functions)");
    const int64_t codes = length(rhs, 0), K = within(length(rhs, 1), 1, 4096, "functions");
    ahofm::Prior prior = prior_of(handle, codes);
    prior.link();
    expect_shape(gram, {codes, K, K}, "gram");
    expect_shape(lam, {prior.n_lam(), K}, "lam");
    if (outputs.size() != 6) refuse("outputs: expected [mean, variance, smooth, per_code, edf, form]");
    const DoublesOut mean = output(outputs[0], {codes, K}, "mean"),
                     variance = output(outputs[1], {codes, K}, "variance");
    const DoublesOut smooth = output(outputs[2], {prior.task.m, K}, "smooth"),
                     per_code = output(outputs[3], {codes, K}, "per_code");
    const DoublesOut edf = output(outputs[4], {prior.n_lam(), K}, "edf"),
                     form = output(outputs[5], {prior.n_lam(), K}, "form");
    std::vector<double> memory(static_cast<size_t>(solve_memory(passes, prior, K)));
    const ahofm::SolveTask task{&prior.task,   K,
                                gram.data(),   rhs.data(),
                                lam.data(),    nullptr,
                                mean.data(),   variance.data(),
                                smooth.data(), per_code.data(),
                                edf.data(),    form.data(),
                                memory.data(), static_cast<int64_t>(memory.size())};
    return without_gil([&] { return passes.solve_prior(task); });
}

// Sets a flag as long as it lives.
struct Busy {
    explicit Busy(bool& flag) : flag_(flag) { flag_ = true; }
    ~Busy() { flag_ = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    bool& flag_;
};

// The engine, with references that keep the caller's arrays alive.
class BoundEngine {
  public:
    BoundEngine(const std::string& isa, bool float64, const nb::dict& rows, const nb::list& columns, const Ranks& ranks,
                const nb::dict& mains, const nb::list& etas, nb::object loss, nb::object majorant)
        : passes_(passes_named(isa)), loss_(std::move(loss)), majorant_(std::move(majorant)) {
        const int64_t numbers = state_size(ranks, float64), width = functions_of(ranks),
                      K = within(static_cast<int64_t>(etas.size()), 1, 100'000, "linear predictors");
        int64_t products = 0;
        for (size_t k = 0; k < ranks.size(); k++) {
            if (ranks[k].first != ahofm::kProduct) continue;
            if (k + 1 < ranks.size()) refuse("product factors come after those of all orders");
            products = ranks[k].second;
        }
        const DoublesOut eta = unconverted<DoublesOut>(entry(rows, "eta"), "eta", "float64 array");
        expect_dimensions(eta, 2, "eta", "(rows, linear predictors)");
        const int64_t n = within(length(eta, 0), 1, INT64_MAX / 64, "rows");
        product(n + ahofm::kBlock, product(numbers, 8 * K, "state"), "state");
        if (loss_.is_none() && K != 1) refuse("quadratic losses have one linear predictor, got " + std::to_string(K));
        if (!majorant_.is_none() && !PyCallable_Check(majorant_.ptr()))
            refuse_type("majorant must be a function or None");
        expect_any(columns.size(), "columns");
        n_ = n;
        K_ = K;
        ahofm::RowArrays arrays;
        arrays.y = read(entry(rows, "y"), {n}, "y");
        arrays.weight = read(entry(rows, "weight"), {n}, "weight");
        if (!entry(rows, "offset").is_none()) arrays.offset = read(entry(rows, "offset"), {n, K}, "offset");
        arrays.eta = write(entry(rows, "eta"), {n, K}, "eta");
        arrays.value = write(entry(rows, "value"), {n}, "value");
        arrays.slope = write(entry(rows, "slope"), {n, K}, "slope");
        arrays.curvature = write(entry(rows, "curvature"), {n, K}, "curvature");
        arrays.variance = write(entry(rows, "variance"), {n, K}, "variance");
        std::vector<ahofm::EngineColumn> parsed;
        for (nb::handle handle : columns) parsed.push_back(column_of(dictionary(handle, "a column"), n, width));
        ahofm::MainEffects main_effects;
        const Doubles design = doubles(entry(mains, "design"), "design");
        expect_dimensions(design, 2, "design", "(rows, coefficients)");
        main_effects.q = length(design, 1);
        expect_shape(design, {n, main_effects.q}, "design");
        inputs_.push_back(design);
        main_effects.design = design.data();
        main_effects.counts = numbers_of(entry(mains, "counts"), "counts");
        main_effects.group =
            indices_of(entry(mains, "group"), static_cast<int64_t>(main_effects.counts.size()), "group");
        main_effects.within = copied(entry(mains, "within"), {main_effects.q}, "within");
        if (static_cast<int64_t>(main_effects.group.size()) != main_effects.q)
            refuse("group must have an entry per coefficient");
        main_effects.largest_lam = number(entry(mains, "largest_lam"), "largest_lam");
        std::vector<ahofm::EtaArrays> given;
        for (nb::handle handle : etas)
            given.push_back(eta_of(dictionary(handle, "a linear predictor"), parsed, main_effects, width, products));
        std::vector<std::pair<int, int64_t>> orders;
        for (const auto& [order, rank] : ranks) orders.emplace_back(static_cast<int>(order), rank);
        const bool quadratic = loss_.is_none();
        for (const ahofm::EngineColumn& column : parsed) {
            solve_memory(passes_, column.main, 1);
            solve_memory(passes_, column.factors, width - 1);
        }
        engine_ = std::make_unique<ahofm::Engine>(passes_, n, std::move(parsed), std::move(orders), float64,
                                                  std::move(main_effects), arrays, std::move(given), quadratic);
        rows_ = arrays;
        set_losses(loss_);
        engine_->stop = [this] { return asked_to_stop(); };
    }

    // Returns whether it was completed: false after a stop, which leaves no row states.
    bool build(double tempering) {
        return built_ = run([&] { engine_->build(tempering); });
    }

    bool sweep(bool learn, bool learn_mains, bool backwards, double floor) {
        if (!built_) refuse("states must be built before a sweep");
        return built_ = run([&] { engine_->sweep(learn, learn_mains, backwards, floor); });
    }

    // A function without arguments, called between columns, that returns whether to stop; None for none.
    void set_stop(nb::object stop) {
        expect_idle();
        if (!stop.is_none() && !PyCallable_Check(stop.ptr())) refuse_type("stop must be a function or None");
        stop_ = std::move(stop);
    }

    void evaluate() {
        if (loss_.is_none()) refuse("quadratic losses have nothing to evaluate");
        run([&] { engine_->evaluate(); });
    }

    ahofm::Engine& engine() { return *engine_; }

    // (intercept, trace, edf of tensor smoothing, its age, functions solved by column)
    nb::tuple linear_predictor(size_t k) const {
        const ahofm::EtaArrays& eta = engine_->etas.at(k);
        std::vector<int64_t> solved;
        for (const ahofm::ColumnArrays& column : eta.columns) solved.push_back(column.solved);
        return nb::make_tuple(eta.intercept, eta.trace, eta.tensor.edf, eta.tensor.age, solved);
    }

    // Sets the family's parameter; losses are evaluated again when states are built.
    void set_loss(nb::object loss) {
        expect_idle();
        if (loss.is_none() != loss_.is_none()) refuse("a loss cannot become quadratic, nor cease to be");
        set_losses(loss);
        loss_ = std::move(loss);
    }

    // The caller's functions may refer to the engine: Python's garbage collector must see these references.
    int traverse(visitproc visit, void* arg) const {
        for (const nb::object* object : {&loss_, &majorant_, &stop_}) Py_VISIT(object->ptr());
        return 0;
    }

    void clear() {
        for (nb::object* object : {&loss_, &majorant_, &stop_}) *object = nb::none();
    }

  private:
    static constexpr int64_t kRowsOfPart = 2048;  // rows whose losses one thread evaluates at a time

    const double* read(nb::handle given, const std::vector<int64_t>& shape, const std::string& what) {
        const Doubles array = doubles(given, what);
        expect_shape(array, shape, what);
        inputs_.push_back(array);
        return array.data();
    }

    double* write(nb::handle given, const std::vector<int64_t>& shape, const std::string& what) {
        outputs_.push_back(output(given, shape, what));
        return outputs_.back().data();
    }

    ahofm::EngineColumn column_of(const nb::dict& given, int64_t n, int64_t width) {
        ahofm::EngineColumn column;
        const AnyArray codes = cast<AnyArray>(entry(given, "codes"), "codes", "a contiguous array of codes");
        column.code_width = code_width(codes, "codes");
        expect_shape(codes, {n}, "codes");
        codes_.push_back(codes);
        column.codes = codes.data();
        column.n_codes = code_count(integer(entry(given, "n_codes"), "n_codes"), "a column");
        within(column.n_codes, 2, kMostCodes, "n_codes");
        const int64_t known_codes = column.n_codes - 1;
        column.mass = copied(entry(given, "mass"), {known_codes}, "mass");
        column.relative_bounds = copied(entry(given, "relative_bounds"), {known_codes}, "relative_bounds");
        column.bounded = cast<bool>(entry(given, "bounded"), "bounded", "a bool");
        if (!entry(given, "left_out").is_none())
            for (const double each : copied(entry(given, "left_out"), {width - 1}, "left_out"))
                column.left_out.push_back(each != 0.0);
        column.main = prior_of(entry(given, "main"), known_codes);
        column.factors = prior_of(entry(given, "factors"), known_codes);
        return column;
    }

    ahofm::EtaArrays eta_of(const nb::dict& given, const std::vector<ahofm::EngineColumn>& columns,
                            const ahofm::MainEffects& mains, int64_t width, int64_t products) {
        ahofm::EtaArrays eta;
        const nb::list by_column = list(entry(given, "columns"), "columns");
        if (by_column.size() != columns.size()) refuse("a linear predictor needs arrays for every column");
        const int64_t p = static_cast<int64_t>(columns.size()), factors = width - 1;
        for (size_t j = 0; j < columns.size(); j++) {
            const nb::dict of_column = dictionary(by_column[j], "arrays of a column");
            const ahofm::EngineColumn& column = columns[j];
            const int64_t known_codes = column.n_codes - 1;
            ahofm::ColumnArrays arrays{};
            arrays.mean = write(entry(of_column, "mean"), {column.n_codes, width}, "mean");
            arrays.variance = write(entry(of_column, "variance"), {column.n_codes, width}, "variance");
            arrays.main_lam = write(entry(of_column, "main_lam"), {column.main.n_lam()}, "main_lam");
            arrays.lam = write(entry(of_column, "lam"), {column.factors.n_lam(), factors}, "lam");
            arrays.main_smooth = write(entry(of_column, "main_smooth"), {column.main.task.m}, "main_smooth");
            arrays.main_per_code = write(entry(of_column, "main_per_code"), {known_codes}, "main_per_code");
            arrays.smooth = write(entry(of_column, "smooth"), {column.factors.task.m, factors}, "smooth");
            arrays.per_code = write(entry(of_column, "per_code"), {known_codes, factors}, "per_code");
            arrays.edf = write(entry(of_column, "edf"), {column.factors.n_lam(), factors}, "edf");
            arrays.constants = write(entry(of_column, "constants"), {products}, "constants");
            arrays.solved = within(integer(entry(of_column, "solved"), "solved"), 0, width, "solved");
            eta.columns.push_back(arrays);
        }
        eta.coef = write(entry(given, "coef"), {mains.q}, "coef");
        eta.lam = write(entry(given, "lam"), {static_cast<int64_t>(mains.counts.size())}, "lam");
        eta.loadings = write(entry(given, "loadings"), {products}, "loadings");
        eta.intercept = number(entry(given, "intercept"), "intercept");
        eta.trace = number(entry(given, "trace"), "trace");
        if (!entry(given, "margin_lam").is_none()) {
            if (width < 2) refuse("tensor smoothing needs factors of pairs");
            for (const ahofm::EngineColumn& column : columns)
                if (column.factors.task.kind != ahofm::PriorKind::spline &&
                    column.factors.task.kind != ahofm::PriorKind::iid)
                    refuse("tensor smoothing needs splines or independent effects");
            eta.tensor.margin_lam = write(entry(given, "margin_lam"), {p, p}, "margin_lam");
            eta.tensor.null_lam = write(entry(given, "null_lam"), {p, p}, "null_lam");
            eta.tensor.edf = number(entry(given, "edf"), "edf");
            eta.tensor.age = integer(entry(given, "age"), "age");
        }
        return eta;
    }

    // Class numbers are copied: they are used as indices, and the caller's array may change.
    void copy_classes() {
        classes_.assign(rows_.y, rows_.y + n_);
        for (const double y : classes_)
            if (!is_index(y, K_)) refuse("y must be the number of a class");
    }

    void set_losses(const nb::object& loss) {
        if (loss.is_none()) return;
        if (nb::isinstance<nb::tuple>(loss)) {  // (family, parameter) of a native loss
            const nb::tuple given = tuple_of(loss, 2, "a loss", "(family, parameter)");
            const auto family = static_cast<ahofm::Family>(within(integer(given[0], "family"), 0, 5, "family"));
            const double parameter = number(given[1], "parameter");
            if (family == ahofm::Family::multinomial) copy_classes();
            else if (K_ != 1) refuse("this family has one linear predictor, got " + std::to_string(K_));
            const double* y = family == ahofm::Family::multinomial ? classes_.data() : rows_.y;
            engine_->losses = [this, family, parameter, y](const double* eta, double* value, double* slope,
                                                           double* curvature) {
                const int count = static_cast<int>((n_ + kRowsOfPart - 1) / kRowsOfPart);
                engine_->parallel(count, [&](int part) {
                    const int64_t first = part * kRowsOfPart, size = std::min(kRowsOfPart, n_ - first), at = first * K_;
                    passes_.losses({family, parameter, size, K_, y + first,
                                    rows_.offset == nullptr ? nullptr : rows_.offset + at, eta + at, value + first,
                                    slope + at, curvature + at});
                });
                return true;
            };
            engine_->majorant = [this, family, parameter](const double* eta, const double* variance,
                                                          double* curvature) {
                const bool any = family == ahofm::Family::bernoulli || family == ahofm::Family::multinomial;
                const int count = any ? static_cast<int>((n_ + kRowsOfPart - 1) / kRowsOfPart) : 0;
                engine_->parallel(count, [&](int part) {
                    const int64_t first = part * kRowsOfPart, size = std::min(kRowsOfPart, n_ - first), at = first * K_;
                    passes_.majorants(
                        {family, parameter, size, K_, nullptr, rows_.offset == nullptr ? nullptr : rows_.offset + at,
                         eta + at, nullptr, nullptr, curvature + at},
                        variance + at);
                });
                return any;
            };
        } else {
            if (!PyCallable_Check(loss.ptr())) refuse_type("loss must be None, (family, parameter) or a function");
            engine_->losses = [this](const double* eta, double* value, double* slope, double* curvature) {
                const nb::gil_scoped_acquire acquire;
                try {
                    const nb::object found = loss_(view(eta, {n_, K_}));
                    const nb::tuple parts = tuple_of(found, 3, "a loss", "(value, slope, curvature)");
                    take(parts[0], {n_}, "value", value);
                    take(parts[1], {n_, K_}, "slope", slope);
                    take(parts[2], {n_, K_}, "curvature", curvature);
                    return true;
                } catch (...) {
                    raised_ = std::current_exception();
                    return false;
                }
            };
        }
        if (nb::isinstance<nb::tuple>(loss)) return;
        engine_->majorant = [this](const double* eta, const double* variance, double* curvature) {
            if (majorant_.is_none()) return false;
            const nb::gil_scoped_acquire acquire;
            try {
                const nb::object found = majorant_(view(eta, {n_, K_}), view(variance, {n_, K_}));
                if (found.is_none()) return false;
                take(found, {n_, K_}, "majorant", curvature);
                return true;
            } catch (...) {
                raised_ = std::current_exception();
                throw ahofm::Stopped{};
            }
        };
    }

    static nb::object view(const double* data, std::initializer_list<int64_t> shape) {
        std::vector<size_t> sizes(shape.begin(), shape.end());
        nb::ndarray<nb::numpy, const double> array(data, sizes.size(), sizes.data(), nb::handle());
        return nb::cast(array, nb::rv_policy::copy);
    }

    static void take(nb::handle given, const std::vector<int64_t>& shape, const std::string& what, double* to) {
        const std::vector<double> found = copied(given, shape, what);
        std::copy(found.begin(), found.end(), to);
    }

    // Also after Ctrl-C, which the main thread would otherwise notice only when the engine returns.
    bool asked_to_stop() {
        const nb::gil_scoped_acquire acquire;
        try {
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
            return !stop_.is_none() && nb::cast<bool>(stop_());
        } catch (...) {
            raised_ = std::current_exception();
            return true;
        }
    }

    // Throws while the engine runs, in another thread or below a loss function that calls back.
    void expect_idle() const {
        if (busy_) refuse("the engine is running");
    }

    // Returns whether the task was completed.
    template <class Task>
    bool run(Task task) {
        expect_idle();
        const Busy busy(busy_);  // read and written under Python's lock
        std::string failure;
        bool stopped = false;
        ahofm::WrongCode bad{};
        raised_ = nullptr;
        {
            const nb::gil_scoped_release release;
            try {
                task();
            } catch (const ahofm::Failed& failed) {
                failure = failed.why;
            } catch (const ahofm::WrongCode& wrong) {
                bad = wrong;
            } catch (const ahofm::Stopped&) {
                stopped = true;
            }
        }
        if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
        raise_if_bad(bad.found, bad.size);
        if (!failure.empty()) {
            PyErr_SetString(PyExc_ArithmeticError, failure.c_str());
            throw nb::python_error();
        }
        return !stopped;
    }

    const ahofm::Passes& passes_;
    nb::object loss_, majorant_, stop_ = nb::none();
    std::vector<Doubles> inputs_;
    std::vector<DoublesOut> outputs_;
    std::vector<AnyArray> codes_;
    ahofm::RowArrays rows_;
    int64_t n_ = 0, K_ = 0;
    std::vector<double> classes_;
    bool busy_ = false, built_ = false;
    std::exception_ptr raised_;
    std::unique_ptr<ahofm::Engine> engine_;
};

int engine_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return nb::inst_ready(self) ? nb::inst_ptr<BoundEngine>(self)->traverse(visit, arg) : 0;
}

int engine_clear(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<BoundEngine>(self)->clear();
    return 0;
}

PyType_Slot engine_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(engine_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(engine_clear)},
                              {0, nullptr}};

// design' diag(weights[s]) design for each s, (count, q, q). Parts of the rows are summed in order: bits do not depend on
// the number of threads.
void weighted_grams(const std::string& isa, const Doubles& design, const Doubles& weights, const DoublesOut& out,
                    const std::shared_ptr<ahofm::ThreadBudget>& budget) {
    constexpr int64_t kRowsOfPart = 1024, kMostParts = 16;
    const ahofm::Passes& passes = passes_named(isa);
    expect_dimensions(design, 2, "design", "(rows, columns)");
    expect_dimensions(weights, 2, "weights", "(count, rows)");
    const int64_t n = length(design, 0), q = length(design, 1), count = length(weights, 0);
    expect_shape(weights, {count, n}, "weights");
    expect_shape(out, {count, q, q}, "out");
    const int64_t parts = std::clamp<int64_t>(n / kRowsOfPart, 1, kMostParts), cells = q * q;
    without_gil([&] {
        std::vector<double> sums(static_cast<size_t>(parts * count * cells));
        const std::function<void(int)> part = [&](int task) {
            const int64_t p = task / count, s = task % count, begin = p * n / parts, end = (p + 1) * n / parts;
            passes.weighted_gram(design.data() + begin * q, end - begin, q, weights.data() + s * n + begin,
                                 sums.data() + task * cells);
        };
        ahofm::Pool::Team team(budget.get());
        team.run(static_cast<int>(parts * count), part);
        for (int64_t s = 0; s < count; s++)
            for (int64_t a = 0; a < q; a++)
                for (int64_t b = a; b < q; b++) {
                    double sum = 0.0;
                    for (int64_t p = 0; p < parts; p++)
                        sum += sums[static_cast<size_t>((p * count + s) * cells + a * q + b)];
                    out.data()[s * cells + a * q + b] = out.data()[s * cells + b * q + a] = sum;
                }
    });
}

void bind_engine(nb::module_& m) {
    m.def("weighted_grams", &weighted_grams, nb::arg("isa"), nb::arg("design"), nb::arg("weights"), nb::arg("out"),
          nb::arg("budget").none());
    m.def("solve_prior", &solve_prior, nb::arg("isa"), nb::arg("prior"), nb::arg("gram"), nb::arg("rhs"),
          nb::arg("lam"), nb::arg("outputs"));
    nb::class_<ahofm::ThreadBudget>(m, "ThreadBudget")
        .def(
            "__init__",
            [](ahofm::ThreadBudget* self, nb::handle count, nb::handle jobs) {
                new (self) ahofm::ThreadBudget(static_cast<int>(within(integer(count, "count"), 1, 65536, "count")),
                                               static_cast<int>(within(integer(jobs, "jobs"), 0, INT32_MAX, "jobs")));
            },
            nb::arg("count"), nb::arg("jobs") = 0)
        .def("begin_job", &ahofm::ThreadBudget::begin_job)
        .def(
            "occupy",
            [](ahofm::ThreadBudget& self, nb::handle count) {
                self.occupy(static_cast<int>(within(integer(count, "count"), -65536, 65536, "count")));
            },
            nb::arg("count"))
        .def_prop_ro("free", &ahofm::ThreadBudget::free);
    nb::class_<BoundEngine>(m, "Engine", nb::type_slots(engine_slots))
        .def(nb::init<const std::string&, bool, const nb::dict&, const nb::list&, const Ranks&, const nb::dict&,
                      const nb::list&, nb::object, nb::object>(),
             nb::arg("isa"), nb::arg("float64"), nb::arg("rows"), nb::arg("columns"), nb::arg("ranks"),
             nb::arg("mains"), nb::arg("etas"), nb::arg("loss").none(), nb::arg("majorant").none())
        .def("build", &BoundEngine::build, nb::arg("tempering"))
        .def("sweep", &BoundEngine::sweep, nb::arg("learn"), nb::arg("learn_mains"), nb::arg("backwards"),
             nb::arg("floor"))
        .def("evaluate", &BoundEngine::evaluate)
        .def("linear_predictor", &BoundEngine::linear_predictor, nb::arg("k"))
        .def("set_loss", &BoundEngine::set_loss, nb::arg("loss").none())
        .def("set_stop", &BoundEngine::set_stop, nb::arg("stop").none())
        .def("largest", [](BoundEngine& self) { return self.engine().largest(); })
        .def_prop_rw(
            "dispersion", [](BoundEngine& self) { return self.engine().dispersion; },
            [](BoundEngine& self, double value) { self.engine().dispersion = value; })
        .def_prop_rw(
            "use_majorant", [](BoundEngine& self) { return self.engine().use_majorant; },
            [](BoundEngine& self, bool value) { self.engine().use_majorant = value; })
        .def_prop_rw(
            "majorises", [](BoundEngine& self) { return self.engine().majorises; },
            [](BoundEngine& self, bool value) { self.engine().majorises = value; })
        .def_prop_rw(
            "threads", [](BoundEngine& self) { return self.engine().threads; },
            [](BoundEngine& self, int value) { self.engine().threads = value; })
        .def(
            "set_budget",
            [](BoundEngine& self, std::shared_ptr<ahofm::ThreadBudget> budget) {
                self.engine().budget = std::move(budget);
            },
            nb::arg("budget").none())
        .def(
            "trace_regions", [](BoundEngine& self, bool wanted) { self.engine().spans.wanted = wanted; },
            nb::arg("wanted"))
        .def("region_seconds",
             [](BoundEngine& self) {
                 const double* found = self.engine().spans.seconds;
                 std::vector<double> all(found, found + ahofm::RegionSpans::kinds);
                 all.push_back(self.engine().spans.tasks);
                 return all;
             })
        .def_prop_rw(
            "damped", [](BoundEngine& self) { return self.engine().damped; },
            [](BoundEngine& self, int64_t value) { self.engine().damped = value; });
}

}  // namespace
