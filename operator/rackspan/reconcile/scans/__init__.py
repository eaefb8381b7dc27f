"""Starts compliance scans as Jobs or SparkApplications and reports their results. The scans judge the partitions.

    manager ──> scan_reconciler ──┬─ scan_decision   which scan is due, waits or has to be deleted
    (cache)                       ├─ scan_setup      what the chart allows a namespace
                                  ├─ scan_manifests  the Job or SparkApplication of a scan
                                  ├─ job_status      the state of this object
                                  └─ scan_status ──> RackTopology, metrics, Events

Only `scan_reconciler` does I/O and holds state. The other modules are pure, except that `scan_status` sets metrics, and
get the time as an argument. State that has to survive a restart of the operator is in the RackTopology's status.scans.
"""

from typing import Final

DEFAULT_APPLICATION: Final = "local:///opt/rackspan/scan.py"
"""`mainApplicationFile` of a SparkApplication: a file in the scan's image. Defined here for the option's default."""
