"""What is kept of a golden fit, and how far two of them are apart.

Only what users can see is kept, so that a restructuring leaves this file alone: predictions, their parts of every
order, the tensors of the model's file (coefficients among them), and what the fit says of itself. A factor's weight may
lie in its loading or in its functions: coefficients are kept as they are with loadings of one.
"""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import safetensors.numpy

from ahofm.explain import contributions, summary
from ahofm.model.archive import separate
from ahofm.model.packed_arrays import unpack
from ahofm.model.stored_once import equal_tensors, restore
from ahofm.orders import FACTORS, MAIN

FITS_FILE = Path(__file__).with_name("fits.npz")

TOLERANCE = {"eta": 1e-6, "mean": 1e-6, "parts": 1e-6, "below": 1e-6, "noise": 1e-6, "family": 1e-6, "std": 1e-6}
TOLERANCE |= {"edf": 1e-6, "model": 1e-5, "smoothing_parameters": 1e-5, "gains": 1e-5, "choices": 0.011}
"""Largest distance from what is stored.

Rounding differs between platforms, and a fit takes thousands of steps. On one x86-64 machine, with OpenBLAS kernels for
SkylakeX, Haswell and Prescott, both instruction sets of the compiled code, and NumPy with and without AVX, what users
see of a fit moved by at most 5e-10, coefficients by 5e-8 (flat directions), smoothing parameters by 1e-7 and gains by
2e-7 (differences of errors); most moved by less than 1e-11. One thread or two made no difference at all. Choices are
percentages without decimals. Nothing here was close enough to a tie for a search to choose otherwise; on a platform
where one does, the distance is infinite and the fit needs other rows.
"""

LOOSER = {"multinomial, given smoothing parameters": 1e-5, "two pieces": 2e-5, "default, rare events": 5e-5}
"""For every array of these. Solvers with given smoothing parameters stop by a tolerance, not at the optimum, and what
lies between is amplified rounding: 8e-8 and 2e-7 were seen. The multinomial one ends after 30 iterations: on the way to
its tolerance rounding grows to 1e-3."""

MOST_NUMBERS = 3_000
"""Of coefficients that are kept one by one; of larger models the norm of each of their arrays."""


def recorded(fit):
    """Arrays by name.

    eta : (rows, predictors); mean: the family's, (rows,) or (rows, classes)
    parts : (rows, predictors, orders), the sum of all terms of each order
    below : (rows, predictors, orders below the highest), where they were kept: the fits that came on the way
    model : (numbers,), coefficients of all predictors, or norms of them
    smoothing_parameters : (orders, columns)
    noise : (2,), dispersion and Pearson's statistic, NaN where there is none; family : its settings
    gains : (comparisons, 3), what validation rows said of orders, its error and the number of these rows
    choices : text, see :func:`shares`
    std : (rows, predictors), and edf : (orders, columns), where the fit asks for them
    """
    estimator, X, offset = fit.fitted()
    model = estimator.model_
    found = {"eta": model.eta(X, offset), "mean": model.mean(X, offset)}
    found["parts"] = np.stack([_parts(model, X, k) for k in range(found["eta"].shape[1])], axis=1)
    below = [model.at_order(order).eta(X, offset) for order in range(1, model.order) if model.lower]
    found["below"] = np.stack(below, axis=-1) if below else np.zeros(0)
    plain = tuple(predictor.unloaded() or predictor for predictor in model.linear_predictors)
    tensors = _tensors(replace(model, linear_predictors=plain))
    of_model = {name: array for name, array in tensors.items() if name.startswith("model.linear_predictors.")}
    coef = {name: array for name, array in of_model.items() if ".loadings." not in name}
    whole = sum(array.size for array in coef.values()) <= MOST_NUMBERS
    found["model"] = np.concatenate([array.ravel() if whole else _norm(array) for _, array in sorted(coef.items())])
    smoothing_parameters = sorted(name for name in tensors if name.startswith("model.smoothing_parameters."))
    found["smoothing_parameters"] = np.stack([tensors[name] for name in smoothing_parameters])
    noise = (model.dispersion, model.pearson_dispersion)
    found["noise"] = np.array([np.nan if value is None else value for value in noise])
    settings = [value for value in vars(model.family).values() if isinstance(value, (int, float))]
    found["family"] = np.array(settings, dtype=float)
    found["gains"] = np.array([[gain.gain, gain.error, gain.rows] for gain in summary(estimator).gains]).reshape(-1, 3)
    found["choices"] = np.array([choice.value for choice in model.choices], dtype=str)
    if fit.band:
        std = estimator.predict_eta(X, offset, return_std=True)[1]
        found |= {"std": std, "edf": np.stack(list(estimator.edf_.values()))}
    return found


