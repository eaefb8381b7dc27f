"""Wires ports to implementations and runs one operator process."""

from __future__ import annotations

import asyncio
import contextlib
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
from rackspan.kube.access import Access
from rackspan.kube.cluster import KubeCluster
from rackspan.kube.events import EventQueue
from rackspan.kube.rest import Rest, client_of
from rackspan.kube.scan_runs import KubeScanRuns
from rackspan.placers import load_placers
from rackspan.reconcile.beats import Beats
from rackspan.reconcile.controller import Controller
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.finalizers import Finalizers
from rackspan.reconcile.inventory import Inventory
from rackspan.reconcile.release import release
from rackspan.reconcile.scans.loop import ScanTools
from rackspan.reconcile.statuses import StatusWriter
from rackspan.reconcile.tools import Tools

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rackspan.settings import Settings

HANDLERS = (lifecycle, namespaces, nodes, pods, reports, topics, topologies)
"""Importing them has registered their decorators with kopf."""

_log = logging.getLogger("rackspan")
_NOT_FOUND = 404
_SERVED_SECONDS = 2.0
"""How often it is asked whether our definitions are there."""


async def run(settings: Settings) -> None:
    """One operator, until it is told to stop (SIGTERM, SIGINT)."""
    # Without it kopf looks up the name of its user, who has none in a container.
    os.environ.setdefault("POD_ID", socket.gethostname())
    access = Access(settings.kubeconfig)
    await access.load()
    rest = Rest(client_of(access))
    vitals = _Vitals()
    events = EventQueue(rest, vitals.beats)
    kube = KubeCluster(rest, events, settings.namespaces)
    health = HealthServer(vitals, settings.listen_host, settings.listen_port)
    await health.start()
    _log.info("metrics and probes on port %d", health.port)
    stop = asyncio.Event()
    poster = asyncio.create_task(events.run(), name="events")
    try:
        while await _until_served(kube, stop, vitals) and await _lost(settings, access, kube, rest, vitals, stop):
            _log.warning("the API server serves Rackspan's kinds no more: nothing is reconciled until it does")
    finally:
        poster.cancel()
        await health.stop()
        await rest.close()


class _Vitals:
    """What probes ask: the controller, or which definitions it waits for."""

    def __init__(self) -> None:
        self.beats = Beats()
        self.controller: Controller | None = None
        self.missing: Collection[str] = ()

    def alive(self) -> Mapping[str, object]:
        return self.controller.alive() if self.controller else {"ok": True}

    def ready(self) -> Mapping[str, object]:
        return self.controller.ready() if self.controller else {"ok": False, "missing": list(self.missing)}


async def _lost(
    settings: Settings, access: Access, kube: KubeCluster, rest: Rest, vitals: _Vitals, stop: asyncio.Event
) -> bool:
    """Reconcile until told to stop; True where it ended because the API server does not serve our kinds any more."""
    controller = _controller(settings, kube, rest, vitals.beats)
    vitals.controller = controller
    access.begin()
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
        await _pause(stop)  # what is served and what is said to be served may differ for a moment
        return True
    finally:
        vitals.controller = None
        await controller.stop()
    return False


def _controller(settings: Settings, kube: KubeCluster, rest: Rest, beats: Beats) -> Controller:
    tools = Tools(
        inventory=Inventory(),
        kube=kube,
        kafka=ConfluentConnector(),
        statuses=StatusWriter(kube),
        finalizers=Finalizers(kube),
        placers=load_placers(),
        resync_seconds=settings.resync_seconds,
        beats=beats,
    )
    setup = settings.scans
    scans = ScanTools(
        inventory=tools.inventory,
        kube=kube,
        runs=KubeScanRuns(rest, setup.namespace) if setup.namespace else None,
        setup=setup,
        namespaces=settings.namespaces,
        beats=beats,
    )
    return Controller(tools, scans, settings.stall_seconds)


async def _until_served(kube: KubeCluster, stop: asyncio.Event, vitals: _Vitals) -> bool:
    """Wait for our kinds: kopf looks once for what the API server serves, and stays deaf to what comes later.

    A definition that is being deleted waits for its objects, which wait for us: they are let go, and topics stay. False
    where it is time to stop.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)  # kopf takes them over while it runs
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
        await _pause(stop)
    return False


async def _pause(stop: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), _SERVED_SECONDS)
