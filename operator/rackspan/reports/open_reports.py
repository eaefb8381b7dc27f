"""The scan document as an `openreports.io/v1alpha1` Report, for dashboards that show such reports of many tools.

One result per finding, the worst first. Findings beyond the limits are only counted, in the summary.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rackspan.api import compliancereport, racktopology
from rackspan.api.labels import API_VERSION
from rackspan.reports.compliance_report import cut, first_that_fit, worst_first
from rackspan.reports.document import ScanOutcome

if TYPE_CHECKING:
    from rackspan.api.meta import ObjectKey
    from rackspan.reports.document import FindingRow, ScanDocument

GROUP: Final = "openreports.io"
VERSION: Final = "v1alpha1"
KIND: Final = "Report"
PLURAL: Final = "reports"
SOURCE: Final = "rackspan"
MAX_RESULTS: Final = 500
MAX_RESULT_BYTES: Final = 400 * 1024

_POLICY = "rackspan-compliance"
_CATEGORIES = {
    "Offline": "Availability",
    "BrokerOffline": "Availability",
    "UnderReplicated": "Availability",
    "LeaderNotPreferred": "Balance",
    "MinInsyncTooSmall": "Durability",
    "MinInsyncTooLarge": "Durability",
    "ReplicationFactorDiffers": "Durability",
    "UnmanagedTopic": "Governance",
}
_PLACEMENT = "Placement"
_RESULTS = {"critical": "fail", "high": "fail", "medium": "fail", "low": "warn", "info": "warn"}
_MAX_TEXT = 2_048


def open_report(document: ScanDocument, topology: ObjectKey, uid: str) -> dict[str, Any]:
    """Return the Report about a RackTopology, with its namespace and name. A failed scan has one result, `error`."""
    scope = {
        "apiVersion": API_VERSION,
        "kind": racktopology.KIND,
        "namespace": topology.namespace,
        "name": topology.name,
        "uid": uid,
    }
    results = [_failed(document)] if document.state is ScanOutcome.FAILED else _results(document)
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "namespace": topology.namespace,
            "name": topology.name,
            "labels": {"app.kubernetes.io/managed-by": SOURCE},
            "annotations": {
                "rackspan.dev/scan-id": document.scan_id,
                "rackspan.dev/more": f"{compliancereport.KIND} {topology.namespace}/{topology.name}",
            },
        },
        "source": SOURCE,
        "scope": scope,
        "summary": _summary(document),
        "results": results,
    }


def _summary(document: ScanDocument) -> dict[str, int]:
    """Count findings by result. `pass` counts the partitions that are spread as required, `skip` unread topics."""
    if document.state is ScanOutcome.FAILED:
        return {"pass": 0, "fail": 0, "warn": 0, "error": 1, "skip": 0}
    counts = {"fail": 0, "warn": 0}
    for severity, number in document.summary.by_severity.items():
        counts[_RESULTS.get(severity, "warn")] += number
    passed = document.summary.partitions - document.summary.non_compliant
    return {"pass": passed, **counts, "error": 0, "skip": document.summary.unread_topics}


def _results(document: ScanDocument) -> list[dict[str, Any]]:
    at = _timestamp(document.finished_at)
    results = (_result(row, at) for row in worst_first(document.findings))
    return first_that_fit(results, MAX_RESULTS, MAX_RESULT_BYTES, lambda result: len(repr(result).encode()))


def _result(row: FindingRow, at: dict[str, int]) -> dict[str, Any]:
    about = {
        "topic": row.topic,
        "partition": row.partition,
        "broker": row.broker,
        "level": row.level,
        "domain": row.domain,
        "moves": row.moves or None,
        "fix": cut(row.fix, _MAX_TEXT) or None,
        "firstSeen": row.first_seen,
    }
    return {
        "policy": _POLICY,
        "rule": row.rule,
        "category": _CATEGORIES.get(row.rule, _PLACEMENT),
        "severity": row.severity if row.severity in _RESULTS else "info",
        "result": _RESULTS.get(row.severity, "warn"),
        "message": cut(row.message, _MAX_TEXT),
        "source": SOURCE,
        "scored": True,
        "timestamp": at,
        "properties": {"id": row.id, **{key: str(value) for key, value in about.items() if value is not None}},
    }


def _failed(document: ScanDocument) -> dict[str, Any]:
    return {
        "policy": _POLICY,
        "rule": "NotJudged",
        "category": "Availability",
        "severity": "high",
        "result": "error",
        "message": cut(document.message or document.reason or "the scan failed", _MAX_TEXT),
        "source": SOURCE,
        "scored": False,
        "timestamp": _timestamp(document.finished_at),
        "properties": {"reason": document.reason, "scanId": document.scan_id},
    }


def _timestamp(text: str) -> dict[str, int]:
    moment = datetime.fromisoformat(text)
    return {"seconds": int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()), "nanos": 0}
