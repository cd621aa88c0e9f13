// The Python module: checks what it is given, releases the GIL, calls the passes of one instruction set.
// Callers allocate outputs. Everything that could make a pass read or write out of bounds is checked here or
// in the pass itself, so that a mistake in Python is an exception and never a crash.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "encode.h"
#include "passes.h"

namespace nb = nanobind;

namespace {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using DoublesOut = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using AnyArrayOut = nb::ndarray<nb::c_contig, nb::device::cpu>;

std::vector<const ahofm::Passes*> available_passes() {
    std::vector<const ahofm::Passes*> found{&ahofm::baseline_passes};
#if defined(AHOFM_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&ahofm::avx2_passes);
#endif
    return found;
}

const ahofm::Passes& passes_named(const std::string& name) {
    static const std::vector<const ahofm::Passes*> found = available_passes();
    for (const ahofm::Passes* passes : found)
        if (name == passes->name) return *passes;
    throw nb::value_error(("instruction set '" + name + "' is not available on this machine").c_str());
}

template <class Array>
void expect_shape(const Array& array, const std::vector<int64_t>& shape, const char* what) {
    bool same = array.ndim() == shape.size();
    for (size_t k = 0; same && k < shape.size(); k++) same = static_cast<int64_t>(array.shape(k)) == shape[k];
    if (same) return;
    std::string text = std::string(what) + " has shape (";
    for (size_t k = 0; k < array.ndim(); k++) text += (k ? ", " : "") + std::to_string(array.shape(k));
    text += "), expected (";
    for (size_t k = 0; k < shape.size(); k++) text += (k ? ", " : "") + std::to_string(shape[k]);
    throw nb::value_error((text + ")").c_str());
}

ahofm::Reals reals(const std::optional<AnyArray>& array, const std::vector<int64_t>& shape, const char* what) {
    if (!array) return {};
    expect_shape(*array, shape, what);
    if (array->dtype() == nb::dtype<double>()) return {array->data(), true};
    if (array->dtype() == nb::dtype<float>()) return {array->data(), false};
    throw nb::type_error((std::string(what) + " must be float32 or float64").c_str());
}

// Code columns and where each one's rows start in the tables.
struct Table {
    std::vector<ahofm::Column> columns;
    ahofm::Rows rows{};

    Table(const std::vector<AnyArray>& codes, const std::vector<int64_t>& sizes) {
        if (codes.empty()) throw nb::value_error("codes: at least one column is needed");
        if (codes.size() != sizes.size())
            throw nb::value_error(("codes: " + std::to_string(codes.size()) + " columns but " + std::to_string(sizes.size()) + " sizes").c_str());
        const int64_t n = codes[0].ndim() == 1 ? static_cast<int64_t>(codes[0].shape(0)) : 0;
        int64_t start = 0;
        for (size_t j = 0; j < codes.size(); j++) {
            const std::string name = "codes of column " + std::to_string(j);
            expect_shape(codes[j], {n}, name.c_str());
            const nb::dlpack::dtype type = codes[j].dtype();
            if (type.code != static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) || (type.bits != 8 && type.bits != 16 && type.bits != 32))
                throw nb::type_error((name + " must be uint8, uint16 or uint32").c_str());
            if (sizes[j] < 1) throw nb::value_error(("column " + std::to_string(j) + " has no codes").c_str());
            if (start + sizes[j] > INT32_MAX) throw nb::value_error("more than 2^31 codes over all columns");
            columns.push_back({codes[j].data(), type.bits / 8, static_cast<uint32_t>(start), static_cast<uint32_t>(sizes[j])});
            start += sizes[j];
        }
        rows = {n, columns.data(), static_cast<int>(columns.size()), start};
    }
};

// An array to write into, as it is: a converted copy would swallow what is written.
DoublesOut output(nb::handle given, const char* what) {
    DoublesOut array;
    if (!nb::try_cast(given, array, false)) throw nb::type_error((std::string(what) + " must be a writable, contiguous float64 array").c_str());
    return array;
}

