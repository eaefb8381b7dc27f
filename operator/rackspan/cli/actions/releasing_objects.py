"""`rackspan release`: remove Rackspan's finalizers without an operator, before or after it is uninstalled."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import typer

from rackspan.api import racktopology
from rackspan.api.meta import ObjectKey
from rackspan.cli.rendering.stderr_lines import note
from rackspan.cli.shared.command_errors import CommandError
from rackspan.core.text import be, few, plural
from rackspan.kafka.worker.calls import ClientKind
from rackspan.kafka.worker.workers import for_a_command
from rackspan.kube.deployments import scale_to_zero
from rackspan.kube.event_queue import EventQueue
from rackspan.kube.kube_cluster import KubeCluster
from rackspan.kube.kube_reassignments import KubeReassignments
from rackspan.kube.rest import Rest, connect
from rackspan.reconcile import uninstall
from rackspan.reconcile.cache import Cache
from rackspan.reconcile.cluster.cordons import release_cordons
from rackspan.reconcile.dependencies import ReassignmentDependencies
from rackspan.reconcile.runtime.writers import FinalizerWriter
from rackspan.reconcile.uninstall import KINDS

_NO_NEW_FINALIZER_SECONDS = 5.0
"""How long the command waits for finalizers to come back: an operator that is shutting down may still write them."""
_PATIENCE_SECONDS = 240.0
_MANY = {racktopology.KIND: "RackTopologies"}


def release(*, kubeconfig: Path | None, namespace: list[str] | None, operator: str | None) -> None:
    """Carry out `rackspan release` with these options. Raises CommandError."""
    deployment = None if operator is None else _deployment(operator)
    counts, left, denied, refused = asyncio.run(_release(kubeconfig, tuple(namespace or ()), deployment))
    for problem in left:
        note(problem)
    if counts:
        *first, last = (plural(number, kind, _MANY.get(kind)) for kind, number in counts.items())
        print(f"released {', '.join(first)} and {last}; nothing was deleted in Kafka")
    problems = [f"may not be read, and nothing is released there: namespace {few(sorted(denied))}"] if denied else []
    if refused:
        why = next(iter(refused.values()))
        problems.append(f"may not be changed, and the finalizer stays: {few(sorted(refused))} ({why})")
    if problems:
        raise CommandError("; ".join(problems), "run it again with the rights of the operator there")


def _deployment(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name:
        raise typer.BadParameter("must be NAMESPACE/NAME", param_hint="--operator")
    return namespace, name


async def _release(
    kubeconfig: Path | None, namespaces: tuple[str, ...], deployment: tuple[str, str] | None
) -> tuple[dict[str, int], Sequence[str], frozenset[str], dict[str, str]]:
    """Return counts of released objects by kind, sentences on what is left in Kafka, denied namespaces and refusals."""
    rest = Rest(await connect(kubeconfig))
    kube = KubeCluster(rest, EventQueue(rest), namespaces)
    counts = dict.fromkeys(KINDS, 0)
    late = "", ""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            if deployment is not None:
                key = ObjectKey(*deployment)
                late = f"Deployment {key} still has Pods", "see why they do not end, then run it again"
                await scale_to_zero(rest, key)
            # Only named namespaces can be left out. Without names, one list call covers all: its refusal is an error.
            denied = frozenset().union(*[(await kube.listed(kind)).denied for kind in KINDS if namespaces])
            if denied:
                readable = [name for name in namespaces if name not in denied]
                if not readable:
                    return {}, (), denied, {}
                kube = KubeCluster(rest, EventQueue(rest), readable)
            late = "throttles and cordons could not all be taken off in Kafka", "run it again when Kafka answers"
            left = await _leave_kafka(kube, rest)
            late = (
                "objects still have their finalizer, or get it back: is an operator running?",
                "scale it to zero, or use --operator",
            )
            while True:
                found = await uninstall.release(kube, leaving_only=False)
                counts = {kind: counts[kind] + number for kind, number in found.counts.items()}
                refused = {ref.uid: (f"{ref.kind} {ref.key}", why.message) for ref, why in found.refused.items()}
                await asyncio.sleep(_NO_NEW_FINALIZER_SECONDS)
                if not [meta for kind in KINDS for meta in await kube.with_finalizer(kind) if meta.uid not in refused]:
                    return counts, left, denied, dict(refused.values())
    except TimeoutError as error:
        problem, hint = late
        raise CommandError(f"after {_PATIENCE_SECONDS:g} s: {problem}", hint) from error
    finally:
        await rest.close()


async def _cordons(kube: KubeCluster, kept: Mapping[ObjectKey, Sequence[int]] = MappingProxyType({})) -> list[str]:
    """Return a sentence for each RackTopology about the brokers that stay cordoned in Kafka. Raises FailureError.

    `kept` are the cordons by Kafka's latest responses, which the status may lack. Without an entry, the status counts.
    """
    found = {}
    async for body in kube.objects(racktopology.KIND):
        meta, status = body["metadata"], racktopology.RackTopologyStatus.from_dict(body.get("status"))
        key = ObjectKey(meta["namespace"], meta["name"])
        if cordons := kept.get(key, status.cordons):
            found[key] = cordons
    return [
        f"{key}: {plural(len(brokers), 'broker')} {be(len(brokers))} still cordoned in Kafka for a drain: "
        f"{few([*map(str, brokers)])}; to place replicas there again, delete cordoned.log.dirs there"
        for key, brokers in sorted(found.items())
    ]


async def _leave_kafka(kube: KubeCluster, rest: Rest) -> Sequence[str]:
    """Remove throttles and cordons in Kafka, and return a sentence for each that is left. Raises FailureError."""
    objects, finalizers = KubeReassignments(rest), FinalizerWriter(kube)
    async with for_a_command(ClientKind.REASSIGNMENTS) as connector:
        kept = await release_cordons(kube, connector)
        left = await uninstall.clear_throttles(ReassignmentDependencies(Cache(), kube, objects, connector, finalizers))
    return [*left, *await _cordons(kube, kept)]
