"""What pytest-xdist gives to one of its processes at a time."""

from tests.support.folders import folder_of
from xdist.scheduler.loadscope import LoadScopeScheduling

WHOLE = ("scan", "chart", "crds", "secure", "placers", "plugins")
"""Folders that stay in one process, because their tests share what is dear: a Spark, a control plane, brokers."""


class Sharing(LoadScopeScheduling):
    """A whole folder, a file or a single law, in the order in which tests are collected."""

    def _split_scope(self, nodeid: str) -> str:
        folder = folder_of(nodeid)
        if folder in WHOLE:
            return folder
        return nodeid if folder == "property" else nodeid.partition("::")[0]
