"""Peer: the same model in plain PyTorch, as the paper fits it: a dense basis per cell, autograd, mini-batches."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray


class TorchModel:
    """Order-1 effects and factors of the given orders on dense bases; e_d by the stable recursion.

    Parameters
    ----------
    basis : array of shape (n, columns, functions)
        Every function at every cell.
    """

    def __init__(
        self, basis: NDArray[np.float32], y: NDArray[np.float32], orders: tuple[int, ...], rank: int, batch: int
    ) -> None:
        self.basis, self.y, self.orders, self.batch = torch.from_numpy(basis), torch.from_numpy(y), orders, batch
        _, p, m = basis.shape
        generator = torch.Generator().manual_seed(0)
        shapes = [(1,), (p, m), *[(p, m, rank) for _ in orders]]
        self.parameters = [(0.1 * torch.randn(shape, generator=generator)).requires_grad_() for shape in shapes]

    def eta(self, basis: torch.Tensor) -> torch.Tensor:
        """Linear predictor of a batch."""
        intercept, main, *factors = self.parameters
        eta = intercept + torch.einsum("npm,pm->n", basis, main)
        for order, coef in zip(self.orders, factors, strict=True):
            phi = torch.bmm(basis.transpose(0, 1), coef)  # (columns, batch, rank)
            e = [torch.ones_like(phi[0])] + [torch.zeros_like(phi[0]) for _ in range(order)]
            for j in range(phi.shape[0]):
                for t in range(order, 0, -1):
                    e[t] = e[t] + phi[j] * e[t - 1]
            eta = eta + e[order].sum(dim=1)
        return eta

    def value_and_gradient(self) -> None:
        """One pass over the rows: loss and gradients, batch by batch."""
        for parameter in self.parameters:
            parameter.grad = None
        for start in range(0, len(self.y), self.batch):
            rows = slice(start, start + self.batch)
            loss = 0.5 * ((self.eta(self.basis[rows]) - self.y[rows]) ** 2).sum()
            loss.backward()
