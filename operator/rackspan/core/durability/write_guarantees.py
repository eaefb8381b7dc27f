"""
What `acks=all` and `min.insync.replicas` promise a producer, given where the replicas are.

A write that was acknowledged with `acks=all` is on every replica in sync, and of these there were `min.insync.replicas`
at least. In the worst case they are those that lie together in the fullest domains: so the write is in as many domains
as these take to hold that many replicas, and survives the loss of any one domain if that is two or more. Without
eligible leader replicas (KIP-966) it survives only while another replica is in sync when the domain is lost: Kafka
waits for the last replica in sync, and follows it even if that one stopped uncleanly and lost the write. With `acks=1`
it is on the leader and, for all that is known, nowhere else.

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
    """
    What one level's domains mean for a topic; the last level is `broker`.

    A write that was acknowledged with acks=all is in at least `domains` of them. `stays_writable` says whether acks=all
    writes are still accepted, for every partition, with any one of them gone.
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
    """
    A topic's levels, top first, its `min.insync.replicas`, and the replicas of its partition that has the fewest.

    Kafka takes the smaller of these two.
    """

    min_insync: int
    replicas: int
    levels: tuple[LevelGuarantee, ...]

    @property
    def sentence(self) -> str:
        """All of it in plain words."""
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
    """
    The guarantees of topics that have partitions, by their index: those of the partition that is worst off.

    `replicas` (n, w) are broker ids, padded with -1, `topic` (n,) says whose they are, `min_insync` (topics,) is in
    force. A broker that is not in the tree, or alone has no rack, is taken to be where the most other replicas are.
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
    """Where each topic's partitions start in an order by topic, and that order."""
    order = np.argsort(topic, kind="stable")
    return np.flatnonzero(np.diff(topic[order], prepend=-1)), order


def _fullest(level: Level, positions: IntArray) -> IntArray:
    """Replicas in the fullest domain of each partition, shape (n,); `positions` is (w, n), and w is small."""
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
    """How many of the fullest domains it takes to hold `reach` replicas of each partition, shape (n,)."""
    counts = largest_first(tree, replicas, level)
    if counts.size:
        counts[:, 0] += unplaced
    found: IntArray = 1 + np.count_nonzero(np.cumsum(counts, axis=1) < reach[:, None], axis=1)
    return found


def _either(levels: Sequence[tuple[str, bool]], good: str, bad: str) -> str:
    """`losing any one zone or rack keeps it, losing one region may lose it`."""
    fine = [level for level, is_good in levels if is_good]
    poor = [level for level, is_good in levels if not is_good]
    words = [f"losing any one {_or(fine)} {good}"] if fine else []
    words += [f"losing one {_or(poor)} {bad}"] if poor else []
    return ", ".join(words)


def _or(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
