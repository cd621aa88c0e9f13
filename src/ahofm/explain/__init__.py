"""What a model learned, as numbers: effects, contributions, Shapley values, shares, interactions. No plotting."""

from ahofm.explain.assessment import Groups, observed_and_fitted
from ahofm.explain.checks import Check, checks
from ahofm.explain.comparisons import derivative, difference
from ahofm.explain.contributions import Contributions, Shapley, contributions, shapley_values
from ahofm.explain.effects import Effect, effect
from ahofm.explain.pure import Pure, purify
from ahofm.explain.shares import TopInteractions, VarianceShares, top_interactions, variance_shares
from ahofm.explain.summary import Summary, summary
from ahofm.explain.views import Factors, Marginals, factors, marginals

__all__ = [
    "Check",
    "Contributions",
    "Effect",
    "Factors",
    "Groups",
    "Marginals",
    "Pure",
    "Shapley",
    "Summary",
    "TopInteractions",
    "VarianceShares",
    "checks",
    "contributions",
    "derivative",
    "difference",
    "effect",
    "factors",
    "marginals",
    "observed_and_fitted",
    "purify",
    "shapley_values",
    "summary",
    "top_interactions",
    "variance_shares",
]
