"""The table of calls in CONTRIBUTING.md is what a fit and a prediction do."""

import re
import sys
import warnings
from pathlib import Path

import numpy as np

import ahofm

ROOT = Path(ahofm.__file__).parent
PAGE = Path(__file__).parents[1] / "CONTRIBUTING.md"
ROW = re.compile(r"^\| (\d+) \| `([\w/]+\.py): ([\w.]+)` \|", re.MULTILINE)


def calls(wanted):
    """Stacks of the package's frames, outermost first, at calls of these in a fit and a prediction; in order."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 2))
    y = np.sin(3.0 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=120)
    stacks, names = {}, {}

    def name(code):
        if code not in names:
            path = Path(code.co_filename)
            own = path.is_relative_to(ROOT) and not code.co_name.startswith("<")
            names[code] = (path.relative_to(ROOT).as_posix(), code.co_name) if own else None
        return names[code]

    def profile(frame, event, _):
        if event == "call" and name(frame.f_code) in wanted:
            stack = []
            while frame is not None:
                stack.append(name(frame.f_code))
                frame = frame.f_back
            stacks.setdefault(tuple(one for one in reversed(stack) if one is not None))

    before = sys.getprofile()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ahofm.AHOFMRegressor(order=2, random_state=0, n_jobs=1, max_iter=1, n_members=2)
        sys.setprofile(profile)
        try:
            model.fit(X, y).predict(X)
        finally:
            sys.setprofile(before)
    return list(stacks)


def test_the_table_of_calls_is_what_happens():
    rows = [(int(depth), file, name.rpartition(".")[2]) for depth, file, name in ROW.findall(PAGE.read_text())]
    assert len(rows) > 25
    stacks, at, path = calls({row[1:] for row in rows}), -1, []
    for depth, file, name in rows:
        path = [*path[: depth - 1], (file, name)]
        assert len(path) == depth, f"{file}: {name} is deeper by more than one"
        found = next((k for k in range(at + 1, len(stacks)) if ends_with(stacks[k], path)), None)
        assert found is not None, f"{file}: {name} is not called after the row before it, from {path[:-1]}"
        at = found


def ends_with(stack, path):
    """Whether a stack ends with the last frame of a path, and has the others of it in their order."""
    if stack[-1] != path[-1]:
        return False
    frames = iter(stack)
    return all(frame in frames for frame in path)
