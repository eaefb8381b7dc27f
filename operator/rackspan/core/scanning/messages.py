"""The texts of findings for people: what is wrong, and what would fix it."""

from collections.abc import Collection, Mapping

from rackspan.core.compliance import ViolationReason
from rackspan.core.scanning.findings import ASSIGNMENT_DIFFERS, NO_RACK, NO_VALUE, NONE_ELIGIBLE, ONLY_ELIGIBLE, Facts
from rackspan.core.scanning.rules import Rule
from rackspan.core.text import plural

_COMPLIANCE: Mapping[str, str] = {
    ViolationReason.TOO_MANY_REPLICAS: "{level} {domain} holds {excess} too many",
    ViolationReason.BROKER_NOT_ELIGIBLE: "broker {broker} may not hold it",
    ViolationReason.BROKER_UNKNOWN: "broker {broker} is not in the cluster",
    ViolationReason.BROKER_REPEATED: "broker {broker} is listed twice",
    ASSIGNMENT_DIFFERS: "the replicas are not the ones of the assignment",
}
_MESSAGES: Mapping[Rule, str] = {
    Rule.OFFLINE: "no leader: clients cannot read or write it",
    Rule.BROKER_OFFLINE: "broker {broker} is not online: {holding} a replica there",
    Rule.UNDER_REPLICATED: "{behind} not in sync",
    Rule.UNSATISFIABLE: "no placement on the brokers that may hold it meets its spread",
    Rule.NOT_JUDGED: "the rack of a broker is not known, and whether it is spread as asked depends on that",
    Rule.REPLICA_ON_DRAINED_BROKER: "broker {broker} is drained and still holds a replica",
    Rule.MIN_INSYNC_TOO_SMALL: "min.insync.replicas is {short} too small for the durability asked",
    Rule.MIN_INSYNC_TOO_LARGE: "min.insync.replicas is {excess} too large: losses that should be survived stop writes",
    Rule.REPLICATION_FACTOR_DIFFERS: "the replication factor is {amount} than declared",
    Rule.REPLICATION_FACTOR_VARIES: "its partitions differ by {replicas}",
    Rule.PINNED_UNFAIR: "the explicit assignment does not spread it fairly",
    Rule.RACK_DRIFT: "broker {broker} is in another rack than its broker.rack says",
    Rule.MISSING_RACK: "broker {broker} has no rack",
    Rule.LEADER_NOT_PREFERRED: "led by broker {broker}, which is not its first replica",
    Rule.UNMANAGED_TOPIC: "no KafkaTopic declares it",
}
_MOST_AWAY = 10
_NEVER_WITHOUT_LEADER = "but never while a partition has no leader: the change empties its ELR (KIP-966)"
_FIXES: Mapping[Rule, str] = {
    Rule.OFFLINE: "bring back a broker of its ISR or ELR: kafka-topics --describe names them",
    Rule.UNDER_REPLICATED: "bring back the brokers that lag, or reduce their load",
    Rule.NOT_COMPLIANT: "{plan}: {moves} to copy, none does with fewer",
    Rule.UNSATISFIABLE: "add brokers to the domains that have the fewest, or loosen its spread",
    Rule.NOT_JUDGED: (
        "give every broker a rack: label its node, or set broker.rack; "
        "or set missingRackPolicy: Ignore in its RackTopology"
    ),
    Rule.REPLICA_ON_DRAINED_BROKER: "{plan}: {moves} to copy, none does with fewer",
    Rule.MIN_INSYNC_TOO_SMALL: f"raise min.insync.replicas by {{short}}, {_NEVER_WITHOUT_LEADER}",
    Rule.MIN_INSYNC_TOO_LARGE: f"lower min.insync.replicas by {{excess}}, {_NEVER_WITHOUT_LEADER}",
    Rule.REPLICATION_FACTOR_DIFFERS: "{plan} --replication-factor: {moves} to copy{less}; or declare what is there",
    Rule.REPLICATION_FACTOR_VARIES: "{plan} --replication-factor: one number of replicas for all",
    Rule.PINNED_UNFAIR: "remove the assignment, if it need not be so: {moves} to copy then",
    Rule.RACK_DRIFT: "correct the label of its node if it is wrong; else the broker reports it after its next restart",
    Rule.MISSING_RACK: "label its node, or set broker.rack",
    Rule.LEADER_NOT_PREFERRED: "elect preferred leaders: kafka-leader-election --election-type preferred",
    Rule.UNMANAGED_TOPIC: "declare it as a KafkaTopic, or delete it",
}
_FIXES_BY_TOPOLOGY: Mapping[Rule, str] = {
    Rule.BROKER_OFFLINE: "bring it back; if it is gone for good: rackspan drain {broker} --topology {topology}",
    Rule.REPLICATION_FACTOR_DIFFERS: "{plan}: {moves} to copy{less}; or declare what is there",
    Rule.REPLICATION_FACTOR_VARIES: "declare its replication factor in a KafkaTopic",
}
"""The fixes that differ if a RackTopology and its KafkaTopics define what a plan otherwise takes as options."""


