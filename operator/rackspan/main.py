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
from rackspan.kube.cluster import KubeCluster
from rackspan.kube.events import EventQueue
from rackspan.kube.rest import Rest, connect
from rackspan.kube.scan_runs import KubeScanRuns
from rackspan.placers import load_placers
from rackspan.reconcile.controller import Controller
from rackspan.reconcile.failures import FailureError
from rackspan.reconcile.finalizers import Finalizers
from rackspan.reconcile.inventory import Inventory
from rackspan.reconcile.scans.loop import ScanTools
from rackspan.reconcile.statuses import StatusWriter
from rackspan.reconcile.tools import Tools

if TYPE_CHECKING:
    from rackspan.settings import Settings

HANDLERS = (lifecycle, namespaces, nodes, pods, reports, topics, topologies)
"""Importing them has registered their decorators with kopf."""

_log = logging.getLogger("rackspan")
_SERVED_SECONDS = 2.0
"""How often it is asked whether our definitions are there."""


async def run(settings: Settings) -> None:
    """One operator, until it is told to stop (SIGTERM, SIGINT)."""
    if settings.kubeconfig is not None:
        os.environ["KUBECONFIG"] = str(settings.kubeconfig)  # kopf reads it from there
    # Without it kopf looks up the name of its user, who has none in a container.
    os.environ.setdefault("POD_ID", socket.gethostname())
    rest = Rest(await connect(settings.kubeconfig))
    events = EventQueue(rest)
    kube = KubeCluster(rest, events, settings.namespaces)
    tools = Tools(
        inventory=Inventory(),
        kube=kube,
        kafka=ConfluentConnector(),
        statuses=StatusWriter(kube),
        finalizers=Finalizers(kube),
        placers=load_placers(),
        resync_seconds=settings.resync_seconds,
    )
    setup = settings.scans
    scans = ScanTools(
        inventory=tools.inventory,
        kube=kube,
        runs=KubeScanRuns(rest, setup.namespace) if setup.namespace else None,
        setup=setup,
        namespaces=settings.namespaces,
    )
    controller = Controller(tools, scans, settings.stall_seconds)
    health = HealthServer(controller, settings.listen_host, settings.listen_port)
    await health.start()
    _log.info("metrics and probes on port %d", health.port)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    poster = asyncio.create_task(events.run(), name="events")
    try:
        await _until_served(kube, stop)
        await kopf.operator(
            memo=Memo(controller),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
    finally:
        poster.cancel()
        await health.stop()
        await rest.close()


async def _until_served(kube: KubeCluster, stop: asyncio.Event) -> None:
    """Wait for our kinds: kopf looks once for what the API server serves, and stays deaf to what comes later."""
    while not stop.is_set():
        try:
            missing = await kube.unserved()
            if not missing:
                return
            _log.warning("the API server does not serve %s: apply Rackspan's crds", ", ".join(missing))
        except FailureError as error:
            _log.warning("waiting for the API server: %s", error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _SERVED_SECONDS)
