"""The harness of the paper's experiments: results that resume, units apart, purified surfaces, boosting, pages."""

import shutil
import signal
import time

import numpy as np
import pandas as pd
import pytest
from benchmarks import paper_recipe
from benchmarks.data import DATA, FOLDER, Rows, levels, numbers
from benchmarks.evidence import conduct
from benchmarks.experiments import EXPERIMENTS, estimation, scalability
from benchmarks.experiments.ablation import errors
from benchmarks.experiments.plan import Experiment, Planned
from benchmarks.measure import MissingPeerError, apart, taken
from benchmarks.pages import real, simulated
from benchmarks.pages.read import units
from benchmarks.pages.write import filled, tables
from benchmarks.peers import boosting, mgcv, own
from benchmarks.peers.task import Task, method
from benchmarks.store import Store, Unit
from benchmarks.surfaces import Design, pure

from ahofm import Linear, Spline

WITHOUT_R = pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed (make bench-deps)")


def test_results_are_kept_and_found_again(tmp_path):
    store = Store("one", tmp_path)
    unit = Unit("a, b", "method", "n=3 rank=2", 4)
    store.add(unit, {"status": "done", "error": 0.125})
    again = Store("one", tmp_path)
    assert unit in again
    assert Unit("a, b", "method", "n=3 rank=2", 5) not in again
    assert again.get(unit) == {"status": "done", "error": "0.125"}
    assert unit.options() == {"n": "3", "rank": "2"}
    assert (tmp_path / "one.json").exists()


def test_a_line_cut_short_is_dropped(tmp_path):
    Store("one", tmp_path).add(Unit("p", "m"), {"status": "done"})
    with (tmp_path / "one.csv").open("a") as file:
        file.write("p,other,,0,sta")
    assert [unit.method for unit, _ in Store("one", tmp_path)] == ["m"]
    Store("one", tmp_path).add(Unit("p", "other"), {"status": "done"})
    assert [unit.method for unit, _ in Store("one", tmp_path)] == ["m", "other"]


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    asked = []

    def run(unit, folder):
        if unit.method == "broken":
            raise ValueError("no luck")
        return {"cpu": 1.0, "folder": str(folder)}

    def plan(quick):
        asked.append(quick)
        units = [Unit("p", name) for name in ("a", "broken", "b")]
        return [Planned(unit) for unit in units]

    monkeypatch.setitem(EXPERIMENTS, "toy", Experiment("toy", plan, run))
    first = conduct(EXPERIMENTS["toy"], tmp_path, quick=True, wanted=["a"])
    assert [unit.method for unit, _ in first] == ["a"]
    written = (tmp_path / "toy.csv").read_text()
    second = conduct(EXPERIMENTS["toy"], tmp_path, quick=True)
    assert (tmp_path / "toy.csv").read_text().startswith(written)
    assert second.get(Unit("p", "a"))["folder"] == "None"
    assert second.get(Unit("p", "broken"))["status"] == "failed: ValueError: no luck"
    assert second.get(Unit("p", "b"))["status"] == "done"
    assert asked == [True, True]


def test_what_another_commit_measured_is_run_again_in_its_place(tmp_path, monkeypatch):
    asked = []

    def run(unit, folder):
        return {"cpu": 1.0}

    def plan(quick):
        return [Planned(Unit("p", name)) for name in ("a", "b")]

    def kept(work, cap):
        asked.append(work.args[0].method)
        return {"status": "done", **work()}

    monkeypatch.setitem(EXPERIMENTS, "toy", Experiment("toy", plan, run))
    monkeypatch.setattr("benchmarks.evidence.apart", kept)
    monkeypatch.setattr("benchmarks.machine.commit", lambda: "first")
    conduct(EXPERIMENTS["toy"], tmp_path, quick=True)
    conduct(EXPERIMENTS["toy"], tmp_path, quick=True, again=True)
    assert asked == ["a", "b"]
    monkeypatch.setattr("benchmarks.machine.commit", lambda: "second")
    conduct(EXPERIMENTS["toy"], tmp_path, quick=True, wanted=["b"], again=True)
    assert asked == ["a", "b", "b"]
    again = Store("toy", tmp_path)
    assert {unit.method: found["commit"] for unit, found in again} == {"a": "first", "b": "second"}
    assert (tmp_path / "toy.csv").read_text().count("p,b,,0,cpu") == 1
    assert not (tmp_path / "toy.new").exists()


