"""Starts compliance scans as Jobs or SparkApplications and reports how they went; it judges no partition itself.

    handlers ── manager ──> reconciler ──┬─ decision ── schedule      which scan is due, waits or has to be deleted
                (cache)                  ├─ concurrency               which of the scans that are due may start now
                                         ├─ config ── limits          what the chart lets a namespace ask for
                                         ├─ manifests                 the Job or SparkApplication of a scan
                                         ├─ job_status                what became of it
                                         ├─ status ──> RackTopology   status.lastScan, and the condition Scanned
                                         └─ events ──> metrics, Events

Only `reconciler` does I/O and holds state (`events` also sets metrics). The others are pure, and get the time as an
argument. What has to survive a restart of the operator is in the RackTopology's status.scans.
"""
