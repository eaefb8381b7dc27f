"""Startup, shutdown and login: all of kopf's settings are here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import kopf

from rackspan.api.labels import GROUP
from rackspan.handlers.api_session import connect
from rackspan.handlers.watches import Memo
from rackspan.kube.rest import SILENT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

_KOPFS_WATCH: Final = "watcher for "
"""The prefix of the names of kopf's watch tasks."""


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: Memo, **_: Any) -> None:
    """Configure kopf, then start the manager's loops."""
    # With these handlers kopf writes nothing to objects. If a later handler makes it write, it uses Rackspan's prefix.
    # Kopf's finalizer must differ from Rackspan's: kopf removes its own from objects that none of its handlers need.
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = _NoDiffBase()
    settings.posting.enabled = False  # rackspan.kube.event_queue posts Events, on changes of conditions only
    settings.scanning.disabled = True  # `main` waits for the CRDs, so no right to watch them is needed
    settings.queueing.idle_timeout = 0.05  # kopf has a task per changed object, which keeps the object
    # Short, so that watches resume within seconds after an outage. After the last one kopf lists again if the API
    # server was unreachable, and exits if the API server refused the request: then `main` starts kopf again.
    settings.networking.error_backoffs = (0.5, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3)
    settings.watching.reconnect_backoff = 0.5  # between an "expired" of `api_session` and the next list
    settings.watching.server_timeout = 600
    # Only this timeout ends a dead connection. It exceeds SILENT_SECONDS, so that `api_session` detects silence first.
    settings.watching.inactivity_timeout = SILENT_SECONDS + 30
    settings.watching.chunk_size = 500  # `api_session` requests fewer
    memo.manager.start()


@kopf.on.cleanup()
async def stop(memo: Memo, **_: Any) -> None:
    """Stop the watches and the loops before connections are closed."""
    await _end_watches()
    await memo.stop()


async def _end_watches() -> None:
    """Cancel the watches that kopf has not ended.

    If one watch fails, so does the kopf task that would end the others. Kopf cancels those later, but together with the
    tasks that signal a pause to them. A watch whose response has not begun takes that for a pause and runs for ever.
    """
    watches = [task for task in asyncio.all_tasks() if task.get_name().startswith(_KOPFS_WATCH)]
    for watch in watches:
        watch.cancel()
    await asyncio.gather(*watches, return_exceptions=True)


@kopf.on.login()
async def login(settings: kopf.OperatorSettings, memo: Memo, **_: Any) -> kopf.AiohttpSession:
    """Return the credentials of all requests. Kopf calls this at its start and when the API server rejects them."""
    found = await memo.access.login()
    return connect(found, memo.survival, tls=memo.access.tls, trust_env=settings.networking.trust_env)


class _NoDiffBase(kopf.DiffBaseStorage):
    """Stores no record of an object's last handled state, which level-triggered reconciling does not need.

    Kopf would build this record for every event, as a deep copy of the object, even if no handler uses differences.
    """

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:  # noqa: ARG002
        """Return an empty record."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002
        """Return None, because no record is stored."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Do nothing."""
