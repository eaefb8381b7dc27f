"""Wires ports to implementations and runs one operator process."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from typing import TYPE_CHECKING

import kopf

from rackspan.handlers import lifecycle, namespaces, nodes, pods, reports, topics, topologies
from rackspan.handlers.memo import Memo
from rackspan.health import HealthServer
from rackspan.kafka.admin import ConfluentConnector
from rackspan.kube.authentication import Authentication
from rackspan.kube.cluster import KubeCluster
from rackspan.kube.events import EventQueue
from rackspan.kube.leases import KubeLease
from rackspan.kube.rest import Rest, client_of
from rackspan.kube.scan_runs import KubeScanRuns
from rackspan.metrics import LEASE_HELD
from rackspan.placers import load_placers
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.dependencies import Dependencies
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.manager import Manager
from rackspan.reconcile.release import release
from rackspan.reconcile.runtime.finalizers import FinalizerWriter
from rackspan.reconcile.runtime.leader_election import LeaderElection
from rackspan.reconcile.runtime.liveness import Liveness
from rackspan.reconcile.runtime.status_writer import StatusWriter
from rackspan.reconcile.runtime.waiting import wait_for_any
from rackspan.reconcile.scans.reconciler import ScanDependencies

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping

    from rackspan.settings import Settings

HANDLERS = (lifecycle, namespaces, nodes, pods, reports, topics, topologies)
"""Importing them has registered their decorators with kopf."""

_log = logging.getLogger("rackspan")
_NOT_FOUND = 404
_SERVED_SECONDS = 2.0
"""How often it is asked whether our definitions are there."""


class LeaseLostError(Exception):
    """Another operator holds the Lease."""


async def run(settings: Settings) -> None:
    """One operator, until it is told to stop (SIGTERM, SIGINT). Raises LeaseLostError where another one takes over."""
    # Without it kopf looks up the name of its user, who has none in a container.
    os.environ.setdefault("POD_ID", socket.gethostname())
    access = Authentication(settings.kubeconfig)
    await access.load()
    rest = Rest(client_of(access))
    liveness, lease = Liveness(), settings.lease
    election = LeaderElection(KubeLease(rest, lease.key), lease.identity, lease.timing, liveness)
    LEASE_HELD.set_function(lambda: float(election.is_leader()))
    vitals = _Vitals(liveness, election)
    events = EventQueue(rest, liveness)
    kube = KubeCluster(rest, events, settings.namespaces, election)
    health = HealthServer(vitals, settings.listen_host, settings.listen_port)
    await health.start()
    _log.info("metrics and probes on port %d", health.port)
    stop = asyncio.Event()
    poster = asyncio.create_task(events.run(), name="events")
    _listen(stop)
    try:
        if await election.acquire(stop):
            await _lead(election, stop, _reconcile(settings, access, kube, rest, vitals, stop))
    finally:
        poster.cancel()
        await health.stop()
        await rest.close()


async def _lead(election: LeaderElection, stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Do the work while the Lease is ours, and let go of it at the end. Raises LeaseLostError."""

    def ended(_: object) -> None:
        stop.set()

    keeper = asyncio.create_task(election.renew(), name="lease")
    keeper.add_done_callback(ended)
    try:
        await work
        if keeper.done():
            raise LeaseLostError
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)
        await election.release()


async def _reconcile(
    settings: Settings, access: Authentication, kube: KubeCluster, rest: Rest, vitals: _Vitals, stop: asyncio.Event
) -> None:
    """Until told to stop."""
    while await _until_served(kube, stop, vitals) and await _lost(settings, access, kube, rest, vitals, stop):
        _log.warning("the API server serves Rackspan's kinds no more: nothing is reconciled until it does")


class _Vitals:
    """What probes ask: the controller, or what it waits for: the Lease, or definitions."""

    def __init__(self, liveness: Liveness, election: LeaderElection) -> None:
        self.liveness = liveness
        self.election = election
        self.controller: Manager | None = None
        self.missing: Collection[str] = ()

    def alive(self) -> Mapping[str, object]:
        return self.controller.alive() if self.controller else {"ok": True}

    def ready(self) -> Mapping[str, object]:
        if self.controller is not None:
            return self.controller.ready()
        return {"ok": False, "missing": list(self.missing), "waitingFor": self.election.other_holder}


async def _lost(
    settings: Settings, access: Authentication, kube: KubeCluster, rest: Rest, vitals: _Vitals, stop: asyncio.Event
) -> bool:
    """Reconcile until told to stop; True where it ended because the API server does not serve our kinds any more."""
    controller = _controller(settings, kube, rest, vitals)
    vitals.controller = controller
    access.forget_login()
    try:
        await kopf.operator(
            memo=Memo(controller, access),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
    except Exception as error:
        if getattr(error, "status", None) != _NOT_FOUND:  # kopf keeps its classes of errors to itself
            raise
        # Discovery may go on listing a kind for a moment after its API has ceased to be served.
        await wait_for_any(_SERVED_SECONDS, stop)
        return True
    finally:
        vitals.controller = None
        await controller.stop()
    return False


def _controller(settings: Settings, kube: KubeCluster, rest: Rest, vitals: _Vitals) -> Manager:
    liveness, permit = vitals.liveness, vitals.election
    dependencies = Dependencies(
        cache=Cache(settings.topologies_per_namespace),
        kube=kube,
        kafka=ConfluentConnector(permit),
        statuses=StatusWriter(kube),
        finalizers=FinalizerWriter(kube),
        placers=load_placers(),
        resync_seconds=settings.resync_seconds,
        liveness=liveness,
    )
    setup = settings.scans
    scans = ScanDependencies(
        cache=dependencies.cache,
        kube=kube,
        runs=KubeScanRuns(rest, setup.namespace, permit) if setup.namespace else None,
        setup=setup,
        namespaces=settings.namespaces,
        liveness=liveness,
    )
    return Manager(dependencies, scans, settings.stall_seconds)


async def _until_served(kube: KubeCluster, stop: asyncio.Event, vitals: _Vitals) -> bool:
    """Wait for our kinds: kopf looks once for what the API server serves, and stays deaf to what comes later.

    A definition that is being deleted waits for its objects, which wait for us: they are let go, and topics stay. False
    where it is time to stop.
    """
    _listen(stop)
    while not stop.is_set():
        try:
            vitals.missing = await kube.unserved()
            if not vitals.missing:
                return True
            _log.warning("the API server does not serve %s: apply Rackspan's crds", ", ".join(vitals.missing))
            if (await kube.terminating(())).definitions:
                await release(kube, leaving_only=True)
        except FailureError as error:
            _log.warning("waiting for the API server: %s", error)
        await wait_for_any(_SERVED_SECONDS, stop)
    return False


def _listen(stop: asyncio.Event) -> None:
    """Stop at a signal. kopf takes signals over while it runs."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
