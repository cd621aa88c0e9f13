// The Python module: checks what it is given (checks.h), releases the GIL, calls the passes of one instruction set.
// Callers allocate outputs. Everything that could make a pass read or write out of bounds is checked by the bindings or
// in the pass itself, so that a mistake in Python is an exception and never a crash.

#include <chrono>
#include <cstring>
#include <new>

#include "bind_codes.h"
#include "bind_curves.h"
#include "bind_engine.h"
#include "bind_pool.h"
#include "bind_priors.h"
#include "bind_row_states.h"
#include "bind_shared_curves.h"
#include "encode.h"
#include "tuning.h"

namespace ahofm {

void too_large() { throw std::bad_alloc(); }

}  // namespace ahofm

namespace {

std::vector<ahofm::Passes> available_passes() {
    std::vector<ahofm::Passes> found{{ahofm::baseline_passes, ahofm::baseline_solves}};
#if defined(AHOFM_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        found.push_back({ahofm::avx2_passes, ahofm::avx2_solves});
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
            found.push_back({ahofm::avx2_passes, ahofm::avx512_solves});
    }
#endif
    return found;
}

const ahofm::Passes& passes_named(const std::string& name) {
    static const std::vector<ahofm::Passes> found = available_passes();
    for (const ahofm::Passes& passes : found)
        if (name == passes.name) return passes;
    refuse("instruction set '" + name + "' is not available on this machine");
}

void encode_numbers(const Numbers& values, const Doubles& edges, uint32_t missing, const AnyArrayOut& out) {
    expect_some(values, "values");
    const int bytes = code_width(out, "out");
    const int64_t n = length(values, 0), stride = values.stride(0);
    expect_shape(out, {n}, "out");
    expect_dimensions_only(edges, 1, "edges", "(edges,)");
    const int64_t n_cuts = within(length(edges, 0), 0, kMostCodes, "the number of edges");
    const int64_t highest = bytes == 4 ? UINT32_MAX : (int64_t{1} << (8 * bytes)) - 1;
    if (n_cuts > highest || missing > highest)
        refuse("out holds codes up to " + std::to_string(highest) + ", but there are " + std::to_string(n_cuts) +
               " edges and missing is " + std::to_string(missing));
    std::vector<double> copied(static_cast<size_t>(n_cuts));  // codebooks that came in a message lie at any address
    if (n_cuts > 0) std::memcpy(copied.data(), edges.data(), copied.size() * sizeof(double));
    const double *data = values.data(), *cuts = copied.data();
    void* codes = out.data();
    const nb::gil_scoped_release release;
    if (bytes == 1) ahofm::encode(data, n, stride, cuts, n_cuts, missing, static_cast<uint8_t*>(codes));
    else if (bytes == 2) ahofm::encode(data, n, stride, cuts, n_cuts, missing, static_cast<uint16_t*>(codes));
    else ahofm::encode(data, n, stride, cuts, n_cuts, missing, static_cast<uint32_t*>(codes));
}

double multiply_add_rate(const std::string& isa, int64_t repeats) {
    const ahofm::Passes& passes = passes_named(isa);
    within(repeats, 1, kMostRepeats, "repeats");
    const nb::gil_scoped_release release;
    const auto start = std::chrono::steady_clock::now();
    const double operations = passes.multiply_adds(repeats);
    return operations / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Constants of tuning.h by name: numbers, and lists of numbers.
nb::dict constants() {
    nb::dict found;
#define AHOFM_ENTRY(name, value) found[#name] = ahofm::tuning::name;
    AHOFM_CONSTANTS(AHOFM_ENTRY)
#undef AHOFM_ENTRY
    const auto listed = [&](const char* name, const auto& values) {
        nb::list all;
        for (const double value : values) all.append(value);
        found[name] = all;
    };
    listed("COLUMN_JITTERS", ahofm::tuning::COLUMN_JITTERS);
    listed("DAMPINGS", ahofm::tuning::DAMPINGS);
    return found;
}

}  // namespace

