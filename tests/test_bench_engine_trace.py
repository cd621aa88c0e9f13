"""The simulated schedule of a recorded fit, against schedules worked out by hand."""

import numpy as np
import pytest
from benchmarks.engine_trace import Phase, Segment, recorded, simulated

from ahofm import AHOFMRegressor


def python(seconds, waits=None):
    return Segment((seconds,) * 5, False, waits)


def native(seconds, serial=0.0, waits=None):
    """Sweeps that scale, but for a serial part."""
    rest = seconds - serial
    return Segment(tuple(serial + rest / count for count in (1, 2, 4, 8, 16)), True, waits)


def test_python_is_one_at_a_time():
    phases = [Phase([[python(1.0)], [python(1.0)]])]
    assert simulated(phases, 2) == pytest.approx(2.0)
    assert simulated(phases, 2, lock=False) == pytest.approx(1.0)


def test_jobs_without_helpers():
    phases = [Phase([[native(1.0, 1.0)] for _ in range(3)])]
    assert simulated(phases, 1) == pytest.approx(3.0)
    assert simulated(phases, 2) == pytest.approx(2.0)
    assert simulated(phases, 16) == pytest.approx(1.0)


def test_threads_without_a_job_help():
    assert simulated([Phase([[native(1.0, 0.2)]])], 4) == pytest.approx(0.2 + 0.8 / 4)
    # Two jobs on two threads; when the short one has ended, its thread helps the other.
    assert simulated([Phase([[native(2.0)], [native(1.0)]])], 2) == pytest.approx(1.5)


def test_jobs_wait_for_what_they_share():
    own = [native(1.0, 1.0, waits=7), native(1.0, 1.0)]
    other = [native(0.01, 0.01, waits=7), native(1.0, 1.0)]
    assert simulated([Phase([own, other])], 2) == pytest.approx(2.01)


def test_phases_follow_one_another():
    phases = [Phase([[python(0.5)]]), Phase([[native(1.0, 1.0)], [native(1.0, 1.0)]]), Phase([[python(0.25)]])]
    assert simulated(phases, 2) == pytest.approx(1.75)


def test_a_recorded_fit_adds_up():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    with recorded() as recorder:
        AHOFMRegressor(n_jobs=1, order=2).fit(X, X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=300))
    segments = [segment for phase in recorder.phases for job in phase.jobs for segment in job]
    total = sum(segment.seconds[0] for segment in segments)
    assert any(segment.native for segment in segments)
    assert max(len(phase.jobs) for phase in recorder.phases) >= 3
    assert simulated(recorder.phases, 1) == pytest.approx(total, rel=0.01)
    assert simulated(recorder.phases, 16) < total
