"""Stand-ins for the kubelet and for the scan in tests of scans."""

import datetime as dt

from kubernetes import client
from tests.support.reports import document
from tests.support.waiting import until

from rackspan.api.meta import ObjectKey
from rackspan.kube.scan_reports import publish_scan

SCAN_NOW = "rackspan.dev/scan-now"
UNREACHABLE = "127.0.0.1:1"
IMAGE = "rackspan-scan:test"


class Scans:
    """The namespace in which scans run."""

    def __init__(self, api, namespace):
        self.namespace = namespace
        self._batch = client.BatchV1Api(api)
        self._core = client.CoreV1Api(api)

    def jobs(self, topology=None):
        """Return the Jobs, the oldest first."""
        selector = f"rackspan.dev/topology-namespace={topology}" if topology else ""
        found = self._batch.list_namespaced_job(self.namespace, label_selector=selector).items
        return sorted(found, key=lambda job: (job.metadata.creation_timestamp, job.metadata.name))

    def clear(self):
        """Delete all Jobs with their pods."""
        self._batch.delete_collection_namespaced_job(self.namespace, propagation_policy="Background")
        until(lambda: self.jobs() == [], f"no Job to be left in {self.namespace}")

    def until_jobs(self, number, *, running=None):
        """Wait until there are `number` Jobs, of which `running` are running if given. Return them."""

        def met():
            jobs = [job for job in self.jobs() if job.metadata.deletion_timestamp is None]
            going = [job for job in jobs if not (job.status.succeeded or job.status.failed)]
            return jobs if len(jobs) == number and (running is None or len(going) == running) else None

        return until(met, f"{number} Jobs in {self.namespace}")

    def pod(self, job):
        """Wait for the pending pod of a Job and return it."""
        selector = f"batch.kubernetes.io/job-name={job}"
        found = until(
            lambda: [
                pod
                for pod in self._core.list_namespaced_pod(self.namespace, label_selector=selector).items
                if pod.status.phase == "Pending"
            ],
            f"a pod of Job {job}",
        )
        return found[0]

    def cannot_start(self, job):
        """Set the status of a pod whose image the kubelet cannot pull."""
        pod = self.pod(job)
        waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
        container = {
            "name": "scan",
            "image": IMAGE,
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"waiting": waiting},
        }
        status = {"phase": "Pending", "containerStatuses": [container]}
        self._core.patch_namespaced_pod_status(pod.metadata.name, self.namespace, {"status": status})

    def end(self, job, *, exit_code=0):
        """Set the status of a pod whose container has ended."""
        pod = self.pod(job)
        now = dt.datetime.now(dt.UTC).isoformat()
        terminated = {"exitCode": exit_code, "startedAt": now, "finishedAt": now}
        container = {
            "name": "scan",
            "image": IMAGE,
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": terminated},
        }
        status = {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": [container]}
        self._core.patch_namespaced_pod_status(pod.metadata.name, self.namespace, {"status": status})


async def publish(objects, control_plane, scan_id, make=document, **fields):
    now = dt.datetime.now(dt.UTC).isoformat()
    scan = make(scan_id, started_at=now, finished_at=now, **fields) if make is document else make(scan_id, **fields)
    await publish_scan(scan, ObjectKey(objects.namespace, "kafka"), control_plane.kubeconfig)