// (intercept, main, main_sums or None, [(order, table, sums or None), ...]) as the passes want it.
struct Predictors {
    std::vector<Doubles> kept;  // what was converted lives as long as the pointers to it
    std::vector<std::vector<ahofm::Factors>> factors;
    std::vector<ahofm::Predictor> list;

    Predictors(const nb::list& given, int64_t n_codes, bool with_sums) {
        if (given.size() == 0) throw nb::value_error("predictors: at least one is needed");
        factors.resize(given.size());
        for (size_t k = 0; k < given.size(); k++) {
            nb::tuple item = nb::cast<nb::tuple>(given[k]);
            kept.push_back(nb::cast<Doubles>(item[1]));
            const double* main = kept.back().data();
            expect_shape(kept.back(), {n_codes}, "main");
            double* main_sums = nullptr;
            if (with_sums) {
                const DoublesOut sums = output(item[2], "main sums");
                expect_shape(sums, {n_codes}, "main sums");
                main_sums = sums.data();
            }
            for (nb::handle entry : nb::cast<nb::list>(item[3])) {
                nb::tuple group = nb::cast<nb::tuple>(entry);
                const int order = nb::cast<int>(group[0]);
                kept.push_back(nb::cast<Doubles>(group[1]));
                const Doubles& table = kept.back();
                if (order < 2) throw nb::value_error(("order of a factor table must be at least 2, got " + std::to_string(order)).c_str());
                if (table.ndim() != 2) throw nb::value_error("a factor table must have two dimensions: (codes, rank)");
                const int64_t rank = static_cast<int64_t>(table.shape(1));
                expect_shape(table, {n_codes, rank}, "factor table");
                double* sums = nullptr;
                if (with_sums) {
                    const DoublesOut out = output(group[2], "factor sums");
                    expect_shape(out, {n_codes, rank}, "factor sums");
                    sums = out.data();
                }
                factors[k].push_back({order, rank, table.data(), sums});
            }
            list.push_back({nb::cast<double>(item[0]), main, 0.0, main_sums, factors[k].data(), static_cast<int>(factors[k].size())});
        }
    }
};

void raise_if_bad(const ahofm::BadCode& bad, const Table& table) {
    if (bad.column < 0) return;
    throw nb::value_error(("code " + std::to_string(bad.code) + " in row " + std::to_string(bad.row) + " of column " +
                           std::to_string(bad.column) + " is out of range: the column has " +
                           std::to_string(table.columns[static_cast<size_t>(bad.column)].size) + " codes").c_str());
}

void eta(const std::string& isa, bool float64, const std::vector<AnyArray>& codes, const std::vector<int64_t>& sizes,
         const nb::list& predictors, const std::optional<AnyArray>& offset, const DoublesOut& out) {
    const ahofm::Passes& passes = passes_named(isa);
    Table table(codes, sizes);
    Predictors parsed(predictors, table.rows.n_codes, false);
    const int64_t n = table.rows.n, K = static_cast<int64_t>(parsed.list.size());
    expect_shape(out, {n, K}, "out");
    ahofm::Task task{ahofm::Goal::eta};
    task.offset = reals(offset, {n, K}, "offset");
    task.eta = out.data();
    ahofm::BadCode bad;
    {
        nb::gil_scoped_release release;
        bad = passes.predictors(table.rows, parsed.list.data(), static_cast<int>(K), task, float64);
    }
    raise_if_bad(bad, table);
}

std::vector<double> intercept_sums(const Predictors& parsed) {
    std::vector<double> sums;
    for (const ahofm::Predictor& predictor : parsed.list) sums.push_back(predictor.intercept_sum);
    return sums;
}

