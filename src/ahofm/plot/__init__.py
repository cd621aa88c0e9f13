"""Figures of what ``ahofm.explain`` says, with matplotlib, which is imported only when something is drawn."""

from ahofm.plot.effects import EffectDisplay, FactorsDisplay, MarginalsDisplay, SurfaceDisplay
from ahofm.plot.fits import DiagnosticsDisplay, ExplanationDisplay, SharesDisplay, TraceDisplay
from ahofm.plot.overview import EffectsDisplay

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
