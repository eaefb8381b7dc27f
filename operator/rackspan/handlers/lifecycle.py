"""The operator's own life: every kopf setting in one place, and the way into the API server."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import kopf

from rackspan.api.labels import GROUP
from rackspan.handlers.memo import Memo
from rackspan.handlers.stateless import NoDiffBase


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: Memo, **_: Any) -> None:
    """Settings first, then the loops."""
    # Nothing here makes kopf write to an object. Should a later handler do, it writes under our own names. Its
    # finalizer is never the one of deletionPolicy Delete: kopf takes its own off every object that none of its
    # handlers need.
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.posting.enabled = False  # Events come from the kube room, on changes of condition only
    settings.scanning.disabled = True  # the CRDs are there before the operator is; no right to watch them is needed
    settings.queueing.idle_timeout = 1.0  # a worker a changed object: thousands at once in a burst
    # When the API server is back after an outage, watches are back within seconds. kopf starts over after the last one.
    settings.networking.error_backoffs = (0.5, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3)
    settings.watching.server_timeout = 600
    settings.watching.chunk_size = 500
    memo.controller.start()


@kopf.on.cleanup()
async def stop(memo: Memo, **_: Any) -> None:
    """Loops end before connections do."""
    await memo.controller.stop()


@kopf.on.login()
async def login(settings: kopf.OperatorSettings, memo: Memo, **_: Any) -> kopf.ConnectionInfo:
    """As our own requests are; kopf asks at first, and whenever the API server has rejected the answer."""
    found = asdict(await memo.access.login())
    return kopf.ConnectionInfo(trust_env=settings.networking.trust_env, **found)
