"""Reconciles one batch of topics with Kafka: reads, decides, changes, and reads the changes back."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rackspan.api.reasons import Reason
from rackspan.core.config_keys import MIN_INSYNC
from rackspan.metrics import count_error
from rackspan.reconcile import audit_log
from rackspan.reconcile.cluster.batching import batches, config_records, partition_records, topic_records
from rackspan.reconcile.failures import UNEXPECTED, Failure, FailureError, Remedy
from rackspan.reconcile.ports import ConfigChange, NewPartitions, NewTopic, TopicConfig
from rackspan.reconcile.runtime.threads import PLACER_SECONDS, PlacerTimedOutError, ThirdPartyPlacers, in_thread
from rackspan.reconcile.specs.placement import PORTION, cost, third_party_placer, too_large
from rackspan.reconcile.specs.topic_configs import differing
from rackspan.reconcile.topics.creation_claims import with_known_claim
from rackspan.reconcile.topics.topic_decision import Outcome, TopicDecision, decide, ownership_problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rackspan.api.kafkatopic import KafkaTopic
    from rackspan.api.meta import ObjectKey
    from rackspan.reconcile.cluster.state import ClusterState
    from rackspan.reconcile.ports import KafkaAdmin, Outcomes


C = TypeVar("C", NewTopic, NewPartitions, ConfigChange)
_log = logging.getLogger("rackspan.reconcile")

_READ_BACK_SECONDS = 15.0
"""How long brokers may take to show a change of the controller. After that, a later pass checks the change."""
_FIRST_PAUSE_SECONDS = 0.02
_MAX_PAUSE_SECONDS = 0.5


async def reconcile_topics(
    topics: Sequence[KafkaTopic],
    state: ClusterState,
    admin: KafkaAdmin,
    prepare: Callable[[Sequence[Outcome]], Awaitable[Collection[ObjectKey]]],
    is_current: Callable[[KafkaTopic], bool],
    third_party: ThirdPartyPlacers,
    above_quota: Mapping[ObjectKey, Failure],
) -> list[Outcome]:
    """Create and change topics in Kafka as their objects request. Return the outcomes in the order of `topics`.

    `prepare` is called after the decisions and before the changes. The objects that it returns are left out, and those
    that are not `is_current` when one of their changes is to be sent. Topics in `above_quota` get no more than they
    already have in Kafka. Raises FailureError only if Kafka responded for none of the topics.
    """
    outcomes = {
        topic.key: Outcome(with_known_claim(topic, state), above_quota=above_quota.get(topic.key)) for topic in topics
    }
    await _fetch_topics(outcomes.values(), admin)
    await _fetch_configs(outcomes.values(), admin)
    for outcome in outcomes.values():
        if outcome.failures and outcome.seen is not None:  # its configuration cannot be read
            outcome.decision = TopicDecision(foreign=ownership_problem(outcome.topic, outcome.seen, state))
    fit = [outcome for outcome in outcomes.values() if not outcome.failures and not outcome.is_stale]
    await _decide(fit, state, third_party)
    for key in await prepare(fit):
        _remove_load(outcomes.pop(key).decision, state)
    changed = [outcome for outcome in outcomes.values() if not outcome.decision.idle]
    await _act(changed, state, admin, is_current)
    await _read_back([outcome for outcome in changed if not outcome.superseded], state, admin)
    return [outcome for outcome in outcomes.values() if not outcome.superseded]


async def _decide(outcomes: Sequence[Outcome], state: ClusterState, third_party: ThirdPartyPlacers) -> None:
    """Decide in order and in threads, so that each placement includes the load of the previous ones."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PLACER_SECONDS
    for placer, portion in _portions(outcomes, state):
        if placer is not None:
            in_time = loop.time() <= deadline
            decision = await _call_placer(placer, portion[0], state, third_party) if in_time else _timed_out(placer)
            async with state.load.turn:
                _apply(portion[0], decision, state)
            continue
        async with state.load.turn:
            decisions = await in_thread(_decide_in_order, portion, state.with_own_load)
            for outcome, decision in zip(portion, decisions, strict=True):
                _apply(outcome, decision, state)


