"""The CPU seconds of each test, including all processes that the run started, such as servers. Shown by `--cpu`.

Elapsed time depends on the load of the machine. CPU seconds are comparable between machines and days.
CPU time of servers counts for the test that runs meanwhile. Setup of a fixture counts for the first test that uses it.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

_TICK = os.sysconf("SC_CLK_TCK")
_TESTS = 40


def pytest_addoption(parser):
    parser.addoption("--cpu", action="store_true", help="tell what files and tests cost, in CPU seconds")


def pytest_configure(config):
    if config.getoption("--cpu"):
        config.pluginmanager.register(Costs(), "costs")


class Costs:
    """A pytest plugin that measures the CPU seconds of each test."""

    def __init__(self):
        self._of = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = spent(os.getpid())
        try:
            return (yield)
        finally:
            self._of[item.nodeid] += spent(os.getpid()) - before

    def pytest_sessionfinish(self, session):
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["costs"] = dict(self._of)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        self._of.update(getattr(node, "workeroutput", {}).get("costs", {}))

    def pytest_terminal_summary(self, terminalreporter):
        files, folders = Counter(), Counter()
        for test, seconds in self._of.items():
            file = test.partition("::")[0]
            files[file] += seconds
            folders[file.rpartition("/")[0]] += seconds
        dearest = Counter(dict(self._of.most_common(_TESTS)))
        for what, costs in (("folder", folders), ("file", files), (f"test, the {_TESTS} dearest", dearest)):
            terminalreporter.section(f"CPU seconds by {what}")
            for name, seconds in costs.most_common():
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")
        terminalreporter.write_line(f"{self._of.total():8.1f}  in all")


def spent(root: int) -> float:
    """Return the user and system CPU seconds of a process and all its descendants, including ended ones."""
    parents, seconds = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        seconds[pid] = sum(map(int, fields[11:15])) / _TICK  # of the process and of its reaped children
    ours = {root: True}

    def is_ours(pid: int) -> bool:
        if pid not in ours:
            ours[pid] = pid in parents and is_ours(parents[pid])
        return ours[pid]

    return sum(one for pid, one in seconds.items() if is_ours(pid))
