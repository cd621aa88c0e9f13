"""The paper's experiments and the comparison with peers, one file each."""

from benchmarks.experiments.ablation import ABLATION
from benchmarks.experiments.estimation import ESTIMATION
from benchmarks.experiments.scalability import SCALABILITY
from benchmarks.experiments.speed import SPEED

EXPERIMENTS = {one.name: one for one in (ESTIMATION, SCALABILITY, ABLATION, SPEED)}
