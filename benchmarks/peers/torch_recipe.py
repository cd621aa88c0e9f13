"""The paper's recipe in plain PyTorch: a dense basis per cell, autograd, Adam, early stopping.

Splines of 20 functions in Demmler–Reinsch coordinates, 15 degrees of freedom, order 2; 10 % of the rows decide when to
stop, after 50 epochs without improvement. Adam has PyTorch's own settings, batches are 1/32 of the rows, between 32 and
8,192.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch

from ahofm.columns import Encoder, Spline
from ahofm.columns.basis import Floats
from ahofm.model import eigenvalues
from ahofm.model.coordinates import Coordinates, coordinates
from ahofm.priors.df import smoothing_parameter_of
from benchmarks.bench_torch import TorchModel
from benchmarks.peers.task import Predict, Task

N_BASIS, DF, RANK, PATIENCE, EPOCHS = 20, 15.0, 8, 50, 1000


def afm(task: Task) -> Predict:
    """Fit on one thread."""
    torch.set_num_threads(1)
    encoder = Encoder.learn(task.train.X, Spline(n_basis=N_BASIS))
    columns = [coordinates(book, center=True) for book in encoder.codebooks]
    n = len(task.train.y)
    shares = [smoothing_parameter_of(DF, eigenvalues(book), n) / n for book in encoder.codebooks]
    penalty = torch.tensor(
        np.stack([share * of.penalty for share, of in zip(shares, columns, strict=True)]), dtype=torch.float32
    )
    mean, spread = task.train.y.mean(), task.train.y.std()
    rows = np.random.default_rng(task.seed).permutation(n)
    aside, fit = rows[: n // 10], rows[n // 10 :]
    basis = evaluated(encoder, columns, task.train.X)
    y = ((task.train.y - mean) / spread).astype(np.float32)
    batch = int(np.clip(len(fit) // 32, 32, 8192))
    model = TorchModel(basis[fit], y[fit], (2,), RANK, batch)
    descend(model, penalty, torch.from_numpy(basis[aside]), torch.from_numpy(y[aside]))

    def predict(X: pd.DataFrame) -> Floats:
        with torch.no_grad():
            eta = model.eta(torch.from_numpy(evaluated(encoder, columns, X)))
        return np.asarray(mean + spread * eta.numpy().astype(np.float64))

    return predict


def evaluated(
    encoder: Encoder, columns: list[Coordinates], X: pd.DataFrame
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Every function at every cell: (n, columns, functions)."""
    values = encoder.check(X).columns
    blocks = [
        (book.evaluate(column) @ of.to_basis + of.centring).astype(np.float32)
        for book, of, column in zip(encoder.codebooks, columns, values, strict=True)
    ]
    return np.stack(blocks, axis=1)


def descend(model: TorchModel, penalty: torch.Tensor, basis: torch.Tensor, y: torch.Tensor) -> None:
    """Epochs of Adam; the parameters of the best one on the rows set aside are kept."""
    optimizer = torch.optim.Adam(model.parameters)
    best, best_error, waited = [p.detach().clone() for p in model.parameters], np.inf, 0
    order = torch.Generator().manual_seed(0)
    for _ in range(EPOCHS):
        for at in torch.randperm(len(model.y), generator=order).split(model.batch):
            optimizer.zero_grad()
            loss = 0.5 * ((model.eta(model.basis[at]) - model.y[at]) ** 2).mean()
            loss = loss + 0.5 * (penalty * model.parameters[1] ** 2).sum()
            loss = loss + 0.5 * (penalty[:, :, None] * model.parameters[2] ** 2).sum()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            error = float(((model.eta(basis) - y) ** 2).mean())
        if error < best_error * (1.0 - 1e-4):
            best, best_error, waited = [p.detach().clone() for p in model.parameters], error, 0
        else:
            waited += 1
            if waited % (PATIENCE // 3) == 0:
                for group in optimizer.param_groups:
                    group["lr"] *= 0.5
        if waited >= PATIENCE:
            break
    with torch.no_grad():
        for parameter, kept in zip(model.parameters, best, strict=True):
            parameter.copy_(kept)