def place(topic: str | None, partition: int | None, broker: int | None, otherwise: str = "cluster") -> str:
    """Return what a finding is about: `orders-3`, `orders`, `broker 7`, or `otherwise`."""
    if topic is not None:
        return topic if partition is None else f"{topic}-{partition}"
    return otherwise if broker is None else f"broker {broker}"


def shown_id(number: int) -> str:
    """Return the id of a finding as people and documents see it: 16 hexadecimal digits."""
    return f"{number & (1 << 64) - 1:016x}"


def message(facts: Facts) -> str:
    """Return what is wrong, without the topic and the partition, which are shown next to the message."""
    if facts.rule is Rule.UNDER_REPLICATED and facts.broker is not None:
        return f"broker {facts.broker} lags"
    if facts.rule is Rule.REPLICA_ON_DRAINED_BROKER and facts.reason == ASSIGNMENT_DIFFERS:
        return f"broker {facts.broker} is drained, and the explicit assignment keeps a replica there"
    if facts.rule is Rule.RACK_DRIFT and facts.reason == NO_RACK:
        return f"broker {facts.broker} has no broker.rack"
    if facts.rule is Rule.UNSATISFIABLE and facts.excess:
        return f"{plural(facts.excess, 'more replica')} than brokers that may hold it"
    text = _COMPLIANCE[facts.reason or ""] if facts.rule is Rule.NOT_COMPLIANT else _MESSAGES[facts.rule]
    return _filled(text, facts)


def fix(facts: Facts, options: str = "", topology: str | None = None, away: Collection[int] = ()) -> str:
    """Return what would fix a finding.

    A plan command gets the `options` with which the cluster was judged, or the key of its RackTopology. `away` are all
    brokers that hold replicas but are not in the cluster.
    """
    plan = f"rackspan plan {options if topology is None else f'--topology {topology}'}".rstrip()
    if facts.rule is Rule.BROKER_OFFLINE and topology is None:
        return _drain({*away, facts.broker or 0}, plan)
    if facts.rule is Rule.OFFLINE and (facts.reason is not None or facts.broker is not None):
        return _return(facts)
    if facts.rule is Rule.UNDER_REPLICATED and facts.broker is not None:
        return f"bring back broker {facts.broker}, or reduce its load"
    if facts.rule is Rule.REPLICA_ON_DRAINED_BROKER and facts.reason == ASSIGNMENT_DIFFERS:
        return f"take broker {facts.broker} off the topic's explicit assignment"
    if facts.reason == NO_VALUE:
        return "change its replication factor or its durability: no min.insync.replicas meets both"
    if not facts.moves and (without := _without_moves(facts, plan, topology)):
        return without
    if facts.rule is Rule.RACK_DRIFT and facts.reason == NO_RACK:
        return "set broker.rack to the rack of its node, and restart it"
    if facts.rule is Rule.UNSATISFIABLE and facts.excess:
        return f"add {plural(facts.excess, 'broker')}, or lower its replication factor by {facts.excess}"
    fixes = _FIXES if topology is None else {**_FIXES, **_FIXES_BY_TOPOLOGY}
    return _filled(fixes[facts.rule], facts, plan, topology)


def _without_moves(facts: Facts, plan: str, topology: str | None) -> str | None:
    """Return a fix without moves, or None. Only with a RackTopology can a smaller replication factor be declared."""
    if facts.rule is Rule.NOT_COMPLIANT and facts.reason == ASSIGNMENT_DIFFERS:
        return f"{plan}: another order of the same replicas, nothing to copy"
    if facts.rule in (Rule.NOT_COMPLIANT, Rule.REPLICA_ON_DRAINED_BROKER):
        if topology is None:
            return "no move fixes it while too few brokers may hold it"
        return f"nothing to copy: {plan} removes replicas, or says which brokers are missing"
    if facts.rule is Rule.REPLICATION_FACTOR_DIFFERS and facts.excess < 0:
        return f"{plan} says why no replica can be added; or declare what is there"
    return None


