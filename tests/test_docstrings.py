"""Docstrings of public names: every parameter with a description, and what is returned, as numpydoc has it."""

import importlib
import inspect
import re

import pytest

MODULES = ["", ".estimators", ".explain", ".plot", ".report", ".scale", ".columns", ".families"]
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", flags=re.MULTILINE)


def sections(doc):
    """Texts by title; the part before all sections is ""."""
    parts = SECTION.split(inspect.cleandoc(doc or ""))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def documented(text):
    """Names of parameters in the order of a section; those without type and without description are listed apart."""
    names, bare = [], []
    entries = re.split(r"^(?=\S)", text.strip("\n"), flags=re.MULTILINE)
    for entry in filter(str.strip, entries):
        first, _, rest = entry.partition("\n")
        own, _, _ = first.partition(" : ")
        found = [name.strip().lstrip("*") for name in own.split(",")]
        names += found
        if not rest.strip():
            bare += found
    return names, bare


def public_objects():
    """Functions, classes and methods, each once, by their qualified name."""
    found = {}
    for module in MODULES:
        package = importlib.import_module("ahofm" + module)
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isfunction(value):
                found[f"{value.__module__}.{name}"] = (value, [value])
            elif inspect.isclass(value):
                found[f"{value.__module__}.{name}"] = (value, [value])
                found |= dict(methods(value))
    return found


def methods(cls):
    """Public methods that the package defines, with the docstrings that speak for them: a method that overrides another
    may leave the description of its parameters to that one.
    """
    own = [base for base in cls.__mro__ if base.__module__.startswith("ahofm")]
    for name in sorted({name for base in own for name in vars(base) if not name.startswith("_")}):
        value = getattr(cls, name, None)
        if inspect.isfunction(value) or inspect.ismethod(value):
            versions = [getattr(base, name) for base in own if name in vars(base)]
            yield f"{value.__module__}.{value.__qualname__}", (value, versions)


OBJECTS = public_objects()


def fits(value, doc, *, class_):
    """What is wrong with a docstring."""
    parts = sections(doc)
    said = documented(parts.get("Parameters", ""))
    if class_:
        more = documented(parts.get("Attributes", ""))
        said = (said[0] + more[0], said[1] + more[1])
    try:
        signature = inspect.signature(value)
    except ValueError:
        return []
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    wrong = []
    if set(names) - set(said[0]):
        wrong.append(f"not documented: {', '.join(name for name in names if name not in said[0])}")
    if not class_ and set(said[0]) - set(names):
        wrong.append(f"no parameters: {', '.join(sorted(set(said[0]) - set(names)))}")
    if not class_ and said[1]:
        wrong.append(f"without a description: {', '.join(said[1])}")
    returns = signature.return_annotation not in (None, "None", inspect.Signature.empty)
    if not class_ and returns and not {"Returns", "Yields"} & parts.keys():
        wrong.append("no Returns")
    return wrong


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_docstrings_describe_parameters_and_results(name):
    value, versions = OBJECTS[name]
    if inspect.isclass(value) and (issubclass(value, Exception) or _abstract(value)):
        assert value.__doc__
        return
    found = [fits(value, version.__doc__, class_=inspect.isclass(value)) for version in versions]
    assert [] in found, "; ".join(found[0])


def _abstract(cls):
    return getattr(cls, "_is_protocol", False) or inspect.isabstract(cls)


@pytest.mark.parametrize("name", sorted(name for name, (value, _) in OBJECTS.items() if inspect.isclass(value)))
def test_properties_have_docstrings(name):
    cls = OBJECTS[name][0]
    for key in dir(cls):
        if isinstance(inspect.getattr_static(cls, key), property) and not key.startswith("_"):
            assert inspect.getattr_static(cls, key).__doc__, key


def test_the_check_sees_what_is_missing():
    def own(a, b=1, **more) -> int:
        """Add.

        Parameters
        ----------
        a : int
            First.
        c : int
        """

    assert fits(own, own.__doc__, class_=False) == [
        "not documented: b, more",
        "no parameters: c",
        "without a description: c",
        "no Returns",
    ]


@pytest.mark.parametrize("name", ["AHOFMRegressor", "AHOFMClassifier"])
def test_numbers_in_docstrings_of_estimators_are_those_of_the_fits(name):
    text = " ".join(inspect.getdoc(getattr(importlib.import_module("ahofm"), name)).split())
    tuning, penalised, subsample = (
        importlib.import_module(f"ahofm.tuning{part}") for part in ("", ".penalised", ".subsample")
    )
    few, middle, many = tuning.RANKS
    expected = [
        f"over all rows at the highest order: {subsample.PASSES}.",
        f"a sample of {subsample.SAMPLE_ROWS:,} rows",
        f'beyond {subsample.SUBSAMPLE_ROWS:,} rows "subsample"',
        f"{tuning.LAST_SWEEPS}, or {tuning.LARGE_SAMPLE_LAST_SWEEPS} from {tuning.LARGE_SAMPLE_ROWS:,} rows on",
        f"alone {tuning.LEARNING_SWEEPS} or {tuning.LARGE_SAMPLE_LEARNING_SWEEPS} that estimate smoothing parameters",
        f'"auto" is {few[1]} for fewer than {few[0]:,} rows, {middle[1]} for fewer than {middle[0]:,} and {many[1]}',
        f"What is not given is {penalised.MAIN_DF:g} for main effects and {penalised.FACTOR_DF:g} for factors",
        f"tries up to {tuning.HIGHEST_ORDER}",
        f"{penalised.MAX_ITER:,} by default",
    ]
    assert [part for part in expected if part not in text] == []
