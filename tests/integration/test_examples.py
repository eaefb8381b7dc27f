"""A real API server accepts every sample of examples/ and of the documentation.

A YAML block of a page is a sample if it contains whole objects. Other blocks are fragments and must be valid YAML.
"""

import json
import re
from pathlib import Path

import pytest
import yaml
from dev.paths import REPOSITORY
from dev.stack.kubectl import KubectlError
from dev.waiting import eventually

PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/results/README.md")),
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
CI = REPOSITORY / "examples" / "ci"  # its commands are run by tests/unit/cli/test_ci_examples.py
ARGOCD = REPOSITORY / "examples" / "argocd"  # applied by tests/gitops/test_argocd.py
FLUX = REPOSITORY / "examples" / "gitops" / "clusters"  # applied by tests/gitops/test_flux.py
EXAMPLES = sorted(
    path for path in (REPOSITORY / "examples").rglob("*.yaml") if not {CI, ARGOCD, FLUX} & {*path.parents}
)
# API versions of other projects that samples may use. The development stack does not have their definitions.
ELSEWHERE = {"monitoring.coreos.com/v1", "kafka.strimzi.io/v1"}
FENCE = re.compile(r"^(?P<indent> *)```ya?ml *\n(?P<body>.*?)^(?P=indent)``` *$", re.MULTILINE | re.DOTALL)


def name_of(path):
    return str(path.relative_to(REPOSITORY))


def blocks():
    """Yield the YAML blocks of all pages as parameters, with the page and the first line as id."""
    for page in PAGES:
        text = page.read_text()
        for block in FENCE.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            yield pytest.param(block["body"], id=f"{name_of(page)}:{line}")


def objects(text):
    """Yield the whole objects of a YAML text without their namespaces, which a dry run cannot create."""
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict) and {"apiVersion", "kind"} <= document.keys():
            if document["apiVersion"] in ELSEWHERE:
                continue
            document["metadata"].pop("namespace", None)
            yield document


def dry_run(kubectl, namespace, text):
    """Apply the objects as a dry run and return the objects that the API server would store."""
    manifests = [json.dumps(document) for document in objects(text)]
    if not manifests:
        return []
    arguments = ["--dry-run=server", "--validate=strict", "--output=json"]
    stored = json.loads(kubectl.in_namespace(namespace).apply(*manifests, arguments=arguments))
    return stored["items"] if stored["kind"] == "List" else [stored]


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_api_server_accepts_every_example(path, kubectl, crds, namespace):
    wanted = [document["metadata"]["name"] for document in objects(path.read_text())]
    assert wanted
    assert [item["metadata"]["name"] for item in dry_run(kubectl, namespace, path.read_text())] == wanted


@pytest.mark.parametrize("text", list(blocks()))
def test_api_server_accepts_every_sample_of_the_documentation(text, kubectl, crds, namespace):
    assert len(dry_run(kubectl, namespace, text)) == len(list(objects(text)))


def test_strimzi_definitions_accept_the_strimzi_example(kubectl, namespace):
    definitions = Path(__file__).with_name("strimzi-definitions.yaml")
    kubectl.apply(definitions)
    names = [one["metadata"]["name"] for one in yaml.safe_load_all(definitions.read_text())]
    try:
        kubectl.wait_until_served(*names)
        found = yaml.safe_load_all((REPOSITORY / "examples" / "brokers" / "strimzi.yaml").read_text())
        strimzis = [one for one in found if one["apiVersion"] == "kafka.strimzi.io/v1"]
        assert {one["kind"] for one in strimzis} == {"Kafka", "KafkaNodePool"}
        arguments = ["--dry-run=server", "--validate=strict"]
        mine = kubectl.in_namespace(namespace)
        for one in strimzis:
            one["metadata"]["namespace"] = namespace
            eventually(lambda one=one: mine.apply(one, arguments=arguments), "it to be taken", retry_on=KubectlError)
        one["spec"]["kafka"]["rack"]["nodeLabel"] = "zone"
        with pytest.raises(KubectlError, match="unknown field"):
            mine.apply(one, arguments=arguments)
    finally:
        kubectl("delete", "--ignore-not-found", *(f"crd/{name}" for name in names))


def test_first_examples_set_the_fields_that_the_demo_shows():
    specs = {
        document["metadata"]["name"]: document["spec"]
        for path in (REPOSITORY / "examples").glob("*.yaml")
        for document in objects(path.read_text())
    }
    assert "levels" in specs["main"]
    assert "placement" not in specs["orders"]
    assert specs["payments"]["replicationFactor"] == 4
    assert specs["sessions"]["placement"]["leaders"]
    assert specs["ledger"]["placement"]["assignment"]
    assert all(spec["topologyRef"] == {"name": "main"} for name, spec in specs.items() if name != "main")


def anchors(page):
    """Return the anchors that GitHub derives from the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = (re.sub(r"\]\([^)]*\)|[\[`*]", "", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_pages_have_existing_targets():
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text()):
            file, _, anchor = target.partition("#")
            there = page.parent / file if file else page
            if "://" in target:
                continue
            if not there.exists() or (anchor and anchor not in anchors(there)):
                broken.append(f"{name_of(page)}: {target}")
    assert broken == []
