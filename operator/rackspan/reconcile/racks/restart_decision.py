"""Decides which broker to restart next and whether a restart has ended, and sets the condition Restarting. Pure.

A restart corrects the rack of a broker that reports another rack than its node has, if its pod would read the new rack
from the published file. One broker restarts at a time, and the next only after it is back. If a restart did not correct
the rack (`not_mended`), the operator does not try again for the same rack.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from rackspan.api.conditions import RESTARTING, Conditions, ConditionStatus
from rackspan.api.racktopology import NotMended, RestartsStatus
from rackspan.api.reasons import Reason
from rackspan.core.text import be, plural, shown
from rackspan.reconcile.ports import PodFacts

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from rackspan.api.racktopology import RackTopology, RackTopologyStatus, RestartingBroker
    from rackspan.core.availability import IsrShortfall

BACK: Final = timedelta(seconds=20)
"""How long a new pod must be ready before Kafka's information about the broker counts as that of the new pod.

Kafka removes a killed broker after 9 seconds (broker.session.timeout.ms), and the operator asks every 5 seconds."""
GRACE: Final = timedelta(seconds=60)
"""How long a new pod must be ready before its broker counts as `not_mended`."""
LOST: Final = timedelta(minutes=2)
"""When an eviction without a known response counts as not done: longer than the API server works on a request."""
GONE: Final = timedelta(minutes=15)
"""How long the operator waits for a broker that is not known any more, or whose pod it may not read any more."""
_NAMED = 3
_MAX_REQUEST = 253


@dataclass(frozen=True, slots=True)
class RestartCandidate:
    """A broker. `pod` is the only pod of the broker, on `node`. `rack` is the node's rack if it has been stable.

    `published` is the rack of the node in the published file. `drift`: Kafka reports another rack than the node's.
    """

    id: int
    pod: str | None
    node: str | None
    rack: str | None
    published: str | None
    reported: str | None
    online: bool
    drift: bool


@dataclass(frozen=True, slots=True)
class RestartHold:
    """The reason why no broker can be restarted now."""

    message: str
    reason: Reason = Reason.RESTART_WAITING


@dataclass(frozen=True, slots=True)
class Begin:
    """A broker to restart if Kafka and the API server allow it. `requested`: an annotation requests the restart."""

    broker: RestartCandidate
    pod: str
    requested: bool


@dataclass(frozen=True, slots=True)
class Again:
    """The pod was not evicted, because the operator stopped before the eviction."""

    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """The broker is back, or permanently deleted. `not_mended` is set if it still reports another rack."""

    message: str
    not_mended: NotMended | None = None


RestartChoice: TypeAlias = "Sequence[Begin] | RestartHold | None"
RestartProgress: TypeAlias = "Done | Again | RestartHold"


def choose(
    brokers: Sequence[RestartCandidate], not_mended: Collection[NotMended], request: str | None, *, on_drift: bool
) -> RestartChoice:
    """Return the brokers to restart, the next one first, or why none can be restarted, or None if none has to be.

    `request` is the annotation's value: a broker's id or its pod's name. The requested broker comes first, whether it
    drifts or not.
    """
    if request:
        return _requested(brokers, request)
    if not on_drift:
        return None
    drifted = sorted((one for one in brokers if one.drift), key=lambda one: one.id)
    found = [_choose_drifted(broker, not_mended) for broker in drifted]
    begins = [one for one in found if isinstance(one, Begin)]
    if begins:
        return begins
    holds = [one for one in found if isinstance(one, RestartHold)]
    # A restart that did not correct the rack needs a user, so report it only if there is no other hold.
    return min(holds, key=lambda hold: hold.reason == Reason.RESTART_DID_NOT_MEND, default=None)


def _requested(brokers: Sequence[RestartCandidate], request: str) -> Sequence[Begin] | RestartHold:
    text = request.strip()
    found = [one for one in brokers if text in (str(one.id), one.pod)]
    if not found:
        what = f"annotation rackspan.dev/restart: no broker and no broker's pod is {shown(text[:_MAX_REQUEST])!r}"
        return RestartHold(what, Reason.INVALID_ANNOTATION)
    if found[0].pod is None:
        return RestartHold(f"broker {found[0].id} has no pod of its own to restart")
    return [Begin(found[0], found[0].pod, requested=True)]


def _choose_drifted(broker: RestartCandidate, not_mended: Collection[NotMended]) -> Begin | RestartHold:
    if broker.pod is None or broker.node is None:
        return RestartHold(f"broker {broker.id} has no pod of its own to restart")
    if broker.rack is None:
        return RestartHold(f"the rack of broker {broker.id} has not lasted yet")
    if broker.published != broker.rack:
        return RestartHold(
            f"broker {broker.id}: a restart would not give it {broker.rack}, since the published racks say "
            f"{broker.published or 'nothing'} of node {broker.node}",
        )
    if any((known.broker, known.rack) == (broker.id, broker.rack) for known in not_mended):
        return RestartHold(
            f"broker {broker.id} was restarted and still reports {broker.reported or 'none'}, not {broker.rack}: its "
            "pod does not take broker.rack from the published racks, and is not evicted again",
            Reason.RESTART_DID_NOT_MEND,
        )
    return Begin(broker, broker.pod, requested=False)


def begun_by(restarts: RestartsStatus, now: datetime) -> RestartsStatus:
    """Return the restarts, with `now` as the begin of a restart from the future, after the clock was set back."""
    current = restarts.current
    return replace(restarts, current=replace(current, since=min(current.since, now))) if current else restarts


def progress_of(
    current: RestartingBroker,
    broker: RestartCandidate | None,
    pod: PodFacts | None,
    lagging: int | None,
    now: datetime,
    ready_for: timedelta | None,
) -> RestartProgress:
    """Return the progress of the current restart.

    `broker` is None if it is not known any more. `pod` is the current pod of the broker. `lagging` is the number of the
    broker's partitions whose ISR lacks the broker, or None if not read. `ready_for` is how long this pod is ready.
    """
    name, why = f"broker {current.broker}", _not_back(current, broker, pod, lagging)
    if pod is not None and pod.uid == current.pod_uid and not pod.deleting:
        still = f"pod {current.pod} is still the one that was to be evicted"
        return Again(still) if now - current.since >= LOST else RestartHold(still, Reason.RESTARTING)
    if broker is None and pod is None and now - current.since >= GONE:
        return Done(f"{name} did not come back, and holds no replicas")
    if why is not None or broker is None or pod is None:
        return RestartHold(why or f"{name} is not back", Reason.RESTARTING)
    if ready_for is None or ready_for < BACK:
        return RestartHold(f"{name} is back, and has to stay for {BACK.seconds} seconds", Reason.RESTARTING)
    reports = f"reports {broker.reported or 'no rack'}"
    known = broker.rack is not None or current.request is not None  # a node without a rack has no drift
    if current.rack in (None, broker.reported) or (known and not broker.drift):
        return Done(f"{name} is back in all ISRs and {reports}")
    if ready_for < GRACE:
        return RestartHold(f"{name} is back and {reports} so far", Reason.RESTARTING)
    node = f"its node {'is' if broker.rack == current.rack else 'was'} in {current.rack}"
    return Done(
        f"{name} is back, and still {reports} where {node}",
        NotMended(broker.id, current.rack, current.pod, broker.reported),
    )


def progress_unseen(
    current: RestartingBroker, broker: RestartCandidate | None, lagging: int | None, now: datetime
) -> Done | None:
    """Return Done if a restart has ended according to Kafka alone, for a pod that may not be read any more, else None.

    Kafka does not show whether the pod was evicted. So the old pod gets time to end, and `not_mended` is never set.
    """
    pod = PodFacts("", None, deleting=False, ready=True, has_controller=True)
    found = progress_of(current, broker, pod, lagging, now, now - current.since - LOST)
    return found if isinstance(found, Done) and found.not_mended is None else None


def _not_back(
    current: RestartingBroker, broker: RestartCandidate | None, pod: PodFacts | None, lagging: int | None
) -> str | None:
    name = f"broker {current.broker}"
    if pod is None or pod.uid == current.pod_uid:
        return f"{name}: pod {current.pod} was evicted, and the next one is not there yet"
    if not pod.ready:
        return f"{name}: its new pod is not ready"
    if broker is None or not broker.online:
        return f"{name} is not back in the cluster yet"
    if lagging is None:
        return f"{name}: the ISRs of its partitions have not been read from Kafka yet"
    if lagging:
        return f"{name} is back, and {plural(lagging, 'partition')} {be(lagging)} not in sync on it yet"
    return None


def still_not_mended(known: Collection[NotMended], brokers: Sequence[RestartCandidate]) -> tuple[NotMended, ...]:
    """Return those of `known` that still drift from the same rack, are offline or have no known rack, by broker id."""
    by_id = {one.id: one for one in brokers}
    kept = [
        one
        for one in known
        if (broker := by_id.get(one.broker)) is not None
        and (not broker.online or broker.rack is None or (broker.drift and broker.rack == one.rack))
    ]
    return tuple(sorted(kept, key=lambda one: one.broker))


def unsafe(broker: int, shortfalls: Sequence[IsrShortfall], *, all_hold: bool) -> RestartHold | None:
    """Return why a broker cannot be spared now, or None.

    Lasting shortfalls, which waiting does not resolve, hold up a restart only if `all_hold`.
    """
    holding = [one for one in shortfalls if all_hold or not one.lasting]
    if not holding:
        return None
    helps = "no waiting helps: add replicas, or set brokers.topicsWithoutSpareReplica to Report"
    remedy = f"; {helps}" if all(one.lasting for one in holding) else ""
    message = f"broker {broker} cannot be spared now: without it {_named(holding)}{remedy}"
    return RestartHold(message)


def cost(shortfalls: Sequence[IsrShortfall]) -> str:
    """Return the effect of a restart on partitions as the end of a message, or "" if there is no effect."""
    if not shortfalls:
        return ""
    count, own = plural(len(shortfalls), "partition"), "its" if len(shortfalls) == 1 else "their"
    return (
        f"; until it is back, {count} without a spare replica {be(len(shortfalls))} below {own} min.insync.replicas: "
        f"{_named(shortfalls)}"
    )


def _named(shortfalls: Sequence[IsrShortfall]) -> str:
    named = ", ".join(_shortfall(one) for one in shortfalls[:_NAMED])
    return named + (f" and {plural(len(shortfalls) - _NAMED, 'other partition')}" if len(shortfalls) > _NAMED else "")


def _shortfall(one: IsrShortfall) -> str:
    at = f"{one.topic}-{one.partition}"
    if one.needed is None:
        return f"{at} has {one.left} in sync, and its min.insync.replicas cannot be read"
    return f"{at} has {one.left} in sync of min.insync.replicas {one.needed}"


def unfit(broker: RestartCandidate, pod: PodFacts | None) -> RestartHold | None:
    """Return why a pod may not be evicted, by its current state in the API server, or None."""
    name = f"pod {broker.pod}"
    if pod is None or pod.node != broker.node:
        return RestartHold(f"{name} has moved: the operator checks again")
    if pod.deleting:
        return RestartHold(f"{name} is being deleted")
    if not pod.has_controller:
        return RestartHold(f"{name} belongs to no controller that would make it again", Reason.RESTART_NOT_ALLOWED)
    return None


@dataclass(frozen=True, slots=True)
class RestartFacts:
    """The known facts about the restarts of one topology's brokers. `hold` is why the operator does not act now.

    `cluster_id` is the id of the brokers' Kafka cluster, or None if it is not known.
    """

    topology_uid: str
    restarts: RestartsStatus = field(default_factory=RestartsStatus)
    hold: RestartHold | None = None
    cluster_id: str | None = None

    def within(self, cluster_id: str | None) -> RestartFacts:
        """Return the same facts, or empty facts for another cluster, whose brokers may have the same ids."""
        left = None not in (self.cluster_id, cluster_id) and self.cluster_id != cluster_id
        return RestartFacts(self.topology_uid, cluster_id=cluster_id) if left else self


def with_restarts(
    topology: RackTopology, status: RackTopologyStatus, facts: RestartFacts | None, now: datetime
) -> RackTopologyStatus:
    """Return `status` with the restarts, and with the condition Restarting while a restart runs or waits.

    The condition is True while a broker restarts, and False while a restart is needed and waits. Ready does not change.
    """
    if facts is None or facts.topology_uid != topology.meta.uid:
        if topology.status.cluster_id in (None, status.cluster_id):
            return status
        facts = RestartFacts(topology.meta.uid)
    facts = facts.within(status.cluster_id)
    restarts, hold = facts.restarts, facts.hold
    conditions = Conditions(status.conditions, topology.meta.generation, now)
    if hold is None and restarts.current is None:
        conditions.remove(RESTARTING)
    else:
        under_way = ConditionStatus.FALSE if restarts.current is None else ConditionStatus.TRUE
        pod = restarts.current.pod if restarts.current else ""
        reason, message = (hold.reason, hold.message) if hold else ("Restarting", f"pod {pod} was evicted")
        conditions.set(RESTARTING, under_way, reason, message)
    return replace(status, restarts=None if restarts == RestartsStatus() else restarts, conditions=conditions.all)
