"""Records in a KafkaTopic's status that its topic is about to be created, before it is."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rackspan.api.kafkatopic import KIND, KafkaTopic
from rackspan.reconcile.ports import ObjectRef
from rackspan.reconcile.topics.decision import Decision, must_claim
from rackspan.reconcile.topics.isolated import isolated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.dependencies import Dependencies
    from rackspan.reconcile.topics.batch import Outcome


async def claim_creations(dependencies: Dependencies, state: ClusterState, outcomes: Sequence[Outcome]) -> None:
    """Write `status.creating` for outcomes that create a topic, where a crash would leave open whose topic it is.

    An outcome whose claim cannot be written loses its decision, and so nothing is created for it.
    """
    claims = (_claim(dependencies, outcome) for outcome in outcomes if must_claim(outcome.topic, state))
    await asyncio.gather(*claims)


async def _claim(dependencies: Dependencies, outcome: Outcome) -> None:
    claimed = replace(outcome.topic, status=replace(outcome.topic.status, creating=True))
    known = await isolated(outcome.topic, partial(_write, dependencies, claimed))
    if isinstance(known, KafkaTopic):
        outcome.topic, outcome.new_claim = claimed, True
        return
    outcome.decision = Decision()
    if known is not None:
        outcome.failures.append(known)


async def _write(dependencies: Dependencies, claimed: KafkaTopic, before: KafkaTopic) -> KafkaTopic | None:
    ref = ObjectRef(KIND, before.key, before.meta.uid)
    written = await dependencies.statuses.write(ref, before.status.to_dict(), claimed.status.to_dict())
    return dependencies.cache.put_answer(written) if written is not None else None
