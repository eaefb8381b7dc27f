"""The formats of results. Completion of options imports this: it imports nothing that takes long."""

from enum import StrEnum


class Format(StrEnum):
    """The formats of most commands."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class ProgressFormat(StrEnum):
    """The formats of what goes on for a while."""

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
    """The forms of a scan document on standard output."""

    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"
    CSV = "csv"


class ImportFormat(StrEnum):
    """The forms of an import on standard output."""

    YAML = "yaml"
    JSON = "json"


class RowsFormat(StrEnum):
    """The formats of rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
