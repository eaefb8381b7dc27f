"""Where and why each test failed, in few lines at the end of the output, for logs of which only the end is kept."""

import pytest

_LETTERS = 6_000
"""For the messages of all failures together."""


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter):
    failed = [report for kind in ("failed", "error") for report in terminalreporter.getreports(kind)]
    if failed:
        terminalreporter.section("where and why")
    for report in failed:
        letters = max(_LETTERS // len(failed), 1_000)
        entries = getattr(getattr(report.longrepr, "reprtraceback", None), "reprentries", ())
        places = [entry.reprfileloc for entry in entries if getattr(entry, "reprfileloc", None)]
        crash = getattr(report.longrepr, "reprcrash", None)
        message = " ".join((crash.message if crash else str(report.longrepr)).split())
        terminalreporter.write_line(f"{report.nodeid} ({report.when})")
        terminalreporter.write_line("  " + " > ".join(f"{one.path}:{one.lineno}" for one in places))
        terminalreporter.write_line(f"  {message[:letters]}")
