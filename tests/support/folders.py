"""The folders of tests/, and in which order they run."""

SECURE = (
    "test_bad_input_connections",
    "test_cli",
    "test_faults_apiserver",
    "test_reassignment_calls",
    "test_security_connections",
    "test_security_secrets",
)
"""Files of tests/integration that ask for the brokers with TLS and log-ins: side by side they start them once."""
SERVERLESS = ("page", "property", "unit")
"""Folders whose tests ask for no server of the run."""
ORDER = (
    "scan",
    "chart",
    "crds",
    "secure",
    "integration",
    "tools",
    "readers",
    "msk",
    "gitops",
    "upgrade",
    "e2e",
    "placers",
    "plugins",
    *SERVERLESS,
)
"""What takes long comes first, but what needs few servers before what needs more, and last what fills every gap."""
LAST_WITH_SERVERS = ORDER[-len(SERVERLESS) - 1]


def folder_of(nodeid: str) -> str:
    """`chart` of tests/chart/test_rights.py::test_it; `secure` stands for those files of tests/integration."""
    folder, _, file = nodeid.partition("::")[0].partition("/")[2].partition("/")
    return "secure" if folder == "integration" and file.removesuffix(".py") in SECURE else folder


def rank(nodeid: str) -> int:
    """Where the test's folder stands in that order; a folder that is not in it comes first."""
    return rank_of(folder_of(nodeid))


def rank_of(folder: str) -> int:
    """The same of a folder."""
    return ORDER.index(folder) if folder in ORDER else -1
