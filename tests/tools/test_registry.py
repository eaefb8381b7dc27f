"""The chart of a release in an OCI registry: helm pulls an identical package that renders the same manifests."""

import pytest
from dev import release
from dev.stack.assets import kubernetes_version
from tests.support.helm import CHART, Helm
from tests.support.registry import oci_registry, push_chart


@pytest.fixture(scope="module")
def chart(helm, kafka_distribution, tmp_path_factory):
    """Return the packaged chart of a release."""
    folder = tmp_path_factory.mktemp("release") / "built"
    release.build(folder, helm, kafka_distribution)
    return folder / f"rackspan-{release.version()}.tgz"


def test_chart_is_pushed_pulled_and_rendered_from_the_registry(processes, chart, helm, tmp_path):
    run = Helm(helm)
    rendered = ("--namespace=rackspan", f"--kube-version={kubernetes_version()}")
    with oci_registry(processes, tmp_path) as address:
        digest = push_chart(helm, chart, address)
        name = f"oci://{address}/charts/rackspan"
        run("pull", name, "--plain-http", f"--version={release.version()}", f"--destination={tmp_path}")
        by_digest = run("template", "rackspan", f"{name}@{digest}", "--plain-http", *rendered)
    assert (tmp_path / chart.name).read_bytes() == chart.read_bytes()
    assert by_digest == run("template", "rackspan", CHART, *rendered)
