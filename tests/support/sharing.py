"""The units of tests that pytest-xdist assigns to a process."""

import os

import pytest
from tests.support.folders import SERVERLESS, folder_of
from xdist.scheduler.loadscope import LoadScopeScheduling

WHOLE = ("scan", "chart", "page", "crds", "secure", "placers", "plugins")
"""Folders that stay in one process: their tests share expensive resources (Spark, a control plane, a browser)."""
_LOW_PRIORITY = 5


def pytest_addoption(parser):
    parser.addoption(
        "--filler", action="store_true", help="the last process takes what needs no servers, while the others wait"
    )


def pytest_configure(config):
    worker = getattr(config, "workerinput", None)
    if worker is not None and config.getoption("--filler") and worker["workerid"] == _last_of(worker["workercount"]):
        os.nice(_LOW_PRIORITY)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return SharingWithFiller(config, log) if config.getoption("--filler") else Sharing(config, log)


def _last_of(count):
    return f"gw{count - 1}"


class Sharing(LoadScopeScheduling):
    """Assigns a whole folder, a file or a single property test, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        folder = folder_of(nodeid)
        if folder in WHOLE:
            return folder
        return nodeid if folder == "property" else nodeid.partition("::")[0]


class SharingWithFiller(Sharing):
    """Like `Sharing`, but the last process only runs tests without servers."""

    def _assign_work_unit(self, node):
        if self._is_filler(node):
            scope = self._serverless()
            if scope is None:
                return
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node):
        if self._is_filler(node) and self._serverless() is None and not node.shutting_down:
            node.shutdown()  # otherwise it holds back its last test until it gets another one
        else:
            super()._reschedule(node)

    def _is_filler(self, node):
        return node.gateway.id == _last_of(self.numnodes)

    def _serverless(self):
        return next((scope for scope in self.workqueue if folder_of(scope) in SERVERLESS), None)
