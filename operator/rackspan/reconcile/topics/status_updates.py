"""The statuses of a batch of topics, computed off the event loop and only where their inputs changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rackspan.reconcile.cluster.batching import batches
from rackspan.reconcile.runtime.threads import in_thread
from rackspan.reconcile.specs.placement import PORTION, cost
from rackspan.reconcile.topics.topic_status import topic_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopicStatus
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.topics.outcome import Outcome


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The status to write, None where the last one still holds, or the error that computing it raised."""

    fingerprint: int
    """A hash of the status's inputs."""
    status: KafkaTopicStatus | Exception | None


async def status_updates(
    outcomes: Sequence[Outcome], state: ClusterState, epoch: int, written: Mapping[ObjectKey, int]
) -> Mapping[ObjectKey, StatusUpdate]:
    """The update of each topic. `written` are the fingerprints of the last statuses, `epoch` that of `state`.

    Computed a portion at a time, so that other topologies get their turn.
    """
    found: dict[ObjectKey, StatusUpdate] = {}
    for some in batches(outcomes, lambda outcome: cost(outcome.topic, outcome.seen, state), PORTION):
        known = {outcome.topic.key: written.get(outcome.topic.key) for outcome in some}
        found |= await in_thread(partial(_updates, some, state, epoch, known))
    return found


def _updates(
    outcomes: Iterable[Outcome], state: ClusterState, epoch: int, written: Mapping[ObjectKey, int | None]
) -> dict[ObjectKey, StatusUpdate]:
    return {outcome.topic.key: _update(outcome, state, epoch, written[outcome.topic.key]) for outcome in outcomes}


def _update(outcome: Outcome, state: ClusterState, epoch: int, written: int | None) -> StatusUpdate:
    try:
        fingerprint = hash((epoch, _fingerprint(outcome)))
        if written == fingerprint and outcome.decision.idle:
            return StatusUpdate(fingerprint, None)
        return StatusUpdate(fingerprint, topic_status(outcome, state, datetime.now(UTC)))
    except Exception as error:  # raised again for this topic alone, where its status would be written
        return StatusUpdate(0, error)


def _fingerprint(outcome: Outcome) -> int:
    """A hash of what the status depends on, apart from the cluster's state."""
    meta, config = outcome.topic.meta, outcome.config
    return hash(
        (
            meta.uid,
            meta.generation,
            tuple(sorted(meta.annotations.items())),
            outcome.seen,
            (config.min_insync, *sorted(config.own.items())) if config else None,
            outcome.problem,
            outcome.plan and outcome.plan.hash,
            outcome.hold,
            outcome.copied_bytes,
        )
    )
