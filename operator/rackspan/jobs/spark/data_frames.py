"""Spark's frames with the history's columns, and their rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rackspan.jobs.spark.schemas import TABLES, spark_schema


def read_table(spark: SparkSession, table: str, paths: Sequence[str]) -> DataFrame:
    """Rows of a table in files; none where there is no file."""
    schema = spark_schema(TABLES[table])
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*paths).select(TABLES[table].names)


def rows_of(frame: DataFrame) -> list[Mapping[str, Any]]:
    """All rows, here: for what is small."""
    rows: list[Mapping[str, Any]] = frame.toArrow().to_pylist()
    return rows
