"""What a scan asks its history, each once, in this process: `python -m benchmarks.scans.history_once LOCATION`."""

import json
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from time import perf_counter
from typing import TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from benchmarks.scans.year import CLUSTER
from rackspan.jobs.history import trends
from rackspan.jobs.history.scan_history import History, Manifest
from rackspan.jobs.spark import transforms
from rackspan.jobs.spark.schemas import TABLES, spark_schema
from rackspan.jobs.spark.spark_session import spark_session

T = TypeVar("T")
_WEEK = timedelta(days=7)


def main(location: str) -> None:
    history = History(location)
    spark = spark_session("local[2]")
    spark.range(1).count()
    seconds: dict[str, float] = {}
    rows: dict[str, int] = {}

    def timed(name: str, work: Callable[[], T], size: Callable[[T], int]) -> T:
        started = perf_counter()
        done = work()
        seconds[name], rows[name] = perf_counter() - started, size(done)
        return done

    def table(name: str, manifests: Iterable[Manifest]) -> DataFrame:
        return spark.read.schema(spark_schema(TABLES[name])).parquet(*history.paths(name, manifests))

    every = timed("History.manifests", lambda: history.manifests(CLUSTER), len)
    latest = timed("History.latest", lambda: history.latest(CLUSTER), lambda found: len(found.scans) if found else 0)
    if latest is None:
        sys.exit("the history is empty")
    newest = F.col("scan_id") == latest.newest.scan_id
    lately = [manifest for manifest in every if manifest.day > latest.day - _WEEK]
    asked = {
        "trends.days": lambda: trends.days(table("scans", every)),
        "trends.topic_minutes": lambda: trends.topic_minutes(table("topics", every)),
        "trends.flaps, of a week": lambda: trends.flaps(table("brokers", lately)),
        "trends.flaps, of all": lambda: trends.flaps(table("brokers", every)),
        "trends.first_seen, of the last scan": lambda: trends.first_seen(table("findings", [latest]).where(newest)),
        "trends.first_seen, of all": lambda: trends.first_seen(table("findings", every)),
    }
    for name, frame in asked.items():
        timed(name, lambda frame=frame: frame().toArrow(), len)
    before = table("findings", [latest]).where(newest)
    timed("comparing two scans", lambda: _compared(table("findings", [every[-2]]), before), len)
    print(json.dumps({"seconds": seconds, "rows": rows}))
    spark.stop()


def _compared(found: DataFrame, before: DataFrame) -> list[object]:
    """As a scan does: findings with the time they were first seen, and those that are gone."""
    new = transforms.with_first_seen(found.drop("first_seen"), before, F.current_timestamp()).where("new")
    cleared = before.join(found.select("id"), "id", "left_anti")
    return [*new.toArrow().to_pylist(), *cleared.toArrow().to_pylist()]


if __name__ == "__main__":
    main(sys.argv[1])