std::pair<double, std::vector<double>> value_and_gradient(
    const std::string& isa, bool float64, const std::vector<AnyArray>& codes, const std::vector<int64_t>& sizes,
    const nb::list& predictors, const std::string& loss, const std::optional<AnyArray>& y,
    const std::optional<AnyArray>& weight, const std::optional<AnyArray>& offset) {
    static const char* const names[ahofm::kLosses] = {"gaussian", "bernoulli", "poisson", "gamma", "multinomial"};
    const ahofm::Passes& passes = passes_named(isa);
    Table table(codes, sizes);
    Predictors parsed(predictors, table.rows.n_codes, true);
    const int64_t n = table.rows.n, K = static_cast<int64_t>(parsed.list.size());
    ahofm::Task task{ahofm::Goal::gradient};
    int which = 0;
    while (which < ahofm::kLosses && loss != names[which]) which++;
    if (which == ahofm::kLosses) throw nb::value_error(("loss '" + loss + "' is not built in").c_str());
    task.loss = static_cast<ahofm::Loss>(which);
    if (task.loss != ahofm::Loss::multinomial && K != 1)
        throw nb::value_error(("loss '" + loss + "' has one predictor, got " + std::to_string(K)).c_str());
    if (!y) throw nb::value_error("y: a target is needed");
    task.y = reals(y, {n}, "y");
    task.weight = reals(weight, {n}, "weight");
    task.offset = reals(offset, {n, K}, "offset");
    ahofm::BadCode bad;
    {
        nb::gil_scoped_release release;
        bad = passes.predictors(table.rows, parsed.list.data(), static_cast<int>(K), task, float64);
    }
    raise_if_bad(bad, table);
    return {task.loss_sum, intercept_sums(parsed)};
}

std::vector<double> pull_back(const std::string& isa, bool float64, const std::vector<AnyArray>& codes,
                              const std::vector<int64_t>& sizes, const nb::list& predictors, const Doubles& g) {
    const ahofm::Passes& passes = passes_named(isa);
    Table table(codes, sizes);
    Predictors parsed(predictors, table.rows.n_codes, true);
    const int64_t n = table.rows.n, K = static_cast<int64_t>(parsed.list.size());
    expect_shape(g, {n, K}, "g");
    ahofm::Task task{ahofm::Goal::pull_back};
    task.g = g.data();
    ahofm::BadCode bad;
    {
        nb::gil_scoped_release release;
        bad = passes.predictors(table.rows, parsed.list.data(), static_cast<int>(K), task, float64);
    }
    raise_if_bad(bad, table);
    return intercept_sums(parsed);
}

void column(const std::string& isa, bool float64, const std::vector<AnyArray>& codes, const std::vector<int64_t>& sizes,
            const nb::list& predictor, int which, const std::optional<Doubles>& g, const std::optional<Doubles>& h,
            const std::optional<DoublesOut>& u, const std::optional<DoublesOut>& g_sums, const std::optional<DoublesOut>& h_sums) {
    const ahofm::Passes& passes = passes_named(isa);
    Table table(codes, sizes);
    Predictors parsed(predictor, table.rows.n_codes, false);
    if (parsed.list.size() != 1) throw nb::value_error("one predictor is needed");
    if (which < 0 || which >= table.rows.n_columns)
        throw nb::value_error(("column " + std::to_string(which) + " is out of range: there are " + std::to_string(table.rows.n_columns)).c_str());
    const int64_t n = table.rows.n, own = table.columns[static_cast<size_t>(which)].size;
    int64_t width = 1;
    for (const ahofm::Factors& group : parsed.factors[0]) width += group.rank;
    ahofm::ColumnTask task{which};
    if (u) {
        expect_shape(*u, {n, width}, "u");
        task.u = u->data();
    }
    if (g || h || g_sums || h_sums) {
        if (!g || !h || !g_sums || !h_sums) throw nb::value_error("g, h and both sums are given together or not at all");
        expect_shape(*g, {n}, "g");
        expect_shape(*h, {n}, "h");
        expect_shape(*g_sums, {own, width}, "g sums");
        expect_shape(*h_sums, {own, width, width}, "h sums");
        task.g = g->data();
        task.h = h->data();
        task.g_sums = g_sums->data();
        task.h_sums = h_sums->data();
    }
    ahofm::BadCode bad;
    {
        nb::gil_scoped_release release;
        bad = passes.column(table.rows, parsed.list[0], task, float64);
    }
    raise_if_bad(bad, table);
}

