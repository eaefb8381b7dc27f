"""The dashboard and the alerts: they parse, they say what to do, and they name no metric that is not exported."""

import json
import re
import subprocess

import pytest
import yaml
from prometheus_client import REGISTRY
from tests.support.alerting import ALERTS
from tests.support.helm import CHART, only

from rackspan import metrics

DASHBOARD = CHART / "files" / "dashboard.json"
NAME = re.compile(r"rackspan_[a-z_]+")


def exported():
    """Names of series: a histogram has three."""
    assert metrics.SCAN_FINDINGS
    names = set()
    for family in REGISTRY.collect():
        names.add(family.name)
        if family.type == "counter":
            names.add(f"{family.name}_total")
        if family.type == "histogram":
            names |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
    return names


def alerts():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions():
    dashboard = json.loads(DASHBOARD.read_text())
    variables = [item["query"]["query"] for item in dashboard["templating"]["list"] if item["type"] == "query"]
    return [
        *(rule["expr"] for rule in alerts()),
        *(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())),
        *variables,
    ]


def test_every_metric_that_is_looked_at_is_exported():
    named = {name for expression in expressions() for name in NAME.findall(expression)}
    assert len(named) > 15
    assert named - exported() == set()


def test_every_label_that_is_selected_by_is_one_of_the_metric():
    labels = {family.name: set(metric._labelnames) for metric, family in _declared()}
    for expression in expressions():
        for name, selector in re.findall(r"(rackspan_[a-z_]+)\{([^}]*)\}", expression):
            used = set(re.findall(r"(\w+)\s*[=!]~?", selector))
            assert used <= labels[name.removesuffix("_total")], expression


def test_no_series_stands_beside_its_parts_or_beside_itself():
    """A sum over a metric must count nothing twice, and nobody asked when a counter was made."""
    for family in REGISTRY.collect():
        for sample in family.samples:
            assert "total" not in sample.labels.values(), sample
            assert not sample.name.endswith("_created"), sample


def test_names_are_in_base_units():
    for metric, family in _declared():
        assert not re.search(r"_(minutes|hours|days|milliseconds|millis|ms|kb|mb|percent)(_|$)", family.name), metric
        assert family.documentation.rstrip(".") == family.documentation


def test_the_build_is_told():
    (sample,) = [one for family in REGISTRY.collect() for one in family.samples if one.name == "rackspan_build_info"]
    assert sample.value == 1
    assert sample.labels["version"]


def _declared():
    for value in vars(metrics).values():
        if hasattr(value, "_labelnames"):
            yield value, value.describe()[0]


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(rule):
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook"].rstrip().endswith(".")
    assert rule["expr"].count("(") == rule["expr"].count(")")


def test_alerts_have_names_of_their_own():
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)


ON_CALL = (
    "lease_held", "topology_connected", "brokers", "drifted_brokers", "non_compliant_topics", "moves_needed",
    "deletions_held", "reassignment_copied_bytes", "reassignment_bytes_per_second", "reassignment_waiting_partitions",
    "reassignment_throttles", "drain_replicas_left",
)  # fmt: skip


def test_the_dashboard_begins_with_what_somebody_on_call_needs():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    titles = [panel["title"] for panel in panels if panel["type"] == "row"]
    assert titles == ["Now", "Reassignments and drains", "Topics, brokers and the operator", "Scans"]
    places = {}
    for at, panel in enumerate(panels):
        for target in panel.get("targets", ()):
            for name in NAME.findall(target["expr"]):
                places.setdefault(name.removeprefix("rackspan_"), at)
    scans = next(at for at, panel in enumerate(panels) if panel["title"] == "Scans")
    assert [name for name in ON_CALL if places.get(name, scans) >= scans] == []
    assert [name for name, at in places.items() if name.startswith("scan") and at < scans] == []


def test_prometheus_parses_every_query_of_the_dashboard(promtool, tmp_path):
    queries = [
        expression.replace("$topology", ".*") for expression in expressions() if "label_values" not in expression
    ]
    rules = [{"record": f"query{number}", "expr": query} for number, query in enumerate(queries)]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_do_not_overlap():
    taken = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_chart_brings_them_when_asked(offline_helm):
    assert {"PrometheusRule"} & {item["kind"] for item in offline_helm.objects()} == set()
    values = {"dashboard": {"enabled": True, "annotations": {"folder": "Kafka"}}, "rules": {"enabled": True}}
    objects = offline_helm.objects({"metrics": values})
    config = only(objects, "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["annotations"] == {"folder": "Kafka"}
    assert json.loads(config["data"]["rackspan.json"]) == json.loads(DASHBOARD.read_text())
    assert only(objects, "PrometheusRule")["spec"] == yaml.safe_load(ALERTS.read_text())
