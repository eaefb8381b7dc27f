"""
The rack tree: where brokers are, as a path of domains, and how many brokers each domain can offer.

A rack id is a path such as `/eu/eu-1a/r7`; a flat id such as `use1-az1` is a path of one step. A tree is built once per
observation of the cluster and never changes. It holds its shape as parallel numpy arrays, brokers in depth-first order,
so that each domain is a slice and a whole level is summed with one `np.add.reduceat`.

Paths that end early share one unnamed child per missing level: what is not known to be apart is taken to be together.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rackspan.core.rack_path import RackPath, domain_name, format_rack, parse_rack, rack_or_none
from rackspan.core.text import plural

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

_LARGEST_DENSE_ID = 1 << 20
_MAX_DIGITS = 10  # of a broker id, which is an int32
_T = TypeVar("_T", bound=np.generic)


class TopologyError(ValueError):
    """Brokers that cannot form one tree: an id that is used twice, a rack deeper than the levels."""


@dataclass(frozen=True, slots=True, order=True)
class Broker:
    """
    One broker of the cluster.

    `eligible=False` (draining, excluded) takes away its capacity: its replicas have to leave.
    `online=False` keeps its capacity, so what lies there stays compliant, but it is given no new replica. So does
    `cordoned`: all its log directories are (KIP-1066).
    """

    id: int
    rack: RackPath | None = None
    eligible: bool = True
    online: bool = True
    cordoned: bool = False

    @property
    def open(self) -> bool:
        """Whether its state lets it have new replicas."""
        return self.online and not self.cordoned


@dataclass(frozen=True, slots=True)
class BrokerLocation:
    """
    A broker, where Kafka believes it stands and where it stands; None where that is not known.

    `reported_rack` is its `broker.rack` in Kafka, which need not be a path. `rack` is what placements follow.
    A broker that is `draining` shall hold nothing; one that is `cordoned` takes no new replica.
    """

    id: int
    reported_rack: str | None = None
    rack: RackPath | None = None
    online: bool = True
    draining: bool = False
    cordoned: bool = False

    @property
    def drifts(self) -> bool:
        """
        Whether Kafka has another rack for it, or none: of one that is online, None says that.

        What Kafka reports may be no path; then it is another rack.
        """
        if self.rack is None or self.reported_rack is None:
            return self.rack is not None and self.online
        return rack_or_none(self.reported_rack) != self.rack

    @property
    def in_tree(self) -> Broker:
        """Give the broker as a rack tree holds it."""
        return Broker(self.id, self.rack, eligible=not self.draining, online=self.online, cordoned=self.cordoned)


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """
    One level of the tree, its domains in depth-first order, as parallel arrays of shape (domains,).

    The root is a level of one domain, and the brokers themselves are the last level, so one loop serves all levels.
    """

    name: str
    paths: tuple[RackPath, ...]
    parent: IntArray  # index of the domain above, in the level above
    first_child: IntArray  # where its children start in the level below (brokers: their own index)
    first_broker: IntArray  # where its brokers start in depth-first order
    capacity: IntArray  # eligible brokers below
    of_broker: IntArray  # (brokers,) the domain each broker is in

    def __len__(self) -> int:
        return len(self.paths)


@dataclass(frozen=True, slots=True)
class RackTree:
    """
    The brokers of one cluster in their domains. Immutable; equal when levels and brokers are.

    `levels` are the names, top first. Raises TopologyError for a broker id used twice and for a rack with more steps
    than there are levels. `nodes` runs from the root (index 0) over the named levels to the brokers (last index).
    `missing_racks` are the ids of brokers without a rack where others have one; empty when all have one or none has.
    `open` (brokers,) says which may be given new replicas as far as their state goes: online, and not cordoned.
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
    def root(self) -> Level:
        """The level above all: one domain that holds every broker."""
        return self.nodes[0]

    @property
    def either(self) -> npt.NDArray[np.object_]:
        """The brokers, not eligible and eligible, shape (2, brokers): trees that differ in that alone share them."""
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
    def capacity(self) -> int:
        """How many brokers are eligible."""
        return int(np.count_nonzero(self.eligible))

    def level(self, name: str) -> Level:
        """Look a named level up. Raises TopologyError, listing the names there are."""
        try:
            return self.nodes[self.levels.index(name) + 1]
        except ValueError:
            known = ", ".join(self.levels) or "none"
            raise TopologyError(f'the topology has no level "{name}" (levels: {known})') from None

    def positions(self, ids: npt.ArrayLike) -> IntArray:
        """Depth-first positions of broker ids, in the shape of `ids`; -1 for an id that is not in the tree."""
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
        """
        Broker ids that a pattern names, ascending.

        A pattern is a broker id such as `12`, or a rack path of which each step may hold `*` and `?`, such as
        `/eu/*/r1`; a path names everything below it. Raises RackPathError for a malformed path.
        """
        if pattern.isascii() and pattern.isdigit():
            known = len(pattern) <= _MAX_DIGITS and int(self.positions(int(pattern))) >= 0
            return (int(pattern),) if known else ()
        steps, lowest = parse_rack(pattern), self.nodes[-2]
        # A bracket is a bracket, no class of characters. Domains are many, their names are few.
        fits = [cache(partial(_fits, step.replace("[", "[[]"))) for step in steps]
        named = [
            len(path) >= len(steps) and all(own(name) for own, name in zip(fits, path, strict=False))
            for path in lowest.paths
        ]
        return tuple(np.sort(self.ids[np.array(named, dtype=bool)[lowest.of_broker]]).tolist())

    def selected(self, include: Sequence[str], exclude: Sequence[str]) -> "RackTree":
        """Give the tree in which only brokers that `include` names (none: all) and `exclude` does not are eligible."""
        return _selected(self, tuple(include), tuple(exclude)) if include or exclude else self

    def without_racks(self) -> "RackTree":
        """Give the tree as if no broker had a rack id (KIP-36's `--ignore-racks`)."""
        return RackTree((), tuple(replace(broker, rack=None) for broker in self.brokers))

    def without_closed(self) -> "RackTree":
        """Give the tree in which a broker that is offline or cordoned has no capacity either."""
        return self if bool(self.open.all()) else _offering(self, self.eligible & self.open)

    @property
    def cordoned(self) -> tuple[int, ...]:
        """Ids of the brokers that are cordoned, ascending."""
        return tuple(broker.id for broker in self.brokers if broker.cordoned)

    def flattened(self) -> "RackTree":
        """Give the tree of one level whose domains are whole rack ids: how Kafka itself sees `broker.rack`."""
        flat = tuple(replace(b, rack=None if b.rack is None else (format_rack(b.rack),)) for b in self.brokers)
        return RackTree(("rack",), flat)