// One column of numbers or codes, and how its values find their rows of the tables.
struct Places {
    std::vector<Doubles> kept;  // what was converted lives as long as the pointers to it
    std::vector<nb::ndarray<const double, nb::ndim<1>, nb::device::cpu>> numbers;
    std::vector<AnyArray> codes;
    std::vector<ahofm::Place> list;
    int64_t n = -1, n_rows = 0;

    Places(const nb::list& columns, const nb::list& given) {
        if (columns.size() == 0) throw nb::value_error("columns: at least one is needed");
        if (columns.size() != given.size())
            throw nb::value_error(("columns: got " + std::to_string(columns.size()) + ", but there are curves of " + std::to_string(given.size())).c_str());
        for (size_t j = 0; j < given.size(); j++) {
            const std::string name = "column " + std::to_string(j);
            ahofm::Place place = nb::isinstance<nb::tuple>(given[j]) ? number_place(columns[j], nb::cast<nb::tuple>(given[j]), name)
                                                                     : code_place(columns[j], nb::cast<int64_t>(given[j]), name);
            const int64_t pieces = place.numbers != nullptr ? place.n_breaks + 2 : place.size;
            place.start = static_cast<uint32_t>(n_rows);
            n_rows += pieces * (place.degree + 1);
            if (n_rows > INT32_MAX) throw nb::value_error("more than 2^31 table rows over all columns");
            list.push_back(place);
        }
    }

    void expect_rows(int64_t rows, const std::string& name) {
        if (n < 0) n = rows;
        if (rows != n) throw nb::value_error((name + " has " + std::to_string(rows) + " rows, expected " + std::to_string(n)).c_str());
    }

    ahofm::Place number_place(nb::handle column, const nb::tuple& given, const std::string& name) {
        if (given.size() != 6) throw nb::value_error((name + ": expected (breaks, scales, shifts, degree, phase, period)").c_str());
        numbers.push_back(nb::cast<nb::ndarray<const double, nb::ndim<1>, nb::device::cpu>>(column));
        expect_rows(static_cast<int64_t>(numbers.back().shape(0)), name);
        ahofm::Place place;
        static const double none = 0.0;  // no rows: there may be no address either
        place.numbers = numbers.back().data() != nullptr ? numbers.back().data() : &none;
        place.stride = numbers.back().stride(0);
        const double** const arrays[3] = {&place.breaks, &place.scales, &place.shifts};
        for (size_t k = 0; k < 3; k++) {
            kept.push_back(nb::cast<Doubles>(given[k]));
            if (k == 0) place.n_breaks = static_cast<int64_t>(kept.back().size());
            expect_shape(kept.back(), {place.n_breaks + (k > 0)}, (name + (k == 0 ? ": breaks" : k == 1 ? ": scales" : ": shifts")).c_str());
            *arrays[k] = kept.back().data();
        }
        place.degree = degree(nb::cast<int64_t>(given[3]), name);
        place.phase = nb::cast<double>(given[4]);
        place.period = nb::cast<double>(given[5]);
        return place;
    }

    ahofm::Place code_place(nb::handle column, int64_t size, const std::string& name) {
        codes.push_back(nb::cast<AnyArray>(column));
        if (codes.back().ndim() != 1) throw nb::value_error((name + ": codes must have one dimension").c_str());
        expect_rows(static_cast<int64_t>(codes.back().shape(0)), name);
        const nb::dlpack::dtype type = codes.back().dtype();
        if (type.code != static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) || (type.bits != 8 && type.bits != 16 && type.bits != 32))
            throw nb::type_error((name + " must hold codes: uint8, uint16 or uint32").c_str());
        if (size < 1 || size > INT32_MAX) throw nb::value_error((name + " must have between 1 and 2^31 codes, got " + std::to_string(size)).c_str());
        ahofm::Place place;
        place.codes = codes.back().data();
        place.width = type.bits / 8;
        place.size = static_cast<uint32_t>(size);
        return place;
    }

    static int degree(int64_t value, const std::string& name) {
        if (value < 0 || value > 1000) throw nb::value_error((name + ": degree must be between 0 and 1000, got " + std::to_string(value)).c_str());
        return static_cast<int>(value);
    }
};

