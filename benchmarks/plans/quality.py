"""Plans of Rackspan and proposals of Kafka's tool for the same clusters, judged by the same rules."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.plans.clusters import Site, of, placed_by_multilevel, round_robin, uneven
from benchmarks.plans.kafka_tool import KafkaTool, ToolRefusedError
from rackspan.core.compliance import ViolationReason, judge
from rackspan.core.compliance.fewest_moves import fewest_moves
from rackspan.core.placement.engine.balance.rebalance import moves_to_balance
from rackspan.core.planning import Plan, PlanRequest, plan, rebalance
from rackspan.core.requirements import TopicRequirements
from rackspan.core.snapshot import BrokerIds, Partitions, tree_of
from rackspan.core.topology import BrokerLocation, IntArray, RackTree

FLAT = Site("one level", ("rack",), round_robin(3))
FOUR = Site("one level", ("rack",), round_robin(4))
DEEP = Site("three levels: 2 x 3 x 3 racks", ("dc", "zone", "rack"), round_robin(2, 3, 3))
UNEVEN = Site("an uneven tree of three levels", ("dc", "zone", "rack"), uneven)

KAFKA, PLAN, REBALANCE = "Kafka --generate", "Rackspan plan", "Rackspan plan --rebalance"
BOTH = "Rackspan plan, with or without --rebalance"
HEADER = (
    "| case | by | moves | lower bound | above it | partitions unfair | replicas per broker | leaders per broker |\n"
    "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |"
)


class BrokenPromiseError(AssertionError):
    """The certificate of a plan is wrong. This is a bug."""


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster and the requested change.

    The topics are on `brokers` brokers. The brokers in `drained` are to be drained. `added` more brokers are empty.
    `size` is the current replication factor, and `wanted` is the desired one.
    """

    name: str
    site: Site
    brokers: int
    drained: frozenset[int] = frozenset()
    added: int = 0
    size: int = 3
    wanted: int = 3

    @property
    def known(self) -> tuple[BrokerLocation, ...]:
        return self.site.brokers(self.brokers + self.added)

    @property
    def used(self) -> tuple[BrokerLocation, ...]:
        return self.known[: self.brokers]

    @property
    def tree(self) -> RackTree:
        return tree_of(self.known, self.site.levels, drained=self.drained)


@dataclass(frozen=True, slots=True)
class Result:
    """The figures of a result, or the reason why there are none.

    `unfair` has the number of unfair partitions per level. `replicas` and `leaders` are (minimum, maximum) per broker.
    """

    case: Case
    by: str
    bound: int
    moves: int = 0
    unfair: tuple[tuple[str, int], ...] = ()
    left_behind: int = 0
    replicas: tuple[int, int] = (0, 0)
    leaders: tuple[int, int] = (0, 0)
    refusal: str = ""

    def __str__(self) -> str:
        if self.refusal:
            cells = [self.case.name, self.by, self.refusal, f"{self.bound:,}", "", "", "", ""]
        else:
            unfair = ", ".join(f"{level} {count:,}" for level, count in self.unfair)
            cells = [
                *(self.case.name, self.by, f"{self.moves:,}", f"{self.bound:,}", f"{self.moves - self.bound:,}"),
                unfair + (f", on drained brokers {self.left_behind:,}" if self.left_behind else ""),
                *(f"{most - least:,}" for least, most in (self.replicas, self.leaders)),
            ]
        return f"| {' | '.join(cells)} |"


