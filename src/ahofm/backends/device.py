"""The one place where a backend is chosen."""

from __future__ import annotations

from typing import TypeAlias

from ahofm.backends.base import Backend
from ahofm.backends.cpu import CpuBackend

Device: TypeAlias = str | Backend
"""A name of :data:`DEVICES`, or a backend of one's own."""

DEVICES = ("auto", "cpu", "cuda")


def backend_of(device: Device = "auto") -> Backend:
    """The backend that computes on a device.

    Parameters
    ----------
    device : "auto", "cpu" or a backend
        "auto" is the best there is, today always the CPU. An object with ``load`` and ``curves``
        (:class:`ahofm.backends.Backend`) is taken as it is.

    Returns
    -------
    Backend

    Raises
    ------
    ValueError
        For "cuda", of which there is no backend yet, and for any other name.
    TypeError
        For an object that is no backend.
    """
    if isinstance(device, str):
        if device == "cuda":
            raise ValueError(
                "device='cuda': no CUDA backend is installed with this version of ahofm; use device='cpu' or 'auto'"
            )
        if device not in DEVICES:
            raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or a backend, got {device!r}")
        return CpuBackend()
    if isinstance(device, type) or not isinstance(device, Backend):
        raise TypeError(
            f"device must be 'auto', 'cpu', 'cuda' or a backend, an object with `load` and `curves`; got {device!r}"
        )
    return device