NB_MODULE(_native, m) {
    m.doc() = "Compiled passes over chunks of codes; see ahofm.kernels.native for the face of it.";
    m.def(
        "instruction_sets",
        [] {
            std::vector<std::string> names;
            for (const ahofm::Passes& passes : available_passes()) names.push_back(passes.name);
            return names;
        },
        "Names of the usable instruction sets, narrowest first.");
    m.def("compiler", [] { return std::string(AHOFM_COMPILER); }, "Compiler the module was built with.");
    m.def("eta", &eta, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"), nb::arg("sizes"),
          nb::arg("linear_predictors"), nb::arg("offset").none(), nb::arg("out").noconvert());
    m.def("value_and_gradient", &value_and_gradient, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"),
          nb::arg("sizes"), nb::arg("linear_predictors"), nb::arg("loss"), nb::arg("y").none(),
          nb::arg("weight").none(), nb::arg("offset").none());
    m.def("pull_back", &pull_back, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"), nb::arg("sizes"),
          nb::arg("linear_predictors"), nb::arg("g"));
    m.def("column", &column, nb::arg("isa"), nb::arg("float64"), nb::arg("codes"), nb::arg("sizes"),
          nb::arg("linear_predictor"), nb::arg("which"), nb::arg("g").none(), nb::arg("h").none(),
          nb::arg("u").noconvert().none(), nb::arg("g_sums").noconvert().none(), nb::arg("h_sums").noconvert().none());
    m.def("curves", &curves, nb::arg("isa"), nb::arg("columns"), nb::arg("places"), nb::arg("linear_predictors"),
          nb::arg("out").noconvert());
    m.attr("CURVE_LANES") = ahofm::kCurveLanes;
    m.def("swap_columns", &swap_columns, nb::arg("isa"), nb::arg("state"), nb::arg("n"), nb::arg("ranks"),
          nb::arg("add_column").none(), nb::arg("remove_column").none(), nb::arg("gram").noconvert().none(),
          nb::arg("rhs").noconvert().none());
    m.def("inverses", &inverses, nb::arg("isa"), nb::arg("matrices").noconvert());
    m.def("chain", &chain, nb::arg("isa"), nb::arg("gram"), nb::arg("rhs"), nb::arg("edges"), nb::arg("lam_difference"),
          nb::arg("lam_value"), nb::arg("mean").noconvert(), nb::arg("variance").noconvert(),
          nb::arg("differences").noconvert());
    m.def("code_sums", &code_sums, nb::arg("isa"), nb::arg("codes"), nb::arg("slopes"), nb::arg("weight"),
          nb::arg("weighted_response"), nb::arg("gram").noconvert(), nb::arg("rhs").noconvert());
    m.def("read_state", &read_state, nb::arg("isa"), nb::arg("state"), nb::arg("ranks"), nb::arg("mean").noconvert(),
          nb::arg("variance").noconvert());
    m.def("start_state", &start_state, nb::arg("isa"), nb::arg("state"), nb::arg("n"), nb::arg("ranks"),
          nb::arg("loadings"));
    m.def("state_size", &state_size, nb::arg("ranks"), nb::arg("float64"), "Numbers of one row's state.");
    m.attr("STATE_BLOCK") = ahofm::kBlock;
    m.attr("STATE_HEAD") = ahofm::kStateHead;
    m.attr("PRODUCT") = ahofm::kProduct;
    m.attr("MAX_STATE_ORDER") = ahofm::kMaxStateOrder;
    m.attr("CONSTANTS") = constants();
    bind_priors(m);
    bind_pool(m);
    bind_design(m);
    bind_engine(m);
    bind_shared_curves(m);
    m.def("encode_numbers", &encode_numbers, nb::arg("values"), nb::arg("edges"), nb::arg("missing"),
          nb::arg("out").noconvert());
    m.def("multiply_add_rate", &multiply_add_rate, nb::arg("isa"), nb::arg("repeats"),
          "Floating-point operations per second of independent multiply-adds in registers.");
}