def cases(site: Site) -> Iterator[Case]:
    """Yield the cases for a site of a hundred brokers."""
    yield Case("drain 1 of 100 brokers", site, 100, frozenset({7}))
    if site is FLAT:
        yield Case("drain 1 of 99, 3 equal racks", site, 99, frozenset({7}))
        yield Case("drain a rack of four", FOUR, 100, _of_rack(FOUR, "/d1"))
    if site is DEEP:
        yield Case("drain 1 of 90, 18 equal racks", site, 90, frozenset({7}))
        yield Case("drain a rack of 18", site, 100, _of_rack(site, "/d1/z0/r0"))
        yield Case("drain a zone of six", site, 100, _of_rack(site, "/d1/z0/"))
    if site is UNEVEN:
        yield Case("drain a rack of eleven", site, 100, _of_rack(site, "/b/1/1"))
    yield Case("add 3 to 100 brokers", site, 100, added=3)
    yield Case("nothing changed", site, 100)
    yield Case("RF 2 to 3", site, 100, size=2)


def _of_rack(site: Site, rack: str) -> frozenset[int]:
    return frozenset(broker.id for broker in site.brokers(100) if f"{broker.reported_rack}/".startswith(rack))


Start = Callable[[Case], Partitions]


def starts(tool: KafkaTool, count: int) -> dict[str, Start]:
    """Return the functions that create the topics of a case, by the name of the placer."""

    def by_kafka(case: Case) -> Partitions:
        anyhow = of(np.tile(np.arange(case.size), (count, 1)))
        return of(tool.place(case.used, anyhow, seed=1))

    return {
        "Rackspan's MultiLevel": lambda case: of(placed_by_multilevel(case.used, count, case.size)),
        "Kafka's placer": by_kafka,
    }


def results(tool: KafkaTool, case: Case, start: Partitions, repeat: int) -> list[Result]:
    """Return the results of Kafka's tool, of the plan, and of the plan with --rebalance for a case."""
    before, tree = start.replicas, case.tree
    bound = least_moves(tree, before, case.wanted)
    wishes = {} if case.size == case.wanted else {name: TopicRequirements(case.wanted) for name in start.names}
    request = PlanRequest(tree, start, requirements=wishes)
    found = [by_kafka(tool, case, start, bound, repeat)]
    for name, planner in ((PLAN, plan), (REBALANCE, rebalance)):
        made = planner(request)
        after = applied(made, start, case.wanted)
        due = made.lower_bound if name == REBALANCE else bound
        result = measured(case, name, due, before, after)
        certify(made, result)
        if due < max(bound, moves_to_balance(_held(tree, before), _held(tree, after), tree.eligible)):
            raise BrokenPromiseError(f"{case.name}: its lower bound of {due:,} is below the bound of its loads")
        found.append(result)
    return found