// predictors: (intercept, main (rows,), [(order, panels (count, rows, lanes), weights (count, lanes)), ...]).
// out: predictors (n, predictors), or shares of the columns (n, predictors, columns).
void curves(const std::string& isa, const nb::list& columns, const nb::list& places, const nb::list& predictors, const DoublesOut& out) {
    const ahofm::Passes& passes = passes_named(isa);
    Places parsed(columns, places);
    if (predictors.size() == 0) throw nb::value_error("predictors: at least one is needed");
    const int64_t n_columns = static_cast<int64_t>(parsed.list.size());
    std::vector<double> intercepts;
    std::vector<const double*> mains;
    std::vector<ahofm::CurvePanel> panels;
    for (size_t k = 0; k < predictors.size(); k++) {
        nb::tuple item = nb::cast<nb::tuple>(predictors[k]);
        intercepts.push_back(nb::cast<double>(item[0]));
        parsed.kept.push_back(nb::cast<Doubles>(item[1]));
        expect_shape(parsed.kept.back(), {parsed.n_rows}, "main");
        mains.push_back(parsed.kept.back().data());
        for (nb::handle entry : nb::cast<nb::list>(item[2])) {
            nb::tuple group = nb::cast<nb::tuple>(entry);
            const int64_t order = nb::cast<int64_t>(group[0]);
            parsed.kept.push_back(nb::cast<Doubles>(group[1]));
            const Doubles& table = parsed.kept.back();
            if (order < 2) throw nb::value_error(("order of curves must be at least 2, got " + std::to_string(order)).c_str());
            if (table.ndim() != 3) throw nb::value_error("panels must have three dimensions: (count, rows, lanes)");
            const int64_t count = static_cast<int64_t>(table.shape(0));
            expect_shape(table, {count, parsed.n_rows, ahofm::kCurveLanes}, "panels");
            const double* tables = table.data();
            parsed.kept.push_back(nb::cast<Doubles>(group[2]));
            expect_shape(parsed.kept.back(), {count, ahofm::kCurveLanes}, "weights");
            const double* weights = parsed.kept.back().data();
            if (order > n_columns) continue;  // no subset of that many columns
            for (int64_t q = 0; q < count; q++)
                panels.push_back({static_cast<int>(order), static_cast<int>(k), tables + q * parsed.n_rows * ahofm::kCurveLanes, weights + q * ahofm::kCurveLanes});
        }
    }
    const int64_t n_predictors = static_cast<int64_t>(predictors.size());
    const bool shares = out.ndim() == 3;
    if (shares) expect_shape(out, {parsed.n, n_predictors, n_columns}, "out");
    else expect_shape(out, {parsed.n, n_predictors}, "out");
    const ahofm::CurveTask task{parsed.n, parsed.list.data(), static_cast<int>(n_columns), static_cast<int>(n_predictors), intercepts.data(), mains.data(),
                                panels.data(), static_cast<int>(panels.size()), shares ? nullptr : out.data(), shares ? out.data() : nullptr};
    ahofm::BadCode bad;
    {
        nb::gil_scoped_release release;
        bad = passes.curves(task);
    }
    if (bad.column >= 0)
        throw nb::value_error(("code " + std::to_string(bad.code) + " in row " + std::to_string(bad.row) + " of column " + std::to_string(bad.column) +
                               " is out of range: the column has " + std::to_string(parsed.list[static_cast<size_t>(bad.column)].size) + " codes").c_str());
}

