"""The scan settings of an operator, with the defaults of the chart."""

from rackspan.reconcile.scans import DEFAULT_APPLICATION
from rackspan.reconcile.scans.scan_setup import Allowance, ScanLimits, ScanSetup


def allowance(locations=(), claims=(), **limits):
    return Allowance(locations, claims, ScanLimits(**limits))


def scan_setup(namespace="rackspan", image="i:1", **fields):
    usual = {
        "service_account": "rackspan-scan",
        "pull_policy": "IfNotPresent",
        "application": DEFAULT_APPLICATION,
        "pod": {},
        "trusted": (),
        "allowance": allowance(),
        "max_running": 4,
        "tmp_size": "10Gi",
        "store_secret": None,
    }
    return ScanSetup(namespace, image, **usual | fields)