def test_what_a_smaller_unit_says_of_a_larger_one(tmp_path):
    store = Store("one", tmp_path)
    small, large = Unit("p", "m", "n=1"), Unit("p", "m", "n=10")
    planned = Planned(large, small, growth=10.0)
    assert planned.obstacle(store, cap=100.0) == ""
    store.add(small, {"status": "done", "cpu": 9.0})
    assert planned.obstacle(store, cap=100.0) == ""
    assert planned.obstacle(store, cap=80.0) == "not run: p, m, n=1, #0 took 9 s"
    store.add(small, {"status": "over 80 s"})
    assert planned.obstacle(store, cap=1e9).startswith("not run: p, m, n=1, #0 was over")


def test_one_split_over_the_cap_is_enough(tmp_path):
    store = Store("ablation", tmp_path)
    first, second = Unit("naval", "EBM", replication=0), Unit("naval", "EBM", replication=1)
    planned = {one.unit: one for one in EXPERIMENTS["ablation"].plan(False)}
    store.add(first, {"status": "done", "cpu": 1000.0})
    assert planned[first].obstacle(store, cap=1.0) == planned[second].obstacle(store, cap=1.0) == ""
    store.add(first, {"status": "over 1200 s"})
    assert planned[second].obstacle(store, cap=1200.0) == "not run: naval, EBM, #0 was over 1200 s"


@pytest.mark.slow
def test_a_unit_apart():
    def slow():
        while True:
            sum(range(10_000))

    def missing():
        raise MissingPeerError("not here")

    def killed():
        signal.raise_signal(signal.SIGTERM)

    begun = time.perf_counter()
    assert apart(lambda: {"x": 1.0}) == {"status": "done", "x": 1.0}
    assert apart(slow, cap=1) == {"status": "over 1 s"}
    assert apart(missing) == {"status": "missing: not here"}
    assert apart(killed)["status"] == "failed: ended with exit code -15"
    assert time.perf_counter() - begun < 30


def test_memory_and_seconds_of_a_task():
    found = apart(lambda: taken(lambda: np.ones(20_000_000).sum())[1])
    assert 140 < found["megabytes"] < 200
    assert 0.0 < found["cpu"] <= found["seconds"] * 1.5 + 0.1


@pytest.mark.parametrize("features", ["uniform", "normal"])
def test_pure_surfaces_have_no_lower_parts(features):
    design = Design(4, features=features)
    truth = design.truth()
    assert len(truth) == 6
    for surface in truth.values():
        np.testing.assert_allclose(surface.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(surface.mean(axis=1), 0.0, atol=1e-12)
    rng = np.random.default_rng(0)
    shifted = {
        pair: s + rng.normal() + rng.normal(size=(len(s), 1)) + rng.normal(size=len(s)) for pair, s in truth.items()
    }
    assert max(design.errors(shifted).values()) < 1e-25
    assert design.errors({pair: 0 * s for pair, s in truth.items()})[0, 1] == pytest.approx(np.mean(truth[0, 1] ** 2))
    assert pure(truth[0, 1]) == pytest.approx(truth[0, 1])


def test_simulated_signal_and_noise():
    X, y, mean = Design(5).draw(50_000, 0)
    assert np.var(mean) / np.var(y - mean) == pytest.approx(0.5, rel=0.03)
    assert np.abs(X).max() < 1.0
    one = Design(2)
    assert one.mean(X[:, :2]).std() == pytest.approx(1.0, rel=0.02)


def test_surfaces_of_a_fit_are_found():
    design = Design(3, shapes="products", snr=20.0)
    X, y, _ = design.draw(3000, 1)
    errors = design.errors(own.surfaces_of(own.splines(X, y, n_basis=8, rank=5), design))
    assert max(errors.values()) < 0.02
    assert min(np.mean(s**2) for s in design.truth().values()) > 0.1


@WITHOUT_R
def test_surfaces_of_mgcv_are_found():
    design = Design(3, shapes="products", snr=20.0)
    X, y, _ = design.draw(1500, 1)
    surfaces, predicted, cost = estimation.by_mgcv(design, X, y, X[:7], "bam")
    assert max(design.errors(surfaces).values()) < 0.02
    assert predicted == pytest.approx(design.mean(X[:7]), abs=0.5)
    assert cost["megabytes"] > 1


@WITHOUT_R
def test_mgcv_takes_levels_and_exposures():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(size=400), "town": rng.choice(["a", "b"], 400), "same": 1.0})
    exposure = rng.uniform(0.5, 1.5, 400)
    y = rng.poisson(exposure * np.exp(1 + X.x + (X.town == "b"))).astype(float)
    new = pd.DataFrame({"x": [0.5, 0.5, 0.5], "town": ["a", "b", "never seen"], "same": 1.0})
    found = mgcv.additive(Task(Rows(X, y, exposure), new, "poisson")).mean
    assert found[:2] == pytest.approx(np.exp([1.5, 2.5]), rel=0.2)
    assert found[2] in found[:2]


