"""Words that were retired stay out of public signatures, of docstrings of public names and of the documentation."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import ahofm

ROOT = Path(__file__).parents[1]
PACKAGES = ("columns", "estimators", "explain", "families", "fit", "inference", "model", "plot", "report", "rows")
PACKAGES += ("export", "scale", "backends", "cost", "kernels", "priors", "shared_curves", "training")
MODULES = ["ahofm", *(f"ahofm.{name}" for name in PACKAGES)]

# What is said now is in docs/glossary.md.
RETIRED = {
    r"strengths?": "smoothing parameter",
    r"(?<!random )(?<!random-)walks?": "random walk",
    r"mixed (?:effects?|priors?|fits?|ones|factors|pairs)": "spline_iid",
    r"(?<!linear )(?<!linear-)predictors?": "linear predictor, or column",
    r"parabolas?": "quadratic approximation, working response",
    r"bears? out|borne(?: out)?": "sufficient decrease",
    r"recipes?": "candidate fit",
    r"beliefs?|believed": "posterior",
    r"set(?:s|ting)? (?:[a-z]+ ){0,2}aside": "validation rows",
    r"known rows": "raw sample",
    r"(?<!degrees of )freedom": "effective degrees of freedom",
}
RETIRED_NAMES = ("touch", "pull", "pulls", "put_in", "take_out", "set_work", "removed_", "n_predictors", "predictor")
RETIRED_NAMES += ("predictors", "strength", "strengths", "freedom", "spread", "belief", "recipe", "careful")

# Also of local variables and files.
RETIRED_IN_SOURCE = ("touch", "pull", "put_in", "take_out", "set_work", "strength", "strengths", "freedom", "spread")
RETIRED_IN_SOURCE += (
    "spreads",
    "belief",
    "beliefs",
    "recipe",
    "recipes",
    "careful",
    "borne",
    "parabolas",
    "asked",
    "work",
)
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# Names that say nothing of what they hold, retired where fits are made, and in models and their inference.
EMPTY_NAMES = ("own", "plain", "along", "rough", "free", "joint", "precise", "coupling")
FITTING = ("backends", "fit", "inference", "kernels", "model", "priors", "shared_curves", "training", "tuning")
FITTING_SOURCES = [path for path in SOURCES if path.relative_to(ROOT / "src" / "ahofm").parts[0] in FITTING]
EMPTY_CONSTANTS = re.compile(r"^(FEW|MANY)_|_OF_(FEW|MANY)$|^TOLD_|_APART$")

# Words with one meaning each in names: that of the glossary, or of the argument that is named here.
MEANINGS = {
    "share": ("variance", {"Factors", "Summary", "TopInteractions", "variance_shares", "SharesDisplay"}),
    "level": (
        "confidence or quantile",
        {
            "Effect",
            "effect",
            "difference",
            "derivative",
            "predict_interval",
            "Band.reach",
            "ErrorQuantiles",
            "Quantile",
        },
    ),
    "spread": ("none", set()),
    "freedom": ("degrees of freedom", {"degrees_of_freedom"}),
}

RETIRED_VALUES = re.compile(
    r"(?:interactions|factor_prior|solver)=([\"'])(?:smooth|walk|mixed|block|newton)\1|\"(?:walk|mixed|block|newton)\""
)
WORDS = re.compile("|".join(rf"(?P<w{k}>\b(?:{word})\b)" for k, word in enumerate(RETIRED)), re.IGNORECASE)

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def found_in(text):
    """Retired words of a text, with what to say instead."""
    text = re.sub(r"\bPredictor\b|\bpredictor\.py\b|`predictor`", "", text)  # the class of linear predictors
    text = re.sub(r"\s+", " ", re.sub(r"`[^`\n]*(?:paper_recipe|paper-recipe)[^`\n]*`|bench-paper-recipe", "", text))
    hits = [(match.group(), list(RETIRED.values())[int(match.lastgroup[1:])]) for match in WORDS.finditer(text)]
    return hits + [(match.group(), "the new value") for match in RETIRED_VALUES.finditer(text)]


def public():
    """Classes and functions that packages export, and the public methods of these classes."""
    seen = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            seen[f"{module.__name__}.{name}"] = thing
            if inspect.isclass(thing):
                bases = [base for base in reversed(thing.__mro__) if base.__module__.startswith("ahofm")]
                own = {key: value for base in bases for key, value in vars(base).items() if not key.startswith("_")}
                seen |= {f"{module.__name__}.{name}.{key}": value for key, value in own.items()}
    return seen


PUBLIC = public()


def names_of(module):
    """Public names of a module, and of its classes; submodules have tests of their own."""
    deeper = [f"{other}." for other in MODULES if other.startswith(f"{module}.")]
    return [
        name for name in PUBLIC if name.startswith(f"{module}.") and not any(name.startswith(other) for other in deeper)
    ]


def test_every_public_name_belongs_to_a_module():
    assert sum(len(names_of(module)) for module in MODULES) == len(PUBLIC)


@pytest.mark.parametrize("module", MODULES)
def test_docstrings_of_public_names(module):
    found = {name: found_in(inspect.getdoc(PUBLIC[name]) or "") for name in names_of(module)}
    assert {name: words for name, words in found.items() if words} == {}


def names_in(name):
    """The last part of a public name, and the parameters of what it names."""
    thing = PUBLIC[name]
    thing = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", thing)
    names = {name.rsplit(".", 1)[-1]}
    exception = inspect.isclass(thing) and issubclass(thing, BaseException)
    if (inspect.isfunction(thing) or inspect.isclass(thing)) and not exception:
        names |= set(inspect.signature(thing).parameters)
    return names


@pytest.mark.parametrize("module", MODULES)
def test_public_signatures(module):
    found = {name: names_in(name) & set(RETIRED_NAMES) for name in names_of(module)}
    assert {name: retired for name, retired in found.items() if retired} == {}


@pytest.mark.parametrize("module", MODULES)
def test_words_with_one_meaning(module):
    for name in names_of(module):
        words = {word for own in names_in(name) for word in own.lower().split("_")}
        for word, (meaning, allowed) in MEANINGS.items():
            if {word, f"{word}s"} & words:
                parts = name.split(".")
                ends = ((start, stop) for start in range(len(parts)) for stop in range(start + 1, len(parts) + 1))
                known = {".".join(parts[start:stop]) for start, stop in ends}
                assert known & allowed, f"{name}: {word} means {meaning}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages(page):
    assert found_in(page.read_text()) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"factor_prior": "walk"}, "factor_prior='walk' is now 'random_walk'"),
        ({"factor_prior": "mixed"}, "factor_prior='mixed' is now 'spline_iid'"),
        ({"factor_prior": "smooth"}, "factor_prior='smooth' is now 'spline'"),
        ({"solver": "block"}, "solver='block' is now 'variational'"),
        ({"solver": "newton"}, "solver='newton' is now 'subsample'"),
    ],
)
def test_retired_values_name_the_new_ones(settings, message):
    with pytest.raises(ValueError, match=message):
        ahofm.AHOFMRegressor(**settings).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])


def identifiers(path):
    """All names of a module: variables, arguments, attributes, functions and classes."""
    for node in ast.walk(ast.parse(path.read_text())):
        for field in ("id", "attr", "arg", "name"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name.strip("_"), node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_retired_words_name_nothing_in_the_source(path):
    """Local variables too."""
    for name, node in identifiers(path):
        assert name not in RETIRED_IN_SOURCE, f"{path}, line {node.lineno}: {name}"
    assert path.stem not in RETIRED_IN_SOURCE


@pytest.mark.parametrize("path", FITTING_SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_names_in_fits_say_what_they_hold(path):
    for name, node in identifiers(path):
        assert name not in EMPTY_NAMES, f"{path}, line {node.lineno}: {name}"
        assert not EMPTY_CONSTANTS.search(name), f"{path}, line {node.lineno}: {name}"
