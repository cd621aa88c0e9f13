"""Constants that compiled code has are those of ``ahofm.tuning``, and it has no others that determine a fit."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import ahofm.tuning
from ahofm import _native
from ahofm.kernels import MAX_STATE_ORDER
from ahofm.orders import PRODUCT

NATIVE = Path(__file__).parents[2] / "src" / "native"
MODULES = ["ahofm.tuning", *(f"ahofm.tuning.{module.name}" for module in pkgutil.iter_modules(ahofm.tuning.__path__))]

OF_MACHINES = {"kLargestExponent"}
"""Floating-point constants of the machine's numbers, not of fits."""


def values_of(name):
    """Values of a constant in the modules of ``ahofm.tuning`` that define it."""
    return [vars(module)[name] for module in map(importlib.import_module, MODULES) if name in vars(module)]


@pytest.mark.parametrize("name", _native.CONSTANTS)
def test_a_constant_is_the_same_in_both_languages(name):
    native = _native.CONSTANTS[name]
    (value,) = values_of(name)
    assert native == (list(value) if isinstance(native, list) else float(value))


def test_product_factors_and_orders_have_one_number():
    assert _native.PRODUCT == PRODUCT
    assert MAX_STATE_ORDER >= ahofm.tuning.HIGHEST_ORDER


def test_all_floating_point_constants_of_compiled_code_are_compared():
    sources = {path.name: path.read_text() for pattern in ("*.h", "*.cpp") for path in NATIVE.glob(pattern)}
    defined = {
        name
        for file, text in sources.items()
        if file != "tuning.h"
        for line in re.findall(r"constexpr double ([^;]*);", text)
        for name in re.findall(r"(k[A-Z]\w*)(?:\[\])? =", line)
    }
    assert defined == OF_MACHINES
    listed = re.findall(r"X\(([A-Z_]+),", sources["tuning.h"])
    arrays = re.findall(r"constexpr double (\w+)\[\]", sources["tuning.h"])
    assert sorted([*listed, *arrays]) == sorted(_native.CONSTANTS)
