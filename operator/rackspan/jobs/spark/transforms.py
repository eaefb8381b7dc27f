"""Findings, topics and holdings from the rows of JUDGED. Every function is from DataFrame to DataFrame."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from rackspan.core.scanning.rules import SEVERITIES, TOPIC_RULES
from rackspan.jobs.spark.schemas import FINDING, FINDING_COLUMNS, HOLDING, TOPIC, UNFAIR, UNREAD

_NAMES: Final = [name for name, _ in FINDING_COLUMNS]
_SUMMED: Final = ("partitions", "replicas", "non_compliant", "moves", "offline", "under_replicated", "bytes")
_HELD: Final = ("replicas", "leaders", "leading", "bytes", "offline", "not_writable", "last_replica")


def findings(judged: DataFrame) -> DataFrame:
    """
    Findings, each once.

    A topic whose partitions were judged in several portions has a finding in each: that with the largest absolute
    excess is taken, and of two that differ in sign the negative one.
    """
    every = judged.where(F.col("kind") == FINDING).select(_NAMES)
    about_topics = F.col("rule").isin([str(rule) for rule in TOPIC_RULES])
    farthest = F.max_by(F.struct(*_NAMES), F.struct(F.abs("excess"), -F.col("excess"))).alias("one")
    once = every.where(about_topics).groupBy("id").agg(farthest).select("one.*")
    return every.where(~about_topics).unionByName(once)


def with_first_seen(found: DataFrame, before: DataFrame, observed: Column) -> DataFrame:
    """
    Add `first_seen` and `new` to findings.

    `first_seen` is that of the previous scan's findings in `before` where they have the same id, else `observed`.
    """
    known = before.select("id", F.col("first_seen").alias("known"))
    joined = found.join(known, "id", "left")
    return joined.withColumn("first_seen", F.coalesce("known", observed)).withColumn("new", F.col("known").isNull())


def topics(judged: DataFrame, found: DataFrame) -> DataFrame:
    """Topics with the sums over their partitions, the number of their findings, and the worst severity."""
    tallied = (
        judged.where(F.col("kind") == TOPIC)
        .groupBy("topic")
        .agg(
            *(F.sum(name).alias(name) for name in _SUMMED),
            F.min("replication_factor").alias("replication_factor"),
            F.max("min_insync").alias("min_insync"),
        )
    )
    wrong = found.where(F.col("topic").isNotNull()).groupBy("topic").agg(*_counted())
    return tallied.join(wrong, "topic", "left").withColumn("findings", F.coalesce("findings", F.lit(0)))


def holdings(judged: DataFrame) -> DataFrame:
    """What each domain of each level, and each broker, holds, and what its loss would do."""
    return (
        judged.where(F.col("kind") == HOLDING)
        .groupBy("level", "domain")
        .agg(F.max("brokers").alias("brokers"), *(F.sum(name).alias(name) for name in _HELD))
    )


def unread(judged: DataFrame) -> DataFrame:
    """`topic` and `reason` of topics that could not be read."""
    return judged.where(F.col("kind") == UNREAD).select("topic", "reason").orderBy("topic")


def of_topics(rows: DataFrame, topics: DataFrame) -> DataFrame:
    """The rows whose topic is among `topics`."""
    return rows.join(topics.select("topic"), "topic", "left_semi")


def unfair(judged: DataFrame) -> DataFrame:
    """`level` and `partitions`: how many partitions are split unfairly there."""
    return judged.where(F.col("kind") == UNFAIR).groupBy("level").agg(F.sum("partitions").alias("partitions"))


def counts(found: DataFrame) -> DataFrame:
    """The number of findings by rule and severity, in `count`."""
    return found.groupBy("rule", "severity").count()


def by_broker(found: DataFrame) -> DataFrame:
    """`broker`, the number of findings about it, and the worst severity."""
    return found.where(F.col("broker").isNotNull()).groupBy("broker").agg(*_counted())


def by_domain(found: DataFrame) -> DataFrame:
    """`level`, `domain`, the number of findings about it, and the worst severity."""
    return found.where(F.col("domain").isNotNull()).groupBy("level", "domain").agg(*_counted())


def worst(found: DataFrame, most: int) -> DataFrame:
    """At most `most` findings, by severity; the order is total, so the same ones are taken every time."""
    return found.orderBy(_rank(), "rule", "topic", "partition", "broker", "id").limit(most)


def _counted() -> tuple[Column, Column]:
    return F.count("*").alias("findings"), F.min_by("severity", _rank()).alias("worst")


def _rank() -> Column:
    return F.array_position(F.lit([str(severity) for severity in SEVERITIES]), F.col("severity"))