def by_kafka(tool: KafkaTool, case: Case, start: Partitions, bound: int, repeat: int) -> Result:
    """Return the proposal with the median number of moves, because the proposals of the tool are random."""
    onto = {broker.id for broker in case.known} - case.drained
    try:
        proposed = [tool.generate(case.known, start, onto) for _ in range(repeat)]
    except ToolRefusedError as error:
        return Result(case, KAFKA, bound, refusal=f"rejected: {error}")
    size = proposed[0].shape[1]
    if size != case.wanted:
        return Result(case, KAFKA, bound, refusal=f"cannot: it proposes {size} replicas again")
    made = [measured(case, KAFKA, bound, start.replicas, after) for after in proposed]
    return sorted(made, key=lambda result: result.moves)[len(made) // 2]


def least_moves(tree: RackTree, before: BrokerIds, wanted: int) -> int:
    """Return the lower bound of moves. It is computed from the current replicas only, without a plan."""
    if before.shape[1] == wanted:
        return judge(tree, before).moves
    return int(fewest_moves(tree, wanted, tree.positions(before), {}).sum())


def moves_between(before: BrokerIds, after: BrokerIds) -> int:
    """Return the number of replicas on brokers that had no replica of the partition before."""
    return int(sum(np.count_nonzero((before != column[:, None]).all(axis=1)) for column in after.T))


def applied(made: Plan, start: Partitions, wanted: int) -> BrokerIds:
    """Return the replicas after a plan, shape (partitions, wanted)."""
    rows = {name: first for first, name in enumerate(start.names)}
    first = np.searchsorted(start.topic, np.arange(len(start.names)))
    after = np.full((len(start), wanted), -1, dtype=np.int32)
    kept = min(wanted, start.replicas.shape[1])
    after[:, :kept] = start.replicas[:, :kept]
    for change in made.changes:
        after[first[rows[change.topic]] + change.partition] = change.replicas
    return after


def measured(case: Case, by: str, bound: int, before: BrokerIds, after: BrokerIds) -> Result:
    tree = case.tree
    assessment = judge(tree, after)
    left = {
        finding.partition for finding in assessment.findings if finding.reason is not ViolationReason.TOO_MANY_REPLICAS
    }
    return Result(
        case,
        by,
        bound,
        moves_between(before, after),
        tuple(assessment.unfair.items()),
        len(left),
        _range(_held(tree, after)[tree.eligible]),
        _range(_held(tree, after[:, :1])[tree.eligible]),
    )


def _held(tree: RackTree, replicas: BrokerIds) -> IntArray:
    return np.bincount(tree.positions(replicas).ravel(), minlength=len(tree))


def _range(loads: IntArray) -> tuple[int, int]:
    return int(loads.min()), int(loads.max())


def certify(made: Plan, result: Result) -> None:
    """Raise BrokenPromiseError if a claim of a plan is wrong: its moves, bound, feasibility or compliance."""
    wrong = [
        sentence
        for sentence, broken in (
            (f"it claims {made.moves:,} moves, but has {result.moves:,}", made.moves != result.moves),
            (f"its bound is {made.lower_bound:,}, expected {result.bound:,}", made.lower_bound != result.bound),
            (
                f"it has {result.moves:,} moves, but {result.bound:,} are enough",
                result.by == PLAN and result.moves > result.bound,
            ),
            (f"it has {result.moves:,} moves, below its bound {result.bound:,}", result.moves < result.bound),
            ("it is not feasible", not made.feasible),
            (f"it leaves {result.unfair} unfair", any(count for _, count in result.unfair)),
            (f"{result.left_behind} partitions are on drained brokers", result.left_behind > 0),
        )
        if broken
    ]
    if wrong:
        raise BrokenPromiseError(f"{result.case.name}, {result.case.site.name}, {result.by}: {'; '.join(wrong)}")


def worse(results: Sequence[Result]) -> Iterator[str]:
    """Yield the columns in which the proposal of Kafka's tool is better than a plan of Rackspan."""
    kafka, *ours = results
    if kafka.refusal:
        return
    for result in ours:
        for column, own, other in (
            ("moves", result.moves, kafka.moves),
            ("partitions unfair", sum(count for _, count in result.unfair), sum(count for _, count in kafka.unfair)),
            ("replicas per broker", np.ptp(result.replicas), np.ptp(kafka.replicas)),
            ("leaders per broker", np.ptp(result.leaders), np.ptp(kafka.leaders)),
        ):
            if own > other:
                yield f"{result.case.name}, {result.by}: {column} {own:,} against {other:,}"


def shortened(results: Sequence[Result]) -> list[Result]:
    """Return the results with one row for both plans if their figures are the same."""
    kafka, kept, evened = results
    return [kafka, replace(kept, by=BOTH)] if replace(evened, by=PLAN) == kept else [kafka, kept, evened]


def run(tool: KafkaTool, count: int, repeat: int, sites: Sequence[Site] = (FLAT, DEEP, UNEVEN)) -> None:
    """Print a table for each site and each placer of the topics."""
    for site in sites:
        for by, start in starts(tool, count).items():
            print(f"### {site.name}, topics created by {by}\n\n{HEADER}", flush=True)
            better: list[str] = []
            for case in cases(site):
                rows = results(tool, case, start(case), repeat)
                better += worse(rows)
                print(*shortened(rows), sep="\n", flush=True)
            print(f"\nKafka's tool is better in: {'; '.join(better) or 'no column'}.\n", flush=True)
