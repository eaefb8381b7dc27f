"""Topologies, scans and times for tests of scans."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.support.manifests import TOPOLOGY, changed

from rackspan.api.labels import SCAN_NOW
from rackspan.api.meta import ObjectKey
from rackspan.api.racktopology import RackTopology, ScanTrigger
from rackspan.reconcile.scans.job_status import JobRun, RunKind

UID = "11111111-2222-3333-4444-555555555555"


def at(text):
    """Return a time in UTC from text such as `2026-01-31 03:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def topology(request=None, *, name="prod", racks=("/eu/a", "/eu/b"), **compliance):
    metadata = {"name": name, "namespace": "kafka", "uid": UID, "generation": 1}
    if request is not None:
        metadata["annotations"] = {SCAN_NOW: request}
    status = {"observedGeneration": 1, "brokers": [{"id": number, "rack": rack} for number, rack in enumerate(racks)]}
    patch = {"metadata": metadata, "spec": {"compliance": compliance} if compliance else {}, "status": status}
    return RackTopology.from_object(changed(TOPOLOGY, patch))


def run(name="scan-a", created="2026-01-31 03:00", trigger=ScanTrigger.SCHEDULE, cause=None, **fields):
    if cause is None:
        cause = at(created).strftime("%Y-%m-%dT%H:%M:%SZ")
    uid = f"uid-of-{name}"
    state = {"finished": None, "succeeded": False, "reason": "", "message": "", "deleting": False, "pending": False}
    fields = {**state, "deadline": None, **fields}
    return JobRun(RunKind.JOB, name, uid, ObjectKey("kafka", "prod"), UID, trigger, cause, at(created), **fields)


def succeeded(one, minutes=1):
    return replace(one, finished=one.created + timedelta(minutes=minutes), succeeded=True, reason="CompletionsReached")


def failed(one, reason="BackoffLimitExceeded", minutes=1):
    return replace(one, finished=one.created + timedelta(minutes=minutes), reason=reason, message="it broke")
