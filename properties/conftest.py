"""Hypothesis profiles: `ci` repeats itself, `soak` searches for long."""

import os

from hypothesis import HealthCheck, Verbosity, settings

collect_ignore = ["fuzz/coverage_guided.py"]  # a program; it needs the extra "soak"

_slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=_slow,
)
settings.register_profile(
    "soak",
    deadline=None,
    max_examples=5000,
    print_blob=True,
    verbosity=Verbosity.normal,
    suppress_health_check=_slow,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
