"""Figures of what ``ahofm.explain`` says, with matplotlib, which is imported only when something is drawn."""

from ahofm.plot.effects import EffectDisplay, SurfaceDisplay
from ahofm.plot.fits import DiagnosticsDisplay, TraceDisplay
from ahofm.plot.overview import EffectsDisplay
from ahofm.plot.shares import ExplanationDisplay, SharesDisplay
from ahofm.plot.views import FactorsDisplay, MarginalsDisplay

__all__ = [
    "DiagnosticsDisplay",
    "EffectDisplay",
    "EffectsDisplay",
    "ExplanationDisplay",
    "FactorsDisplay",
    "MarginalsDisplay",
    "SharesDisplay",
    "SurfaceDisplay",
    "TraceDisplay",
]
