"""Sums over the scans of a history, from DataFrame to DataFrame. Arguments are rows of the table of their name."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name


def days(scans: DataFrame) -> DataFrame:
    """
    Sum up each day (UTC), the first day first.

    Columns: `date`, `scans` (how many), `compliant_share` (mean over the scans, from 0 to 1), `findings` and `critical`
    (the most of any scan), `violation_minutes` (of all topics together).
    """
    share = 1 - F.col("non_compliant") / F.greatest(F.col("partitions"), F.lit(1))
    return (
        scans.groupBy(F.to_date("finished_at").alias("date"))
        .agg(
            F.count("*").alias("scans"),
            F.avg(share).alias("compliant_share"),
            F.max("findings").alias("findings"),
            F.max("critical").alias("critical"),
            F.sum("violation_minutes").alias("violation_minutes"),
        )
        .orderBy("date")
    )


def topic_minutes(topics: DataFrame) -> DataFrame:
    """`topic` and `violation_minutes`: how long it was out of compliance in all these scans."""
    return topics.groupBy("topic").agg(F.sum("violation_minutes").alias("violation_minutes"))


def first_seen(findings: DataFrame) -> DataFrame:
    """`topic` and `first_seen`: when the oldest of its findings was first seen."""
    wrong = findings.where(F.col("topic").isNotNull())
    return wrong.groupBy("topic").agg(F.min("first_seen").alias("first_seen"))


def flaps(brokers: DataFrame) -> DataFrame:
    """`broker` and `flaps`: how often it came or went between two scans."""
    return brokers.groupBy("broker").agg(F.sum(F.col("changed").cast("long")).alias("flaps"))
