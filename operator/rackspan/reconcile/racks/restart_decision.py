"""Which broker to restart next, what to make of one that restarts, and the condition Restarting. Pure.

A restart mends a broker that reports another rack than its node has, and whose pod would read the new one from the
published file. One broker restarts at a time, and the next not before it is back. A restart that did not mend it is not
tried again for the same rack.
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
"""How long a new pod has to be ready before what Kafka says of its broker is taken to be about it.

Kafka forgets a broker that was killed after 9 seconds (broker.session.timeout.ms) and is asked every 5 seconds."""
GRACE: Final = timedelta(seconds=60)
"""The same before its broker counts as not mended."""
LOST: Final = timedelta(minutes=2)
"""When an eviction that nobody saw the answer to has not come about: longer than the API server works on a request."""
GONE: Final = timedelta(minutes=15)
"""How long a broker that is known to nobody any more is waited for, or one whose pod may not be looked at any more."""
_NAMED = 3
_MAX_REQUEST = 253


@dataclass(frozen=True, slots=True)
class RestartCandidate:
    """A broker. `pod` is the one pod that claims it, on `node`; `rack` is that node's once it has lasted.

    `published` is what the published file says of the node. `drift` is that Kafka reports another rack than the node's.
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
    """Nothing can be restarted now: why."""

    message: str
    reason: Reason = Reason.RESTART_WAITING


@dataclass(frozen=True, slots=True)
class Begin:
    """A broker to restart, if Kafka and the API server agree. `requested` by an annotation."""

    broker: RestartCandidate
    pod: str
    requested: bool


@dataclass(frozen=True, slots=True)
class Again:
    """The pod was not evicted after all: the operator ended in between."""

    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """The broker is back, or gone for good. `not_mended` where it still reports another rack."""

    message: str
    not_mended: NotMended | None = None


RestartChoice: TypeAlias = "Sequence[Begin] | RestartHold | None"
RestartProgress: TypeAlias = "Done | Again | RestartHold"


def choose(
    brokers: Sequence[RestartCandidate], not_mended: Collection[NotMended], request: str | None, *, on_drift: bool
) -> RestartChoice:
    """The brokers to restart, the next one first, why none can be, or None where there is none to restart.

    `request` is the annotation's value: a broker's id or its pod's name. It comes first, whether that broker drifts or
    not.
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
    # What another try cannot mend waits for a person: what still can comes first.
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


def progress_of(
    current: RestartingBroker,
    broker: RestartCandidate | None,
    pod: PodFacts | None,
    lagging: int | None,
    now: datetime,
    ready_for: timedelta | None,
) -> RestartProgress:
    """What became of the restart under way.

    `broker` is None where nobody knows it any more, `pod` is its pod as it is now, and `lagging` counts the partitions
    whose ISR is without it, None where that was not asked. `ready_for` is how long this pod was seen ready.
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
    """That a restart is over by what Kafka says alone, where its pod may not be looked at any more; None while not.

    Kafka cannot tell whether the pod was evicted: the old one gets time to end, and nothing counts as not mended.
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
    """Those of `known` that still drift, or whose broker or its rack is not known just now, by id."""
    by_id = {one.id: one for one in brokers}
    kept = [
        one
        for one in known
        if (broker := by_id.get(one.broker)) is not None
        and (not broker.online or broker.rack is None or (broker.drift and broker.rack == one.rack))
    ]
    return tuple(sorted(kept, key=lambda one: one.broker))


def unsafe(broker: int, shortfalls: Sequence[IsrShortfall], *, all_hold: bool) -> RestartHold | None:
    """Why a broker cannot be taken away now; None where it can.

    What is lasting holds up nothing unless `all_hold`.
    """
    holding = [one for one in shortfalls if all_hold or not one.lasting]
    if not holding:
        return None
    helps = "no waiting helps: add replicas, or set brokers.topicsWithoutSpareReplica to Report"
    remedy = f"; {helps}" if all(one.lasting for one in holding) else ""
    message = f"broker {broker} cannot be spared now: without it {_named(holding)}{remedy}"
    return RestartHold(message)


def cost(shortfalls: Sequence[IsrShortfall]) -> str:
    """What a restart does to partitions, to be appended to a message; empty where nothing."""
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
    """Why a pod is not evicted, by what the API server says of it now; None where it may be."""
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
    """What is known of the restarts of one topology's brokers; `hold` is why nothing more is done now.

    `cluster_id` is of their Kafka cluster, None where that is not known.
    """

    topology_uid: str
    restarts: RestartsStatus = field(default_factory=RestartsStatus)
    hold: RestartHold | None = None
    cluster_id: str | None = None

    def within(self, cluster_id: str | None) -> RestartFacts:
        """The same, and nothing where that was another cluster: its brokers may have the same ids."""
        left = None not in (self.cluster_id, cluster_id) and self.cluster_id != cluster_id
        return RestartFacts(self.topology_uid, cluster_id=cluster_id) if left else self


def with_restarts(
    topology: RackTopology, status: RackTopologyStatus, facts: RestartFacts | None, now: datetime
) -> RackTopologyStatus:
    """`status` with the restarts, and with the condition Restarting while there is one to do. Ready stays as it is.

    True while a broker's restart is under way, False while one is needed and waits.
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
