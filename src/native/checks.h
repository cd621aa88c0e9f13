// Checks of arguments from Python: tuples of the right length, arrays of the right type, shape and alignment, sizes
// that do not overflow. Bindings check all arguments here, so that a mistake in Python is an exception.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes.h"

namespace nb = nanobind;

namespace {

using Doubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>;
using DoublesOut = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const double, nb::ndim<1>, nb::device::cpu>;
using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using AnyArrayOut = nb::ndarray<nb::c_contig, nb::device::cpu>;

constexpr int64_t kMostCodes = INT32_MAX;    // of all columns: table rows are counted in 32 bits
constexpr int64_t kHighestOrder = 1000;      // state grows with it
constexpr int64_t kMostFunctions = 1 << 20;  // of a column: its main effect and its factors
constexpr int64_t kMostRepeats = 1'000'000'000;

[[noreturn]] void refuse(const std::string& text) { throw nb::value_error(text.c_str()); }
[[noreturn]] void refuse_type(const std::string& text) { throw nb::type_error(text.c_str()); }

// Products of given sizes are formed before they are compared with array sizes, and must not overflow.
int64_t product(int64_t a, int64_t b, const std::string& what) {
    int64_t result;
    if (__builtin_mul_overflow(a, b, &result))
        refuse(what + " is too large: " + std::to_string(a) + " times " + std::to_string(b));
    return result;
}

int64_t sum(int64_t a, int64_t b, const std::string& what) {
    int64_t result;
    if (__builtin_add_overflow(a, b, &result))
        refuse(what + " is too large: " + std::to_string(a) + " plus " + std::to_string(b));
    return result;
}

int64_t within(int64_t value, int64_t low, int64_t high, const std::string& what) {
    if (value < low || value > high)
        refuse(what + " must be between " + std::to_string(low) + " and " + std::to_string(high) + ", got " +
               std::to_string(value));
    return value;
}

uint32_t code_count(int64_t size, const std::string& what) {
    if (size < 1 || size > kMostCodes)
        refuse(what + " must have between 1 and 2^31 codes, got " + std::to_string(size));
    return static_cast<uint32_t>(size);
}

// A value of another type in a tuple or list is a TypeError that names it.
template <class T>
T cast(nb::handle given, const std::string& what, const char* expected) {
    T value;
    if (!nb::try_cast(given, value)) refuse_type(what + " must be " + expected);
    return value;
}

int64_t integer(nb::handle given, const std::string& what) {
    return cast<int64_t>(given, what, "an integer of 64 bits");
}
double number(nb::handle given, const std::string& what) { return cast<double>(given, what, "a number"); }
nb::list list(nb::handle given, const std::string& what) { return cast<nb::list>(given, what, "a list"); }

nb::tuple tuple_of(nb::handle given, size_t size, const std::string& what, const char* expected) {
    if (!nb::isinstance<nb::tuple>(given) || nb::borrow<nb::tuple>(given).size() != size)
        refuse(what + ": expected " + expected);
    return nb::borrow<nb::tuple>(given);
}

int64_t order_of(nb::handle given, const std::string& what) {
    const int64_t order = integer(given, what);
    if (order < 2) refuse(what + " must be at least 2, got " + std::to_string(order));
    return order;
}

void expect_any(size_t count, const std::string& what, const std::string& one = "one") {
    if (count == 0) refuse(what + ": at least " + one + " is needed");
}

// nanobind's caster converts None to an array without data.
template <class Array>
void expect_some(const Array& array, const std::string& what) {
    if (!array.is_valid()) refuse_type(what + " must be an array, got None");
}

// Alignment, whatever the shape: vectorised loops rely on it.
template <class Array>
void expect_array(const Array& array, const std::string& what) {
    expect_some(array, what);
    const size_t item = array.itemsize();
    if (array.size() != 0 && item != 0 && reinterpret_cast<uintptr_t>(array.data()) % item != 0)
        refuse(what + " is not aligned: its address is no multiple of " + std::to_string(item) + " bytes; copy it");
}

// An output array, without conversion: results written to a converted copy would be lost.
template <class Array>
Array unconverted(nb::handle given, const std::string& what, const char* expected) {
    Array array;
    if (!nb::try_cast(given, array, false)) refuse_type(what + " must be a writable, contiguous " + expected);
    expect_array(array, what);
    return array;
}

template <class Array>
int64_t length(const Array& array, size_t dimension) {
    return static_cast<int64_t>(array.shape(dimension));
}

template <class Array>
void expect_shape(const Array& array, const std::vector<int64_t>& shape, const std::string& what) {
    expect_array(array, what);
    bool same = array.ndim() == shape.size();
    for (size_t k = 0; same && k < shape.size(); k++) same = length(array, k) == shape[k];
    if (same) return;
    std::string text = what + " has shape (";
    for (size_t k = 0; k < array.ndim(); k++) text += (k ? ", " : "") + std::to_string(array.shape(k));
    text += "), expected (";
    for (size_t k = 0; k < shape.size(); k++) text += (k ? ", " : "") + std::to_string(shape[k]);
    refuse(text + ")");
}

// Without a check of its alignment.
template <class Array>
void expect_dimensions_only(const Array& array, size_t count, const std::string& what, const std::string& meaning) {
    static const char* const words[4] = {"no dimension", "one dimension", "two dimensions", "three dimensions"};
    expect_some(array, what);
    if (array.ndim() != count)
        refuse(what + " must have " + words[count] + ": " + meaning + ", got " + std::to_string(array.ndim()));
}

template <class Array>
void expect_dimensions(const Array& array, size_t count, const std::string& what, const std::string& meaning) {
    expect_array(array, what);
    expect_dimensions_only(array, count, what, meaning);
}

// Arrays inside tuples: converted where that is allowed, then checked.
Doubles doubles(nb::handle given, const std::string& what) {
    Doubles array = cast<Doubles>(given, what, "an array of numbers");
    expect_array(array, what);
    return array;
}

DoublesOut output(nb::handle given, const std::vector<int64_t>& shape, const std::string& what) {
    const DoublesOut array = unconverted<DoublesOut>(given, what, "float64 array");
    expect_shape(array, shape, what);
    return array;
}

template <class Array>
bool is_float64(const Array& array, const std::string& what) {
    if (array.dtype() == nb::dtype<double>()) return true;
    if (array.dtype() == nb::dtype<float>()) return false;
    refuse_type(what + " must be float32 or float64");
}

ahofm::Reals reals(const std::optional<AnyArray>& array, const std::vector<int64_t>& shape, const std::string& what) {
    if (!array) return {};
    expect_shape(*array, shape, what);
    return {array->data(), is_float64(*array, what)};
}

// Bytes per code of an array of codes with one dimension.
template <class Array>
int code_width(const Array& array, const std::string& what) {
    expect_array(array, what);
    const nb::dlpack::dtype type = array.dtype();
    const bool integers = type.code == static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) && type.lanes == 1;
    if (!integers || (type.bits != 8 && type.bits != 16 && type.bits != 32))
        refuse_type(what + " must be uint8, uint16 or uint32");
    expect_dimensions(array, 1, what, "(rows,)");
    return type.bits / 8;
}

// Codes are checked by the passes, as they are read.
void raise_if_bad(const ahofm::BadCode& bad, int64_t size) {
    if (bad.column < 0) return;
    refuse("code " + std::to_string(bad.code) + " in row " + std::to_string(bad.row) + " of column " +
           std::to_string(bad.column) + " is out of range: the column has " + std::to_string(size) + " codes");
}

// Other threads of Python go on while a pass runs.
template <class Pass>
auto without_gil(Pass pass) {
    nb::gil_scoped_release release;
    return pass();
}

const ahofm::Passes& passes_named(const std::string& name);

}  // namespace
