"""`rackspan scan --watch`: the command line asks, the operator scans, the command line tells."""

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


async def test_a_scan_is_asked_for_and_its_report_is_told(scanning, scans, objects, control_plane):
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


async def test_a_scan_that_fails_is_told_with_its_reason(scanning, scans, objects, control_plane):
    objects.create_topology(UNREACHABLE)
    with watching(objects, control_plane) as command:
        (job,) = scans.until_jobs(1)
        why = {"reason": "KafkaUnreachable", "message": "nobody answers"}
        await publish(objects, control_plane, job.metadata.name, failed_document, **why)
        scans.end(job.metadata.name, exit_code=2)
        _, errors = command.communicate(timeout=600)
    assert command.returncode == 2
    assert errors.startswith(f"error: scan {job.metadata.name} failed: "), errors


def test_a_topology_that_is_not_there_is_told(objects, control_plane):
    with watching(objects, control_plane) as command:
        _, errors = command.communicate(timeout=600)
    assert command.returncode == 2
    assert errors == f"error: there is no RackTopology {objects.namespace}/kafka\n"
