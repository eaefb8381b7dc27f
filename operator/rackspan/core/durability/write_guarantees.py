"""What `acks=all` and `min.insync.replicas` guarantee to a producer for given replicas.

A write that was acknowledged with `acks=all` is on every in-sync replica, and there were at least `min.insync.replicas`
of them. In the worst case, the in-sync replicas are those in the fullest domains. So the write is in as many domains as
it takes to hold `min.insync.replicas` replicas, fullest first. If these are two or more, the write survives the loss of
any one domain. Without eligible leader replicas (KIP-966) it survives only while another replica is in sync when the
domain is lost: Kafka waits for the last in-sync replica and makes it the leader, even if that replica stopped uncleanly
and lost the write. With `acks=1` the write is on the leader and possibly nowhere else.

    racks  RF   replicas per rack   min.insync.replicas   racks that hold an acknowledged write
      3     3        1 1 1                  2                             2
      3     4        2 1 1                  2                             1
      3     4        2 1 1                  3                             2
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rackspan.core.durability.min_insync_bounds import effective_min_insync, largest_first
from rackspan.core.snapshot import NONE
from rackspan.core.text import plural
from rackspan.core.topology import IntArray, Level, RackTree

_WITHOUT_ELR = " Without eligible leader replicas (KIP-966) it is kept only while replicas elsewhere are in sync."
_ACKS_1 = "acks=1: it is on one broker, and losing that may lose it."


@dataclass(frozen=True, slots=True)
class LevelGuarantee:
    """The guarantee of one level for a topic. The last level is `broker`.

    A write that was acknowledged with acks=all is in at least `domains` domains of the level. `stays_writable` says
    whether every partition still accepts acks=all writes after the loss of any one domain.
    """

    level: str
    domains: int
    stays_writable: bool

    @property
    def keeps_writes(self) -> bool:
        """Whether an acknowledged write survives the loss of any one domain."""
        return self.domains > 1


@dataclass(frozen=True, slots=True)
class WriteGuarantee:
    """The guarantees of a topic by level, top first, with its `min.insync.replicas` and fewest replicas of a partition.

    Kafka applies the smaller of these two numbers.
    """

    min_insync: int
    replicas: int
    levels: tuple[LevelGuarantee, ...]

    @property
    def sentence(self) -> str:
        """The guarantees as text for the user."""
        counts = ""
        if self.min_insync > self.replicas:
            counts = (
                f" min.insync.replicas {self.min_insync} counts as {self.replicas}, the number of replicas; "
                "brokers before Kafka 3.7 refuse all writes."
            )
        first, *others = self.levels
        where = [f"{plural(first.domains, 'domain')} of {first.level}"]
        where += [f"{one.domains} of {one.level}" for one in others]
        kept = _either([(one.level, one.keeps_writes) for one in self.levels], "keeps it", "may lose it")
        written = _either(
            [(one.level, one.stays_writable) for one in self.levels], "leaves the topic writable", "may stop writes"
        )
        promise = f"acks=all: an acknowledged write is in at least {', '.join(where)}; {kept}; {written}."
        without_elr = _WITHOUT_ELR if any(one.keeps_writes for one in self.levels) else ""
        return f"{promise}{without_elr}{counts} {_ACKS_1}"


def write_guarantees(
    tree: RackTree, replicas: npt.NDArray[np.integer], topic: IntArray, min_insync: IntArray
) -> Mapping[int, WriteGuarantee]:
    """Return the guarantees of topics that have partitions, by topic index: those of the worst partition.

    `replicas` (n, w) are broker ids, padded with -1. `topic` (n,) is the topic index of each partition, `min_insync`
    (topics,) the value in force. A replica on a broker that is not in the tree, or that has no rack while others have
    one, counts in the domain with the most other replicas.
    """
    if not replicas.size:
        return {}
    starts, of_topic = _by_topic(topic)
    size = np.count_nonzero(replicas != NONE, axis=1)
    missing = tree.missing_racks
    placed = np.where(np.isin(replicas, missing), NONE, replicas) if missing else replicas
    positions = np.ascontiguousarray(tree.positions(placed).T)
    unplaced = size - np.count_nonzero(positions != NONE, axis=0)
    reach = effective_min_insync(min_insync[topic], size)
    found: list[list[tuple[int, int]]] = []
    for level in tree.nodes[1:]:
        if level is tree.nodes[-1]:
            fullest, domains = np.minimum(size, 1), reach
        else:
            fullest = _fullest(level, positions) + unplaced
            domains = np.where(fullest >= reach, 1, reach)
            some = np.flatnonzero((fullest < reach) & (fullest > 1))
            domains[some] = _domains(tree, level, placed[some], unplaced[some], reach[some])
        worst = (np.minimum.reduceat(values[of_topic], starts) for values in (domains, size - fullest - reach))
        found.append(list(zip(*(values.tolist() for values in worst), strict=True)))
    names = [level.name for level in tree.nodes[1:]]
    fewest = np.minimum.reduceat(size[of_topic], starts).tolist()
    guarantees = {}
    for number, at in enumerate(topic[of_topic[starts]].tolist()):
        levels = (
            LevelGuarantee(name, held[number][0], held[number][1] >= 0) for name, held in zip(names, found, strict=True)
        )
        guarantees[at] = WriteGuarantee(int(min_insync[at]), fewest[number], tuple(levels))
    return guarantees


def _by_topic(topic: IntArray) -> tuple[IntArray, IntArray]:
    """Return where each topic's partitions start in an order by topic, and that order."""
    order = np.argsort(topic, kind="stable")
    return np.flatnonzero(np.diff(topic[order], prepend=-1)), order


def _fullest(level: Level, positions: IntArray) -> IntArray:
    """Return the replicas in the fullest domain of each partition, shape (n,). `positions` is (w, n); w is small."""
    domain = np.append(level.of_broker, [NONE])[positions]
    most = np.zeros(domain.shape[1], dtype=np.int64)
    for at, here in enumerate(domain):
        same = np.ones_like(most)
        for there in domain[at + 1 :]:
            same += here == there
        np.maximum(most, np.where(here == NONE, 0, same), out=most)
    return most


def _domains(
    tree: RackTree, level: Level, replicas: npt.NDArray[np.integer], unplaced: IntArray, reach: IntArray
) -> IntArray:
    """Return how many of the fullest domains it takes to hold `reach` replicas of each partition, shape (n,)."""
    counts = largest_first(tree, replicas, level)
    if counts.size:
        counts[:, 0] += unplaced
    found: IntArray = 1 + np.count_nonzero(np.cumsum(counts, axis=1) < reach[:, None], axis=1)
    return found


def _either(levels: Sequence[tuple[str, bool]], good: str, bad: str) -> str:
    """Return text such as `losing any one zone or rack keeps it, losing one region may lose it`."""
    fine = [level for level, is_good in levels if is_good]
    poor = [level for level, is_good in levels if not is_good]
    words = [f"losing any one {_or(fine)} {good}"] if fine else []
    words += [f"losing one {_or(poor)} {bad}"] if poor else []
    return ", ".join(words)


def _or(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
