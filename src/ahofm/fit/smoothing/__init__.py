"""Smoothing parameters: from degrees of freedom, or estimated by the generalised Fellner–Schall rule."""
