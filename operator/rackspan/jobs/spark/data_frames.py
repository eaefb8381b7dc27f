"""Tables of the history as Spark's DataFrames, and DataFrames as rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rackspan.jobs.spark.schemas import TABLES, spark_schema


def read_table(spark: SparkSession, table: str, paths: Sequence[str]) -> DataFrame:
    """Rows of one of `schemas.TABLES` in the files at `paths`; no rows where there are no files."""
    schema = spark_schema(TABLES[table])
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*paths).select(TABLES[table].names)


def rows_of(frame: DataFrame) -> list[Mapping[str, Any]]:
    """Collect all rows into this process. Only for small results."""
    rows: list[Mapping[str, Any]] = frame.toArrow().to_pylist()
    return rows
