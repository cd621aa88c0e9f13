// Priors from Python, and single solves under them, which contract tests compare with NumPy.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "arguments.h"

namespace {

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
        prior.relative_penalty = numbers_of(entry(given, "relative_penalty"), "relative_penalty");
        const int64_t m =
            within(static_cast<int64_t>(prior.relative_penalty.size()), 1, 10'000, "coordinates of a prior");
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
        prior.task.prior_trace = number(entry(given, "prior_trace"), "prior_trace");
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

void bind_priors(nb::module_& m) {
    m.def("solve_prior", &solve_prior, nb::arg("isa"), nb::arg("prior"), nb::arg("gram"), nb::arg("rhs"),
          nb::arg("lam"), nb::arg("outputs"));
}

}  // namespace
