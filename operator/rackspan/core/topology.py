"""The rack tree: the domains that each broker is in, and the capacity of each domain in brokers.

A rack id is a path such as `/eu/eu-1a/r7`; a flat id such as `use1-az1` is a path of one step. A tree is built once per
observation of the cluster and is immutable. Its structure is in parallel numpy arrays, with brokers in depth-first
order: each domain is a slice, and one `np.add.reduceat` sums a whole level.

Paths that end early share one unnamed child per missing level: brokers not known to be apart count as together.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fnmatch import filter as matching
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rackspan.core.rack_path import RackPath, domain_name, format_rack, rack_or_none, split_rack
from rackspan.core.text import plural

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

_LARGEST_DENSE_ID = 1 << 20
_MAX_DIGITS = 10  # of a broker id, which is an int32
_T = TypeVar("_T", bound=np.generic)


class TopologyError(ValueError):
    """Brokers that cannot form one tree, such as an id that is used twice or a rack deeper than the levels."""


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """One broker of the cluster.

    `eligible=False` (draining, excluded): the broker has no capacity, and its replicas have to move.
    `online=False`: the broker keeps its capacity, so its replicas stay compliant, but it gets no new replica.
    `cordoned=True`: all its log directories are cordoned (KIP-1066). It keeps its capacity but gets no new replica.
    """

    id: int
    rack: RackPath | None = None
    eligible: bool = True
    online: bool = True
    cordoned: bool = False

    @property
    def open(self) -> bool:
        """Whether the broker's state allows new replicas."""
        return self.online and not self.cordoned


