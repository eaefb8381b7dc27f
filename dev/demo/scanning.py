"""The act about compliance scans: a scan finds a broken topic, Kafka's tool fixes it, a Spark scan confirms it."""

import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.demo.stage import IN_SHOP, RACKSPAN, REASSIGN, Stage
from dev.stack.kubectl import KubectlError
from dev.stack.nodes import LEVELS
from dev.waiting import eventually

_ORDERS_IN_ONE_ZONE = {
    "version": 1,
    "partitions": [{"topic": "orders", "partition": 0, "replicas": [0, 1, 2]}],
}
_SECONDS = 900
"""The timeout of a scan."""


@dataclass(frozen=True, slots=True)
class Scanning:
    """The act, with its stage, the port of the operator's metrics, and the history of scans."""

    stage: Stage
    metrics_port: int
    history: Path

    def play(self) -> None:
        """Play the act. Raise DemoError if a claim does not hold."""
        self._on_demand()
        self._broken()
        self._found()
        self._mended()

    def _on_demand(self) -> None:
        terminal = self.stage.terminal
        terminal.say(
            "Scans are Jobs. These nodes run no containers, so the demo runs the command of each Job as a process, "
            "with the permissions of its ServiceAccount. A small cluster needs no Spark. The first scan:"
        )
        self._patch({"historyLocation": self.history.as_uri(), "concurrencyPolicy": "Forbid"})
        self._scan_now("first")
        report = self._report(lambda status: status.get("scanId"), "the first scan")
        terminal.run(f"kubectl get compliancereports {IN_SHOP}")
        terminal.check(report["summary"]["nonCompliant"] == 0, "the first scan finds every partition compliant")

    def _broken(self) -> None:
        terminal = self.stage.terminal
        terminal.say("Another client moves all replicas of a partition of orders to one zone, with Kafka's own tool:")
        self._reassign("broken", json.dumps(_ORDERS_IN_ONE_ZONE))
        terminal.say("Scans run on a schedule or on demand:")
        self._scan_now("broken")

    def _found(self) -> None:
        terminal = self.stage.terminal
        report = self._report(lambda status: status["summary"]["nonCompliant"] == 1, "the scan with the finding")
        terminal.run(f"kubectl get compliancereports {IN_SHOP}")
        terminal.run(
            f"kubectl get compliancereport main {IN_SHOP} -o jsonpath="
            '\'{range .status.findings[*]}{.severity}{"  "}{.topic}-{.partition}: {.message}{"\\n"}{end}\''
        )
        found = [finding for finding in report["findings"] if finding["rule"] == "NotCompliant"]
        terminal.check(
            {(finding["topic"], finding["partition"]) for finding in found} == {("orders", 0)},
            "orders-0 is the only finding of a non-compliant partition",
        )
        selector = "--field-selector reason=FindingNew"
        events = ("get", "events", "--namespace", "shop", "--field-selector", "reason=FindingNew")
        eventually(lambda: self.stage.running.kubectl.json(*events)["items"], "an Event about it")
        terminal.run(f"kubectl get events {IN_SHOP} {selector}")
        line = eventually(self._metric, "the metric", retry_on=OSError)
        terminal.show(f"curl -s http://127.0.0.1:{self.metrics_port}/metrics | grep non_compliant")
        terminal.say(line)

    def _mended(self) -> None:
        terminal = self.stage.terminal
        server = self.stage.running.kafka.bootstrap().split(",")[0]
        terminal.say("The plan, in the form that Kafka's own tool executes:")
        plan = terminal.run(
            f"{RACKSPAN} plan --bootstrap-server {server} --topic orders --levels {','.join(LEVELS)} -o reassignment"
        )
        self._reassign("fixed", plan)
        terminal.say("The next scan runs on Spark:")
        self._patch({"engine": "Job"})
        self._scan_now("fixed")
        report = self._report(
            lambda status: status["summary"]["nonCompliant"] == 0 and status["changes"]["cleared"], "the next scan"
        )
        terminal.run(f"kubectl get compliancereports {IN_SHOP}")
        terminal.check(report["changes"]["cleared"] > 0, "the next scan reports the finding as cleared")
        trend = (
            "import json, sys; "
            "print([(day['date'], day['scans'], day['violationMinutes']) for day in json.load(sys.stdin)['trend']])"
        )
        page = self.history.with_name("scan.html")
        shown = terminal.run(
            f'{RACKSPAN} report export --history {self.history} --page {page} -o json | .venv/bin/python -c "{trend}"'
        )
        minutes = float(shown.strip().rstrip(")]").rpartition(",")[2])
        terminal.check(minutes > 0, f"the trend counts the {minutes:g} minutes in which orders was non-compliant")
        text = page.read_text(encoding="utf-8")
        cleared = "orders" in text and "NotCompliant" in text
        terminal.check(cleared, f"the page shows the cleared findings ({len(text) // 1024} KiB)")

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _patch(self, compliance: dict[str, Any]) -> None:
        self.stage.patch("racktopology main", {"compliance": compliance})

    def _scan_now(self, why: str) -> None:
        self.stage.terminal.run(f"kubectl annotate --overwrite racktopology main {IN_SHOP} rackspan.dev/scan-now={why}")

    def _reassign(self, name: str, plan: str) -> None:
        file = self.history.with_name(f"{name}.json")
        file.write_text(plan, encoding="utf-8")
        self.stage.kafka(REASSIGN, "--reassignment-json-file", str(file), "--execute")
        admin = self.stage.running.kafka.admin()

        def done() -> bool:
            topics = admin.list_topics(timeout=10).topics
            return all(
                {*topics[one["topic"]].partitions[one["partition"]].replicas} == {*one["replicas"]}
                for one in json.loads(plan)["partitions"]
            )

        eventually(done, "the reassignment to end")

    def _report(self, holds: Any, what: str) -> dict[str, Any]:
        def read() -> dict[str, Any] | None:
            status: dict[str, Any] = self.stage.get("compliancereport", "main").get("status") or {}
            return status if status.get("summary") and holds(status) else None

        report = eventually(read, what, timeout=_SECONDS, interval=0.3, retry_on=KubectlError)
        assert report is not None
        return report

    def _metric(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            lines: list[str] = answer.read().decode().splitlines()
        wanted = 'rackspan_scan_faulty_partitions{fault="non_compliant",topology="shop/main"} 1.0'
        return next((line for line in lines if line == wanted), "")