def _drain(away: Collection[int], plan: str) -> str:
    """Return how to plan without these brokers. A plan is refused if it does not drain all brokers that are offline."""
    if len(away) > _MOST_AWAY:
        gone = f"all {len(away):,} brokers that are away are"
        return f"bring it back; if {gone} gone for good: {plan} says how to drain them"
    named = [str(broker) for broker in sorted(away)]
    gone = "it is" if len(named) == 1 else f"brokers {', '.join(named)} are"
    drained = ",".join(named)
    return (
        f"bring it back; if {gone} gone for good: {plan} --drain-broker {drained}, "
        "or spec.drainBrokers of its RackTopology"
    )


def _return(facts: Facts) -> str:
    """Return which brokers have to come back to give a partition a leader.

    A broker of the ISR or ELR has all committed writes (KIP-966) if it stopped cleanly. Kafka checks that when the
    broker comes back: after an unclean stop, the broker leaves the ELR and does not lead.
    """
    if facts.reason == NONE_ELIGIBLE:
        return (
            "bring back all of its brokers: none is known to have all committed writes; if none leads then, only an "
            "unclean election helps"
        )
    if facts.reason == ONLY_ELIGIBLE:
        return f"bring back broker {facts.broker}: no other replica is sure to have all committed writes"
    several = f"bring back broker {facts.broker}, or another of its ISR or ELR"
    return f"{several}: those that stopped cleanly have all committed writes"


def moves_that_fix(moves: int, broken: int, by_rule: Mapping[str, int]) -> str:
    """Return what would fix `broken` partitions, from the counts of all findings by rule.

    No move fixes an unsatisfiable partition. If topics differ from their declared replication factor, `moves` includes
    the moves for that factor.
    """
    unsatisfiable, differing = (by_rule.get(rule, 0) for rule in (Rule.UNSATISFIABLE, Rule.REPLICATION_FACTOR_DIFFERS))
    it, fixed = "it" if broken == 1 else "them", broken - unsatisfiable
    factor = f"{plural(moves, 'move')} would reach the declared replication {'factor' if differing == 1 else 'factors'}"
    if not broken:
        return factor if moves else "nothing to copy"
    counting = ", counting those to the declared replication factor" if differing else ""
    if not unsatisfiable:
        return f"{plural(moves, 'move')} would fix {it}{counting}"
    if not fixed:
        never = f"no move would fix {it}: too few brokers may hold {it}"
        return f"{never}; {factor}" if moves else never
    return (
        f"{plural(moves, 'move')} would fix {fixed:,} of them{counting}, "
        f"no move would fix the other {unsatisfiable:,}: "
        f"too few brokers may hold {'it' if unsatisfiable == 1 else 'them'}"
    )


def _filled(text: str, facts: Facts, plan: str = "", topology: str | None = None) -> str:
    return text.format(
        plan=plan,
        topology=topology,
        level=facts.level,
        domain=facts.domain,
        broker=facts.broker,
        excess=facts.excess,
        short=-facts.excess,
        holding=plural(facts.excess, "partition has", "partitions have"),
        behind=plural(-facts.excess, "replica is", "replicas are"),
        moves=plural(facts.moves, "replica") if facts.moves else "nothing",
        less=f", up to {plural(facts.excess, 'replica')} of each partition removed" if facts.excess > 0 else "",
        replicas=plural(facts.excess, "replica"),
        amount=f"{abs(facts.excess)} {'higher' if facts.excess > 0 else 'lower'}",
    )


def not_judged(unread: int, by_rule: Mapping[str, int]) -> str:
    """Return which topics a scan has not judged, and why; `unread` could not be read. Empty if it has judged all."""
    without_rack = by_rule.get(Rule.NOT_JUDGED, 0)
    read = f"{plural(unread, 'topic')} could not be read" if unread else ""
    judged = (
        f"{plural(without_rack, 'topic')} cannot be judged without the racks of all brokers" if without_rack else ""
    )
    return "; ".join(filter(None, (read, judged)))
