"""python -m dev.website: build the site of docs/ in build/site with Zensical, and check its links.

With `--releases`, it also builds the pages of the tag of each release. Each version has a separate folder.
"""

import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

from dev.paths import REPOSITORY
from dev.website.links import problems
from dev.website.pages import gather
from dev.website.versions import DEV, connect, releases

_BUILD = REPOSITORY / "build"


def main() -> int:
    """Build the site. Print problems and return 1 if Git or Zensical fails or a link is dead."""
    site, sources = _BUILD / "site", _BUILD / "releases"
    for old in (site, sources):
        shutil.rmtree(old, ignore_errors=True)
    tags = releases(_run("git", "tag", at=REPOSITORY).splitlines()) if "--releases" in sys.argv[1:] else {}
    for folder, tag in tags.items():
        _check_out(tag, sources / folder)
        _build(sources / folder, site / folder, tag)
    address = _build(REPOSITORY, site / DEV, "main")
    connect(site, [*tags, DEV])
    found = list(problems(site, address))
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages in {site}")
    return 1 if found else 0


def _check_out(tag: str, source: Path) -> None:
    archive = source.with_name(f"{source.name}.tar")
    source.mkdir(parents=True)
    _run("git", "archive", f"--output={archive}", f"refs/tags/{tag}", at=REPOSITORY)
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")


def _build(source: Path, folder: Path, ref: str) -> str:
    """Build the pages of `source`, whose other files are on the forge at `ref`. Return the address of all versions."""
    configuration = (source / "dev" / "website" / "zensical.toml").read_text()
    version = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    project = tomllib.loads(configuration)["project"]
    build, address = source / "build", str(project["site_url"])
    for old in (project["docs_dir"], project["site_dir"]):
        shutil.rmtree(build / old, ignore_errors=True)
    gather(source, build / project["docs_dir"], project["repo_url"], ref)
    said = version if folder.name != DEV else f"{version}, branch {ref}"
    configuration = configuration.replace("VERSION", said).replace(f'"{address}"', f'"{address}{folder.name}/"')
    (build / "zensical.toml").write_text(configuration)
    _run(sys.executable, "-m", "zensical", "build", "--clean", at=build)
    shutil.move(build / project["site_dir"], folder)
    # The theme finds the same page of another version only if the sitemap has the address of that version.
    sitemap = folder / "sitemap.xml"
    sitemap.write_text(sitemap.read_text().replace("/index.html</loc>", "/</loc>"))
    return address


def _run(*command: str, at: Path) -> str:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
