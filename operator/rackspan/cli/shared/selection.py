"""The racks, brokers and topics of a snapshot that the options select, and the installed placers."""

import re
import shlex
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NoReturn, Self

import numpy as np

from rackspan.cli.shared.command_errors import CommandError
from rackspan.cli.shared.options import MissingRackPolicy
from rackspan.core.compliance import BROKER_LEVEL
from rackspan.core.placement import InfeasibleError, MissingRackError, Placer
from rackspan.core.rack_path import RackPathError, domain_name, parse_rack
from rackspan.core.snapshot import Partitions, Snapshot, tree_of
from rackspan.core.text import be, every, few, plural
from rackspan.core.topology import IntArray, RackTree, TopologyError
from rackspan.placers import PlacerLoadError, load_placers

_NEAR = 3
_MATCHING_SECONDS = 5.0
"""CPU time for matching all topics. 100,000 names take less than 0.1 s."""
_MOST_ID, _ID_DIGITS = 2**31 - 1, 10


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """The options about racks and brokers."""

    levels: str = ""
    missing_racks: MissingRackPolicy = MissingRackPolicy.FAIL
    drain_brokers: Sequence[int] = ()
    drain_racks: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        levels: str,
        missing_racks: MissingRackPolicy,
        drain_brokers: Sequence[str] | None,
        drain_racks: Sequence[str] | None,
    ) -> Self:
        """Read the options. Raises CommandError for an invalid broker id."""
        return cls(levels, missing_racks, broker_ids("--drain-broker", drain_brokers or ()), drain_racks or ())

    def typed(self, without: Collection[int] = ()) -> str:
        """Return the options as typed, except --levels, which has only names, and drained brokers in `without`."""
        ignored = self.missing_racks is MissingRackPolicy.IGNORE
        given = [("--missing-rack-policy", str(self.missing_racks))] if ignored else []
        given += [("--drain-broker", str(broker)) for broker in self.drain_brokers if broker not in without]
        given += [("--drain-rack", path) for path in self.drain_racks]
        return " ".join(map(shlex.join, given))

    def tree(self, snapshot: Snapshot) -> RackTree:
        """Return the tree of `tree_with_missing_racks`. Raises CommandError also if only some brokers have a rack."""
        tree = self.tree_with_missing_racks(snapshot)
        if tree.missing_racks:
            raise infeasible(MissingRackError(tree.missing_racks))
        return tree

    def tree_with_missing_racks(self, snapshot: Snapshot) -> RackTree:
        """
        Return the snapshot's rack tree, even if only some brokers have a rack. Drained brokers are not eligible in it.

        Raises CommandError if levels and racks do not fit, a given broker or rack does not exist, or no broker is left.
        """
        ignore = self.missing_racks is MissingRackPolicy.IGNORE and any(
            b.reported_rack is None for b in snapshot.brokers
        )
        names = level_names(self.levels)
        try:
            tree = tree_of(snapshot.brokers, names, ignore_racks=ignore)
            drained = self._drained(snapshot, tree)
            if drained:
                tree = tree_of(snapshot.brokers, names, drained=drained, ignore_racks=ignore)
        except (RackPathError, TopologyError) as error:
            raise CommandError(str(error), "name as many --levels as the longest rack id has steps") from error
        if not tree.capacity:
            raise CommandError(
                f"{every(len(tree), 'broker')} drained, none is left to hold replicas", "drain fewer brokers"
            )
        return tree

    def _drained(self, snapshot: Snapshot, tree: RackTree) -> set[int]:
        ids = {broker.id for broker in snapshot.brokers}
        refuse_absent("--drain-broker", self.drain_brokers, ids, snapshot.unknown_brokers)
        drained = set(self.drain_brokers)
        for path in self.drain_racks:
            drained.update(brokers_below(tree, path, "--drain-rack"))
        return drained


def level_names(levels: str) -> tuple[str, ...]:
    """Return the names in a text such as `region,zone,rack`. Raises CommandError."""
    names = tuple(name.strip() for name in levels.split(",")) if levels else ()
    for at, name in enumerate(names):
        if not name:
            raise CommandError(f'--levels "{levels}": name {at + 1} is empty')
        if name in names[:at]:
            raise CommandError(f'--levels "{levels}": "{name}" is named twice')
        if name == BROKER_LEVEL:
            raise CommandError(f'--levels "{levels}": "{BROKER_LEVEL}" is always the last level, leave it out')
    return names


