"""Runs requests about one RackTopology over a connection to Kubernetes."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rackspan.api.meta import ObjectKey
from rackspan.cli.shared.command_errors import CommandError, failures_reported

if TYPE_CHECKING:
    from rackspan.kube.topology_edits import TopologyEdits

T = TypeVar("T")


def topology_key(text: str) -> ObjectKey:
    """Read `NAMESPACE/NAME`. Raises CommandError."""
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise CommandError(f'--topology "{text}" is not NAMESPACE/NAME')
    return ObjectKey(namespace, name)


def ask_topology(name: str | None, kubeconfig: Path | None, question: "Callable[[TopologyEdits], Awaitable[T]]") -> T:
    """Connect, ask about `NAMESPACE/NAME` and close. Raises CommandError."""
    # Imported here because most commands run for less time than the import of the clients takes.
    from rackspan.kube import topology_edits as editing  # noqa: PLC0415

    if name is None:
        raise CommandError("the RackTopology is missing", "pass --topology NAMESPACE/NAME")
    key = topology_key(name)

    async def asked() -> T:
        async with editing.topology_edits(key, kubeconfig) as edits:
            return await question(edits)

    with failures_reported():
        return asyncio.run(asked())