def _portions(outcomes: Iterable[Outcome], state: ClusterState) -> Iterator[tuple[str | None, Sequence[Outcome]]]:
    """Yield, in order, None and a portion to decide at once, or the name of a third-party placer and one topic."""
    portion: list[Outcome] = []
    planned = 0
    for outcome in outcomes:
        placer, work = _third_party_of(outcome, state), cost(outcome.topic, outcome.seen, state)
        if portion and (placer is not None or planned + work > PORTION):
            yield None, portion
            portion, planned = [], 0
        if placer is not None:
            yield placer, [outcome]
        else:
            portion.append(outcome)
            planned += work
    if portion:
        yield None, portion


def _third_party_of(outcome: Outcome, state: ClusterState) -> str | None:
    topic, seen = outcome.topic, outcome.seen
    placer = third_party_placer(topic.spec, len(seen.replicas) if seen is not None else 0, state)
    if placer is None or ownership_problem(topic, seen, state) is not None or too_large(topic, seen, state) is not None:
        return None
    return placer


async def _call_placer(
    placer: str, outcome: Outcome, state: ClusterState, third_party: ThirdPartyPlacers
) -> TopicDecision:
    try:
        return await third_party.call(placer, partial(_decide_one, outcome, state.with_own_load))
    except PlacerTimedOutError:
        return _timed_out(placer)


def _timed_out(placer: str) -> TopicDecision:
    message = f"the placer {placer!r} takes longer than {PLACER_SECONDS:g} seconds, for this topic or for another one"
    return TopicDecision(problem=Failure(Reason.PLACER_TIMED_OUT, message, Remedy.RETRY))


def _apply(outcome: Outcome, decision: TopicDecision, state: ClusterState) -> None:
    if outcome.topic.meta.is_paused:
        outcome.paused_decision = decision
        outcome.decision = TopicDecision(problem=decision.problem, foreign=decision.foreign)
    else:
        outcome.decision = decision
        _add_load(outcome, decision, state)


def _decide_in_order(outcomes: Sequence[Outcome], state: ClusterState) -> Sequence[TopicDecision]:
    decisions = []
    for outcome in outcomes:
        decision = _decide_one(outcome, state)
        decisions.append(decision)
        if not outcome.topic.meta.is_paused:
            _add_load(outcome, decision, state)
    return decisions


def _decide_one(outcome: Outcome, state: ClusterState) -> TopicDecision:
    own = outcome.config.own if outcome.config else {}
    try:
        return decide(outcome.topic, outcome.seen, own, state, outcome.above_quota)
    except Exception:
        _log.exception("KafkaTopic %s: unexpected error", outcome.topic.key)
        return TopicDecision(problem=UNEXPECTED)


async def _fetch_topics(outcomes: Iterable[Outcome], admin: KafkaAdmin) -> None:
    by_name = {outcome.topic.topic_name: outcome for outcome in outcomes}
    seen = await admin.topics(by_name)
    for name, outcome in by_name.items():
        found = seen.get(name)
        if isinstance(found, Failure):
            outcome.failures.append(found)
        else:
            outcome.seen = found


async def _fetch_configs(outcomes: Iterable[Outcome], admin: KafkaAdmin) -> None:
    by_name = {outcome.topic.topic_name: outcome for outcome in outcomes if outcome.seen is not None}
    for name, found in (await admin.configs(by_name)).items():
        if isinstance(found, Failure):
            by_name[name].failures.append(found)
        else:
            by_name[name].config = found


def _add_load(outcome: Outcome, decision: TopicDecision, state: ClusterState) -> None:
    for change in (decision.create, decision.grow):
        if change is not None and change.assignment is not None:
            state.load.add(change.name, change.assignment, outcome.seen.replicas if outcome.seen is not None else ())


