"""The Dockerfile. It takes no container engine: its own commands are run, in folders that stand for its paths."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml
from dev.paths import REPOSITORY
from tests.chart import dockerfile
from tests.chart.helm import CHART, only

ARGUMENTS, STAGES = dockerfile.read(REPOSITORY / "Dockerfile")


def test_both_stages_stand_on_one_base_that_can_be_chosen():
    assert ARGUMENTS == {"BASE_IMAGE": "python:3.12-slim"}
    assert {name: stage.base for name, stage in STAGES.items()} == dict.fromkeys(["build", "operator"], "${BASE_IMAGE}")


def test_the_image_runs_the_operator_as_the_charts_user(offline_helm):
    final = STAGES["operator"]
    pod = only(offline_helm.objects(), "Deployment")["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert final.one("USER").rest == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert final.one("ENTRYPOINT").words() == ["rackspan"]
    assert final.one("CMD").words() == pod["containers"][0]["args"] == ["operator"]
    assert final.one("EXPOSE").words() == [str(pod["containers"][0]["ports"][0]["containerPort"])]


def test_the_image_says_what_it_is():
    labels = dict(word.split("=", 1) for word in STAGES["operator"].one("LABEL").words())
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    arguments = dict(instruction.rest.split("=") for instruction in STAGES["operator"].all("ARG"))
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert arguments["VERSION"] == yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]


def test_the_final_stage_takes_the_environment_and_nothing_else():
    final = STAGES["operator"]
    assert [instruction.rest for instruction in final.all("COPY")] == ["--from=build /opt/rackspan /opt/rackspan"]
    assert final.all("RUN") == []


def copied():
    """(sources, destination) of what comes from the build context."""
    for instruction in STAGES["build"].all("COPY"):
        *sources, destination = instruction.words()
        yield [source.rstrip("/") for source in sources], destination


def test_the_context_holds_what_is_copied_and_nothing_else():
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    let_in = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    assert let_in == {source for sources, _ in copied() for source in sources}
    assert all((REPOSITORY / path).exists() for path in let_in)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """/opt/rackspan as the build stage leaves it."""
    root = tmp_path_factory.mktemp("image")
    base, source, built = root / "base", root / "src", root / "opt" / "rackspan"
    subprocess.run([sys.executable, "-m", "venv", base], check=True)  # the base image's python, with its pip
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment["PATH"] = f"{base / 'bin'}:{environment['PATH']}"

    def in_root(text):
        return text.replace("/opt/rackspan", str(built)).replace("/src", str(source))

    for instruction in STAGES["build"].instructions:
        if instruction.word == "WORKDIR":
            assert instruction.rest == "/src"
            source.mkdir()
        elif instruction.word == "COPY":
            *sources, destination = instruction.words()
            for name in sources:
                origin, target = REPOSITORY / name, source / destination
                if origin.is_dir():
                    shutil.copytree(origin, target, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    target.mkdir(exist_ok=True)
                    shutil.copy(origin, target)
        else:
            assert instruction.word == "RUN"
            done = subprocess.run(
                ["sh", "-ec", in_root(instruction.rest)],
                cwd=source,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{instruction.rest}\n{done.stdout}\n{done.stderr}"
    shutil.rmtree(source)  # nothing may lead back to it
    return built


def in_image(image, *command):
    done = subprocess.run([image / "bin" / command[0], *command[1:]], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


@pytest.mark.timeout(900)
def test_the_operator_is_installed_from_the_lock(image):
    assert in_image(image, "rackspan", "--version") == (
        0,
        f"rackspan {yaml.safe_load((CHART / 'Chart.yaml').read_text())['appVersion']}",
    )
    code, printed = in_image(image, "rackspan", "operator", "--help")
    assert (code, "RACKSPAN_LISTEN_PORT" in printed) == (0, True)
    code, printed = in_image(
        image, "python", "-c", "import rackspan.main, rackspan.placers; print(*sorted(rackspan.placers.load_placers()))"
    )
    assert (code, printed) == (0, "MultiLevel Rings Simple Striped")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("module", ["pyspark", "pip", "pytest", "hatchling"])
def test_what_the_operator_does_not_need_is_not_there(image, module):
    code, printed = in_image(image, "python", "-c", f"import {module}")
    assert (code, f"No module named '{module}'" in printed) == (1, True)


@pytest.mark.timeout(900)
def test_bytecode_is_there_because_it_cannot_be_written_later(image):
    for package in ("rackspan", "kopf"):
        (folder,) = image.glob(f"lib/python*/site-packages/{package}")
        sources = list(folder.rglob("*.py"))
        compiled = {path.name.split(".")[0] for path in folder.rglob("__pycache__/*.pyc")}
        assert {path.stem for path in sources} <= compiled
