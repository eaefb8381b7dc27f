"""Profiles, and a count of the cases that were checked against the oracle."""

import os

import pytest
from hypothesis import HealthCheck, settings
from tests.property import cases

settings.register_profile(
    "default", max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("thorough", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True)
def _law(request):
    cases.current = request.node.originalname or request.node.name


def pytest_terminal_summary(terminalreporter):
    if cases.COUNTED:
        terminalreporter.section("cases per law")
        for law, count in sorted(cases.COUNTED.items()):
            terminalreporter.write_line(f"{count:>8,}  {law}")
        terminalreporter.write_line(f"{sum(cases.COUNTED.values()):>8,}  in total")
