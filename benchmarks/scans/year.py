"""A simulated year of scans with changing findings, written with the code of the history."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa

from benchmarks.plans.clusters import worn
from rackspan.core.snapshot import Snapshot
from rackspan.jobs.batches.schemas import TABLES
from rackspan.jobs.history.scan_history import History, ScanEntry

CLUSTER: Final = "year"
PARTITIONS, BROKERS = 10_000, 60
TOPICS: Final = 1_000
SCANS_A_DAY: Final = 48
MINUTES: Final = 24 * 60 / SCANS_A_DAY
_GROUPS = 20
_CANDIDATES = 2_000
"""The number of possible findings."""
_COMES, _GOES = 0.004, 0.05
"""The probabilities per scan that a finding appears and disappears. This gives about 150 findings of ten hours each."""
_FLAPS = 0.002
_KINDS = (
    ("NotCompliant", "high", "TooManyReplicas", 1),
    ("UnderReplicated", "medium", None, 0),
    ("LeaderNotPreferred", "low", None, 0),
)


def cluster() -> Snapshot:
    """Return the snapshot of the cluster for the scan after the year."""
    return worn(BROKERS, PARTITIONS, 0.01)


@dataclass
class Year:
    """The state of the simulation: the current findings, since when they exist, and which brokers are online."""

    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    sequence: int = 0
    wrong: np.ndarray = field(default_factory=lambda: np.zeros(_CANDIDATES, dtype=bool))
    since: np.ndarray = field(default_factory=lambda: np.zeros(_CANDIDATES, dtype=np.int64))
    online: np.ndarray = field(default_factory=lambda: np.ones(BROKERS, dtype=bool))

    def __post_init__(self) -> None:
        numbers = np.arange(_CANDIDATES)
        self._ids = self.random.integers(-(1 << 63), (1 << 63) - 1, _CANDIDATES)
        self._kind = numbers % len(_KINDS)
        self._topic = self.random.integers(0, TOPICS, _CANDIDATES)
        self._zone = self.random.integers(0, 3, _CANDIDATES)

    def scan(self, scan_id: str, when: datetime) -> tuple[ScanEntry, dict[str, pa.Table]]:
        """Return the entry of the next scan, and its rows by table."""
        violated = self._violated()
        chance = self.random.random(_CANDIDATES)
        come, gone = ~self.wrong & (chance < _COMES), self.wrong & (chance < _GOES)
        self.wrong = (self.wrong | come) & ~gone
        self.since[come] = int(when.timestamp() * 1_000_000)
        changed = self.random.random(BROKERS) < _FLAPS
        self.online = self.online ^ changed
        self.sequence += 1
        minutes = np.where(violated, MINUTES, 0.0)
        tables = {
            "findings": self._findings(),
            "topics": self._topics(minutes),
            "holdings": _holdings(),
            "brokers": _brokers(self.online, changed),
            "groups": _groups(),
            "scans": self._scan(when, float(minutes.sum())),
        }
        entry = ScanEntry(CLUSTER, scan_id, self.sequence, when, scan_id)
        return entry, {name: _complete(name, scan_id, columns) for name, columns in tables.items()}

    def _violated(self) -> np.ndarray:
        found = np.zeros(TOPICS, dtype=bool)
        found[self._topic[self.wrong & (self._kind == 0)]] = True
        return found

    def _findings(self) -> dict[str, pa.Array]:
        at = np.flatnonzero(self.wrong)
        kind = self._kind[at]

        def word(place: int, rows: np.ndarray = kind) -> pa.Array:
            return pa.array([_KINDS[one][place] for one in rows.tolist()])

        zoned = kind == 0
        return {
            "id": pa.array(self._ids[at]),
            "rule": word(0),
            "severity": word(1),
            "topic": pa.array([_topic(one) for one in self._topic[at].tolist()]),
            "partition": pa.array(at % 10),
            "level": pa.array(np.where(zoned, "zone", ""), mask=~zoned),
            "domain": pa.array([f"/eu/eu-1{'abc'[one]}" for one in self._zone[at].tolist()], mask=~zoned),
            "reason": word(2),
            "excess": pa.array(zoned.astype(np.int32)),
            "moves": word(3),
            "first_seen": pa.array(self.since[at]).cast(pa.timestamp("us", tz="UTC")),
        }

    def _topics(self, minutes: np.ndarray) -> dict[str, pa.Array]:
        found = np.bincount(self._topic[self.wrong], minlength=TOPICS)
        broken = np.bincount(self._topic[self.wrong & (self._kind == 0)], minlength=TOPICS)
        at = np.flatnonzero((found > 0) | (minutes > 0))
        count = len(at)
        return {
            "topic": pa.array([_topic(one) for one in at.tolist()]),
            "partitions": pa.array(np.full(count, PARTITIONS // TOPICS)),
            "replicas": pa.array(np.full(count, 3 * PARTITIONS // TOPICS)),
            "replication_factor": pa.array(np.full(count, 3)),
            "min_insync": pa.array(np.full(count, 2)),
            "non_compliant": pa.array(broken[at]),
            "moves": pa.array(broken[at]),
            "offline": pa.array(np.zeros(count, dtype=np.int64)),
            "under_replicated": pa.array(found[at] - broken[at]),
            "bytes": pa.array(at * 1_000_003),
            "findings": pa.array(found[at]),
            "worst": pa.array(np.where(broken[at] > 0, "high", "medium"), mask=found[at] == 0),
            "violation_minutes": pa.array(minutes[at]),
        }

    def _scan(self, when: datetime, minutes: float) -> dict[str, pa.Array]:
        broken = int(np.count_nonzero(self.wrong & (self._kind == 0)))
        row = {
            "sequence": self.sequence,
            "finished_at": when,
            "minutes": MINUTES,
            "topics": TOPICS,
            "partitions": PARTITIONS,
            "non_compliant": broken,
            "findings": int(np.count_nonzero(self.wrong)),
            "critical": 0,
            "moves": broken,
            "violation_minutes": minutes,
        }
        return {name: pa.array([value]) for name, value in row.items()}


def write(history: History, days: int, today: date) -> Iterator[date]:
    """
    Write the scans of the days before `today`, with a file per day, or per completed month. The scans of the last day
    are committed one by one and not compacted. Yields each written day.
    """
    year = Year()
    for back in range(days, 1, -1):
        day = today - timedelta(days=back)
        scans = [year.scan(scan_id, when) for scan_id, when in _times(day)]
        tables = {table: pa.concat_tables(rows[table] for _, rows in scans) for table in TABLES}
        last = scans[-1][0]
        of_scans = tables.pop("scans")
        _commit(history, last, tables, of_scans)
        if back == 2 or (day + timedelta(days=1)).month != day.month:
            history.compact(last)
        yield day
    last = today - timedelta(days=1)
    for scan_id, when in _times(last):
        entry, rows = year.scan(scan_id, when)
        of_scan = rows.pop("scans")
        _commit(history, entry, rows, of_scan)
    yield last


def _commit(history: History, last: ScanEntry, tables: Mapping[str, pa.Table], scans: pa.Table) -> None:
    writer = history.writer(last)
    for table, rows in tables.items():
        writer.write(table, rows)
    writer.commit(scans, [b"{}"] * len(scans))


def _times(day: date) -> Iterator[tuple[str, datetime]]:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for number in range(SCANS_A_DAY):
        when = start + timedelta(minutes=number * MINUTES)
        yield f"{when:%Y%m%dT%H%M%SZ}", when


def _topic(number: int) -> str:
    return f"topic-{number:06d}"


def _holdings() -> dict[str, pa.Array]:
    domains = [("region", "/eu")] + [("zone", f"/eu/eu-1{zone}") for zone in "abc"]
    domains += [("broker", str(broker)) for broker in range(BROKERS)]
    count = len(domains)
    share = np.array([3 * PARTITIONS, *[PARTITIONS] * 3, *[3 * PARTITIONS // BROKERS] * BROKERS])
    columns = {name: pa.array(share) for name in ("replicas", "leaders", "leading", "bytes", "not_writable")}
    none = pa.array(np.zeros(count, dtype=np.int64))
    levels, names = zip(*domains, strict=True)
    return columns | {
        "level": pa.array(levels),
        "domain": pa.array(names),
        "brokers": pa.array(np.full(count, 1)),
        "offline": none,
        "last_replica": none,
    }


def _brokers(online: np.ndarray, changed: np.ndarray) -> dict[str, pa.Array]:
    racks = pa.array([f"/eu/eu-1{'abc'[broker % 3]}/r{broker % 6}" for broker in range(BROKERS)])
    return {
        "broker": pa.array(np.arange(BROKERS)),
        "rack": racks,
        "reported_rack": racks,
        "online": pa.array(online),
        "changed": pa.array(changed),
    }


def _groups() -> dict[str, pa.Array]:
    numbers = pa.array(np.full(_GROUPS, 10))
    names = ("members", "partitions", "near", "reads_near", "could_be_near", "members_without_rack")
    return dict.fromkeys(names, numbers) | {"group": pa.array([f"group-{number}" for number in range(_GROUPS)])}


def _complete(table: str, scan_id: str, columns: dict[str, pa.Array]) -> pa.Table:
    """Return rows with all declared columns."""
    count = len(next(iter(columns.values())))
    filled = columns | {"scan_id": pa.array([scan_id] * count, pa.string())}
    schema = TABLES[table]
    arrays = [
        filled[each.name].cast(each.type) if each.name in filled else pa.nulls(count, each.type) for each in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
