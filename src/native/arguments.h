// Arguments in dictionaries, arrays that an object keeps of its caller, and what calls of such an object have in common.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "checks.h"
#include "engine.h"

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

// Arrays of the caller, which live as long as the object that reads and writes them.
class KeptArrays {
  public:
    const double* read(nb::handle given, const std::vector<int64_t>& shape, const std::string& what) {
        inputs_.push_back(doubles(given, what));
        expect_shape(inputs_.back(), shape, what);
        return inputs_.back().data();
    }

    double* write(nb::handle given, const std::vector<int64_t>& shape, const std::string& what) {
        outputs_.push_back(output(given, shape, what));
        return outputs_.back().data();
    }

    const int32_t* read_places(nb::handle given, const std::vector<int64_t>& shape, const std::string& what) {
        places_.push_back(cast<Integers>(given, what, "a contiguous array of 32-bit integers"));
        expect_shape(places_.back(), shape, what);
        return places_.back().data();
    }

    const AnyArray& codes(nb::handle given, int64_t n) {
        codes_.push_back(cast<AnyArray>(given, "codes", "a contiguous array of codes"));
        code_width(codes_.back(), "codes");
        expect_shape(codes_.back(), {n}, "codes");
        return codes_.back();
    }

  private:
    std::vector<Doubles> inputs_;
    std::vector<DoublesOut> outputs_;
    std::vector<AnyArray> codes_;
    std::vector<Integers> places_;
};

// Sets a flag as long as it lives.
struct Busy {
    explicit Busy(bool& flag) : flag_(flag) { flag_ = true; }
    ~Busy() { flag_ = false; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    bool& flag_;
};

// Runs a task without Python's lock, with subnormal numbers as zero. Returns why a block could not be solved; empty: all were.
template <class Task>
std::string failure_of(Task task) {
    const nb::gil_scoped_release release;
    const ahofm::SubnormalsAsZero flushed(true);
    try {
        task();
    } catch (const ahofm::Failed& failed) {
        return failed.why;
    }
    return {};
}

void raise_failure(const std::string& failure) {
    if (failure.empty()) return;
    PyErr_SetString(PyExc_ArithmeticError, failure.c_str());
    throw nb::python_error();
}

}  // namespace
