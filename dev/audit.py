"""python -m dev.audit: check the locked packages with OSV, the database of known vulnerabilities (https://osv.dev)."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.request import Request, urlopen

from dev.paths import REPOSITORY

OSV = "https://api.osv.dev/v1/querybatch"
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_AT_ONCE = 500
_SECONDS = 30.0


def audit(locks: Iterable[Path], database: str = OSV) -> int:
    """Print known vulnerabilities. Return 1 if there are any, 0 if there are none or OSV is unreachable."""
    packages = sorted({package for lock in locks for package in _LOCKED.findall(lock.read_text())})
    try:
        starts = range(0, len(packages), _AT_ONCE)
        found = [line for at in starts for line in _known(packages[at : at + _AT_ONCE], database)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # down, or an unexpected reply
        print(f"NOT CHECKED: {database} did not respond ({error}); {len(packages)} packages are not checked")
        return 0
    for line in found:
        print(line)
    print(f"{len(packages)} packages checked, {len(found)} with known vulnerabilities")
    return 1 if found else 0


def _known(packages: list[tuple[str, str]], database: str) -> Iterator[str]:
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in packages]
    body = json.dumps({"queries": queries}).encode()
    request = Request(database, body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=_SECONDS) as answer:
        results = json.load(answer)["results"]
    for (name, version), result in zip(packages, results, strict=True):
        ids = ", ".join(ascii(one["id"])[1:-1] for one in result.get("vulns", ()))
        if ids:
            yield f"{name} {version}: {ids}"


if __name__ == "__main__":
    sys.exit(audit(sorted((REPOSITORY / "requirements").glob("*.lock"))))
