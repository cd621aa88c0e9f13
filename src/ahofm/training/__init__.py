"""What all fits share: settings, prepared rows, validation splits, the runner of fits on threads, and checkpoints."""

from ahofm.training.data import Data
from ahofm.training.runner import Callback, Deadline, Runner, Saved
from ahofm.training.settings import SOLVERS, OrderWarning, Settings, TimeBudgetWarning

__all__ = [
    "SOLVERS",
    "Callback",
    "Data",
    "Deadline",
    "OrderWarning",
    "Runner",
    "Saved",
    "Settings",
    "TimeBudgetWarning",
]