@pytest.mark.parametrize("kind", [Linear(), Spline(n_basis=8)])
def test_boosting_in_cross_products_is_boosting(kind):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = np.sin(2 * X.a.to_numpy()) + 0.5 * X.b.to_numpy() + 0.1 * rng.normal(size=200)
    learners = boosting.Learners.learn(X, kind)
    Z = learners.design(X)
    blocks = np.split(Z, np.cumsum([of.size for of in learners.coordinates])[:-1], axis=1)
    fitted, path = np.full(200, y.mean()), learners.path(Z, y)
    for _ in range(40):
        tries = []
        for block, of in zip(blocks, learners.shrink, strict=True):
            penalty = np.diag(200 * (1.0 / of - 1.0))
            tries.append(block @ np.linalg.solve(block.T @ block + penalty, block.T @ (y - fitted)))
        best = min(tries, key=lambda one: np.sum((y - fitted - one) ** 2))
        fitted = fitted + boosting.STEP * best
        np.testing.assert_allclose(y.mean() + Z @ next(path), fitted, atol=1e-8)
    if isinstance(kind, Spline):
        for block, of in zip(blocks, learners.shrink, strict=True):  # the constant is the fourth
            assert np.trace(block @ np.diag(of / 200) @ block.T) == pytest.approx(boosting.DF - 1, abs=0.01)


def test_boosting_predicts():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=list("abc")).assign(same=1.0)
    y = np.sin(2 * X.a.to_numpy()) + 0.1 * rng.normal(size=400)
    task = Task(Rows(X[:300], y[:300]), X[300:])
    smooth = method(lambda task: boosting.boost(task, Spline(n_basis=20)))(task)
    straight = method(lambda task: boosting.boost(task, Linear()))(task)
    assert np.std(smooth.mean - y[300:]) < 0.2
    assert np.std(straight.mean - y[300:]) > 0.5
    assert set(smooth.cost) == {"seconds", "cpu", "megabytes", "predict_seconds"}


def test_the_recipe_gives_constant_columns_no_df():
    X = pd.DataFrame({"x": np.linspace(0.0, 1.0, 200), "same": 1.0, "few": np.arange(200.0) % 5})
    with pytest.warns(UserWarning, match="constant"):
        df = paper_recipe.reachable_df(X, Spline(n_basis=20))
    assert df["x"] == 15.0
    assert df["few"] < 5.0
    assert "same" not in df
    assert paper_recipe.reachable_df(X, Linear()) is None


