"""The chart of a release in an OCI registry: what helm pulls has the bytes of the release, and renders the same."""

import re
import subprocess

import pytest
from dev import release
from dev.stack.assets import ensure_registry, kubernetes_version
from dev.stack.processes import free_ports
from dev.waiting import eventually
from tests.support.helm import CHART, Helm

CONFIG = """version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@pytest.fixture(scope="module")
def chart(helm, kafka_distribution, tmp_path_factory):
    """The package of the chart, as a release has it."""
    folder = tmp_path_factory.mktemp("release") / "built"
    release.build(folder, helm, kafka_distribution)
    return folder / f"rackspan-{release.version()}.tgz"


@pytest.fixture
def registry(processes, tmp_path):
    """Where charts are pushed to, on loopback."""
    (port,) = free_ports(1)
    config = tmp_path / "registry.yaml"
    config.write_text(CONFIG.format(folder=tmp_path / "registry", port=port))
    processes.start("registry", [str(ensure_registry()), "serve", str(config)])
    yield f"oci://127.0.0.1:{port}/charts"
    processes.kill("registry")


def test_a_chart_is_pushed_pulled_and_rendered_from_the_registry(registry, chart, helm, tmp_path):
    run = Helm(helm)
    command = [str(helm), "push", str(chart), registry, "--plain-http"]

    def pushed():
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done if done.returncode == 0 else None

    done = eventually(pushed, "the registry to take the chart")
    digest = re.search(r"^Digest: (sha256:[0-9a-f]{64})$", done.stdout + done.stderr, re.MULTILINE)[1]
    where = (f"{registry}/rackspan", "--plain-http")
    run("pull", *where, f"--version={release.version()}", f"--destination={tmp_path}")
    assert (tmp_path / chart.name).read_bytes() == chart.read_bytes()
    rendered = ("--namespace=rackspan", f"--kube-version={kubernetes_version()}")
    by_digest = run("template", "rackspan", f"{registry}/rackspan@{digest}", "--plain-http", *rendered)
    assert by_digest == run("template", "rackspan", CHART, *rendered)
