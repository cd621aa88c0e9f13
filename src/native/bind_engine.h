// Bindings of the engine (engine.h).
#pragma once

#include <memory>

#include "engine_arguments.h"
#include "engine_losses.h"

namespace {

// The engine, with references that keep the caller's arrays and functions alive.
class BoundEngine {
  public:
    BoundEngine(const std::string& isa, bool float64, const nb::dict& rows, const nb::list& columns, const Ranks& ranks,
                const nb::dict& mains, const nb::list& etas, nb::object loss, nb::object majorant)
        : passes_(passes_named(isa)), loss_(std::move(loss)), majorant_(std::move(majorant)),
          arguments_(float64, rows, columns, ranks, mains, etas) {
        if (loss_.is_none() && arguments_.K() != 1)
            refuse("quadratic losses have one linear predictor, got " + std::to_string(arguments_.K()));
        if (!majorant_.is_none() && !PyCallable_Check(majorant_.ptr()))
            refuse_type("majorant must be a function or None");
        engine_ = arguments_.engine(passes_, loss_.is_none());
        use_loss(loss_);
        engine_->stop = [this] { return must_stop(); };
    }

    // Returns whether it was completed: false after a stop, which leaves no row states.
    bool build(double tempering) {
        return built_ = run([&] { engine_->build(tempering); });
    }

    bool sweep(bool update_lam, bool update_main_lam, bool backwards, double floor) {
        if (!built_) refuse("states must be built before a sweep");
        return built_ = run([&] { engine_->sweep(update_lam, update_main_lam, backwards, floor); });
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
        use_loss(loss);
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
    // A tuple is a built-in loss, whose majorant is built in too.
    void use_loss(const nb::object& loss) {
        if (loss.is_none()) return;
        if (nb::isinstance<nb::tuple>(loss))
            use(std::make_shared<NativeLoss>(passes_, *engine_, arguments_.rows(), arguments_.n(), arguments_.K(),
                                             loss));
        else if (PyCallable_Check(loss.ptr()))
            use(std::make_shared<PythonLoss>(arguments_.n(), arguments_.K(), loss_, majorant_, raised_));
        else refuse_type("loss must be None, (family, parameter) or a function");
    }

    template <class Loss>
    void use(std::shared_ptr<Loss> loss) {
        engine_->losses = [loss](const double* eta, double* value, double* slope, double* curvature) {
            return loss->evaluate(eta, value, slope, curvature);
        };
        engine_->majorant = [loss](const double* eta, const double* variance, double* curvature) {
            return loss->majorant(eta, variance, curvature);
        };
    }

    // Also after Ctrl-C, which the main thread would otherwise notice only when the engine returns.
    bool must_stop() {
        const nb::gil_scoped_acquire acquire;
        const ahofm::SubnormalsAsZero kept(false);
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
        bool stopped = false;
        ahofm::WrongCode bad{};
        raised_ = nullptr;
        const std::string failure = failure_of([&] {
            try {
                task();
            } catch (const ahofm::WrongCode& wrong) {
                bad = wrong;
            } catch (const ahofm::Stopped&) {
                stopped = true;
            }
        });
        if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
        raise_if_bad(bad.found, bad.size);
        raise_failure(failure);
        return !stopped;
    }

    const ahofm::Passes& passes_;
    nb::object loss_, majorant_, stop_ = nb::none();
    bool busy_ = false, built_ = false;
    std::exception_ptr raised_;
    EngineArguments arguments_;
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

void bind_engine(nb::module_& m) {
    nb::class_<BoundEngine>(m, "Engine", nb::type_slots(engine_slots))
        .def(nb::init<const std::string&, bool, const nb::dict&, const nb::list&, const Ranks&, const nb::dict&,
                      const nb::list&, nb::object, nb::object>(),
             nb::arg("isa"), nb::arg("float64"), nb::arg("rows"), nb::arg("columns"), nb::arg("ranks"),
             nb::arg("mains"), nb::arg("etas"), nb::arg("loss").none(), nb::arg("majorant").none())
        .def("build", &BoundEngine::build, nb::arg("tempering"))
        .def("sweep", &BoundEngine::sweep, nb::arg("update_lam"), nb::arg("update_main_lam"), nb::arg("backwards"),
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
