"""The dashboard and the alerts: they parse, alerts have runbooks, and every metric in them is exported."""

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
    """Return the names of all series. A histogram has three."""
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


def test_every_metric_of_the_alerts_and_the_dashboard_is_exported():
    named = {name for expression in expressions() for name in NAME.findall(expression)}
    assert len(named) > 15
    assert named - exported() == set()


def test_every_label_in_a_selector_belongs_to_its_metric():
    labels = {family.name: set(metric._labelnames) for metric, family in _declared()}
    for expression in expressions():
        for name, selector in re.findall(r"(rackspan_[a-z_]+)\{([^}]*)\}", expression):
            used = set(re.findall(r"(\w+)\s*[=!]~?", selector))
            assert used <= labels[name.removesuffix("_total")], expression


def test_no_metric_has_a_total_label_value_or_a_created_series():
    """A sum over a metric must count nothing twice. Creation times of counters are not needed."""
    for family in REGISTRY.collect():
        for sample in family.samples:
            assert "total" not in sample.labels.values(), sample
            assert not sample.name.endswith("_created"), sample


def test_metric_names_use_base_units():
    for metric, family in _declared():
        assert not re.search(r"_(minutes|hours|days|milliseconds|millis|ms|kb|mb|percent)(_|$)", family.name), metric
        assert family.documentation.rstrip(".") == family.documentation


def test_build_info_metric_has_the_version():
    (sample,) = [one for family in REGISTRY.collect() for one in family.samples if one.name == "rackspan_build_info"]
    assert sample.value == 1
    assert sample.labels["version"]


def _declared():
    for value in vars(metrics).values():
        if hasattr(value, "_labelnames"):
            yield value, value.describe()[0]


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_alert_has_a_severity_a_summary_and_a_runbook(rule):
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["runbook"].rstrip().endswith(".")
    assert rule["expr"].count("(") == rule["expr"].count(")")


def test_alert_names_are_unique():
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)


ON_CALL = (
    "lease_held", "topology_connected", "brokers", "drifted_brokers", "non_compliant_topics", "moves_needed",
    "deletions_held", "reassignment_copied_bytes", "reassignment_bytes_per_second", "reassignment_waiting_partitions",
    "reassignment_throttles", "drain_replicas_left",
)  # fmt: skip


def test_dashboard_shows_the_on_call_metrics_before_the_scans():
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


def test_chart_renders_the_dashboard_and_the_alerts_if_enabled(offline_helm):
    assert {"PrometheusRule"} & {item["kind"] for item in offline_helm.objects()} == set()
    values = {"dashboard": {"enabled": True, "annotations": {"folder": "Kafka"}}, "rules": {"enabled": True}}
    objects = offline_helm.objects({"metrics": values})
    config = only(objects, "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert config["metadata"]["annotations"] == {"folder": "Kafka"}
    assert json.loads(config["data"]["rackspan.json"]) == json.loads(DASHBOARD.read_text())
    rule = only(objects, "PrometheusRule")
    own = f'absent(rackspan_build_info{{namespace="{rule["metadata"]["namespace"]}"}})'
    alerts = ALERTS.read_text()
    assert alerts.count("absent(rackspan_build_info)") == 1
    assert rule["spec"] == yaml.safe_load(alerts.replace("absent(rackspan_build_info)", own))
