"""`rackspan check`: what is wrong with a cluster, where, and what would fix it."""

import operator
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console, Group

from rackspan.cli.rendering.ci_findings import junit, sarif
from rackspan.cli.rendering.findings_table import ROWS, FindingLine, print_findings
from rackspan.cli.rendering.guarantees_table import guarantee_documents, print_guarantees
from rackspan.cli.rendering.output_formats import CheckFormat, Format
from rackspan.cli.rendering.printed_documents import print_document
from rackspan.cli.rendering.progress import step
from rackspan.cli.rendering.stderr_lines import warn
from rackspan.cli.rendering.tables import console, print_hidden, table
from rackspan.cli.shared.cluster_source import ClusterSource
from rackspan.cli.shared.command_errors import ExitCode, ending_with
from rackspan.cli.shared.live_topology import LiveTopology, refuse_options_of_topology
from rackspan.cli.shared.options import MissingRackPolicy
from rackspan.cli.shared.partition_sizes import sized
from rackspan.cli.shared.selection import TopologyOptions, matching_partitions
from rackspan.core.copy_costs import ending
from rackspan.core.durability import WriteGuarantee, write_guarantees
from rackspan.core.outage import min_insync_replicas
from rackspan.core.requirements import ClusterRequirements
from rackspan.core.scanning import BrokerLocations, Findings, Rule, Severity, examine, examine_brokers, locations_in
from rackspan.core.scanning.examine import Examined
from rackspan.core.scanning.findings import RULES, SEVERITIES, Facts
from rackspan.core.scanning.messages import fix, message, moves_that_fix, place, shown_id
from rackspan.core.scanning.rules import ALARMING, PLACEMENT_RULES
from rackspan.core.snapshot import NONE, Partitions, Snapshot
from rackspan.core.text import be, have, plural
from rackspan.core.topology import BoolArray, IntArray
from rackspan.snapshots.reader import STDIN


@dataclass(frozen=True, slots=True, eq=False)
class _Checked:
    cluster: str
    locations: BrokerLocations
    partitions: Partitions
    examined: Examined
    findings: Findings
    guarantees: Mapping[int, WriteGuarantee]
    """What acknowledged writes survive, by topic index."""
    selected: TopologyOptions
    topology: str | None
    """The key of the RackTopology that the cluster is judged by, in place of `selected`."""
    away: tuple[int, ...]
    """Brokers that hold replicas but are not listed by the cluster, even if their topics are filtered out."""

    @property
    def facts(self) -> Iterator[Facts]:
        return self.findings.facts(self.partitions.names, self.locations.tree)

    def fix(self, facts: Facts) -> str:
        """Return what fixes the finding. A suggested plan has the same options as this command."""
        if self.topology is not None:
            return fix(facts, topology=self.topology)
        options = self.selected.typed(without=self.away if facts.rule is Rule.BROKER_OFFLINE else ())
        return fix(facts, options, away=self.away)

    @property
    def by_rule(self) -> Counter[str]:
        codes, counts = np.unique(self.findings.rule, return_counts=True)
        return Counter({RULES[code]: count for code, count in zip(codes.tolist(), counts.tolist(), strict=True)})

    @property
    def severities(self) -> list[Severity]:
        return [SEVERITIES[rank] for rank in self.findings.severity.tolist()]

    @property
    def non_compliant(self) -> int:
        return int(np.count_nonzero(self.examined.broken))

    @property
    def moves(self) -> int:
        """The minimum number of replicas to copy to fix the cluster."""
        return int(self.examined.moves_of.sum())

    @property
    def bytes(self) -> int | None:
        """The number of bytes that these moves copy, None if a size is not known."""
        moves = self.examined.moves_of
        moved = np.flatnonzero(moves)
        sizes = self.partitions.size_bytes[moved].tolist()
        return None if NONE in sizes else sum(map(operator.mul, moves[moved].tolist(), sizes))

    @property
    def alarming(self) -> bool:
        return self.non_compliant > 0 or not ALARMING.isdisjoint(self.severities)