@dataclass(frozen=True, slots=True)
class BrokerLocation:
    """A broker, its rack as Kafka reports it, and its actual rack; None if a rack is not known.

    `reported_rack` is `broker.rack` in Kafka, which may be no path. Placements follow `rack`. A `draining` broker must
    not keep replicas. A `cordoned` broker gets no new replicas.
    """

    id: int
    reported_rack: str | None = None
    rack: RackPath | None = None
    online: bool = True
    draining: bool = False
    cordoned: bool = False

    @property
    def drifts(self) -> bool:
        """Whether Kafka has a rack for the broker that differs from `rack`, or has none.

        A `reported_rack` of None counts only if the broker is online. A reported id that is not a path differs.
        """
        if self.rack is None or self.reported_rack is None:
            return self.rack is not None and self.online
        return rack_or_none(self.reported_rack) != self.rack

    @property
    def in_tree(self) -> Broker:
        """The broker as an entry of a rack tree."""
        return Broker(self.id, self.rack, eligible=not self.draining, online=self.online, cordoned=self.cordoned)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One level of the tree: its domains in depth-first order, as parallel arrays of shape (domains,).

    The root is a level of one domain and the brokers are the last level, so the same loop works for all levels.
    """

    name: str
    paths: tuple[RackPath, ...]
    parent: IntArray  # index of the domain above, in the level above
    first_child: IntArray  # index of its first child in the level below (brokers: their own index)
    first_broker: IntArray  # index of its first broker in depth-first order
    capacity: IntArray  # number of eligible brokers in the domain
    of_broker: IntArray  # (brokers,) index of the domain that contains each broker

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class RackTree:
    """
    The brokers of one cluster in their domains. Immutable; two trees are equal if their levels and brokers are equal.

    `levels` are the names, top first. Raises TopologyError if a broker id is negative or used twice, or if a rack has
    more steps than there are levels. `nodes` has the root (index 0), then the named levels, then the brokers (last).
    `missing_racks` are the ids of brokers without a rack if others have one; empty if all or none have one.
    `open` (brokers,) marks the brokers whose state allows new replicas: online and not cordoned.
    """

    levels: tuple[str, ...]
    brokers: tuple[Broker, ...]
    nodes: tuple[Level, ...] = field(init=False, repr=False, compare=False)
    ids: IntArray = field(init=False, repr=False, compare=False)
    eligible: BoolArray = field(init=False, repr=False, compare=False)
    online: BoolArray = field(init=False, repr=False, compare=False)
    open: BoolArray = field(init=False, repr=False, compare=False)
    _lookup: IntArray = field(init=False, repr=False, compare=False)
    missing_racks: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _either: npt.NDArray[np.object_] | None = field(init=False, repr=False, compare=False, default=None)
    _names: tuple[tuple[Mapping[str, int], IntArray], ...] | None = field(
        init=False, repr=False, compare=False, default=None
    )
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id = tuple(sorted(self.brokers, key=lambda broker: broker.id))
        for one, other in pairwise(by_id):
            if one.id == other.id:
                raise TopologyError(f"broker {one.id} is listed twice")
        depth = len(self.levels)
        for broker in by_id:
            if broker.id < 0:
                raise TopologyError(f"broker id {broker.id} is negative")
            if broker.rack is not None and len(broker.rack) > depth:
                raise TopologyError(
                    f"broker {broker.id} has the rack {domain_name(broker.rack)} of {len(broker.rack)} steps, "
                    f"the topology has {plural(depth, 'level')}"
                )
        leaves = sorted(by_id, key=lambda broker: (_padded(broker.rack, depth), broker.id))
        put = object.__setattr__
        put(self, "brokers", by_id)
        put(self, "ids", _array(broker.id for broker in leaves))
        put(self, "eligible", _frozen(np.array([broker.eligible for broker in leaves], dtype=bool)))
        put(self, "online", _frozen(np.array([broker.online for broker in leaves], dtype=bool)))
        put(self, "open", _frozen(np.array([broker.open for broker in leaves], dtype=bool)))
        put(self, "nodes", _levels(self.levels, [_padded(broker.rack, depth) for broker in leaves], self.eligible))
        put(self, "_lookup", _lookup(self.ids))
        missing = tuple(broker.id for broker in by_id if broker.rack is None)
        put(self, "missing_racks", missing if len(missing) < len(by_id) else ())
        put(self, "_hash", _hash(self))

    def __hash__(self) -> int:
        return self._hash

    def __len__(self) -> int:
        return len(self.brokers)

    @property
    def either(self) -> npt.NDArray[np.object_]:
        """Each broker, not eligible and eligible, shape (2, brokers); trees that differ only in this share them."""
        if self._either is None:
            found = np.empty((2, len(self)), dtype=object)
            for able in (False, True):
                found[int(able)] = [
                    one if one.eligible == able else replace(one, eligible=able) for one in self.brokers
                ]
            object.__setattr__(self, "_either", found)
            return found
        return self._either

    @property
    def names(self) -> tuple[tuple[Mapping[str, int], IntArray], ...]:
        """For each named level, its domains' own names, each with a number, and the number of each domain's name."""
        if self._names is None:
            found = []
            for depth, level in enumerate(self.nodes[1:-1]):
                numbers: dict[str, int] = {}
                code = _array(numbers.setdefault(path[depth], len(numbers)) for path in level.paths)
                found.append((numbers, code))
            object.__setattr__(self, "_names", tuple(found))
            return tuple(found)
        return self._names

    @property
    def capacity(self) -> int:
        """The number of eligible brokers."""
        return int(np.count_nonzero(self.eligible))

    def level(self, name: str) -> Level:
        """Return the level with this name. Raises TopologyError, which lists the existing names."""
        try:
            return self.nodes[self.levels.index(name) + 1]
        except ValueError:
            known = ", ".join(self.levels) or "none"
            raise TopologyError(f'the topology has no level "{name}" (levels: {known})') from None

    def positions(self, ids: npt.ArrayLike) -> IntArray:
        """Return the depth-first positions of broker ids, in the shape of `ids`; -1 if an id is not in the tree."""
        wanted = np.asarray(ids, dtype=np.int64)
        if len(self._lookup) > 0:
            known = (wanted >= 0) & (wanted < len(self._lookup))
            if known.all():
                return self._lookup[wanted]
            return np.where(known, self._lookup[np.where(known, wanted, 0)], -1)
        order = np.argsort(self.ids)
        at = np.minimum(np.searchsorted(self.ids, wanted, sorter=order), len(order) - 1)
        found: IntArray = (
            np.where(self.ids[order[at]] == wanted, order[at], -1) if len(order) else np.full(wanted.shape, -1)
        )
        return found

    def matches(self, pattern: str) -> tuple[int, ...]:
        """Return the broker ids that match a pattern, ascending.

        A pattern is a broker id such as `12`, or a rack path whose steps may contain `*` and `?`, such as `/eu/*/r1`.
        A path matches all brokers below it. A malformed path matches none.
        """
        if pattern.isascii() and pattern.isdigit():
            known = len(pattern) <= _MAX_DIGITS and int(self.positions(int(pattern))) >= 0
            return (int(pattern),) if known else ()
        steps = split_rack(pattern)
        if len(steps) > len(self.levels):
            return ()
        within = np.ones(1, dtype=bool)
        for step, level, (names, code) in zip(steps, self.nodes[1:], self.names, strict=False):
            within = _fitting(step, names)[code] & within[level.parent]
        return tuple(np.sort(self.ids[within[self.nodes[len(steps)].of_broker]]).tolist())

    def selected(self, include: Sequence[str], exclude: Sequence[str]) -> "RackTree":
        """Return the tree in which only brokers in `include` (empty: all) and not in `exclude` are eligible."""
        return _selected(self, tuple(include), tuple(exclude)) if include or exclude else self

    def without_racks(self) -> "RackTree":
        """Return the tree as if no broker had a rack id (KIP-36's `--ignore-racks`)."""
        return RackTree((), tuple(replace(broker, rack=None) for broker in self.brokers))

    def without_closed(self) -> "RackTree":
        """Return the tree in which offline and cordoned brokers have no capacity either."""
        return self if bool(self.open.all()) else _offering(self, self.eligible & self.open)

    @property
    def cordoned(self) -> tuple[int, ...]:
        """The ids of cordoned brokers, ascending."""
        return tuple(broker.id for broker in self.brokers if broker.cordoned)

    def flattened(self) -> "RackTree":
        """Return the tree of one level whose domains are whole rack ids, as Kafka interprets `broker.rack`."""
        flat = tuple(replace(b, rack=None if b.rack is None else (format_rack(b.rack),)) for b in self.brokers)
        return RackTree(("rack",), flat)


@lru_cache(maxsize=512)
def _selected(tree: RackTree, include: tuple[str, ...], exclude: tuple[str, ...]) -> RackTree:
    wanted = np.full(len(tree), not include)
    for patterns, named in ((include, True), (exclude, False)):
        wanted[tree.positions([broker for pattern in patterns for broker in tree.matches(pattern)])] = named
    return _offering(tree, tree.eligible & wanted)


def _fitting(step: str, names: Mapping[str, int]) -> BoolArray:
    """Return which names match one step of a pattern. An empty name is a missing step, which matches none."""
    fit = np.zeros(len(names), dtype=bool)
    if "*" in step or "?" in step:
        # A bracket is a literal character, not a character class.
        fit[[names[name] for name in matching(names, step.replace("[", "[[]")) if name]] = True
    elif step and step in names:
        fit[names[step]] = True
    return fit


def _offering(tree: RackTree, eligible: BoolArray) -> RackTree:
    """Return the tree in which these brokers are eligible, shape (brokers,). Other parts are shared with `tree`."""
    offering, put = copy(tree), object.__setattr__
    by_id = eligible[np.argsort(tree.ids)].astype(np.int64)
    put(offering, "brokers", tuple(tree.either[by_id, np.arange(len(tree))].tolist()))
    put(offering, "eligible", _frozen(eligible))
    nodes = (replace(level, capacity=_capacity(eligible, level.first_broker)) for level in tree.nodes)
    put(offering, "nodes", tuple(nodes))
    put(offering, "_hash", _hash(offering))
    return offering


def _hash(tree: RackTree) -> int:
    """Return a hash that is equal for equal trees and fast to compute, because it leaves out the racks."""
    return hash((tree.levels, tree.ids.tobytes(), tree.eligible.tobytes(), tree.open.tobytes()))


def _padded(rack: RackPath | None, depth: int) -> RackPath:
    steps = rack or ()
    return steps + ("",) * (depth - len(steps))


def _levels(names: tuple[str, ...], paths: list[RackPath], eligible: BoolArray) -> tuple[Level, ...]:
    depth = len(names)
    everyone = np.arange(len(paths), dtype=np.int64)
    cuts = [[path[:step] for path in paths] for step in range(depth + 1)]
    firsts = []
    for cut in cuts:
        new = np.array([at == 0 or cut[at] != cut[at - 1] for at in range(len(cut))], dtype=bool)
        firsts.append(everyone[new])
    firsts.append(everyone)
    of_broker = [np.searchsorted(first, everyone, side="right").astype(np.int64) - 1 for first in firsts]
    levels = []
    for at, first in enumerate(firsts):
        below = firsts[min(at + 1, depth + 1)]
        levels.append(
            Level(
                name=("", *names, "broker")[at],
                paths=tuple(cuts[at][first_broker] if at <= depth else paths[first_broker] for first_broker in first),
                parent=_frozen(of_broker[max(at - 1, 0)][first]),
                first_child=_frozen(np.searchsorted(below, first).astype(np.int64)),
                first_broker=_frozen(first),
                capacity=_capacity(eligible, first),
                of_broker=_frozen(of_broker[at]),
            )
        )
    return tuple(levels)


def _capacity(eligible: BoolArray, first_broker: IntArray) -> IntArray:
    """Return the number of eligible brokers in each domain."""
    return _frozen(np.add.reduceat(eligible.astype(np.int64), first_broker) if len(first_broker) else first_broker)


def _lookup(ids: IntArray) -> IntArray:
    """Return an array from broker id to position; empty if the ids are too large for an array."""
    if len(ids) == 0 or int(ids.max()) >= _LARGEST_DENSE_ID:
        return _array(())
    table = np.full(int(ids.max()) + 1, -1, dtype=np.int64)
    table[ids] = np.arange(len(ids))
    return _frozen(table)


def _array(values: Iterable[int]) -> IntArray:
    return _frozen(np.fromiter(values, dtype=np.int64))


def _frozen(array: npt.NDArray[_T]) -> npt.NDArray[_T]:
    array.setflags(write=False)
    return array