def broker_ids(option: str, given: Sequence[str]) -> tuple[int, ...]:
    """Return the ids in texts such as `1,2,3`. Raises CommandError."""
    ids: list[int] = []
    for text in given:
        for one in (part.strip() for part in text.split(",")):
            if not (one.isascii() and one.isdigit()) or len(one) > _ID_DIGITS or int(one) > _MOST_ID:
                raise CommandError(f'{option} "{text}": "{one}" is not a broker id', "write ids such as 1,2,3")
            ids.append(int(one))
    return tuple(ids)


def refuse_absent(option: str, brokers: Iterable[int], ids: Collection[int], away: Collection[int] = ()) -> None:
    """Raise CommandError for a broker that is not in `ids` and not in `away` (absent, but with replicas)."""
    for broker in brokers:
        if broker not in ids and broker not in away:
            raise CommandError(f"{option} {broker}: the cluster has no broker {broker}", its_brokers(ids))


def brokers_below(tree: RackTree, path: str, option: str) -> tuple[int, ...]:
    """Return the ids of the brokers below a rack path, whose steps may contain `*` and `?`. Raises CommandError."""
    try:
        pattern = domain_name(parse_rack(path))
    except RackPathError as error:
        raise CommandError(f"{option}: {error}") from error
    found = tree.matches(pattern)
    if not found:
        domains = [domain_name(one) for level in tree.nodes[1:-1] for one in level.paths if all(one)]
        raise CommandError(f"{option} {path}: the cluster has no such rack", nearest(pattern, domains))
    return found


def topics_matching(snapshot: Snapshot, pattern: str | None) -> IntArray:
    """Return the indexes of the topics whose whole name matches, all without a pattern. Raises CommandError."""
    names = snapshot.partitions.names
    if pattern is None:
        return np.arange(len(names))
    try:
        with _cpu_limit(_MATCHING_SECONDS):
            matches = re.compile(pattern).fullmatch
            found = np.flatnonzero([matches(name) is not None for name in names])
    except (re.error, OverflowError, RecursionError) as error:
        raise CommandError(f'--topic "{pattern}": is not a regular expression: {error}') from error
    except TimeoutError as error:
        raise CommandError(
            f'--topic "{pattern}": takes more than {_MATCHING_SECONDS:g} s to match {plural(len(names), "topic")}',
            "write it without repetition within repetition, such as (a+)+",
        ) from error
    if not len(found):
        raise CommandError(f'--topic "{pattern}": matches no topic', nearest(pattern, names))
    return found


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in a block that takes more CPU time. Python's `re` checks for signals while it matches."""

    def stop(*_: object) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def matching_partitions(snapshot: Snapshot, pattern: str | None) -> Partitions:
    """Return the partitions of the topics whose whole name matches, all without a pattern. Raises CommandError."""
    partitions = snapshot.partitions
    if pattern is None:
        return partitions
    return partitions.rows(np.isin(partitions.topic, topics_matching(snapshot, pattern)))


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names that are most like `name`, or with the first ones if none is similar."""
    names = sorted(known)
    close = get_close_matches(name, names, _NEAR, 0.5)
    if close:
        return f"the nearest {be(len(close))} {', '.join(close)}"
    return f"there {be(len(names))} {few(names, _NEAR)}" if names else "there are none"


def its_brokers(ids: Collection[int]) -> str:
    """Return a hint with the first brokers of a cluster."""
    return f"its broker{'s' if len(ids) > 1 else ''} {be(len(ids))} {first_of(ids, 10)}"


_AS_OPTIONS = {
    "set missingRackPolicy: Ignore": "pass --missing-rack-policy ignore",
    " that include and exclude leave": "",  # only --brokers excludes brokers, and its user knows
}


def infeasible(error: InfeasibleError) -> CommandError:
    """Return the same error with options of the command line in place of fields of the API."""
    change = error.smallest_change
    for words, option in _AS_OPTIONS.items():
        change = change.replace(words, option)
    return CommandError(error.reason.replace("replicationFactor", "--replication-factor"), change)


def placers() -> Mapping[str, Placer]:
    """Return the installed placers. Raises CommandError."""
    try:
        return load_placers()
    except PlacerLoadError as error:
        raise CommandError(str(error), "remove or correct that package") from error


def first_of(values: Collection[Any], most: int) -> str:
    """Return the first values in order, and the number of all if some are left out. Empty for no values."""
    few = sorted(values)[:most]
    return ", ".join(map(str, few)) + (f" … ({len(values)} in all)" if len(few) < len(values) else "")
