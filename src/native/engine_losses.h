// The losses of an engine's rows: built-in ones, or functions of the caller.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"

namespace {

// A built-in loss: values, derivatives and majorants of parts of the rows, by the passes of one instruction set.
class NativeLoss {
  public:
    NativeLoss(const ahofm::Passes& passes, ahofm::Engine& engine, const ahofm::RowArrays& rows, int64_t n, int64_t K,
               nb::handle loss)
        : passes_(passes), engine_(engine), rows_(rows), n_(n), K_(K) {
        const nb::tuple given = tuple_of(loss, 2, "a loss", "(family, parameter)");
        family_ = static_cast<ahofm::Family>(within(integer(given[0], "family"), 0, 5, "family"));
        parameter_ = number(given[1], "parameter");
        if (family_ == ahofm::Family::multinomial) copy_classes();
        else if (K_ != 1) refuse("this family has one linear predictor, got " + std::to_string(K_));
    }

    bool evaluate(const double* eta, double* value, double* slope, double* curvature) const {
        const double* y = family_ == ahofm::Family::multinomial ? classes_.data() : rows_.y;
        over_parts([&](int64_t first, int64_t size, int64_t at) {
            passes_.losses({family_, parameter_, size, K_, y + first, offset(at), eta + at, value + first, slope + at,
                            curvature + at});
        });
        return true;
    }

    bool majorant(const double* eta, const double* variance, double* curvature) const {
        if (family_ != ahofm::Family::bernoulli && family_ != ahofm::Family::multinomial) return false;
        over_parts([&](int64_t first, int64_t size, int64_t at) {
            static_cast<void>(first);
            passes_.majorants(
                {family_, parameter_, size, K_, nullptr, offset(at), eta + at, nullptr, nullptr, curvature + at},
                variance + at);
        });
        return true;
    }

  private:
    static constexpr int64_t kRowsOfPart = 2048;  // rows whose losses one thread evaluates at a time

    // Class numbers are copied: they are used as indices, and the caller's array may change.
    void copy_classes() {
        classes_.assign(rows_.y, rows_.y + n_);
        for (const double y : classes_)
            if (!is_index(y, K_)) refuse("y must be the number of a class");
    }

    const double* offset(int64_t at) const { return rows_.offset == nullptr ? nullptr : rows_.offset + at; }

    template <class Visit>
    void over_parts(Visit visit) const {
        engine_.parallel(static_cast<int>((n_ + kRowsOfPart - 1) / kRowsOfPart), [&](int part) {
            const int64_t first = part * kRowsOfPart;
            visit(first, std::min(kRowsOfPart, n_ - first), first * K_);
        });
    }

    const ahofm::Passes& passes_;
    ahofm::Engine& engine_;
    const ahofm::RowArrays rows_;
    const int64_t n_, K_;
    ahofm::Family family_;
    double parameter_;
    std::vector<double> classes_;
};

// Functions of the caller, called with Python's lock. What they raise is kept in `raised`, to be raised again when the
// engine has returned.
class PythonLoss {
  public:
    // References to what the engine keeps: Python's garbage collector must see it.
    PythonLoss(int64_t n, int64_t K, const nb::object& loss, const nb::object& majorant, std::exception_ptr& raised)
        : n_(n), K_(K), loss_(loss), majorant_(majorant), raised_(raised) {}

    bool evaluate(const double* eta, double* value, double* slope, double* curvature) const {
        const nb::gil_scoped_acquire acquire;
        const ahofm::SubnormalsAsZero kept(false);
        try {
            const nb::object found = loss_(view(eta));
            const nb::tuple parts = tuple_of(found, 3, "a loss", "(value, slope, curvature)");
            take(parts[0], {n_}, "value", value);
            take(parts[1], {n_, K_}, "slope", slope);
            take(parts[2], {n_, K_}, "curvature", curvature);
            return true;
        } catch (...) {
            raised_ = std::current_exception();
            return false;
        }
    }

    bool majorant(const double* eta, const double* variance, double* curvature) const {
        if (majorant_.is_none()) return false;
        const nb::gil_scoped_acquire acquire;
        const ahofm::SubnormalsAsZero kept(false);
        try {
            const nb::object found = majorant_(view(eta), view(variance));
            if (found.is_none()) return false;
            take(found, {n_, K_}, "majorant", curvature);
            return true;
        } catch (...) {
            raised_ = std::current_exception();
            throw ahofm::Stopped{};
        }
    }

  private:
    nb::object view(const double* data) const {
        const size_t sizes[] = {static_cast<size_t>(n_), static_cast<size_t>(K_)};
        nb::ndarray<nb::numpy, const double> array(data, 2, sizes, nb::handle());
        return nb::cast(array, nb::rv_policy::copy);
    }

    static void take(nb::handle given, const std::vector<int64_t>& shape, const std::string& what, double* to) {
        const std::vector<double> found = copied(given, shape, what);
        std::copy(found.begin(), found.end(), to);
    }

    const int64_t n_, K_;
    const nb::object &loss_, &majorant_;
    std::exception_ptr& raised_;
};

}  // namespace