using Ranks = std::vector<std::pair<int, int64_t>>;  // (order, rank)

int64_t lanes_of_state(bool float64) { return float64 ? ahofm::state_lanes<double> : ahofm::state_lanes<float>; }

int64_t state_size(const Ranks& ranks, bool float64) {
    const int64_t lanes = lanes_of_state(float64);
    int64_t size = ahofm::kStateHead;
    for (const auto& [order, rank] : ranks) size += (rank + lanes - 1) / lanes * lanes * ahofm::state_entries(order);
    return size;
}

// States of n rows, (blocks of rows, numbers), and how factors lie in them.
struct Block {
    nb::ndarray<nb::ndim<2>, nb::c_contig, nb::device::cpu> kept;
    std::vector<ahofm::StatePanel> panels;
    ahofm::BlockTask task{};

    Block(nb::handle state, int64_t n, const Ranks& ranks) {
        if (!nb::try_cast(state, kept, false)) throw nb::type_error("state must be a writable, contiguous array of two dimensions");
        task.float64 = kept.dtype() == nb::dtype<double>();
        if (!task.float64 && kept.dtype() != nb::dtype<float>()) throw nb::type_error("state must be float32 or float64");
        const int64_t lanes = lanes_of_state(task.float64);
        task.width = 1;
        for (const auto& [order, rank] : ranks) {
            if (order < 2 || order > ahofm::kMaxStateOrder)
                throw nb::value_error(("order must be between 2 and " + std::to_string(ahofm::kMaxStateOrder) + ", got " + std::to_string(order)).c_str());
            for (int64_t first = 0; first < rank; first += lanes) panels.push_back({order, task.width + first, std::min(rank - first, lanes)});
            task.width += rank;
        }
        task.n = n;
        task.numbers = state_size(ranks, task.float64);
        expect_shape(kept, {(n + ahofm::kBlock - 1) / ahofm::kBlock, ahofm::kBlock * task.numbers}, "state");
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
    Moments(const nb::tuple& given, int64_t n, int64_t width) {
        codes = nb::cast<AnyArray>(given[1]);
        mean = nb::cast<Doubles>(given[2]);
        variance = nb::cast<Doubles>(given[3]);
        const nb::dlpack::dtype type = codes.dtype();
        if (type.code != static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) || (type.bits != 8 && type.bits != 16 && type.bits != 32))
            throw nb::type_error("codes must be uint8, uint16 or uint32");
        expect_shape(codes, {n}, "codes");
        const int64_t size = mean.ndim() == 2 ? static_cast<int64_t>(mean.shape(0)) : 0;
        if (size < 1 || size > INT32_MAX) throw nb::value_error("means must have between 1 and 2^31 codes");
        expect_shape(mean, {size, width}, "means");
        expect_shape(variance, {size, width}, "variances");
        moments = {nb::cast<int>(given[0]), codes.data(), type.bits / 8, static_cast<uint32_t>(size), mean.data(), variance.data()};
    }
};

void block(const std::string& isa, nb::handle state, int64_t n, const Ranks& ranks, const std::optional<nb::tuple>& put_in,
           const std::optional<nb::tuple>& take_out, const std::optional<DoublesOut>& gram, const std::optional<DoublesOut>& rhs) {
    const ahofm::Passes& passes = passes_named(isa);
    if (n < 0) throw nb::value_error("the number of rows cannot be negative");
    Block parsed(state, n, ranks);
    ahofm::BlockTask& task = parsed.task;
    Moments in, out;
    if (put_in) in = Moments(*put_in, task.n, task.width);
    if (take_out) {
        out = Moments(*take_out, task.n, task.width);
        if (!gram || !rhs) throw nb::value_error("a column that is taken out needs gram and rhs to sum into");
        const int64_t size = out.moments.size;
        expect_shape(*gram, {size, task.width, task.width}, "gram");
        expect_shape(*rhs, {size, task.width}, "rhs");
        task.gram = gram->data();
        task.rhs = rhs->data();
    }
    task.put_in = in.moments;
    task.take_out = out.moments;
    ahofm::BadCode bad;
    {
        nb::gil_scoped_release release;
        bad = passes.block(task);
    }
    if (bad.column < 0) return;
    const uint32_t size = bad.column == in.moments.column ? in.moments.size : out.moments.size;
    throw nb::value_error(("code " + std::to_string(bad.code) + " in row " + std::to_string(bad.row) + " of column " + std::to_string(bad.column) +
                           " is out of range: the column has " + std::to_string(size) + " codes").c_str());
}