def check(
    *,
    context: typer.Context,
    snapshot: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    topology: str | None,
    kubeconfig: Path | None,
    topic: str | None,
    levels: str,
    missing_rack_policy: MissingRackPolicy,
    drain_broker: list[str] | None,
    drain_rack: list[str] | None,
    output: CheckFormat,
    show_all: bool,
) -> None:
    """Carry out `rackspan check` with these options. Raises CommandError."""
    if topology is None:
        selected = TopologyOptions.of(levels, missing_rack_policy, drain_broker, drain_rack)
        source = ClusterSource(snapshot, bootstrap_server, command_config)
        found = source.read_topics("to check")
        connection = source.connection
        throttle = None
        locations, required = locations_in(selected.tree(found), found), ClusterRequirements()
    else:
        selected = TopologyOptions()  # the RackTopology has these settings
        refuse_options_of_topology(context)
        live = LiveTopology.at(topology, kubeconfig)
        found, locations, required = live.snapshot(), live.locations, live.requirements
        for sentence in required.level_warnings(locations.tree.levels):
            warn(sentence)
        connection, throttle = live.connection, live.throttle
    partitions = matching_partitions(found, topic)
    with step(f"judging {plural(len(partitions), 'partition')}"):
        checked = _checked(found, locations, partitions, required, selected, topology)
    if connection is not None:
        moved = np.flatnonzero(checked.examined.moves_of)
        checked = replace(checked, partitions=sized(connection, checked.partitions, moved))
    with ending_with(ExitCode.OUT_OF_COMPLIANCE if checked.alarming else ExitCode.FINE):
        if output is CheckFormat.TABLE:
            most = len(partitions) + len(checked.findings) if show_all else ROWS
            _print(checked, throttle, most)
            print_guarantees(console(), partitions.names, checked.guarantees, most)
        elif output is CheckFormat.SARIF:
            looked_at = snapshot if snapshot not in (None, STDIN) else f"kafka/{checked.cluster or 'cluster'}"
            print_document(sarif(_documents(checked), str(looked_at), version("rackspan")), Format.JSON)
        elif output is CheckFormat.JUNIT:
            sys.stdout.writelines(f"{line}\n" for line in junit(_documents(checked), _broken_by_topic(checked)))
        else:
            topics = guarantee_documents(partitions.names, found.inherited, checked.guarantees)
            print_document(
                {"summary": _summary(checked), "findings": _documents(checked), "topics": topics}, Format(output.value)
            )


def _broken_by_topic(checked: _Checked) -> dict[str, int]:
    """Return the number of non-compliant partitions of each topic that has partitions."""
    names, topic, broken = checked.partitions.names, checked.partitions.topic, checked.examined.broken
    counts = np.bincount(topic[broken], minlength=len(names)).tolist()
    return {names[at]: counts[at] for at in np.unique(topic).tolist()}


def _checked(
    snapshot: Snapshot,
    locations: BrokerLocations,
    partitions: Partitions,
    required: ClusterRequirements,
    selected: TopologyOptions,
    topology: str | None,
) -> _Checked:
    least = min_insync_replicas(snapshot.configs)
    examined = examine(locations, partitions, least, required)
    findings = Findings.joined([examined.findings, examine_brokers(locations)])
    topic = np.append(_ranks(partitions), NONE)[findings.topic]
    order = np.lexsort(
        (findings.broker, findings.domain, findings.level, findings.partition, topic, findings.rule, findings.severity)
    )
    guarantees = write_guarantees(locations.tree, partitions.replicas, partitions.topic, least)
    return _Checked(
        cluster=snapshot.cluster_id or "",
        locations=locations,
        partitions=partitions,
        examined=examined,
        findings=findings.rows(order),
        guarantees=guarantees,
        selected=selected,
        topology=topology,
        away=snapshot.unknown_brokers,
    )


def _ranks(partitions: Partitions) -> IntArray:
    """Return the rank of each topic by name, shape (topics,). A snapshot file may list topics in any order."""
    return np.argsort(np.argsort(np.array(partitions.names)))


def _summary(checked: _Checked) -> dict[str, Any]:
    by_rule = checked.by_rule
    by_severity = Counter(checked.severities)
    return {
        "partitions": len(checked.partitions),
        "nonCompliant": checked.non_compliant,
        "moves": checked.moves,
        "bytes": checked.bytes,
        "pinned": by_rule[Rule.PINNED_UNFAIR],
        "pinnedMoves": int(checked.findings.moves[checked.findings.rule == RULES.index(Rule.PINNED_UNFAIR)].sum()),
        "unfair": dict(checked.examined.unfair),
        "findings": len(checked.findings),
        "byRule": {str(rule): by_rule[rule] for rule in RULES if rule in by_rule},
        "bySeverity": {str(severity): by_severity[severity] for severity in SEVERITIES if severity in by_severity},
    }


def _documents(checked: _Checked) -> Iterator[dict[str, Any]]:
    ids = checked.findings.ids(checked.cluster, checked.partitions.names, checked.locations.tree).tolist()
    for facts, severity, number in zip(checked.facts, checked.severities, ids, strict=True):
        yield {
            "topic": facts.topic,
            "partition": facts.partition,
            "level": facts.level,
            "domain": facts.domain,
            "reason": facts.reason or str(facts.rule),
            "excess": facts.excess,
            "broker": facts.broker,
            "rule": str(facts.rule),
            "severity": str(severity),
            "moves": facts.moves,
            "message": message(facts),
            "fix": checked.fix(facts),
            "id": shown_id(number),
        }