def _parts(model, X, predictor):
    """Sums of the terms of each order: (rows, orders)."""
    label = model.classes[predictor] if model.classes is not None and model.family.n_eta > 1 else predictor
    terms = contributions(model, X, linear_predictor=label)
    sizes = np.array([len(term) for term in terms.terms])
    return np.stack([terms.values[:, sizes == order].sum(axis=1) for order in range(1, model.order + 1)], axis=1)


def _tensors(model):
    """Arrays of the model's file, by their places in the model; factors that classes share for the first one only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        content, found = separate("", safetensors.numpy.load(path.read_bytes()))
    found = unpack(found, equal_tensors(content))
    restore(content, found, np.inf)
    first = {j: found[f"model.linear_predictors.0.coef.{j}"] for j in range(len(model.encoder.codebooks))}
    for k, j in np.ndindex(len(model.linear_predictors), len(first)):
        own, shared = found[name := f"model.linear_predictors.{k}.coef.{j}"], first[j]
        if k and own.shape == shared.shape and own.shape[1] > 1 and np.array_equal(own[:, FACTORS], shared[:, FACTORS]):
            found[name] = own[:, MAIN]
    return found


def _norm(array):
    return np.array([np.sqrt(np.sum(array**2))])


def shares(choices):
    """Percentages in what a fit has chosen, e.g. "55% spline_iid at order 3, 45% constant", by what they count."""
    parts = [part for choice in choices for part in str(choice).split(", ")]
    split = [re.fullmatch(r"(?:(\d+)% )?(.*)", part) for part in parts]
    return {found[2]: float(found[1] or 0.0) for found in split}


def distance(new, old):
    """The largest difference of two arrays, as a share of the largest number in the old one; infinite for other shapes.

    Of choices it is in percentage points over 100, and infinite where others were chosen.
    """
    if new.dtype.kind == "U":
        ours, theirs = shares(new), shares(old)
        same = ours.keys() == theirs.keys()
        return max((abs(ours[key] - theirs[key]) / 100.0 for key in ours), default=0.0) if same else np.inf
    if new.shape != old.shape or not np.array_equal(np.isnan(new), np.isnan(old)):
        return np.inf
    gap, scale = np.nan_to_num(np.abs(new - old)), np.nan_to_num(np.abs(old))
    return float(gap.max(initial=0.0) / max(scale.max(initial=0.0), 1e-300))


def tolerance(name, array):
    """Of one array of one fit."""
    return max(TOLERANCE[array], LOOSER.get(name, 0.0))


def stored():
    """Arrays of all golden fits, by the fit's name and their own; empty where there is no file."""
    found = {}
    if FITS_FILE.exists():
        with np.load(FITS_FILE) as file:
            for key in file.files:
                name, array = key.rsplit("/", 1)
                found.setdefault(name, {})[array] = file[key]
    return found


def store(fits):
    """Write them."""
    arrays = {f"{name}/{array}": values for name, fit in fits.items() for array, values in fit.items()}
    np.savez_compressed(FITS_FILE, **arrays)
