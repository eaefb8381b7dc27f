"""A report of how many cases each property test has checked."""

import pytest
from tests.property import cases


@pytest.fixture(autouse=True)
def _law(request):
    cases.current = request.node.originalname or request.node.name


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cases"] = dict(cases.COUNTED)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    cases.COUNTED.update(getattr(node, "workeroutput", {}).get("cases", {}))


def pytest_terminal_summary(terminalreporter):
    if cases.COUNTED:
        terminalreporter.section("cases per law")
        for law, count in sorted(cases.COUNTED.items()):
            terminalreporter.write_line(f"{count:>8,}  {law}")
        terminalreporter.write_line(f"{sum(cases.COUNTED.values()):>8,}  in total")
