"""The command as people use it: files in, files out, one line when something is wrong."""

import io
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

pytest.importorskip("typer", reason="the command needs typer: pip install 'ahofm[cli]'")

import ahofm
from ahofm.cli.app import run
from ahofm.cli.demo import run_demo

pytestmark = pytest.mark.slow
FIT = ["--holdout", "0", "--order", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of every type, and a model."""
    path = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    n = 400
    table = pd.DataFrame(
        {"hour": rng.integers(0, 24, n), "wind": rng.normal(size=n).round(3), "town": rng.choice(["a", "b"], n)}
    )
    table["zone"] = rng.integers(1, 4, n)
    table["price"] = np.sin(table["hour"] / 4) * table["wind"] + (table["town"] == "a") + 0.1 * rng.normal(size=n)
    table["count"] = rng.poisson(np.exp(0.5 * table["wind"]))
    table["area"] = rng.uniform(0.5, 2.0, n)
    table["sold"] = np.where(table["price"] > 0.5, "yes", "no")
    table.loc[3, "wind"] = np.nan
    table.to_csv(path / "train.csv", index=False, na_rep="?")
    table.to_csv(path / "train.csv.gz", index=False, na_rep="?")
    table.to_parquet(path / "train.parquet")
    table.to_feather(path / "train.feather")
    assert run(["fit", *columns_of(path / "train.csv"), "--out", str(path / "model.ahofm"), *FIT]) == 0
    return path


def columns_of(path):
    return [str(path), "--target", "price", "--missing", "?", "--drop", "sold", "--drop", "count", "--drop", "area",
            "--categorical", "zone", "--cyclic", "hour=24"]  # fmt: skip


def told(capsys):
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_the_score_is_that_of_the_cross_validation(folder, tmp_path, capsys):
    given = ["fit", *columns_of(folder / "train.csv"), "--out", str(tmp_path / "m"), "--order", "1", "--fast"]
    assert run([*given, "--order", "2", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["cross-validated"]["rows"] == result["cross-validated"]["of"] == 400
    assert result["cross-validated"]["scores"]["R2"] > 0.9
    assert result["held out"] == {}
    assert ahofm.load(tmp_path / "m").model_.validated.rows == 400
    assert run([*given, "--order", "2"]) == 0
    said = told(capsys)
    assert "- Cross-validated on all 400 rows, each predicted by fits that had not seen it: R² 0.9" in said
    assert "- It has interactions of up to 2 columns: on rows that were not fitted they predict " in said


def test_without_cross_validation_a_second_fit_gives_the_score(folder, tmp_path, capsys):
    given = ["fit", *columns_of(folder / "train.csv"), "--out", str(tmp_path / "m"), "--order", "2", "--fast", "--json"]
    for more, held in (["--effort", "fast"], True), (["--effort", "fast", "--holdout", "0"], False):
        assert run([*given, *more]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["cross-validated"] is None
        assert bool(result["held out"]) == held


def test_the_best_model_so_far_is_saved_when_the_time_is_over(folder, tmp_path, capsys):
    given = ["fit", *columns_of(folder / "train.csv"), "--out", str(tmp_path / "m"), "--json", "--time-budget", "1e-9"]
    assert run(given) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ended"].startswith("ran out of time_budget")
    assert any("raise time_budget" in text for text in result["warnings"])
    assert ahofm.load(tmp_path / "m").model_.order == 1


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--time-budget", "0", "--time-budget must be a positive number of seconds, got 0"),
        ("--time-budget", "nan", "--time-budget must be a positive number of seconds, got nan"),
        ("--effort", "slow", "--effort must be one of fast, balanced, best, got slow"),
    ],
)
def test_bad_efforts(folder, capsys, option, value, said):
    assert run(["fit", *columns_of(folder / "train.csv"), option, value]) == 2
    assert said in " ".join(told(capsys).split())


@pytest.mark.slow
def test_groups_and_times_choose_the_validation_rows(folder, tmp_path, capsys):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(36), 12)
    table = pd.DataFrame({"a": groups // 6, "b": groups % 6, "site": [f"s{k}" for k in groups]})
    table["day"] = rng.permutation(len(table)) // 4
    table["y"] = 0.8 * rng.normal(size=36)[groups] + 0.1 * rng.normal(size=len(table))
    table.to_csv(tmp_path / "t.csv", index=False)
    found = {}
    for name, given in {"random": ["--drop", "site"], "group": ["--group", "site"]}.items():
        words = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--order", "2", "--drop", "day", "--fast", "--json"]
        assert run([*words, *given, "--out", str(tmp_path / "m"), "--holdout", "0.3"]) == 0
        found[name] = json.loads(capsys.readouterr().out)
    assert [column["column"] for column in found["group"]["columns"]] == ["a", "b"]
    assert found["random"]["cross-validated"]["scores"]["R2"] > 0.9
    assert found["group"]["cross-validated"]["scores"]["R2"] < 0.3
    assert found["group"]["held out"]["deviance explained"] < 0.3 < found["random"]["held out"]["deviance explained"]
    words = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--order", "1", "--fast", "--json", "--time", "day"]
    assert run([*words, "--order", "2", "--out", str(tmp_path / "m"), "--holdout", "0.3"]) == 0
    timed = json.loads(capsys.readouterr().out)
    assert 300 < timed["cross-validated"]["rows"] < 350  # three quarters: the first days have none before them
    assert "day" in [column["column"] for column in timed["columns"]]
    assert run([*words, "--group", "site", "--out", str(tmp_path / "m")]) == 2
    assert "--group and --time are two ways" in told(capsys)
    table.loc[2, "site"] = ""
    table.to_csv(tmp_path / "gap.csv", index=False)
    assert (
        run(["fit", str(tmp_path / "gap.csv"), "--target", "y", "--group", "site", "--out", str(tmp_path / "m")]) == 2
    )
    assert "column 'site' is missing in row 3" in told(capsys)


def test_censored_times(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.uniform(-1, 1, 400).round(2), "b": rng.normal(size=400).round(2)})
    lasted = np.exp(1 + table.a + 0.5 * rng.normal(size=400))
    table["days"], table["died"] = np.minimum(lasted, 4.0), (lasted <= 4.0).astype(int)
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", str(tmp_path / "t.csv"), "--target", "days", "--event", "died", "--out", str(tmp_path / "m")]
    assert run([*words, "--family", "log_normal", "--order", "1", "--holdout", "0.2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["family"] == "LogNormal"
    assert [column["column"] for column in found["columns"]] == ["a", "b"]
    assert found["held out"]["concordance"] > 0.7
    assert run([*words, "--family", "gaussian"]) == 2
    assert "--event is for --family weibull, log_normal or log_logistic, not for gaussian" in told(capsys)
    table.loc[2, "died"] = 3
    table.to_csv(tmp_path / "t.csv", index=False)
    assert run([*words, "--family", "weibull"]) == 2
    assert "got 3 in row 2" in told(capsys)


def test_every_type_of_file_gives_the_same_model(folder, tmp_path):
    first = ahofm.load(folder / "model.ahofm").model_
    assert [type(book.kind).__name__ for book in first.encoder.codebooks] == [
        "Cyclic",
        "SplineIID",
        "Categorical",
        "Categorical",
    ]
    X = pd.read_parquet(folder / "train.parquet")[["hour", "wind", "town", "zone"]].astype({"zone": str})
    for name in ("train.csv.gz", "train.parquet", "train.feather"):
        assert run(["fit", *columns_of(folder / name), "--out", str(tmp_path / "other.ahofm"), "--fast", *FIT]) == 0
        assert np.allclose(ahofm.load(tmp_path / "other.ahofm").predict(X), first.predict(X))


def test_a_dry_run_only_says_what_it_would_cost(folder, tmp_path, capsys):
    given = [
        "fit",
        *columns_of(folder / "train.csv"),
        "--out",
        str(tmp_path / "no.ahofm"),
        "--dry-run",
        "--device",
        "cpu",
    ]
    assert run(given) == 0
    said = told(capsys)
    assert "400 rows, 4 columns" in said
    assert "time: about" in said
    assert "MB on top" in said
    assert "as long again" not in said  # the score is that of the fit's own cross-validation
    assert run([*given, "--holdout", "0.1"]) == 0
    assert "as long again" in told(capsys)
    assert run([*given, "--json"]) == 0
    assert json.loads(told(capsys))["seconds"] > 0.0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather"])
def test_predictions_in_every_type_of_file(folder, tmp_path, ending, monkeypatch):
    monkeypatch.setattr("ahofm.cli.predicting.ROWS", 150)
    target = tmp_path / f"out.{ending}"
    options = ["--keep", "town", "--interval", "0.9", "--shapley", "--missing", "?"]
    source = folder / ("train.csv" if ending == "csv" else "train.parquet")
    assert run(["predict", str(folder / "model.ahofm"), str(source), "--out", str(target), *options]) == 0
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "feather": pd.read_feather}[ending]
    found = read(target)
    table = pd.read_parquet(folder / "train.parquet")
    model = ahofm.load(folder / "model.ahofm").model_
    assert np.allclose(
        found["prediction"], model.predict(table[["hour", "wind", "town", "zone"]].astype({"zone": str}))
    )
    assert (found.iloc[:, 0] == table["town"]).all()
    assert ((found["low"] <= found["prediction"]) & (found["prediction"] <= found["high"])).all()
    parts = found[[f"shapley {name}" for name in ("base", "hour", "wind", "town", "zone")]]
    assert np.allclose(parts.sum(axis=1), found["prediction"])
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_predictions_on_the_screen_with_every_term(folder, capfdbinary):
    assert (
        run(["predict", str(folder / "model.ahofm"), str(folder / "train.csv"), "--contributions", "--missing", "?"])
        == 0
    )
    head = capfdbinary.readouterr().out.decode().splitlines()[0]
    assert head.replace('"', "").startswith("prediction,term intercept,term hour,")


@pytest.mark.slow
def test_counts_with_exposures(folder, tmp_path, capsys):
    model = str(tmp_path / "m.ahofm")
    options = [
        "--family",
        "poisson",
        "--exposure",
        "area",
        "--missing",
        "?",
        "--drop",
        "sold",
        "--drop",
        "price",
        "--fast",
    ]
    assert run(["fit", str(folder / "train.csv"), "--target", "count", "--out", model, *FIT, *options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"] == "Poisson"
    out = str(tmp_path / "p.csv")
    assert run(["predict", model, str(folder / "train.csv"), "--out", out, "--exposure", "area", "--missing", "?"]) == 0
    table = pd.read_csv(folder / "train.csv", na_values="?")
    expected = ahofm.load(model).predict(table[["hour", "wind", "town", "zone"]], np.log(table["area"]))
    assert np.allclose(pd.read_csv(out)["prediction"], expected)


@pytest.mark.filterwarnings("ignore::ahofm.inference.dispersion.DispersionWarning")
def test_overdispersed_counts_have_a_family_of_their_own(tmp_path, capsys):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.uniform(-1, 1, (300, 2)), columns=["wind", "rain"])
    table["count"] = rng.negative_binomial(1.0, 1.0 / (1.0 + 8.0 * np.exp(table["wind"])))
    table.to_csv(tmp_path / "t.csv", index=False)
    widths = {}
    for family in ("poisson", "quasi_poisson"):
        model, out = str(tmp_path / "m.ahofm"), str(tmp_path / "p.csv")
        options = ["--target", "count", "--family", family, "--order", "1", "--holdout", "0"]
        assert run(["fit", str(tmp_path / "t.csv"), "--out", model, *options]) == 0
        assert ("family='quasi_poisson'" in told(capsys)) == (family == "poisson")
        interval = ["--interval", "0.95", "--kind", "new"]
        assert run(["predict", model, str(tmp_path / "t.csv"), "--out", out, *interval]) == 0
        found = pd.read_csv(out)
        widths[family] = float((found["high"] - found["low"]).mean())
    assert widths["quasi_poisson"] > 1.5 * widths["poisson"]


def test_classes_with_a_score(folder, tmp_path, capsys):
    model = str(tmp_path / "m.ahofm")
    options = [
        "--target",
        "sold",
        "--drop",
        "price",
        "--drop",
        "count",
        "--drop",
        "area",
        "--missing",
        "?",
        "--order",
        "1",
    ]
    assert run(["fit", str(folder / "train.csv"), "--out", model, "--report", str(tmp_path / "r.html"), *options]) == 0
    text = told(capsys)
    assert "AUROC" in text
    assert "What each column became" in text
    assert (tmp_path / "r.html").stat().st_size > 10_000
    out = tmp_path / "p.csv"
    assert run(["predict", model, str(folder / "train.csv"), "--out", str(out), "--missing", "?"]) == 0
    assert list(pd.read_csv(out).columns) == ["prediction", "probability no", "probability yes"]
    intervals = ["predict", model, str(folder / "train.csv"), "--out", str(out), "--missing", "?", "--interval", "0.9"]
    assert run(intervals) == 0
    found = pd.read_csv(out)
    fitted = ahofm.load(model)
    for k, label in enumerate(fitted.classes_):
        assert (found[f"low {label}"] < found[f"probability {label}"]).all(), k
        assert (found[f"probability {label}"] < found[f"high {label}"]).all(), k
    assert run([*intervals, "--kind", "new"]) == 2
    assert "a label has no interval; leave --kind out" in capsys.readouterr().err


def test_explain_report_and_info(folder, tmp_path, capsys):
    model = str(folder / "model.ahofm")
    assert run(["explain", model]) == 0
    assert run(["explain", model, "--json"]) == 0
    assert run(["explain", model, "--effect", "hour,wind", "--out", str(tmp_path / "e.parquet")]) == 0
    assert {"hour", "wind", "value", "low", "all_high"} <= set(pd.read_parquet(tmp_path / "e.parquet").columns)
    assert run(["report", model, "--out", str(tmp_path / "r.html"), "--target", "price"]) == 0
    assert "What the model says about" in (tmp_path / "r.html").read_text()
    assert run(["info", model]) == 0
    assert "cyclic" in told(capsys)
    assert run(["info", model, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["order"] == 2
    assert list(said["ranks"]) == ["2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "{d}/nowhere.csv", "--target", "price"], "nowhere.csv: no such file"),
        (["fit", "{d}/model.ahofm", "--target", "price"], "unknown type of file; use .csv"),
        (["fit", "{d}/train.csv", "--target", "cost"], "no column 'cost' (--target); there are hour, wind, town"),
        (["fit", "{d}/train.csv", "--target", "price"], "column 'wind' is numbers but for '?' in row 4"),
        (["fit", "{d}/train.csv", "--target", "wind", "--missing", "?"], "the target 'wind' is missing in row 4"),
        (
            ["fit", "{d}/train.csv", "--target", "price", "--missing", "?", "--family", "normal"],
            "--family normal is unknown",
        ),
        (["fit", "{d}/train.csv", "--target", "sold", "--missing", "?", "--family", "gamma"], "the target is text"),
        (
            ["fit", "{d}/train.csv", "--target", "price", "--missing", "?", "--order", "three"],
            "--order must be a whole number",
        ),
        (["fit", "{d}/train.csv", "--target", "price", "--missing", "?", "--cyclic", "hour"], "NAME=PERIOD"),
        (["fit", "{d}/train.csv", "--target", "price", "--missing", "?", "--exposure", "wind"], "not positive"),
        (
            ["fit", "{d}/train.csv", "--target", "price", "--missing", "?", "--drop", "zone", "--categorical", "zone"],
            "--categorical zone: the column does not predict",
        ),
        (["fit", "{d}/train.csv", "--target", "price", "--out", "{d}/no/m.ahofm"], "--out: cannot write"),
        (["fit", "{d}/train.csv", "--target", "price", "--holdout", "2"], "--holdout must be at least 0"),
        (["fit", "{d}/train.csv", "--target", "price", "--device", "cuda"], "no CUDA backend is installed"),
        (["fit", "{d}/train.csv", "--target", "price", "--device", "gpu"], "device must be 'auto', 'cpu', 'cuda'"),
        (["fit", "{d}/train.csv"], "Missing option '--target'"),
        (["fit", "{d}/train.csv", "--target", "price", "--out-of-core", "--exposure", "area"], "give them as --offset"),
        (["fit", "{d}/train.csv", "--target", "cost", "--out-of-core"], "no column 'cost'; there are 'hour', 'wind'"),
        (["predict", "{d}/train.csv", "{d}/train.csv"], "no safetensors file"),
        (["predict", "{d}/model.ahofm", "{d}/short.csv"], "lacks the column(s) 'wind', 'town'"),
        (["predict", "{d}/model.ahofm", "{d}/odd.csv"], "if 'calm' means missing, name it as such (--missing"),
        (["predict", "{d}/model.ahofm", "{d}/train.csv", "--interval", "95"], "--interval must lie between 0 and 1"),
        (["predict", "{d}/model.ahofm", "{d}/train.csv", "--kind", "old"], "--kind must be mean or new"),
        (["predict", "{d}/model.ahofm", "{d}/train.csv", "--shapley", "--contributions"], "give one of them"),
        (["explain", "{d}/model.ahofm", "--effect", "hours"], "did you mean 'hour'?"),
        (["explode"], "No such command 'explode'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, capsys, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"hour": [1], "zone": [2]}).to_csv(folder / "short.csv", index=False)
    odd = {"hour": [1], "wind": ["calm"], "town": ["a"], "zone": [1]}
    pd.DataFrame(odd).to_csv(folder / "odd.csv", index=False)
    assert run([word.format(d=folder) for word in words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_out_of_core(folder, tmp_path, capsys):
    """The same model from a store; classes are told from the target; the store stays where it was asked for."""
    options = ["--order", "1", "--out-of-core", "--fast"]
    assert run(["fit", *columns_of(folder / "train.csv"), "--out", str(tmp_path / "m.ahofm"), *options]) == 0
    assert run(["fit", *columns_of(folder / "train.csv"), "--out", str(tmp_path / "n.ahofm"), *options[:2], "--fast",
                "--holdout", "0"]) == 0  # fmt: skip
    out = [str(tmp_path / f"{name}.csv") for name in "mn"]
    for name, path in zip("mn", out, strict=True):
        model = str(tmp_path / f"{name}.ahofm")
        assert run(["predict", model, str(folder / "train.csv"), "--missing", "?", "--out", path]) == 0
    assert np.allclose(pd.read_csv(out[0]), pd.read_csv(out[1]))
    words = ["--target", "sold", "--drop", "price", "--drop", "count", "--drop", "area", "--store", str(tmp_path / "s")]
    assert (
        run(["fit", str(folder / "train.parquet"), *words, *options, "--out", str(tmp_path / "c.ahofm"), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["rows"] == 400
    assert ahofm.load(tmp_path / "c.ahofm").classes_.tolist() == ["no", "yes"]
    assert (tmp_path / "s" / "manifest.json").is_file()


def test_debug_shows_where(folder, capsys):
    assert run(["fit", str(folder / "nowhere.csv"), "--target", "price", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_nothing_is_left_half_written(folder, tmp_path, capsys):
    """The second piece has a word where numbers were."""
    table = pd.read_csv(folder / "train.csv", na_values="?")
    rows = pd.concat([table] * 400)  # more than one block of the reader
    rows.to_csv(tmp_path / "bad.csv", index=False)
    with (tmp_path / "bad.csv").open("a") as file:
        file.write("1,calm,a,1,0,0,1,no\n")
    (tmp_path / "out.csv").write_text("before")
    assert (
        run(["predict", str(folder / "model.ahofm"), str(tmp_path / "bad.csv"), "--out", str(tmp_path / "out.csv")])
        == 2
    )
    assert "invalid value 'calm'" in capsys.readouterr().err
    assert (tmp_path / "out.csv").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "out.csv"]


@pytest.mark.slow
def test_the_demo_recovers_its_truth(tmp_path):
    log = io.StringIO()
    run_demo(tmp_path / "demo", Console(width=120, file=log))
    found = dict(re.findall(r"(temperature x \S+(?: x \S+)?)\s+│\s+([\d.]+)", log.getvalue()))
    assert float(found["temperature x hour"]) == pytest.approx(0.71, abs=0.05)
    assert float(found["temperature x area x town"]) == pytest.approx(0.3, abs=0.05)
    assert {"report.html", "model.ahofm"} <= {path.name for path in (tmp_path / "demo").iterdir()}


@pytest.mark.slow
def test_the_command_is_installed():
    words = [
        sys.executable,
        "-c",
        "import sys; from ahofm.cli import main; sys.argv=['ahofm', '--help']; sys.exit(main())",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "predict" in done.stdout


def test_importing_the_package_is_light():
    heavy = ("matplotlib", "typer", "dask", "plotly")
    program = f"import sys, ahofm; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_constraints_of_a_fit(tmp_path, capsys):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(120, 3)).round(2), columns=["a", "b", "c"])
    table.assign(y=table.a * table.b + table.c).to_csv(tmp_path / "train.csv", index=False)
    given = ["fit", str(tmp_path / "train.csv"), "--target", "y", "--out", str(tmp_path / "m.ahofm"), "--fast"]
    given += ["--holdout", "0", "--effort", "fast"]
    options = ["--exclude", "a,b", "--exclude", "c", "--monotonic-cst", "c=1"]
    assert run([*given, *options]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "allowed interactions: none (given; others are zero)" in said
    assert "monotonic_cst: c increasing" in said
    assert run([*given, "--interaction-cst", "pairwise"]) == 0
    assert run([*given, "--interaction-cst", "a,b", "--interaction-cst", "b,c"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--monotonic-cst", "a"], "--monotonic-cst takes NAME=1"),
        (["--monotonic-cst", "a=up"], "--monotonic-cst takes NAME=1"),
        (["--monotonic-cst", "a=1", "--monotonic-cst", "a=-1"], "names a column twice"),
        (["--exclude", "a,,b"], "--exclude takes names of columns as A,B"),
        (["--exclude", "z"], "exclude names column 'z'"),
        (["--interaction-cst", "pairwise", "--interaction-cst", "a,b"], "stands alone"),
    ],
)
def test_bad_constraints_of_a_fit(tmp_path, capsys, options, message):
    pd.DataFrame({"a": range(30), "b": [1, 2] * 15, "y": range(30)}).to_csv(tmp_path / "t.csv", index=False)
    assert run(["fit", str(tmp_path / "t.csv"), "--target", "y", "--out", str(tmp_path / "m"), *options]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_report_of_rows_that_were_not_fitted(folder, tmp_path, capsys):
    table = pd.read_parquet(folder / "train.parquet")[:80]
    table.to_csv(tmp_path / "new.csv", index=False, na_rep="?")
    path, model = tmp_path / "r.json", str(folder / "model.ahofm")
    given = ["report", model, "--rows", str(tmp_path / "new.csv"), "--out", str(path)]
    assert run([*given, "--target", "price"]) == 0
    found = json.loads(path.read_text())
    assert found["held_out"]["rows"] == found["diagnostics"]["rows"] == 80
    fitted = ahofm.load(folder / "model.ahofm")
    X = table[["hour", "wind", "town"]].assign(zone=table["zone"].astype(str))
    assert found["held_out"]["scores"]["deviance explained"] == pytest.approx(fitted.score(X, table["price"]))
    assert run([*given, "--target", "prices"]) == 2
    assert "no column 'prices' (--target)" in told(capsys)
    table.drop(columns="town").to_csv(tmp_path / "new.csv", index=False, na_rep="?")
    assert run([*given, "--target", "price"]) == 2
    assert "lacks the column(s) 'town'" in told(capsys)
