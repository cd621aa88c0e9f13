"""The former place of :func:`ahofm.inference.band_of`, for callers that still import it from here."""

from ahofm.inference.uncertainty import band_of

__all__ = ["band_of"]
