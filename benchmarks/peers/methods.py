"""All methods by their names."""

from __future__ import annotations

from functools import partial

from ahofm import Linear, Spline
from benchmarks.peers import boosting, mgcv, own, simple, smooth, trees
from benchmarks.peers.task import Method, method

PAPERS: dict[str, Method] = {
    "GLMBoost": method(partial(boosting.boost, kind=Linear())),
    "GAM": mgcv.additive,
    "GAMBoost": method(partial(boosting.boost, kind=Spline(n_basis=20))),
    "FM": method(partial(own.recipe, order=2, kind=Linear())),
    "HOFM(3)": method(partial(own.recipe, order=3, kind=Linear())),
    "AFM": method(partial(own.recipe, order=2, kind=Spline(n_basis=20))),
    "AHOFM(3)": method(partial(own.recipe, order=3, kind=Spline(n_basis=20))),
}
"""Columns of the paper's table."""

OURS: dict[str, Method] = {f"order {order}": method(partial(own.default, order=order)) for order in (1, 2, 3, 4)}
"""This library's default; order 3 is what it does when nothing is said."""

TREES: dict[str, Method] = {
    "LightGBM": method(partial(trees.lightgbm, stopped=False)),
    "LightGBM stopped": method(partial(trees.lightgbm, stopped=True)),
    "XGBoost": method(partial(trees.xgboost, stopped=False)),
    "XGBoost stopped": method(partial(trees.xgboost, stopped=True)),
    "EBM": method(trees.ebm),
}

SMOOTH: dict[str, Method] = {"pyGAM": method(smooth.pygam), "GP": method(smooth.gaussian_process)}

BROAD: dict[str, Method] = {
    "ahofm": method(own.default),
    "ahofm additive": method(partial(own.default, order=1)),
    "CatBoost": method(trees.catboost),
    "LightGBM": TREES["LightGBM"],
    "XGBoost": TREES["XGBoost"],
    "LightGBM stopped": TREES["LightGBM stopped"],
    "XGBoost stopped": TREES["XGBoost stopped"],
    "linear": method(simple.linear),
    "TSL": method(simple.tensor_separation),
    "pyGAM": SMOOTH["pyGAM"],
    "EBM": TREES["EBM"],
}
"""Of the comparison on many data sets, slow ones last."""

METHODS = PAPERS | OURS | TREES | SMOOTH
