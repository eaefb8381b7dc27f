"""Wires ports to implementations and runs one operator process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING

import kopf

from rackspan.handlers import lifecycle, watches
from rackspan.handlers.api_session import Survival
from rackspan.handlers.watches import Memo
from rackspan.health import HealthServer
from rackspan.kafka.worker.calls import ClientKind
from rackspan.kafka.worker.workers import WorkerConnector, Workers
from rackspan.kube.authentication import Authentication
from rackspan.kube.event_queue import EventQueue
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.kube_reassignments import KubeReassignments
from rackspan.kube.leases import KubeLease
from rackspan.kube.rack_objects import KubeBrokerPods, KubeRackFiles
from rackspan.kube.rest import KubeClient, Rest
from rackspan.kube.scan_runs import KubeScanRuns
from rackspan.metrics import LEASE_HELD, RECONCILING
from rackspan.placers import load_placers
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.dependencies import Dependencies
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.manager import Manager
from rackspan.reconcile.racks.publish import RackDependencies
from rackspan.reconcile.runtime.lease import LeaderElection
from rackspan.reconcile.runtime.waiting import Liveness, wait_for_any
from rackspan.reconcile.runtime.writers import FinalizerWriter, StatusWriter
from rackspan.reconcile.scans.scan_reconciler import ScanDependencies
from rackspan.reconcile.uninstall import release

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping

    from rackspan.settings import Settings

HANDLERS = (lifecycle, watches)
"""Unused modules: their import registers their handlers with kopf."""

_log = logging.getLogger("rackspan")
_DISCOVERY_SECONDS = 2.0
"""How often API discovery is asked whether Rackspan's CRDs are installed."""
_STALL_SECONDS = 300.0
"""How long a loop may make no progress before the liveness probe fails."""
_LAST_EVENTS_SECONDS = 3.0
"""How long the shutdown waits for Events to be posted: a part of the 30 s that Kubernetes gives a Pod to end."""


class LeaseLostError(Exception):
    """Another operator has taken over the Lease."""


async def run(settings: Settings) -> None:
    """Run one operator until SIGTERM or SIGINT. Raises LeaseLostError if another operator takes over the Lease."""
    stop = asyncio.Event()
    _handle_signals(stop)
    # Otherwise kopf looks up its user name, which fails in a container in which the uid has no name.
    os.environ.setdefault("POD_ID", socket.gethostname())
    access = Authentication(settings.kubeconfig)
    if not await _done_before(stop, access.load()):  # may wait for a credential plugin
        return
    own = Rest(KubeClient(access))  # for the Lease and Events, so that other hanging requests do not delay them
    liveness, lease = Liveness(), settings.lease
    election = LeaderElection(KubeLease(own, lease.key), lease.identity, lease.timing, liveness)
    rest = Rest(KubeClient(access), election)
    LEASE_HELD.set_function(lambda: float(election.is_leader()))
    probes = _Probes(liveness, election)
    RECONCILING.set_function(lambda: float(probes.reconciles))
    events = EventQueue(own, liveness)
    kube = KubeCluster(rest, events, settings.namespaces)
    health = HealthServer(probes, settings.listen_host, settings.listen_port)
    await health.start()
    _log.info("metrics and probes on port %d", health.port)
    event_task = asyncio.create_task(events.run(), name="events")
    try:
        if await election.acquire(stop):
            await _lead(election, stop, _reconcile(settings, access, kube, rest, probes, stop), rest)
    finally:
        await events.drain(_LAST_EVENTS_SECONDS)
        event_task.cancel()
        await health.stop()
        await rest.close()
        await own.close()


async def _lead(election: LeaderElection, stop: asyncio.Event, work: Coroutine[None, None, None], rest: Rest) -> None:
    """Await `work`, which ends at `stop`, and its changes by `rest`, while renewing the Lease. Then release the Lease.

    Raises LeaseLostError.
    """

    def on_renewal_end(_: object) -> None:
        stop.set()

    renewal = asyncio.create_task(election.renew(), name="lease")
    renewal.add_done_callback(on_renewal_end)
    try:
        await work
        if renewal.done():
            raise LeaseLostError
    finally:
        await rest.settled()
        renewal.cancel()
        await asyncio.gather(renewal, return_exceptions=True)
        await election.release()


async def _reconcile(
    settings: Settings, access: Authentication, kube: KubeCluster, rest: Rest, probes: _Probes, stop: asyncio.Event
) -> None:
    """Run the manager while Rackspan's CRDs are installed, and wait while they are not, until `stop`."""
    while await _wait_until_served(kube, stop, probes):
        if not await _run_until_unserved(settings, access, kube, rest, probes, stop):
            return
        await wait_for_any(_DISCOVERY_SECONDS, stop)


class _Probes:
    """Implements `health.Probes`, from the manager, or before it runs from what it waits for (the Lease, or CRDs)."""

    def __init__(self, liveness: Liveness, election: LeaderElection) -> None:
        self.liveness = liveness
        self.election = election
        self.manager: Manager | None = None
        self.missing: Collection[str] = ()

    @property
    def reconciles(self) -> bool:
        return self.manager is not None and bool(self.manager.ready()["ok"])

    def alive(self) -> Mapping[str, object]:
        return self.manager.alive() if self.manager else {"ok": True}

    def ready(self) -> Mapping[str, object]:
        facts, current = self._progress(), self.election.is_current
        return {**facts, "ok": facts["ok"] and current, "leaseCurrent": current}

    def _progress(self) -> Mapping[str, object]:
        if self.manager is not None:
            return self.manager.ready()
        holder = self.election.other_holder  # ready to take over from this holder
        return {"ok": holder is not None, "missing": list(self.missing), "waitingFor": holder}


