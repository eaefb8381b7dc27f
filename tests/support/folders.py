"""The folders of tests/, and in which order they run."""

ORDER = ("scan", "integration", "chart", "crds", "page", "placers", "plugins", "property", "unit")
"""What takes long comes first, and last what fills every gap."""


def folder_of(nodeid: str) -> str:
    """`chart` of tests/chart/test_rights.py::test_it."""
    return nodeid.partition("/")[2].partition("/")[0]


def rank(nodeid: str) -> int:
    """Where the test's folder stands in that order; a folder that is not in it comes last."""
    folder = folder_of(nodeid)
    return ORDER.index(folder) if folder in ORDER else len(ORDER)
