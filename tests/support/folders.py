"""The folders of tests/ and the order in which they run."""

SECURE = (
    "test_bad_input_connections",
    "test_cli",
    "test_faults_apiserver",
    "test_reassignment_calls",
    "test_security_connections",
    "test_security_secrets",
)
"""Files of tests/integration that need the brokers with TLS and SASL. Run together, they start these brokers once."""
SERVERLESS = ("page", "property", "unit")
"""Folders whose tests need no shared server."""
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
"""Slow folders come first, those with few servers before those with more. Last come tests that fill every gap."""
LAST_WITH_SERVERS = ORDER[-len(SERVERLESS) - 1]


def folder_of(nodeid: str) -> str:
    """Return the folder of a test: `chart` for tests/chart/test_rights.py::test_it, `secure` for files of SECURE."""
    folder, _, file = nodeid.partition("::")[0].partition("/")[2].partition("/")
    return "secure" if folder == "integration" and file.removesuffix(".py") in SECURE else folder


def rank(nodeid: str) -> int:
    """Return the position of the test's folder in ORDER. A folder that is not in ORDER comes first."""
    return rank_of(folder_of(nodeid))


def rank_of(folder: str) -> int:
    """Return the position of a folder in ORDER, or -1."""
    return ORDER.index(folder) if folder in ORDER else -1