def test_data_sets_are_split_as_ever(monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    train, test = DATA["diabetes"].split(3)
    assert (len(train.y), len(test.y)) == (397, 45)
    assert not set(train.X.index) & set(test.X.index)
    with pytest.raises(ValueError, match=r"yacht.csv is given: --data-dir"):
        DATA["yacht"].read()


def test_text_as_numbers_and_as_levels():
    train = pd.DataFrame({"month": ["mar", "jan", "dec"], "town": ["b", "a", "b"], "x": [1, 2, 3]})
    new = pd.DataFrame({"month": ["feb", "dec"], "town": ["c", "a"], "x": [4, 5]})
    assert numbers(new, train).to_numpy().tolist() == [[1.0, -1.0, 4.0], [11.0, 0.0, 5.0]]
    assert levels(new, train)["town"].isna().tolist() == [True, False]
    assert levels(new, train)["town"].cat.categories.tolist() == ["a", "b"]


def test_errors_by_family():
    y, mean = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.1, 0.8, 0.4, 0.5])
    rows = Rows(pd.DataFrame(index=range(4)), y, np.array([1.0, 2.0, 1.0, 1.0]))
    assert errors("gaussian", rows, mean)["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    assert errors("binomial", rows, mean)["auroc"] == 0.75
    rate, at = mean, y / rows.exposure
    unit = 2 * (np.where(at > 0, at * np.log(np.where(at > 0, at, 1) / rate), 0) - at + rate)
    assert errors("poisson", rows, mean)["deviance"] == pytest.approx(np.average(unit, weights=rows.exposure))


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_plans_name_every_unit_once(name):
    for quick in (True, False):
        units = [one.unit for one in EXPERIMENTS[name].plan(quick)]
        assert len(units) == len(set(units)) > 5
        known = set()
        for one in EXPERIMENTS[name].plan(quick):
            assert one.after is None or one.after in known
            known.add(one.unit)


def test_the_chain_runs_at_small_size():
    found = scalability.run(Unit("chain", "ahofm", "p=4 n=1500 order=2 rank=3"), None)
    assert found["prediction"] < 0.1 * found["variance"]


def test_surfaces_as_text():
    surface = pure(np.random.default_rng(0).normal(size=(6, 6)))
    np.testing.assert_allclose(estimation.unpacked(estimation.packed(surface)), surface, rtol=6e-3)


def test_exponents_are_recovered():
    sizes = pd.DataFrame([{"p": p, "n": n} for p in (2, 4, 8) for n in (10, 100)])
    sizes["cpu"] = 3.0 * sizes.p**1.5 * sizes.n**0.5
    assert simulated.slope(sizes, "p", ["n"], "cpu") == pytest.approx(1.5)
    assert simulated.slope(sizes, "n", ["p"], "cpu") == pytest.approx(0.5)


def test_tables_are_made_from_results(tmp_path):
    store = Store("ablation", tmp_path)
    rng = np.random.default_rng(0)
    for split in range(10):
        noise = 0.01 * rng.normal()
        for name, error in {"order 3": 1.0, "LightGBM": 2.0, "EBM": 0.5, "AFM": 1.0}.items():
            value = error + noise + 0.01 * rng.normal()
            found = {"status": "done", "rmse": value, "cpu": 1.0, "seconds": 2.0, "commit": "c513765"}
            store.add(Unit("yacht", name, replication=split), found)
    table = units("ablation", tmp_path)
    assert real.cell(table, "yacht", "LightGBM", "rmse").endswith("-")
    assert real.cell(table, "yacht", "EBM", "rmse").endswith("+")
    assert real.cell(table, "yacht", "AFM", "rmse")[-1] == ")"
    assert real.cell(table, "energy", "AFM", "rmse") == "–"
    found = tables(tmp_path)
    assert "| yacht | 1 | 1.53 (GAMBoost) | yes |" in found["verdict"].replace("0.999", "1").replace("1.00", "1")
    assert "yacht: ahofm, order 4 0 of 10" in found["missing"]
    page = "before\n<!-- table: missing -->\nold\n<!-- end -->\nbetween\n<!-- table: speed -->\nkept\n<!-- end -->\n"
    once = filled(page, found)
    assert "old" not in once
    assert "kept" in once
    assert filled(once, found) == once
