"""What a model learned, as numbers: effects, contributions, Shapley values, shares, interactions. No plotting."""

from ahofm.explain.contributions import Contributions, Shapley, contributions, shapley_values
from ahofm.explain.effects import Effect, effect
from ahofm.explain.pure import Pure, purify
from ahofm.explain.shares import TopInteractions, VarianceShares, top_interactions, variance_shares
from ahofm.explain.summary import Summary, summary
from ahofm.explain.views import Factors, Marginals, factors, marginals

__all__ = [
    "Contributions",
    "Effect",
    "Factors",
    "Marginals",
    "Pure",
    "Shapley",
    "Summary",
    "TopInteractions",
    "VarianceShares",
    "contributions",
    "effect",
    "factors",
    "marginals",
    "purify",
    "shapley_values",
    "summary",
    "top_interactions",
    "variance_shares",
]
