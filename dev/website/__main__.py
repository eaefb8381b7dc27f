"""python -m dev.website: build docs/ into build/site by Zensical, and check the links of what was built."""

import shutil
import subprocess
import sys
import tomllib

from dev.paths import REPOSITORY
from dev.website.links import problems
from dev.website.pages import gather

_BUILD = REPOSITORY / "build"


def main() -> int:
    """Exit code 1 where Zensical fails or a link is dead, which is printed."""
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    configuration = (REPOSITORY / "dev" / "website" / "zensical.toml").read_text().replace("VERSION", version)
    project = tomllib.loads(configuration)["project"]
    site = _BUILD / project["site_dir"]
    for folder in (site, _BUILD / project["docs_dir"]):
        shutil.rmtree(folder, ignore_errors=True)
    gather(REPOSITORY, _BUILD / project["docs_dir"], project["repo_url"])
    (_BUILD / "zensical.toml").write_text(configuration)
    command = [sys.executable, "-m", "zensical", "build", "--clean"]
    done = subprocess.run(command, cwd=_BUILD, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout + done.stderr)
        return 1
    found = list(problems(site, project["site_url"]))
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages in {site}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
