"""`rackspan scan --watch`: the command requests a scan, the operator runs it, the command prints the report."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.reports import failed_document, finding
from tests.support.scans import UNREACHABLE, publish

from rackspan.reports.document import Summary

pytestmark = pytest.mark.stack

PROGRAM = Path(sys.executable).with_name("rackspan")


def watching(objects, control_plane, *options):
    command = [PROGRAM, "scan", "--topology", f"{objects.namespace}/kafka", "--watch", "--timeout", "180", *options]
    return subprocess.Popen(
        [*command, "--kubeconfig", control_plane.kubeconfig], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


async def test_scan_watch_requests_a_scan_and_prints_its_report(scanning, scans, objects, control_plane):
    objects.create_topology(UNREACHABLE)
    with watching(objects, control_plane, "-o", "json") as command:
        (job,) = scans.until_jobs(1)
        wrong = finding("a", topic="orders", partition=0, message="zone /eu/a holds 1 too many")
        summary = Summary(topics=1, partitions=6, non_compliant=1, findings=1, by_severity={"high": 1})
        await publish(objects, control_plane, job.metadata.name, summary=summary, findings=[wrong])
        scans.end(job.metadata.name)
        printed, errors = command.communicate(timeout=600)
    assert command.returncode == 1, errors
    assert json.loads(printed)["findings"][0]["message"] == "zone /eu/a holds 1 too many"


async def test_scan_watch_reports_a_failed_scan(scanning, scans, objects, control_plane):
    objects.create_topology(UNREACHABLE)
    with watching(objects, control_plane) as command:
        (job,) = scans.until_jobs(1)
        why = {"reason": "KafkaUnreachable", "message": "nobody answers"}
        await publish(objects, control_plane, job.metadata.name, failed_document, **why)
        scans.end(job.metadata.name, exit_code=2)
        _, errors = command.communicate(timeout=600)
    assert command.returncode == 2
    assert errors.startswith(f"error: scan {job.metadata.name} failed: "), errors


def test_scan_watch_of_a_missing_topology_is_an_error(objects, control_plane):
    with watching(objects, control_plane) as command:
        _, errors = command.communicate(timeout=600)
    assert command.returncode == 2
    assert errors == f"error: there is no RackTopology {objects.namespace}/kafka\n"