def _remove_load(decision: TopicDecision, state: ClusterState) -> None:
    for change in (decision.create, decision.grow):
        if change is not None and change.assignment is not None:
            state.load.remove(change.name)


async def _act(
    outcomes: Sequence[Outcome], state: ClusterState, admin: KafkaAdmin, is_current: Callable[[KafkaTopic], bool]
) -> None:
    creations = [create for outcome in outcomes if (create := outcome.decision.create)]
    growths = [grow for outcome in outcomes if (grow := outcome.decision.grow)]
    changes = [change for outcome in outcomes if (change := outcome.decision.configure)]
    by_name = {outcome.topic.topic_name: outcome for outcome in outcomes}

    def current(batch: Sequence[C]) -> Sequence[C]:
        kept = []
        for change in batch:
            outcome = by_name[change.name]
            if not outcome.superseded and is_current(outcome.topic):
                kept.append(change)
            elif outcome.superseded or outcome.decision.grow in (None, change):
                outcome.superseded = True
            else:  # its growth was sent, and is reported
                outcome.decision = replace(outcome.decision, configure=None)
        return kept

    await _change(by_name, state, current, creations, topic_records, admin.create_topics)
    await _change(by_name, state, current, growths, partition_records, admin.create_partitions)
    for outcome in outcomes:
        if outcome.failures or outcome.superseded:
            _remove_load(outcome.decision, state)
    await _change(by_name, state, current, changes, config_records, admin.alter_configs)


async def _change(
    by_name: Mapping[str, Outcome],
    state: ClusterState,
    current: Callable[[Sequence[C]], Sequence[C]],
    changes: Iterable[C],
    records: Callable[[C], int],
    call: Callable[[Sequence[C]], Awaitable[Outcomes]],
) -> None:
    """Make the `current` changes of one kind. A call that fails as a whole fails only the topics of its batch."""
    for batch in filter(None, map(current, batches(changes, records))):
        entries = {change.name: audit_log.change_of(by_name[change.name].topic, change) for change in batch}
        try:
            answers = await audit_log.audited(entries, partial(call, batch))
        except FailureError as error:
            answers = dict.fromkeys(entries, error.failure)
        for name in entries:
            outcome, refused = by_name[name], answers.get(name)
            if refused is not None:
                count_error(str(state.topology), refused.remedy, refused.reason)
                outcome.failures.append(refused)


async def _read_back(outcomes: Sequence[Outcome], state: ClusterState, admin: KafkaAdmin) -> None:
    """Read topics until the brokers show the changes. Set `settled` to False for topics that do not show them in time.

    Brokers replay the controller's metadata log in order, so the last topic is polled first, and the others after it
    shows its change. The configuration of a new topic is taken from the request, because reading it costs the most.
    """
    waiting = [outcome for outcome in outcomes if not outcome.failures]
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _READ_BACK_SECONDS
    pause = _FIRST_PAUSE_SECONDS
    while waiting:
        for portion in filter(None, (waiting[-1:], waiting[:-1])):
            await _fetch_topics(portion, admin)
            await _fetch_configs([outcome for outcome in portion if outcome.decision.configure], admin)
            if not all(map(_shows_change, portion)):
                break
        waiting = [outcome for outcome in waiting if not _shows_change(outcome)]
        if waiting and loop.time() > deadline:
            break
        if waiting:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
    for outcome in waiting:
        outcome.settled = False
    for outcome in outcomes:
        if (create := outcome.decision.create) and outcome.seen is not None:
            value = create.config.get(MIN_INSYNC)
            outcome.config = TopicConfig(create.config, int(value) if value is not None else state.default_min_insync)


def _shows_change(outcome: Outcome) -> bool:
    seen, decision = outcome.seen, outcome.decision
    if outcome.failures or seen is None:
        return bool(outcome.failures)
    partitions = decision.create.partitions if decision.create else decision.grow.total if decision.grow else 0
    if len(seen.replicas) < partitions:
        return False
    if decision.configure is None:
        return True
    return outcome.config is not None and not differing(decision.configure.set, outcome.config.own)