def _print(checked: _Checked, throttle: int | None, most: int) -> None:
    screen = console()
    dead = checked.by_rule[Rule.OFFLINE]
    if dead:
        them = "it" if dead == 1 else "them"
        sentence = f"{plural(dead, 'partition')} {have(dead)} no leader: clients cannot read or write {them}"
        screen.print(sentence, style="bold red")
    if checked.non_compliant:
        _print_totals(screen, checked, throttle)
    else:
        number = len(checked.partitions)
        style = "" if checked.alarming else "green"
        unknown = int(np.count_nonzero(~checked.examined.judged))
        so = "it is" if number == 1 else "all are"
        others = ", all others are compliant" if unknown < number else ""
        compliant = f"{unknown:,} cannot be judged{others}" if unknown else f"{so} compliant"
        screen.print(
            f"{plural(number, 'partition')}: {compliant}{f'; {_fixing(checked, throttle)}' if checked.moves else ''}",
            style=style,
        )
    tables = [_print_partitions] if checked.non_compliant else []
    for print_table in (_print_others, *tables) if dead else (*tables, _print_others):
        print_table(screen, checked, most)


def _print_partitions(screen: Console, checked: _Checked, most: int) -> None:
    partitions, moves_of = checked.partitions, checked.examined.moves_of
    wrong = np.flatnonzero(checked.examined.broken & _with_findings(checked))
    if not len(wrong):
        return
    by_name = (partitions.number[wrong], _ranks(partitions)[partitions.topic[wrong]])
    worst = wrong[np.lexsort((*by_name, -moves_of[wrong]))][:most]
    shown = {
        (partitions.names[partitions.topic[row]], int(partitions.number[row])): list[str]() for row in worst.tolist()
    }
    for facts in checked.facts:
        said = shown.get((facts.topic or "", NONE if facts.partition is None else facts.partition))
        if facts.rule in PLACEMENT_RULES and said is not None:
            said.append(message(facts))
    rows = table("topic", "#partition", "replicas", "#moves", "what is wrong")
    for row, ((topic, number), said) in zip(worst.tolist(), shown.items(), strict=True):
        replicas = " ".join(str(broker) for broker in partitions.replicas[row].tolist() if broker != NONE)
        rows.add_row(topic, str(number), replicas, str(moves_of[row]), Group(*said))
    screen.print(rows)
    print_hidden(screen, len(wrong) - len(worst), "more partition")


def _with_findings(checked: _Checked) -> BoolArray:
    """Return which partitions have a placement finding of their own, shape (partitions,)."""
    partitions, findings = checked.partitions, checked.findings
    found = findings.rows(np.isin(findings.rule, [RULES.index(rule) for rule in PLACEMENT_RULES]))
    of_topic = int(partitions.number.max(initial=0)) + 1
    return np.isin(partitions.topic * of_topic + partitions.number, found.topic * of_topic + found.partition)


def _print_others(screen: Console, checked: _Checked, most: int) -> None:
    """Print the findings that are not about placement, the worst first."""
    others = [
        FindingLine(
            severity, facts.rule, place(facts.topic, facts.partition, facts.broker), message(facts), checked.fix(facts)
        )
        for severity, facts in zip(checked.severities, checked.facts, strict=True)
        if facts.rule not in PLACEMENT_RULES
    ]
    if others:
        counts = Counter(one.severity for one in others)
        words = ", ".join(f"{counts[severity]:,} {severity}" for severity in SEVERITIES if counts[severity])
        screen.print(f"{plural(len(others), 'other finding')}: {words}")
    print_findings(screen, others[:most], len(others), "--all prints {them}")


def _fixing(checked: _Checked, throttle: int | None) -> str:
    """Return the moves that fix the cluster, and the bytes that they copy."""
    moves = checked.moves
    return f"{moves_that_fix(moves, checked.non_compliant, checked.by_rule)}{ending(moves, checked.bytes, throttle)}"


def _print_totals(screen: Console, checked: _Checked, throttle: int | None) -> None:
    bad, unfair = checked.non_compliant, checked.examined.unfair
    screen.print(
        f"{bad:,} of {plural(len(checked.partitions), 'partition')} {be(bad)} out of compliance; "
        f"{_fixing(checked, throttle)}",
        style="bold red",
    )
    if unfair:
        screen.print("unfair by level: " + ", ".join(f"{level} {number:,}" for level, number in unfair.items()))
