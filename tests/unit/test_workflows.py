"""GitHub workflows: actions are pinned by commit, and jobs call targets of the Makefile."""

import re
import shlex

import pytest
import yaml
from dev.paths import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):(?!=)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
PROGRAMS = {"make", "cosign", "gh", "helm", "skopeo", "sysctl"}


def steps(path):
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        rows = job.get("strategy", {}).get("matrix", {}).get("target", [""])
        for step in job["steps"]:
            for target in rows:
                run = step.get("run", "").replace("${{ matrix.target }}", target)
                yield {**step, "run": run}


def test_workflows_for_ci_nightly_release_and_site_exist():
    assert {path.stem for path in WORKFLOWS} >= {"ci", "nightly", "release", "site"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_a_version_comment(path):
    used = re.findall(r"uses: *(.*)", path.read_text())
    assert used
    assert [line for line in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v[\d.]+", line)] == []


def test_each_action_has_the_same_version_in_all_workflows():
    lines = {line for path in WORKFLOWS for line in re.findall(r"uses: *(.*)", path.read_text())}
    assert len(lines) == len({line.partition("@")[0] for line in lines})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_call_existing_make_targets(path):
    targets = set()
    for step in steps(path):
        words = [word for word in shlex.split(step["run"]) if word != "sudo" and not word.startswith("--preserve-env")]
        if words:
            assert words[0] in PROGRAMS, step["run"]
        if words[:1] == ["make"]:
            targets.add(words[1])
    assert targets
    assert targets <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_have_a_timeout_and_workflows_have_read_only_permissions(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 180
        assert all(
            one["with"]["persist-credentials"] is False for one in job["steps"] if "checkout" in one.get("uses", "")
        )


def test_pre_commit_hooks_run_the_same_linters_as_make_lint():
    hooks = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    recipe = (REPOSITORY / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    linters = set(re.findall(r"\$\(BIN\)/([\w-]+)", recipe))
    assert {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks} == linters


@pytest.mark.parametrize("name", ["dependabot.yml", "ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/feature.yml"])
def test_folders_named_in_github_files_exist(name):
    document = yaml.safe_load((REPOSITORY / ".github" / name).read_text())
    for update in document.get("updates", ()):
        for folder in update.get("directories", [update.get("directory")]):
            assert (REPOSITORY / folder.lstrip("/")).is_dir(), folder


def test_owned_paths_exist():
    lines = (REPOSITORY / ".github" / "CODEOWNERS").read_text().splitlines()
    owned = [line.split()[0] for line in lines if line.startswith("/")]
    assert owned
    assert [path for path in owned if not (REPOSITORY / path.lstrip("/")).exists()] == []
