// The budget of threads that calls side by side share, and a sum over rows that is shared out to them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checks.h"
#include "pool.h"

namespace {

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

void bind_pool(nb::module_& m) {
    m.def("weighted_grams", &weighted_grams, nb::arg("isa"), nb::arg("design"), nb::arg("weights"), nb::arg("out"),
          nb::arg("budget").none());
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
}

}  // namespace
