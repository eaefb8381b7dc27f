"""The formats of results. Completion of options imports this module, so it imports nothing slow."""

from enum import StrEnum


class Format(StrEnum):
    """The formats of most commands."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ProgressFormat(StrEnum):
    """The formats of progress."""

    TABLE = "table"
    JSON = "json"


class CheckFormat(StrEnum):
    """The formats of findings."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    SARIF = "sarif"
    JUNIT = "junit"


class PlanFormat(StrEnum):
    """The formats of a plan."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    REASSIGNMENT = "reassignment"
    MARKDOWN = "markdown"


class ExportFormat(StrEnum):
    """The formats of a scan document on standard output."""

    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"


class ImportFormat(StrEnum):
    """The formats of an import on standard output."""

    YAML = "yaml"
    JSON = "json"


class RowsFormat(StrEnum):
    """The formats of rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
