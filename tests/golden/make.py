"""Make the golden fits again: ``python -m tests.golden.make`` says how far each has moved, ``--write`` stores them.

One may write after a change that is meant to change results, and the changelog says so; fits that should have stayed
are then looked at in what this prints. Never for a refactoring: results do not move in one. Fits within tolerance of
what is stored stay as they are, so that many small drifts never add up unseen.

A model file of the present version of the format is made where there is none. One that is there is never replaced:
models that people have saved are not made again either.
"""

import argparse
import sys

import numpy as np

from tests.golden.fits import FITS, KEPT
from tests.golden.models import keep
from tests.golden.record import distance, recorded, store, stored, tolerance


def main(arguments=None):
    """Compare, and store if that was asked for; 1 if something has moved and was not stored."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], prog="python -m tests.golden.make")
    parser.add_argument("--write", action="store_true", help="store what has moved")
    write = parser.parse_args(arguments).write
    old, new, moved = stored(), {}, []
    for name, fit in FITS.items():
        found = recorded(fit)
        within, text = compared(name, found, old.get(name))
        print(f"{name:36s}{'as stored' if within else 'MOVED':10s}{text}", flush=True)
        new[name] = old[name] if within else found
        moved += [] if within else [name]
    gone = sorted(old.keys() - new.keys())
    print(f"{len(moved)} of {len(new)} fits have moved or are new; gone: {', '.join(gone) or 'none'}")
    if not write:
        print("nothing is written without --write")
        return int(bool(moved or gone))
    if moved or gone:
        store(new)
    estimator, X, _ = KEPT.fitted()
    path = keep(estimator.with_uncertainty().model_, X)
    print(f"model file: {path.name if path else 'there is one of this version, which stays'}")
    return 0


def compared(name, found, old):
    """Whether all arrays of a fit are within tolerance, and the largest distances as text."""
    if old is None:
        return False, "new"
    if found.keys() != old.keys():
        return False, f"other arrays: {', '.join(sorted(found.keys() ^ old.keys()))}"
    far = {array: distance(values, old[array]) for array, values in found.items()}
    within = all(value <= tolerance(name, array) for array, value in far.items())
    largest = sorted(far, key=far.__getitem__, reverse=True)[:3]
    return within, ", ".join(f"{array} {far[array]:.1e}" for array in largest if np.isinf(far[array]) or far[array] > 0)


if __name__ == "__main__":
    sys.exit(main())