@lru_cache(maxsize=512)
def _selected(tree: RackTree, include: tuple[str, ...], exclude: tuple[str, ...]) -> RackTree:
    wanted = np.full(len(tree), not include)
    for patterns, named in ((include, True), (exclude, False)):
        wanted[tree.positions([broker for pattern in patterns for broker in tree.matches(pattern)])] = named
    return _offering(tree, tree.eligible & wanted)


def _fits(glob: str, name: str) -> bool:
    return name != "" and fnmatchcase(name, glob)  # there is nothing at a missing step


def _offering(tree: RackTree, eligible: BoolArray) -> RackTree:
    """Give the tree in which these brokers are eligible, shape (brokers,); all but that and capacities is shared."""
    offering, put = copy(tree), object.__setattr__
    by_id = eligible[np.argsort(tree.ids)].astype(np.int64)
    put(offering, "brokers", tuple(tree.either[by_id, np.arange(len(tree))].tolist()))
    put(offering, "eligible", _frozen(eligible))
    nodes = (replace(level, capacity=_capacity(eligible, level.first_broker)) for level in tree.nodes)
    put(offering, "nodes", tuple(nodes))
    put(offering, "_hash", _hash(offering))
    return offering


def _hash(tree: RackTree) -> int:
    """The same for trees that are equal, and soon computed: racks need not be looked at."""
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
    """How many brokers are eligible in each domain."""
    return _frozen(np.add.reduceat(eligible.astype(np.int64), first_broker) if len(first_broker) else first_broker)


def _lookup(ids: IntArray) -> IntArray:
    """Array from broker id to position; empty when ids are too large for one."""
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