void read_state(const std::string& isa, nb::handle state, const Ranks& ranks, const DoublesOut& mean, const DoublesOut& variance) {
    const ahofm::Passes& passes = passes_named(isa);
    const Block parsed(state, static_cast<int64_t>(mean.size()), ranks);
    expect_shape(mean, {parsed.task.n}, "mean");
    expect_shape(variance, {parsed.task.n}, "variance");
    nb::gil_scoped_release release;
    passes.read_state(parsed.task, mean.data(), variance.data());
}

void raise_if_singular(int64_t code) {
    if (code >= 0) throw nb::value_error(("the matrix of code " + std::to_string(code) + " is not positive definite").c_str());
}

// In place: the inverse of each matrix.
void inverses(const std::string& isa, const DoublesOut& matrices) {
    const ahofm::Passes& passes = passes_named(isa);
    if (matrices.ndim() != 3) throw nb::value_error("matrices must have three dimensions");
    const int64_t codes = static_cast<int64_t>(matrices.shape(0)), width = static_cast<int64_t>(matrices.shape(1));
    expect_shape(matrices, {codes, width, width}, "matrices");
    int64_t failed;
    {
        nb::gil_scoped_release release;
        failed = passes.inverses(codes, width, matrices.data());
    }
    raise_if_singular(failed);
}

void chain(const std::string& isa, const Doubles& gram, const Doubles& rhs, const Doubles& edges, const Doubles& steps, const Doubles& sizes,
           const DoublesOut& mean, const DoublesOut& variance, const DoublesOut& differences) {
    const ahofm::Passes& passes = passes_named(isa);
    if (rhs.ndim() != 3 || rhs.shape(0) < 1) throw nb::value_error("rhs must have three dimensions and at least one code");
    const int64_t codes = static_cast<int64_t>(rhs.shape(0)), width = static_cast<int64_t>(rhs.shape(1)), count = static_cast<int64_t>(rhs.shape(2));
    expect_shape(gram, {codes, width, width}, "gram");
    expect_shape(edges, {codes - 1}, "edges");
    expect_shape(steps, {width}, "steps");
    expect_shape(sizes, {width}, "sizes");
    expect_shape(mean, {codes, width, count}, "mean");
    expect_shape(variance, {codes, width}, "variance");
    expect_shape(differences, {width}, "differences");
    const ahofm::ChainTask task{codes, width, count, gram.data(), rhs.data(), edges.data(), steps.data(), sizes.data(), mean.data(), variance.data(), differences.data()};
    int64_t failed;
    {
        nb::gil_scoped_release release;
        failed = passes.chain(task);
    }
    raise_if_singular(failed);
}

void encode_numbers(const nb::ndarray<const double, nb::ndim<1>, nb::device::cpu>& values, const Doubles& edges,
                    uint32_t missing, const AnyArrayOut& out) {
    expect_shape(out, {static_cast<int64_t>(values.shape(0))}, "out");
    expect_shape(edges, {static_cast<int64_t>(edges.size())}, "edges");
    const nb::dlpack::dtype type = out.dtype();
    if (type.code != static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) || (type.bits != 8 && type.bits != 16 && type.bits != 32))
        throw nb::type_error("out must be uint8, uint16 or uint32");
    const double* data = values.data();
    const int64_t n = static_cast<int64_t>(values.shape(0)), stride = values.stride(0);
    const double* cuts = edges.data();
    const int64_t n_cuts = static_cast<int64_t>(edges.size());
    void* codes = out.data();
    nb::gil_scoped_release release;
    if (type.bits == 8) ahofm::encode(data, n, stride, cuts, n_cuts, missing, static_cast<uint8_t*>(codes));
    else if (type.bits == 16) ahofm::encode(data, n, stride, cuts, n_cuts, missing, static_cast<uint16_t*>(codes));
    else ahofm::encode(data, n, stride, cuts, n_cuts, missing, static_cast<uint32_t*>(codes));
}

