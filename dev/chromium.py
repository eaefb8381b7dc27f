"""The browser for tests of pages: that of the machine, else the Debian package if it can be installed."""

import os
import shutil
from pathlib import Path

from dev.paths import cache_root
from dev.progress import AssetError, exclusive, run

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PACKAGE = "chromium"


def find_chromium() -> Path | None:
    """Return the path of the first browser on PATH, or None."""
    return next((Path(found) for name in _NAMES if (found := shutil.which(name))), None)


def ensure_chromium() -> Path:
    """Return the path of the browser. Install the Debian package if it is missing.

    Raises AssetError if packages cannot be installed. Tests of the page are skipped then.
    """
    with exclusive(cache_root() / "chromium" / ".lock"):
        found = find_chromium()
        if found is None:
            _install()
            found = find_chromium()
    if found is None:
        raise AssetError(f"the package {_PACKAGE} is installed, but none of {', '.join(_NAMES)} is on PATH")
    return found


def why_missing() -> str | None:
    """Return why there is no browser, or None if there is one."""
    if find_chromium():
        return None
    return f"none of {', '.join(_NAMES)} is on PATH; `make assets` installs it if it runs as root and finds apt-get"


def _install() -> None:
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        raise AssetError(f"{why_missing()}; otherwise install Chromium, and try again")
    quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run([apt, "update"], "updating the list of Debian packages", cwd=Path("/"), env=quietly)
    run(
        [apt, "install", "--yes", "--no-install-recommends", _PACKAGE],
        "installing Debian's Chromium: about 130 MB, once per machine",
        cwd=Path("/"),
        env=quietly,
        tally=lambda line: line.startswith("Setting up "),
    )
