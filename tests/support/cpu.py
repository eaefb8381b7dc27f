"""What tests cost: CPU seconds of everything that their run started, servers included. Told with `--cpu`.

Seconds on the clock tell how busy a machine was; these can be compared from one machine, and from one day, to another.
What servers take while a test runs counts as that test's, and what starts with a fixture as that of the first who asks.
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
    """CPU seconds by test."""

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
    """CPU seconds, user's and system's, of a process and of all that descend from it, those that have ended too."""
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
        seconds[pid] = sum(map(int, fields[11:15])) / _TICK  # its own, and of children that were waited for
    ours = {root: True}

    def is_ours(pid: int) -> bool:
        if pid not in ours:
            ours[pid] = pid in parents and is_ours(parents[pid])
        return ours[pid]

    return sum(one for pid, one in seconds.items() if is_ours(pid))