double multiply_add_rate(const std::string& isa, int64_t repeats) {
    const ahofm::Passes& passes = passes_named(isa);
    nb::gil_scoped_release release;
    const auto start = std::chrono::steady_clock::now();
    const double operations = passes.multiply_adds(repeats);
    return operations / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Compiled passes over chunks of codes; see ahofm.kernels.native for the face of it.";
    m.def("instruction_sets", [] {
        std::vector<std::string> names;
        for (const ahofm::Passes* passes : available_passes()) names.push_back(passes->name);
        return names;
    }, "Names of the usable instruction sets, narrowest first.");
    m.def("compiler", [] { return std::string(AHOFM_COMPILER); }, "Compiler the module was built with.");
    m.def("eta", &eta, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"), nb::arg("sizes"), nb::arg("predictors"),
          nb::arg("offset").none(), nb::arg("out").noconvert());
    m.def("value_and_gradient", &value_and_gradient, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"), nb::arg("sizes"),
          nb::arg("predictors"), nb::arg("loss"), nb::arg("y").none(), nb::arg("weight").none(), nb::arg("offset").none());
    m.def("pull_back", &pull_back, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"), nb::arg("sizes"), nb::arg("predictors"), nb::arg("g"));
    m.def("column", &column, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"), nb::arg("sizes"), nb::arg("predictor"),
          nb::arg("which"), nb::arg("g").none(), nb::arg("h").none(), nb::arg("u").noconvert().none(),
          nb::arg("g_sums").noconvert().none(), nb::arg("h_sums").noconvert().none());
    m.def("curves", &curves, nb::arg("isa"), nb::arg("columns"), nb::arg("places"), nb::arg("predictors"), nb::arg("out").noconvert());
    m.attr("CURVE_LANES") = ahofm::kCurveLanes;
    m.def("block", &block, nb::arg("isa"), nb::arg("state"), nb::arg("n"), nb::arg("ranks"), nb::arg("put_in").none(), nb::arg("take_out").none(),
          nb::arg("gram").noconvert().none(), nb::arg("rhs").noconvert().none());
    m.def("inverses", &inverses, nb::arg("isa"), nb::arg("matrices").noconvert());
    m.def("chain", &chain, nb::arg("isa"), nb::arg("gram"), nb::arg("rhs"), nb::arg("edges"), nb::arg("steps"), nb::arg("sizes"),
          nb::arg("mean").noconvert(), nb::arg("variance").noconvert(), nb::arg("differences").noconvert());
    m.def("read_state", &read_state, nb::arg("isa"), nb::arg("state"), nb::arg("ranks"), nb::arg("mean").noconvert(), nb::arg("variance").noconvert());
    m.def("state_size", &state_size, nb::arg("ranks"), nb::arg("float64"), "Numbers of one row's state.");
    m.attr("STATE_BLOCK") = ahofm::kBlock;
    m.attr("STATE_HEAD") = ahofm::kStateHead;
    m.attr("MAX_STATE_ORDER") = ahofm::kMaxStateOrder;
    m.def("encode_numbers", &encode_numbers, nb::arg("values"), nb::arg("edges"), nb::arg("missing"), nb::arg("out").noconvert());
    m.def("multiply_add_rate", &multiply_add_rate, nb::arg("isa"), nb::arg("repeats"),
          "Floating-point operations per second of independent multiply-adds in registers.");
}
