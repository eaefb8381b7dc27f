"""The Dockerfile. These tests need no container engine: they run its commands in folders instead of its paths.

The commands of the scan's stages run in tests/e2e, which build the image.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pip
import pytest
import yaml
from dev import release
from dev.paths import REPOSITORY
from tests.chart import dockerfile
from tests.support.helm import CHART, only

from rackspan.reconcile.scans import DEFAULT_APPLICATION

ARGUMENTS, STAGES = dockerfile.read(REPOSITORY / "Dockerfile")
_CHECKED_BY_HASH = 0b11  # PEP 552


def test_all_stages_are_built_from_one_configurable_base_image():
    assert ARGUMENTS.keys() == {"BASE_IMAGE"}
    assert re.fullmatch(r"python:3\.\d+-slim(@sha256:[0-9a-f]{64})?", ARGUMENTS["BASE_IMAGE"])
    standing_on_base = dict.fromkeys(["build", "operator", "spark", "scan"], "${BASE_IMAGE}")
    assert {name: stage.base for name, stage in STAGES.items()} == {**standing_on_base, "code": "build"}


def test_release_workflow_uses_the_base_image_of_the_dockerfile():
    workflow = (REPOSITORY / ".github" / "workflows" / "release.yml").read_text()
    assert f"make images IMAGES_BASE=docker.io/library/{ARGUMENTS['BASE_IMAGE']}\n" in workflow


def test_build_stages_use_the_source_date_epoch_of_the_release():
    """Files of layers have this modification time, so bytecode that is checked by time would be outdated."""
    for stage in ("build", "spark"):
        assert STAGES[stage].one("ENV").rest == f"SOURCE_DATE_EPOCH={release.EPOCH}"


def test_operator_stages_and_lock_file_contain_no_spark():
    behind = ["operator", "build"]
    assert [i.rest for name in behind for i in STAGES[name].all("COPY") if "--from=" in i.rest] == [
        "--from=build /opt/rackspan /opt/rackspan"
    ]
    assert not [i.rest for name in behind for i in STAGES[name].instructions if "spark" in i.rest or "scan" in i.rest]
    lock = (REPOSITORY / "requirements" / "operator.lock").read_text()
    assert "pyspark" not in lock


def test_scan_packages_are_installed_from_the_lock_file_with_hashes():
    installed = [i.rest for i in STAGES["spark"].all("RUN") if re.search(r"pip .*\b(install|wheel) ", i.rest)]
    assert len(installed) == 4
    assert all("--require-hashes" in command or "--no-index" in command for command in installed)
    lock = (REPOSITORY / "requirements" / "scan.lock").read_text()
    assert re.search(r"^pyspark==4\.", lock, re.MULTILINE)
    assert "://" not in lock
    pinned = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
    of_operator = set(pinned.findall((REPOSITORY / "requirements" / "operator.lock").read_text()))
    assert of_operator <= set(pinned.findall(lock))


def test_scan_image_runs_as_a_named_user_with_the_scan_entrypoint():
    final, operator = STAGES["scan"], STAGES["operator"]
    assert final.one("USER").rest == operator.one("USER").rest
    uid = final.one("USER").rest.split(":")[0]
    installed, archived = (i.rest for i in final.all("RUN"))
    assert f"useradd --uid {uid} " in installed
    assert archived.startswith("python -m rackspan.jobs.spark.class_archive ")
    assert final.one("ENTRYPOINT").words() == ["scan-entrypoint"]
    assert "images/scan-entrypoint.sh /usr/local/bin/scan-entrypoint" in [i.rest for i in final.all("COPY")]
    assert final.one("WORKDIR").rest == "/tmp"


def test_scan_image_contains_the_file_of_the_default_spark_application():
    copies = [instruction.words() for instruction in STAGES["scan"].all("COPY")]
    (source,) = [words[1] for words in copies if f"local://{words[-1]}" == DEFAULT_APPLICATION]
    assert (REPOSITORY / source.removeprefix("/src/")).is_file()


ENVIRONMENT_OF_AN_EXECUTOR = {
    "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    "SPARK_JAVA_OPT_1": "-Dtitle=two words",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.2",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "scan-exec-1",
    "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.1",
}


@pytest.fixture
def entered(tmp_path):
    """Return a function that runs the scan's entrypoint and returns the command that it executes."""
    for name in ("java/bin/java", "spark/bin/spark-submit", "bin/rackspan"):
        program = tmp_path / name
        program.parent.mkdir(parents=True)
        program.write_text('#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)

    def run(*arguments):
        environment = {
            **ENVIRONMENT_OF_AN_EXECUTOR,
            "JAVA_HOME": str(tmp_path / "java"),
            "SPARK_HOME": str(tmp_path / "spark"),
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        }
        command = [REPOSITORY / "images" / "scan-entrypoint.sh", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()

    return run


def test_scan_entrypoint_runs_rackspan_by_default(entered):
    assert entered("scan", "--scan-id", "a b") == ["rackspan", "scan", "--scan-id", "a b"]


def test_scan_entrypoint_starts_a_spark_executor(entered):
    java = entered("executor")
    assert java[:5] == ["java", "-Dspark.driver.port=7078", "-Dtitle=two words", "-Xms512m", "-Xmx512m"]
    assert "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend" in java
    flags = dict(zip(java[-14::2], java[-13::2], strict=True))
    assert flags == {
        "--driver-url": "spark://CoarseGrainedScheduler@10.0.0.1:7078",
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.2",
        "--resourceProfileId": "0",
        "--podName": "scan-exec-1",
    }


def test_scan_entrypoint_starts_a_spark_driver(entered):
    submit = entered("driver", "--properties-file", "/conf/p", "local:///job.py", "a b")
    assert submit[0] == "spark-submit"
    assert "spark.driver.bindAddress=10.0.0.1" in submit
    assert submit[-5:] == ["client", "--properties-file", "/conf/p", "local:///job.py", "a b"]


def test_operator_image_has_the_user_command_and_port_of_the_chart(offline_helm):
    final = STAGES["operator"]
    pod = only(offline_helm.objects(), "Deployment")["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert final.one("USER").rest == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert final.one("ENTRYPOINT").words() == ["rackspan"]
    assert final.one("CMD").words() == pod["containers"][0]["args"] == ["operator"]
    assert final.one("EXPOSE").words() == [str(pod["containers"][0]["ports"][0]["containerPort"])]


@pytest.mark.parametrize("stage", ["operator", "scan"])
def test_image_has_labels_for_license_source_and_version(stage):
    labels = dict(word.split("=", 1) for word in STAGES[stage].one("LABEL").words())
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert [labels["org.opencontainers.image.source"]] == chart["sources"]
    arguments = dict(instruction.rest.split("=") for instruction in STAGES[stage].all("ARG"))
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert arguments["VERSION"] == chart["appVersion"]


def test_operator_stage_copies_only_the_environment_and_the_strimzi_script():
    final = STAGES["operator"]
    assert [instruction.rest for instruction in final.all("COPY")] == [
        "--from=build /opt/rackspan /opt/rackspan",
        "images/strimzi-rack.sh /opt/strimzi/bin/kafka_init_run.sh",
    ]
    assert final.all("RUN") == []


def copied():
    """Yield the sources of each COPY from the build context."""
    for stage in STAGES.values():
        for instruction in stage.all("COPY"):
            if not instruction.rest.startswith("--from="):
                yield [source.rstrip("/") for source in instruction.words()[:-1]]


def test_build_context_contains_exactly_the_copied_files():
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    assert patterns[0] == "*"
    let_in = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    assert let_in == {source for sources in copied() for source in sources}
    assert all((REPOSITORY / path).exists() for path in let_in)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Return /opt/rackspan as the build stage creates it. Pip uses its cache, so that few wheels are downloaded."""
    root = tmp_path_factory.mktemp("image")
    base, source, built = root / "base", root / "src", root / "opt" / "rackspan"
    # Python of the base image, with pip. The pip of this environment is linked, which saves an installation.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", base], check=True)
    (packages,) = base.glob("lib/python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.__file__).parent)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment["PATH"] = f"{base / 'bin'}:{environment['PATH']}"
    environment |= {"PIP_RETRIES": "10", "PIP_DEFAULT_TIMEOUT": "60"}  # the index may be slow

    def in_root(text):
        text = text.replace(" --no-cache-dir", "")
        return text.replace("/opt/rackspan", str(built)).replace("/src", str(source))

    for instruction in STAGES["build"].instructions:
        if instruction.word == "WORKDIR":
            assert instruction.rest == "/src"
            source.mkdir()
        elif instruction.word == "ENV":
            environment |= dict(word.split("=", 1) for word in instruction.words())
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
    shutil.rmtree(source)  # the result must not refer to the sources
    return built


def in_image(image, *command):
    done = subprocess.run([image / "bin" / command[0], *command[1:]], capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_built_environment_runs_rackspan_and_loads_its_placers(image):
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


@pytest.mark.parametrize("module", ["pyspark", "pip", "pytest", "hatchling"])
def test_built_environment_lacks_modules_that_the_operator_does_not_need(image, module):
    code, printed = in_image(image, "python", "-c", f"import {module}")
    assert (code, f"No module named '{module}'" in printed) == (1, True)


def test_built_environment_contains_bytecode_that_is_checked_by_hash(image):
    for package in ("rackspan", "kopf"):
        (folder,) = image.glob(f"lib/python*/site-packages/{package}")
        sources = list(folder.rglob("*.py"))
        compiled = {path.name.split(".")[0]: path for path in folder.rglob("__pycache__/*.pyc")}
        assert {path.stem for path in sources} <= compiled.keys()
        assert {path.read_bytes()[4] for path in compiled.values()} == {_CHECKED_BY_HASH}
