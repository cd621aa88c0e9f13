// The design of the smooth main effects (local_design.h): its arrays, checked, and products with it for the reference.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "local_design.h"
#include "pool.h"

namespace {

// Of a dictionary: places (n, blocks), entries (n, blocks, 4), transform (functions, coefficients), parts (count, 4) and
// centre (coefficients,). The first two are kept.
ahofm::LocalDesign design_of(const nb::dict& given, int64_t n, KeptArrays& arrays) {
    ahofm::LocalDesign design;
    const Doubles entries = doubles(entry(given, "entries"), "entries");
    expect_dimensions(entries, 3, "entries", "(rows, blocks, 4)");
    const Doubles transform = doubles(entry(given, "transform"), "transform");
    expect_dimensions(transform, 2, "transform", "(functions, coefficients)");
    ahofm::LocalRows& rows = design.rows;
    rows.blocks = length(entries, 1);
    rows.functions = length(transform, 0);
    rows.entries = arrays.read(entry(given, "entries"), {n, rows.blocks, ahofm::kLocal}, "entries");
    rows.places = arrays.read_places(entry(given, "places"), {n, rows.blocks}, "places");
    design.q = length(transform, 1);
    product(product(rows.functions, rows.functions, "functions"), 64, "functions");
    product(product(rows.functions, design.q, "transform"), 64, "transform");
    design.transform.assign(transform.data(), transform.data() + transform.size());
    design.centre = copied(entry(given, "centre"), {design.q}, "centre");
    for (int64_t i = 0; i < n * rows.blocks; i++)
        if (rows.places[i] < 0 || rows.places[i] > rows.functions - ahofm::kLocal)
            refuse("places must be between 0 and functions - 4, got " + std::to_string(rows.places[i]));
    const Doubles parts = doubles(entry(given, "parts"), "parts");
    expect_dimensions(parts, 2, "parts", "(count, 4)");
    if (length(parts, 1) != 4) refuse("parts must have four columns");
    for (int64_t p = 0; p < length(parts, 0); p++) {
        int64_t bounds[4];
        for (int k = 0; k < 4; k++) {
            const double bound = parts.data()[4 * p + k];
            if (!is_index(bound, (k < 2 ? rows.functions : design.q) + 1)) refuse("parts must be ranges of transform");
            bounds[k] = static_cast<int64_t>(bound);
        }
        if (bounds[1] < bounds[0] || bounds[3] < bounds[2]) refuse("parts must be ranges of transform");
        design.parts.push_back({bounds[0], bounds[1], bounds[2], bounds[3]});
    }
    return design;
}

int64_t rows_of_design(const nb::dict& given) {
    const Doubles entries = doubles(entry(given, "entries"), "entries");
    expect_dimensions(entries, 3, "entries", "(rows, blocks, 4)");
    return length(entries, 0);
}

// D coef, (n,).
void design_times(const std::string& isa, const nb::dict& given, const Doubles& coef, const DoublesOut& out) {
    const ahofm::Passes& passes = passes_named(isa);
    const int64_t n = rows_of_design(given);
    KeptArrays arrays;
    const ahofm::LocalDesign design = design_of(given, n, arrays);
    expect_shape(coef, {design.q}, "coef");
    expect_shape(out, {n}, "out");
    without_gil([&] {
        double added = 0.0;
        const std::vector<double> in_functions = design.in_functions(coef.data(), added);
        passes.local_times(design.rows, 0, n, in_functions.data(), out.data());
        for (int64_t i = 0; i < n; i++) out.data()[i] += added;
    });
}

// D' x (coefficients,) and D' diag(weight) D (coefficients, coefficients), each where it is wanted.
void design_sums(const std::string& isa, const nb::dict& given, const std::optional<Doubles>& x,
                 const std::optional<Doubles>& weight, const std::optional<DoublesOut>& sums,
                 const std::optional<DoublesOut>& gram, const std::shared_ptr<ahofm::ThreadBudget>& budget) {
    const ahofm::Passes& passes = passes_named(isa);
    const int64_t n = rows_of_design(given);
    KeptArrays arrays;
    const ahofm::LocalDesign design = design_of(given, n, arrays);
    if (x.has_value() != sums.has_value() || weight.has_value() != gram.has_value())
        refuse("x goes with sums, and weight with gram");
    if (x) expect_shape(*x, {n}, "x");
    if (sums) expect_shape(*sums, {design.q}, "sums");
    if (weight) expect_shape(*weight, {n}, "weight");
    if (gram) expect_shape(*gram, {design.q, design.q}, "gram");
    without_gil([&] {
        ahofm::DesignSums parts(passes, design, n);
        parts.reserve(x ? x->data() : nullptr, weight ? weight->data() : nullptr);
        ahofm::Pool::Team team(budget.get());
        const std::function<void(int)> part = [&](int at) { parts.part(at); };
        team.run(parts.count(), part);
        std::vector<double> found_gram, found_sums;
        parts.total(found_gram, found_sums);
        if (sums) std::copy(found_sums.begin(), found_sums.end(), sums->data());
        if (!gram) return;
        for (int64_t a = 0; a < design.q; a++)
            for (int64_t b = a; b < design.q; b++)
                gram->data()[a * design.q + b] = gram->data()[b * design.q + a] =
                    found_gram[static_cast<size_t>(a * design.q + b)];
    });
}

void bind_design(nb::module_& m) {
    m.def("design_times", &design_times, nb::arg("isa"), nb::arg("design"), nb::arg("coef"),
          nb::arg("out").noconvert());
    m.def("design_sums", &design_sums, nb::arg("isa"), nb::arg("design"), nb::arg("x").none(), nb::arg("weight").none(),
          nb::arg("sums").noconvert().none(), nb::arg("gram").noconvert().none(), nb::arg("budget").none());
}

}  // namespace
