"""Some of the rules in Spark SQL, in two variants, for comparison.

Both variants count the partitions in a table of PARTITIONS that are non-compliant, that are under-replicated, and whose
leader is not the preferred leader. The core computes the windows of the fair split, for one replication factor. SQL
only compares counts with the windows. The result does not include the violated domains, the excess, moves, finding ids,
leaders per domain, or what-if results. Each other requirement (another replication factor, drained or excluded brokers)
needs another query.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from rackspan.core.compliance.fair_split import fair_windows
from rackspan.core.topology import RackTree


class LevelWindows(NamedTuple):
    """A level below the root: the domain of each broker by id, and the minimum and maximum of replicas per domain."""

    name: str
    domain_of: list[int]
    low: list[int]
    high: list[int]


def windows(tree: RackTree, size: int) -> list[LevelWindows]:
    """Return the fair windows of `size` replicas. The broker ids are 0, 1, 2, ..."""
    fair = fair_windows(tree, size)
    positions = tree.positions(range(len(tree.brokers)))
    return [
        LevelWindows(level.name, level.of_broker[positions].tolist(), low.tolist(), high.tolist())
        for level, low, high in zip(tree.nodes[1:], fair.low[1:], fair.high[1:], strict=True)
    ]


def by_arrays(partitions: DataFrame, levels: list[LevelWindows]) -> DataFrame:
    """Count with higher-order functions on arrays of literals. Only the counts are shuffled."""
    broken = F.lit(False)  # noqa: FBT003 - a literal
    for level in levels:
        broken = broken | _unfair(level)
    return partitions.agg(F.count_if(broken).alias("non_compliant"), *_health())


def _unfair(level: LevelWindows) -> Column:
    domain_of, high = F.lit(level.domain_of), F.lit(level.high)
    domains = F.transform("replicas", lambda broker: F.get(domain_of, broker))

    def held(domain: Column) -> Column:
        return F.size(F.filter(domains, lambda other: other == domain))

    found = F.exists(domains, lambda domain: held(domain) > F.get(high, domain))
    for domain, low in enumerate(level.low):
        if low:
            found = found | (held(F.lit(domain)) < low)
    return found


def by_rows(spark: SparkSession, partitions: DataFrame, levels: list[LevelWindows]) -> DataFrame:
    """Count with a row per replica and level, which is joined with its domain and grouped."""
    rows = [
        (broker, number, domain, level.low[domain], level.high[domain])
        for number, level in enumerate(levels)
        for broker, domain in enumerate(level.domain_of)
    ]
    names = ["broker", "level", "domain", "low", "high"]
    brokers = spark.createDataFrame(
        pa.table(
            {name: pa.array(column, pa.int32()) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
        )
    )
    key = ["topic", "partition"]
    replicas = partitions.select(*key, F.explode("replicas").alias("broker"))
    held = (
        replicas.join(F.broadcast(brokers), "broker")
        .groupBy(*key, "level", "domain")
        .agg(F.count("*").alias("held"), F.first("low").alias("low"), F.first("high").alias("high"))
    )
    all_low = sum(sum(level.low) for level in levels)
    broken = (
        held.groupBy(*key)
        .agg(F.max(F.col("held") > F.col("high")).alias("over"), F.sum(F.least("held", "low")).alias("filled"))
        .agg(F.count_if(F.col("over") | (F.col("filled") < all_low)).alias("non_compliant"))
    )
    return broken.crossJoin(partitions.agg(*_health()))


def _health() -> tuple[Column, Column]:
    led = F.col("leader")
    return (
        F.count_if(F.exists("in_sync", lambda one: ~one)).alias("under_replicated"),
        F.count_if((led >= 0) & (led != F.get("replicas", F.lit(0)))).alias("leader_not_preferred"),
    )


def counts(frame: DataFrame) -> Mapping[str, int]:
    """Return the counts from the only row."""
    row: Mapping[str, int] = frame.first().asDict()
    return row
