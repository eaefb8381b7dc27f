"""What the history says over time: DataFrame to DataFrame."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name


def days(scans: DataFrame) -> DataFrame:
    """Per day (UTC): scans, mean share of compliant partitions, the most findings, and violation-minutes of topics."""
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
    """Per topic: the minutes it was out of compliance, over all that is kept."""
    return topics.groupBy("topic").agg(F.sum("violation_minutes").alias("violation_minutes"))


def first_seen(findings: DataFrame) -> DataFrame:
    """Per topic: since when something has been wrong, of what the last scan found."""
    wrong = findings.where(F.col("topic").isNotNull())
    return wrong.groupBy("topic").agg(F.min("first_seen").alias("first_seen"))


def flaps(brokers: DataFrame) -> DataFrame:
    """Per broker: how often it came or went between two scans."""
    return brokers.groupBy("broker").agg(F.sum(F.col("changed").cast("long")).alias("flaps"))