async def _run_until_unserved(
    settings: Settings, access: Authentication, kube: KubeCluster, rest: Rest, probes: _Probes, stop: asyncio.Event
) -> bool:
    """Reconcile until `stop` (return False) or until the API server fails or stops serving Rackspan's kinds (True)."""
    workers = Workers(settings.kafka_clients)
    manager = _manager(settings, kube, workers, rest, probes)
    probes.manager = manager
    access.forget_login()

    async def stop_all() -> None:
        await manager.stop()
        await workers.close()

    try:
        if not await _done_before(stop, manager.prime()):
            return False
        tasks = await kopf.spawn_tasks(
            memo=Memo(manager, access, stop_all, Survival(manager.leave_out)),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
        _handle_signals(stop)
        await kopf.run_tasks(tasks, ignored=_EveryTask())
    except FailureError as error:
        _log.warning("waiting for the API server: %s", error)
        return True
    except Exception as error:
        status = getattr(error, "status", None) or 0  # kopf's API error classes are private
        if status == HTTPStatus.NOT_FOUND:
            # Discovery may list a kind for a moment after its API is no longer served.
            _log.warning("the API server serves Rackspan's kinds no more: nothing is reconciled until it does")
        elif status == HTTPStatus.FORBIDDEN or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.warning("waiting for the API server: %d %s", status, error)
        else:
            raise
        return True
    finally:
        probes.manager = None
        await stop_all()
        await rest.settled()  # a late change must not overwrite one of the next manager
    return False


class _EveryTask(frozenset["asyncio.Task[object]"]):
    """A set that contains all tasks, whenever they begin. At its end, kopf waits 5 s for tasks that are not in it.

    `stop_all` has ended the tasks of the reconcilers; connections to the health server end later.
    """

    def __contains__(self, _: object) -> bool:
        return True


async def _done_before(stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Return whether the work ended before `stop`, which cancels the work. Raises the exceptions of the work."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            return False
        await working
        return True
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


def _manager(settings: Settings, kube: KubeCluster, workers: Workers, rest: Rest, probes: _Probes) -> Manager:
    liveness, permit = probes.liveness, probes.election
    dependencies = Dependencies(
        cache=Cache(settings.topologies_per_namespace),
        kube=kube,
        objects=KubeReassignments(rest),
        connector=WorkerConnector(workers, ClientKind.REASSIGNMENTS, permit),
        kafka=WorkerConnector(workers, ClientKind.TOPICS, permit),
        statuses=StatusWriter(kube),
        finalizers=FinalizerWriter(kube),
        placers=load_placers(),
        resync_seconds=settings.resync_seconds,
        lease=settings.lease.key,
        liveness=liveness,
    )
    setup = settings.scans
    scans = ScanDependencies(
        cache=dependencies.cache,
        kube=kube,
        runs=KubeScanRuns(rest, setup.namespace) if setup.namespace else None,
        setup=setup,
        namespaces=settings.namespaces,
        liveness=liveness,
    )
    racks = RackDependencies(
        cache=dependencies.cache,
        kube=kube,
        files=KubeRackFiles(rest, settings.publish_racks_to),
        allowed=settings.publish_racks_to,
        pods=KubeBrokerPods(rest),
        restart_in=settings.restart_pods_in,
        annotate_in=settings.annotate_pods_in,
        watched=settings.namespaces,
        liveness=liveness,
    )
    return Manager(dependencies, scans, racks, _STALL_SECONDS)


async def _wait_until_served(kube: KubeCluster, stop: asyncio.Event, probes: _Probes) -> bool:
    """Wait until the API server serves Rackspan's kinds. Return False if `stop` was set before."""
    _handle_signals(stop)
    return await _done_before(stop, _until_served(kube, probes))


async def _until_served(kube: KubeCluster, probes: _Probes) -> None:
    """Return once the API server serves Rackspan's kinds.

    Kopf does discovery only when it starts, so it would not watch kinds that are served later. Meanwhile, a CRD that is
    being deleted waits for the finalizers of its objects. This function removes them; the topics stay in Kafka.
    """
    while True:
        try:
            probes.missing = await kube.unserved()
            if not probes.missing:
                return
            _log.warning("the API server does not serve %s: apply Rackspan's crds", ", ".join(probes.missing))
            going = (await kube.terminating(())).definitions
            if going and (refused := (await release(kube, leaving_only=True)).refused):
                raise FailureError(next(iter(refused.values())))
        except FailureError as error:
            _log.warning("waiting for the API server: %s", error)
        await asyncio.sleep(_DISCOVERY_SECONDS)


def _handle_signals(stop: asyncio.Event) -> None:
    """Set `stop` at SIGTERM or SIGINT.

    Kopf replaces these handlers when it starts, and its own handlers have no effect after it ends. If kopf ends alone,
    for example because the kinds were deleted, the process continues and needs these handlers again.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
